//! Runs benchmarks on minimal inputs; all variants return the same answers.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Write as _};

use lookaside_client::mysql::{Options, blocking::Connection};
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Postgres};
use lookaside_testing::{Brand, Server};
use serde_json::Value;

use crate::program::{Said, bench, json_lines};

const TINY: [&str; 5] = ["--seconds", "0.001", "--rounds", "1", "--json"];

/// The cases that a benchmark printed.
fn cases(arguments: &[&str]) -> Vec<Value> {
    let output = bench().args(arguments).args(TINY).output();
    let said = Said::from(output.expect("the program starts")).ended(0);
    json_lines(&said.out)
}

fn hashes(cases: &[Value]) -> BTreeSet<&str> {
    cases
        .iter()
        .filter_map(|case| case["hash"].as_str())
        .collect()
}

#[test]
fn every_way_to_a_provider_is_measured() {
    if let Err(error) = Binaries::find("18".parse().expect("a version"), &()) {
        assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
        let _ = writeln!(io::stderr(), "SKIP no PostgreSQL 18 to test with: {error}");
        return;
    }
    let postgres = Postgres::builder().tcp().start().unwrap();
    let url = postgres.tcp_url().unwrap();

    let is_left = || {
        let asked = postgres.execute("select 1 from lookaside_bench_kv limit 1");
        asked.is_ok()
    };
    let provider = cases(&["provider", "--url", &url, "--rows", "2000", "--keep"]);
    assert!(is_left());
    assert_eq!(provider.len(), 9, "{provider:?}");
    // A batch has different keys.
    assert_eq!(hashes(&provider[..8]).len(), 1, "{provider:?}");

    let options = ["--rows", "200", "--operations", "400", "--concurrency", "3"];
    let cache = cases(&[&["cache", "--url", &url][..], &options].concat());
    assert_eq!(cache.len(), 6, "{cache:?}");
    assert!(!is_left());
    // Of 128 keys in turn, and of all keys.
    assert_eq!(hashes(&cache[..3]).len(), 1, "{cache:?}");
    assert_eq!(hashes(&cache[3..]).len(), 1, "{cache:?}");

    let models = cases(&["oml-provider", "--url", &url, "--rows", "200"]);
    assert_eq!(models.len(), 3, "{models:?}");
    assert_eq!(hashes(&models[1..]).len(), 1, "{models:?}");
    assert_ne!(
        models[0]["hash"], models[1]["hash"],
        "a model without a lookup"
    );
}

#[test]
fn change_feeds_are_measured() {
    if let Err(error) = Binaries::find("18".parse().expect("a version"), &()) {
        assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
        let _ = writeln!(io::stderr(), "SKIP no PostgreSQL 18 to test with: {error}");
        return;
    }
    let sizes = ["--rows", "200", "--changes", "1000", "--warm-up", "0.001"];
    let cases = cases(&[&["freshness", "--fsync", "off"][..], &sizes].concat());
    let names: Vec<_> = cases
        .iter()
        .filter_map(|case| case["case"].as_str())
        .collect();
    let expected = [
        "latency",
        "demand",
        "hit",
        "idle",
        "unrelated, replayed",
        "unrelated, live",
        "hit-rate",
    ];
    assert_eq!(names, expected);
    for case in &cases {
        assert_eq!(case["server"]["fsync"], "off", "{case}");
        assert_eq!(case["server"]["synchronous_commit"], "on", "{case}");
    }
    let figure = |case: usize, name: &str| {
        let figures = cases[case]["figures"].as_array().unwrap();
        let found = figures.iter().find(|it| it["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {figures:?}"))
    };
    assert!(figure(0, "commit to all")["count"].as_u64() >= Some(1));
    assert!(figure(1, "from memory")["value"].as_f64().is_some());
    assert!(figure(4, "unrelated, 1 row each")["median"].as_f64() > Some(0.0));
    let staleness = "feed, ttl 30 min: staleness";
    assert!(figure(6, staleness)["count"].as_u64() >= Some(1));
}

#[test]
fn a_ring_is_measured() {
    let cases = cases(&["pipeline", "--wait", "stage-empty", "--batch", "8"]);
    let names: Vec<_> = cases
        .iter()
        .filter_map(|case| case["case"].as_str())
        .collect();
    let expected = [
        "one-stage, stage-empty, batch 8",
        "two-stages, stage-empty, batch 8",
        "headroom, stage-empty, two stages, batch 8",
        "idle, stage-empty, 1 ms",
    ];
    assert_eq!(names, expected);
    // All but the last passed the same numbers.
    assert_eq!(hashes(&cases[..3]).len(), 1, "{cases:?}");
}

#[test]
fn tables_are_probed() {
    let cases = cases(&["table-probes", "--rows", "300", "--columns", "1,4"]);
    // Of four kinds of keys: the loops alone, and each number of columns one by one and in batches.
    assert_eq!(cases.len(), 4 * 6, "{cases:?}");
    for kind in cases.chunks(6) {
        let mut names = kind[..2].iter().map(|case| case["case"].as_str().unwrap());
        assert!(names.all(|name| name.contains(", harness")));
        assert_eq!(hashes(&kind[2..4]).len(), 1, "{kind:?}");
        assert_eq!(hashes(&kind[4..]).len(), 1, "{kind:?}");
        assert_ne!(kind[2]["hash"], kind[4]["hash"], "{kind:?}");
        for case in &kind[2..] {
            let notes = case["notes"].as_array().unwrap();
            let plan = &notes.iter().find(|note| note[0] == "plan").unwrap()[1];
            assert!(plan == "hash" || plan == "interval", "{case:?}");
        }
    }
}

