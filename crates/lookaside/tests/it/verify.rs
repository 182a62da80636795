//! `lookaside verify freshness` on servers of its own, for a short time.

use std::fs;

use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::Postgres;
use lookaside_verify::fault::FaultKind;
use serde_json::Value;

use crate::program::{Said, lookaside, run};
use crate::providers::has_postgres;

/// Runs the check with few keys and threads, and `--json`.
fn verify(arguments: &str) -> Said {
    let common = "verify freshness --json --keys 16 --readers 2";
    run(common.split(' ').chain(arguments.split(' ')))
}

fn report(said: &Said) -> Value {
    serde_json::from_str(&said.out).expect("one line of JSON for one server")
}

/// How many reads of a contract did not ask the database.
fn memory_count(report: &Value, contract: &str) -> u64 {
    let layers = report["layers"].as_array().unwrap();
    let found = layers.iter().filter(|it| it["contract"] == contract);
    found.map(|it| it["memory_reads"].as_u64().unwrap()).sum()
}

#[test]
fn a_change_feed_keeps_every_contract_from_the_caches() {
    if !has_postgres() {
        return;
    }
    let said = verify("--seconds 3 --ttl-ms 2000 --contracts any,within,after,now");
    assert!([0, 1].contains(&said.code), "{}", said.err);
    let report = report(&said);
    assert_eq!(report["violations"], 0, "{report:#}");
    // The age of an answer alone does not keep a contract for longer than it lasts.
    let shares = ["any", "within(50ms)"].map(|contract| memory_count(&report, contract));
    assert!(shares.iter().all(|count| *count > 0), "{report:#}");
}

#[test]
fn a_change_feed_misses_nothing_that_is_under_way() {
    if !has_postgres() {
        return;
    }
    let faults = "bulk-update,stall-standby,alter-publication,stalled-reconnect";
    let said = verify(&format!("--seconds 2 --ttl-ms 2000 --faults {faults}"));
    assert!([0, 1].contains(&said.code), "{}", said.err);
    let report = report(&said);
    assert_eq!(report["violations"], 0, "{report:#}");
    for fault in report["faults"].as_array().unwrap() {
        assert!(fault["injections"].as_u64() > Some(0), "{fault:#}");
    }
}

#[test]
fn without_a_change_feed_contracts_are_kept_by_the_age() {
    if !has_postgres() {
        return;
    }
    let said = verify("--seconds 2 --ttl-ms 1000 --feed off");
    assert!([0, 1].contains(&said.code), "{}", said.err);
    let report = report(&said);
    assert_eq!(report["violations"], 0, "{report:#}");
    let stale = report["layers"].as_array().unwrap().iter();
    let stale = stale.filter(|it| it["contract"] == "any" && it["stale_reads"].as_u64() > Some(0));
    assert_ne!(stale.count(), 0, "a lifetime shows old answers: {report:#}");
}

#[test]
fn without_caches_every_contract_is_kept() {
    if !has_postgres() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.edn");
    let options = "--seconds 2 --ttl-ms 0 --contracts any,within,now --edn";
    let said = verify(&format!("{options} {}", file.display())).ended(0);
    let report = report(&said);
    assert_eq!(report["violations"], 0, "{report:#}");
    assert!(report["writes"].as_u64() > Some(16), "{report:#}");
    let history = fs::read_to_string(file).unwrap();
    assert!(history.starts_with("; PostgreSQL 18"));
    for text in [
        "\n; key 15\n",
        ":type :invoke, :f :read",
        ":type :ok, :f :write",
        ":absent",
    ] {
        assert!(history.contains(text), "no {text:?}");
    }
}

#[test]
fn each_fault_is_injected_and_counted() {
    if !has_postgres() {
        return;
    }
    // The plan follows from the seed, not from the machine: a fault lasts as long as it takes.
    let options = "--seconds 8 --faults all --ttl-ms 200 --contracts any --layers l0,body";
    let said = verify(options);
    assert!([0, 1].contains(&said.code), "{}", said.err);
    let report = report(&said);
    let faults = report["faults"].as_array().unwrap();
    assert_eq!(faults.len(), FaultKind::ALL.len(), "{report:#}");
    for fault in faults {
        let count = |name: &str| fault[name].as_u64().unwrap();
        let is_of_feed = fault["not_applicable"].is_string();
        assert!(
            is_of_feed || count("injections") + count("failed") > 0,
            "{fault:#}"
        );
        // A link can be disturbed only while the product uses it.
        let of_link = ["cut-message", "blackhole", "slow-answers"];
        let is_of_link = of_link.iter().any(|name| fault["fault"] == *name);
        assert!(is_of_link || count("failed") == 0, "{fault:#}");
    }
    assert_eq!(report["violations"], 0, "{report:#}");
}

