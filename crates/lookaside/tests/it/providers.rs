//! The program with tables in other databases, as in the examples.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lookaside_client::mysql::{Options, blocking::Connection};
use lookaside_client::postgres;
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Postgres};
use lookaside_testing::{Brand, Server};
use tempfile::TempDir;

use crate::program::{Said, lookaside};

fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    root.join(name)
}

/// Whether there is a PostgreSQL 18; in CI there must be one.
pub(crate) fn has_postgres() -> bool {
    let found = Binaries::find("18".parse().expect("a version"), &());
    if let Err(error) = &found {
        assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
        let _ = writeln!(io::stderr(), "SKIP no PostgreSQL 18 to test with: {error}");
    }
    found.is_ok()
}

/// A database with the tables of an example.
fn database(example_name: &str) -> Option<Postgres> {
    let schema = fs::read_to_string(example(example_name).join("schema.sql")).unwrap();
    let builder = Postgres::builder().version("18".parse().unwrap());
    has_postgres().then(|| builder.sql(&schema).start().unwrap())
}

/// A provider `pg` with a change feed, whose answers are kept for longer than a test takes.
pub(crate) const FEED_CONFIG: &str = "version = 2\n[cache]\nttl_ms = 3600000\n\
     [[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nconnection_uri = '${DATABASE_URL}'\n\
     feed = 'auto'\n";

/// A server of its own with the table `host`, whose changes are published.
pub(crate) fn feed_database() -> Option<Postgres> {
    let builder = Postgres::builder().version("18".parse().unwrap());
    let builder = builder.fresh_cluster().setting("wal_level", "logical").sql(
        "create table host (name text primary key, rack int); \
         insert into host values ('a', 1), ('b', 2); \
         create publication lookaside for table host",
    );
    has_postgres().then(|| builder.start().unwrap())
}

fn run_with(url: &str, arguments: &[&str]) -> Said {
    let output = lookaside()
        .args(arguments)
        .env("DATABASE_URL", url)
        .output();
    Said::from(output.expect("the program starts"))
}

const ORDERS: &str = r#"{"order":1001,"buyer":"Ada","tier":"gold","title":"Desk lamp","price":"39.90","customer":"1","sku":"LAMP-1","count":2}
{"order":1002,"buyer":"Edsger","tier":"gold","title":"Chair","price":"129.00","customer":"3","sku":"CHAIR-7","count":1}
{"order":1003,"buyer":"Grace","tier":"silver","title":"Desk lamp","price":"39.90","customer":"2","sku":"LAMP-1","count":5}
{"order":1004,"customer":"9","sku":"SOFA-0","count":1}
"#;

#[test]
fn the_postgres_example_runs() {
    let Some(postgres) = database("postgres") else {
        return;
    };
    let folder = example("postgres");
    let folder = folder.to_str().unwrap();
    let url = postgres.url();
    let said = run_with(&url, &["enrich", folder]).ended(0);
    assert_eq!(said.out, ORDERS);
    run_with(&url, &["check", folder]).ended(0).out_has(&[
        "provider shop: postgres://",
        "PostgreSQL 18",
        "model orders",
    ]);
    let by_id = "select name from customers where id = :id";
    let said = run_with(&url, &["query", folder, by_id, "-p", "id=2", "-f", "json"]).ended(0);
    assert_eq!(said.out, "{\"name\":\"Grace\"}\n");
    run_with(&url, &["query", folder, by_id, "-p", "id=x"])
        .ended(1)
        .err_has(&["provider `shop` refused it: parameter `id`: this text is not a valid int4"]);
    run_with(&url, &["explain", folder, by_id])
        .ended(0)
        .out_has(&[
            "provider: shop (postgres)",
            "sent: select name from customers where id = $1",
            "for the first row: select name from customers where id = $1 limit 1",
            "parameters: id int4",
        ]);
}

#[test]
fn the_fresh_example_runs() {
    if !has_postgres() {
        return;
    }
    let output = Command::new(example("fresh").join("run"))
        .arg("5")
        .env("LOOKASIDE", env!("CARGO_BIN_EXE_lookaside"))
        .env_remove("FRESH_DATABASE")
        .stdin(Stdio::null())
        .output();
    let said = Said::from(output.expect("the example starts")).ended(0);
    let lines: Vec<&str> = said.out.lines().collect();
    let [first, changes @ .., last] = &lines[..] else {
        panic!("{}", said.out);
    };
    assert!(first.starts_with("body; ") && first.ends_with("feed=live: {\"count\":0}"));
    assert_eq!(changes.len(), 5, "{}", said.out);
    for (index, line) in changes.iter().enumerate() {
        let expected = format!("change {}: shown after ", index + 1);
        assert!(line.starts_with(&expected), "{}", said.out);
    }
    assert!(last.starts_with("median of 5 changes: "), "{}", said.out);
}

