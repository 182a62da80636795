//! `lookaside-bench pg` with a real server.

use lookaside_embedded::Postgres;

use crate::program::{Said, bench, json_lines};

/// Runs a benchmark without the developer's environment variables for other servers.
fn run(arguments: &[&str]) -> Said {
    let mut command = bench();
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") || name == "DATABASE_URL" {
            command.env_remove(name);
        }
    }
    let output = command.arg("pg").args(arguments).output();
    output.expect("the program starts").into()
}

/// Whether a benchmark left its schema.
fn has_schema(server: &Postgres) -> bool {
    // It fails if the schema exists.
    server.execute("create schema lookaside_bench").is_err()
}

#[test]
fn benchmarks_run_and_write_json() {
    let cases = |arguments: &[&str]| {
        let said = run(&[arguments, &["--rounds", "1", "--json"]].concat());
        json_lines(&said.ended(0).out)
    };
    for (arguments, count) in [
        (&["rtt", "--ops", "20"][..], 17),
        (&["prepared-updates", "--ops", "250"], 4),
        (&["warm"], 11),
        // A test must not drop the file cache of other programs, so two of these are skipped.
        (&["cold", "--keep-file-cache"], 6),
    ] {
        let cases = cases(arguments);
        assert_eq!(cases.len(), count, "{arguments:?}: {cases:?}");
        for case in cases.iter().filter(|case| case["skipped"].is_null()) {
            assert!(
                case["engine"].as_str().unwrap().contains("PostgreSQL "),
                "{case}"
            );
            assert!(
                case["wall_ns_per_op"]["median"].as_f64().unwrap() > 0.0,
                "{case}"
            );
            assert!(!case["from"].as_str().unwrap().is_empty(), "{case}");
        }
    }

    // Any other server works, and is left unchanged.
    let server = Postgres::temporary().unwrap();
    let url = server.url();
    let found = cases(&["prepared-updates", "--ops", "10", "--target", &url]);
    assert!(
        found[0]["engine"].as_str().unwrap().contains(" at "),
        "{found:?}"
    );
    assert!(!has_schema(&server));
}

#[test]
fn a_diagnosis_explains_updates_and_copies() {
    let arguments = ["diagnose", "--rounds", "1", "--rows", "200"];
    let said = run(&[&arguments[..], &["--json"]].concat()).ended(0);
    let cases = json_lines(&said.out);
    assert_eq!(cases.len(), 21, "{cases:?}");
    let of = |case: &str, variant: &str| {
        let found = cases.iter().find(|line| {
            line["case"].as_str().unwrap().starts_with(case)
                && line["variant"].as_str().unwrap().starts_with(variant)
        });
        found.unwrap_or_else(|| panic!("no case {case}, {variant}"))
    };
    for case in &cases {
        for setting in [
            "shared_buffers",
            "fsync",
            "wal_level",
            "work_mem",
            "jit",
            "server_version",
        ] {
            assert!(case["settings"][setting].is_string(), "{case}");
        }
        assert!(case["wall_ns"]["median"].as_f64().unwrap() > 0.0, "{case}");
        assert!(case["plan"][0]["Plan"]["Node Type"].is_string(), "{case}");
        assert!(case["buffers"]["hit"].as_u64().unwrap() > 0, "{case}");
        assert!(!case["sentence"].as_str().unwrap().is_empty(), "{case}");
    }

    // What the server must count regardless of its speed.
    for case in ["9:", "10:"] {
        let suite = of(case, "as in the suite");
        assert_eq!(suite["statements"], 200);
        assert_eq!(suite["updates"], 200, "{suite}");
        assert!(suite["wal"]["records"].as_u64().unwrap() >= 200, "{suite}");
        assert_eq!(of(case, "lookups")["updates"], 0);
        assert_eq!(of(case, "unlogged")["wal"]["bytes"], 0);
        assert_eq!(of(case, "one update")["statements"], 1);
        assert_eq!(of(case, "one update")["updates"], 200);
    }
    assert_eq!(
        of("9:", "as in the suite")["hot_updates"],
        0,
        "b is indexed"
    );
    let roomy = of("9:", "index on the key alone, fillfactor")["hot_updates"].as_u64();
    assert!(roomy.unwrap() > 150, "{roomy:?}");
    let copied = of("11:", "as in the suite");
    assert_eq!(copied["statements"], 2);
    let records = |variant| of("11:", variant)["wal"]["records"].as_u64().unwrap();
    assert!(records("no index") < records("as in the suite"));
    assert_eq!(of("11:", "unlogged")["wal"]["bytes"], 0);

    // As a table, on any server, which is left unchanged.
    let server = Postgres::temporary().unwrap();
    let url = server.url();
    let said = run(&[&arguments[..], &["--target", &url]].concat()).ended(0);
    for text in [
        "shared_buffers=",
        "WAL bytes",
        "- as in the suite: of ",
        " HOT",
        "Index Scan",
    ] {
        assert!(said.out.contains(text), "{text}: {}", said.out);
    }
    assert!(!has_schema(&server));
}