#[test]
fn the_database_keeps_every_contract_under_faults() {
    if !has_postgres() {
        return;
    }
    let faults = "kill-postmaster,truncate,change-column-type,prepared-transaction,savepoint,\
                  stall-standby,asynchronous-commit,large-transaction";
    let options =
        "--seconds 4 --ttl-ms 0 --contracts any,within,after,now --layers database,l0,body";
    let said = verify(&format!("{options} --faults {faults}"));
    assert!([0, 1].contains(&said.code), "{}", said.err);
    let report = report(&said);
    assert_eq!(report["violations"], 0, "{report:#}");
    for fault in report["faults"].as_array().unwrap() {
        assert!(fault["injections"].as_u64() > Some(0), "{fault:#}");
    }
}

#[test]
fn a_server_at_a_url_is_left_as_it_was() {
    if !has_postgres() {
        return;
    }
    let builder = Postgres::builder().version("18".parse().unwrap());
    let builder = builder.fresh_cluster().logical_replication();
    let postgres = builder.start().unwrap();
    let mut connection = Connection::connect(&postgres.url()).unwrap();
    // Slots of other programs are left alone, and one of a feed of ours is not.
    for name in ["other", "lookaside_test"] {
        let create = format!("select pg_create_logical_replication_slot('{name}', 'pgoutput')");
        connection.query(create, &[]).unwrap();
    }
    let options = "--seconds 2 --faults kill-backend,truncate,reload,drop-slot --ttl-ms 0 --url";
    let said = verify(&format!("{options} {}", postgres.url()));
    assert!([0, 1].contains(&said.code), "{}", said.err);
    let report = report(&said);
    assert_eq!(report["violations"], 0, "{report:#}");
    assert_eq!(report["faults"][1]["fault"], "drop-slot");
    assert_eq!(report["faults"][1]["injections"], 1, "{report:#}");
    let slots = "select string_agg(slot_name, ',') from pg_replication_slots";
    let slots = connection.query_one(slots, &[]).unwrap();
    assert_eq!(slots.as_ref().get::<&str>(0).unwrap(), "other");
    let schemas = "select 1 from pg_namespace where nspname = 'lookaside_verify'";
    assert!(connection.query_opt(schemas, &[]).unwrap().is_none());
    // A schema that is there belongs to somebody else.
    connection
        .batch_execute("create schema lookaside_verify")
        .unwrap();
    let refused = verify(&format!("--seconds 1 --url {}", postgres.url())).ended(3);
    refused.err_has(&[
        "cannot create the tables of the run",
        "drop schema lookaside_verify cascade",
    ]);
    let schema = connection.query_opt(schemas, &[]).unwrap();
    assert!(schema.is_some(), "it was dropped");
}

#[test]
fn wrong_options_say_what_to_write() {
    for (arguments, texts) in [
        ("--contracts nw", &["write any, now, after, within"][..]),
        ("--contracts 5min", &["a duration such as 200ms or 1s"]),
        ("--layers native", &["write one of database, l0, l1"]),
        (
            "--faults kill-postmater",
            &["is not a fault", "did you mean \"kill-postmaster\"?"],
        ),
        ("--pg 12", &["12"]),
        ("--seconds 0", &["1..=86400"]),
        ("--pg 18 --url postgres://h/d", &["cannot be used with"]),
        (
            "--faults kill-postmaster --url postgres://h/d",
            &[
                "the fault kill-postmaster needs a server of our own",
                "use --pg instead of --url",
            ],
        ),
    ] {
        verify(arguments).ended(2).err_has(texts);
    }
    // Nothing listens on port 1.
    let said = lookaside()
        .args(["verify", "freshness", "--url"])
        .arg("postgres://u@127.0.0.1:1/d?sslmode=disable")
        .output();
    let said = Said::from(said.unwrap()).ended(3);
    said.err_has(&["cannot use the server"]);
}