#[test]
fn the_mysql_example_runs() {
    let Some(server) = Server::shared(Brand::MariaDb) else {
        return;
    };
    let connect = |database: &str| {
        let url = server.url(database);
        let Ok(Config::Mysql(config)) = Config::parse(&url, &Environment::empty()) else {
            panic!("{url} is not MySQL");
        };
        Connection::connect_with(&config, Options::default()).unwrap()
    };
    connect("").query("create database shop", &[]).unwrap();
    let schema = fs::read_to_string(example("mysql").join("schema.sql")).unwrap();
    let mut connection = connect("shop");
    for sql in schema.split(';').filter(|sql| !sql.trim().is_empty()) {
        connection.query(sql, &[]).unwrap();
    }
    let folder = example("mysql");
    let folder = folder.to_str().unwrap();
    let url = server.url("shop");
    let said = run_with(&url, &["enrich", folder]).ended(0);
    assert_eq!(said.out, ORDERS);
    run_with(&url, &["check", folder]).ended(0).out_has(&[
        "provider shop: mysql://",
        "MariaDB",
        "model orders",
    ]);
    let by_id = "select name from customers where id = :id or id = :id + 1";
    let said = run_with(&url, &["query", folder, by_id, "-p", "id=2", "-f", "json"]).ended(0);
    assert_eq!(said.out, "{\"name\":\"Grace\"}\n{\"name\":\"Edsger\"}\n");
    run_with(&url, &["explain", folder, by_id])
        .ended(0)
        .out_has(&["provider: shop (mysql)", "where id = ? or id = ? + 1"]);
}

#[test]
fn the_embedded_example_runs_without_a_server() {
    if !has_postgres() {
        return;
    }
    let folder = example("embedded");
    let folder = folder.to_str().unwrap();
    let said = run_with("", &["enrich", folder]).ended(0);
    let owners: Vec<&str> = said
        .out
        .lines()
        .map(|line| match line.split_once("\"owner\":\"") {
            Some((_, rest)) => rest.split('"').next().unwrap(),
            None => "",
        })
        .collect();
    assert_eq!(
        owners,
        ["laboratory", "research", "corporate", "corporate", ""]
    );
    run_with("", &["check", folder]).ended(0).out_has(&[
        "table networks: 5 rows",
        "provider pg: a PostgreSQL of its own, PostgreSQL",
    ]);
    let both = "select n.owner from pg.networks as n join local.networks as m using (net)";
    run_with("", &["query", folder, both])
        .ended(1)
        .err_has(&["`pg.networks` is in `pg` and `local.networks` in `local`"]);
}

#[test]
fn models_are_tested_against_a_provider() {
    let Some(postgres) = database("postgres") else {
        return;
    };
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("models")).unwrap();
    for file in ["knowdb.toml", "models/orders.oml"] {
        fs::copy(example("postgres").join(file), folder.path().join(file)).unwrap();
    }
    let test = r#"{"name":"gold","input":"{\"order\":1,\"customer\":1,\"sku\":\"LAMP-1\"}","output":{"order":1,"buyer":"Ada","tier":"gold","title":"Desk lamp","price":"39.90","customer":1,"sku":"LAMP-1"}}"#;
    fs::write(folder.path().join("models/orders.test.jsonl"), test).unwrap();
    let path = folder.path().to_str().unwrap();
    run_with(&postgres.url(), &["test", path]).ended(0);
    fs::write(
        folder.path().join("models/orders.test.jsonl"),
        test.replace("\"tier\":\"gold\"", "\"tier\":\"tin\""),
    )
    .unwrap();
    run_with(&postgres.url(), &["test", path]).ended(1);
}

#[test]
fn a_server_that_is_away_is_reported_and_stops_only_what_needs_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("users")).unwrap();
    fs::write(path.join("users/data.csv"), "id,name\n1,ada\n").unwrap();
    let config = "version = 2\n[provider.sqldb]\nkind = 'postgres'\nacquire_timeout_ms = 60000\n\
        connection_uri = 'postgres://app:hunter2@127.0.0.1:1/geo'\n[[tables]]\nname = 'users'\n";
    fs::write(path.join("knowdb.toml"), config).unwrap();
    let path = path.to_str().unwrap();
    let said = run_with("", &["query", path, "select name from users", "-f", "json"]).ended(0);
    assert_eq!(said.out, "{\"name\":\"ada\"}\n");
    let why = "provider `default` (postgres://app@127.0.0.1:1/geo) does not answer: \
        cannot connect to 127.0.0.1:1";
    for arguments in [
        &["check", path][..],
        &["query", path, "select a from nowhere"],
    ] {
        let said = run_with("", arguments).ended(1).err_has(&[why]);
        assert!(!said.err.contains("hunter2"), "{}", said.err);
    }
}