#[test]
fn rows_are_probed_by_a_distribution() {
    let shape = ["--rows", "300", "--columns", "1"];
    let ranges = ["table-probes", "--kind", "ranges"];
    let mut found = Vec::new();
    for (option, name) in [
        (&["--by-size"][..], "ranges by size, columns 1, single"),
        (&["--keys", "zipf"], "ranges zipf, columns 1, single"),
        (&[], "ranges, columns 1, single"),
    ] {
        let cases = cases(&[&ranges, &shape[..], option].concat());
        assert_eq!(cases[2]["case"], name);
        assert_eq!(hashes(&cases[2..]).len(), 1, "{cases:?}");
        found.push(cases[2].clone());
    }
    assert_eq!(hashes(&found).len(), 3, "{found:?}");
}

#[test]
fn tables_are_loaded_in_new_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let options = ["--rows", "3000", "--folder", path, "--rounds", "1"];
    let arguments = [
        &["table-load", "--starts", "2", "--reload", "5"][..],
        &options,
    ]
    .concat();
    let output = bench().args(&arguments).arg("--json").output().unwrap();
    let loads = json_lines(&Said::from(output).ended(0).out);
    assert_eq!(loads.len(), 2, "{loads:?}");
    let file = folder.path().join("dense-3000-2.csv");
    for (index, load) in loads.iter().enumerate() {
        assert_eq!(load["start"], index + 1);
        assert_eq!(load["csv_size"], fs::metadata(&file).unwrap().len());
        let figure = |name: &str| load[name].as_f64().unwrap();
        assert!(
            figure("open_s") > 0.0 && figure("open_s") <= figure("answer_s"),
            "{load}"
        );
        assert!(figure("resident") > figure("resident_empty"), "{load}");
        assert!(figure("resident_max") >= figure("resident"), "{load}");
        assert_eq!(load["reload"]["percent"], 5);
    }
    // The rows of the file are those of the first run.
    let rows = fs::read(&file).unwrap();
    let output = bench().args(&arguments).output().unwrap();
    let text = ["start 2, plan hash", "reload, 5 % changed", "bytes a row"];
    Said::from(output).ended(0).out_has(&text);
    assert_eq!(fs::read(&file).unwrap(), rows);
    // The folders that were loaded are removed.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_without_ranges_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ranges.csv");
    fs::write(&file, "1.0.0.0,1.0.0.255,a\n1.0.1.0,x,b\n").unwrap();
    let file = file.to_str().unwrap();
    let arguments = ["table-probes", "--kind", "ranges", "--ranges", file];
    let output = bench().args(arguments).output().unwrap();
    let place = [file, "not first,last of IPv4 addresses: 1.0.1.0,x,b"];
    Said::from(output).ended(1).err_has(&place);
}

#[test]
fn definitions_of_columns_are_measured() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(server) = Server::shared(brand) else {
            continue;
        };
        let url = server.url("");
        let Config::Mysql(config) = Config::parse(&url, &Environment::empty()).unwrap() else {
            unreachable!("the URL is MySQL's");
        };
        let mut connection = Connection::connect_with(&config, Options::default()).unwrap();
        connection.query("create database bench", &[]).unwrap();
        let url = server.url("bench");
        for window in ["1", "8"] {
            let shape = ["--columns", "3", "--rows", "2", "--window", window];
            let found = cases(&[&["metadata", "--url", &url][..], &shape].concat());
            assert_eq!(hashes(&found).len(), 1, "{found:?}");
        }
        assert_eq!(
            cases(&["metadata", "--url", &url, "--mode", "parse"]).len(),
            1
        );
        connection.query("create user far", &[]).unwrap();
        let grant = "grant all privileges on bench.* to far";
        connection.query(grant, &[]).unwrap();
        let far = format!(
            "mysql://far@127.0.0.1:{}/bench?ssl-mode=disabled",
            server.port()
        );
        let shape = ["--columns", "3", "--rows", "2", "--delay", "20"];
        let found = cases(&[&["metadata", "--url", &far][..], &shape].concat());
        assert_eq!(hashes(&found).len(), 1, "{found:?}");
        for case in &found {
            let fastest = case["wall_ns_per_op"]["min"].as_f64().unwrap();
            assert!(fastest >= 20e6, "{case:?}");
        }
        let on_a_socket = ["metadata", "--delay", "20", "--url", &url];
        let output = bench().args(on_a_socket).output().unwrap();
        Said::from(output).ended(1).err_has(&["--delay"]);
        let mistaken = ["metadata", "--url", "postgres://amy@localhost/a"];
        let output = bench().args(mistaken).output().unwrap();
        Said::from(output).ended(1).err_has(&["mysql://"]);
    }
}