#[test]
fn a_model_whose_provider_is_away_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let config = "version = 2\n[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\n\
        acquire_timeout_ms = 60000\nconnection_uri = 'postgres://app:hunter2@127.0.0.1:1/geo'\n";
    fs::write(path.join("knowdb.toml"), config).unwrap();
    fs::create_dir(path.join("models")).unwrap();
    let model = "name : m\n---\nname = select name from pg.hosts where id = read(id) ;\n";
    fs::write(path.join("models/m.oml"), model).unwrap();
    let test = "{\"input\":{\"id\":1},\"output\":{}}\n";
    fs::write(path.join("models/m.test.jsonl"), test).unwrap();
    let path = path.to_str().unwrap();
    let enrich = ["enrich", path, "-", "--model", "m", "--format", "json"];
    for arguments in [&enrich[..], &["test", path]] {
        let said = run_with("", arguments).ended(1).err_has(&[
            "models/m.oml cannot be used now: provider pg does not answer\n",
            "this lookup cannot be prepared now: provider `pg`",
            "cannot connect to 127.0.0.1:1",
            "help: start its server, or correct connection_uri in knowdb.toml",
        ]);
        assert!(!said.err.contains("is refused"), "{}", said.err);
        assert!(!said.err.contains("hunter2"), "{}", said.err);
    }
}

#[test]
fn providers_that_are_away_are_waited_for_at_once() {
    let folder = TempDir::new().unwrap();
    let one = |name: &str| {
        format!(
            "[[provider.sqldb]]\nname = '{name}'\nkind = 'postgres'\nacquire_timeout_ms = 20000\n\
             connection_uri = 'postgres://app@127.0.0.1:1/{name}'\n"
        )
    };
    let config = format!("version = 2\n{}{}{}", one("a"), one("b"), one("c"));
    fs::write(folder.path().join("knowdb.toml"), config).unwrap();
    let started = Instant::now();
    run_with("", &["check", folder.path().to_str().unwrap()])
        .ended(1)
        .err_has(&[
            "error: provider `a`",
            "error: provider `b`",
            "error: provider `c`",
            "no server listens on that port; check host and port",
        ]);
    // In sequence they would take a minute.
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(55), "{elapsed:?}");
}

/// Runs two equal events through a model that looks them up. The table is locked between them, so
/// that the second event gets the stale answer of the first.
fn enrich_with_a_stale_answer(postgres: &Postgres, flags: &[&str]) -> Said {
    let folder = TempDir::new().unwrap();
    let config = format!(
        "version = 2\n[provider.sqldb]\nkind = 'postgres'\nconnection_uri = '{}'\n\
         query_timeout_ms = 5000\nstale_if_error_ms = 600000\n[cache]\nttl_ms = 1\n",
        postgres.url()
    );
    fs::write(folder.path().join("knowdb.toml"), config).unwrap();
    fs::create_dir(folder.path().join("models")).unwrap();
    let model = "name : m\n---\nname = select name from customers where id = read(id) ;\n";
    fs::write(folder.path().join("models/m.oml"), model).unwrap();
    let mut child = lookaside()
        .args(["enrich", ".", "-", "--format", "json", "--model", "m"])
        .args(flags)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut events = child.stdin.take().expect("it is a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let mut ask = || {
        events.write_all(b"{\"id\":2}\n").unwrap();
        let answer = answers.next().expect("each event has its answer").unwrap();
        assert_eq!(answer, "{\"name\":\"Grace\"}");
    };
    ask();
    let Ok(Config::Postgres(config)) = Config::parse(&postgres.url(), &Environment::empty()) else {
        panic!("{} is a PostgreSQL", postgres.url());
    };
    let options = postgres::Options::default();
    let mut holder = postgres::blocking::Connection::connect_with(&config, options).unwrap();
    for sql in ["begin", "lock table customers"] {
        holder.query(sql, &[]).unwrap();
    }
    ask();
    drop(events);
    Said::from(child.wait_with_output().unwrap())
}

#[test]
fn stale_answers_are_reported_and_fail_a_strict_run() {
    let Some(postgres) = database("postgres") else {
        return;
    };
    let told = "  stale answers, because a provider did not answer: 1, the oldest ";
    enrich_with_a_stale_answer(&postgres, &[])
        .ended(0)
        .err_has(&[told]);
    enrich_with_a_stale_answer(&postgres, &["--strict"])
        .ended(1)
        .err_has(&[
            told,
            "error: 1 answer of a provider is stale, which --strict treats as errors",
            "stale_if_error_ms",
        ]);
}
