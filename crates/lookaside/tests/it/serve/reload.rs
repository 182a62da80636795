//! Reloads while requests arrive, and the reports of successful and failed reloads.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_testing::wait_until;

use super::running::{configure, project};
use super::{PATIENCE, Running, serve};
use crate::program::run;

#[test]
fn a_reload_fails_no_request_and_changes_all_at_once() {
    let project = project("");
    let running = serve(&project, &[]);
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for target in [
            "host?name=web-1",
            "rack?rack=8",
            "late?rack=8",
            "net?ip=10.0.0.1",
        ] {
            let (running, is_over, answered) = (&running, &is_over, &answered);
            scope.spawn(move || {
                let mut client = running.client();
                while !is_over.load(Ordering::Relaxed) {
                    let answer = client.get(&format!("/v1/lookup/{target}")).is(200);
                    assert!(!answer.body.is_empty());
                    if !target.contains("rack=") {
                        // Its plan exists from the first moment of the new tables on.
                        assert_eq!(answer.header("X-Cache"), Some("native"));
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut client = running.client();
        for number in 2..12 {
            let before = answered.load(Ordering::Relaxed);
            let more = format!("[lookups.new_{number}]\nsql = 'select {number} as number'\n");
            configure(&project, &more);
            let done = client.post("/v1/reload", "").is(200).json();
            assert_eq!(done["generation"], number);
            let answer = client.get(&format!("/v1/lookup/new_{number}")).is(200);
            assert_eq!(answer.text(), format!("{{\"number\":{number}}}"));
            client
                .get(&format!("/v1/lookup/new_{}", number - 1))
                .is(404);
            let begun = Instant::now();
            while answered.load(Ordering::Relaxed) < before + 5 && begun.elapsed() < PATIENCE {
                // sleep: polls until a deadline; a panic here would leave the threads of the scope waiting
                thread::sleep(Duration::from_millis(1));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(answered.load(Ordering::Relaxed) >= 10 * 5);
    let (status, log) = running.end();
    assert!(status.success(), "{log}");
}

#[test]
fn a_reload_that_fails_leaves_everything_as_it_was() {
    let project = project("[server]\nerror_detail = true\n");
    let mut running = serve(&project, &[]);
    let mut client = running.client();
    for (more, expected) in [
        (
            "[lookups.new]\nsql = 'select nowhere from hosts'\n",
            "no such column",
        ),
        ("[lookups.new]\nsqll = ''\n", "unknown key lookups.new.sqll"),
        ("[server]\nlisten = 7\n", "server.listen must be "),
    ] {
        configure(&project, more);
        let answer = client.post("/v1/reload", "").is(409);
        assert!(answer.text().contains(expected), "{}", answer.text());
        client.get("/v1/lookup/host?name=web-1").is(200);
    }
    configure(&project, "");
    fs::remove_file(project.file("hosts/data.csv")).unwrap();
    running.signal("HUP");
    running.log_until("not reloaded");
    client.get("/v1/lookup/host?name=web-1").is(200);
    // A lookup may be removed together with its table.
    let config = "version = 2\n[[tables]]\nname = 'nets'\n[lookups.count]\nsql = 'select count(*) as n from nets'\n";
    project.write("knowdb.toml", config);
    client.post("/v1/reload", "").is(200);
    client.get("/v1/lookup/host?name=web-1").is(404);
    assert_eq!(client.get("/v1/lookup/count").is(200).text(), "{\"n\":2}");
    assert!(running.end().0.success());
}

#[test]
fn tables_that_change_are_loaded_unasked() {
    let project = project("");
    let running = serve(&project, &["--watch"]);
    let mut client = running.client();
    client.get("/v1/lookup/host?name=web-9").is(404);
    fs::write(project.file("hosts/data.csv"), "name,rack\nweb-9,9\n").unwrap();
    wait_until("the change is seen", || {
        client.get("/v1/lookup/host?name=web-9").status == 200
    });
}

/// The warnings of a reload that succeeds.
fn warnings(running: &Running) -> Vec<String> {
    let answer = running.client().post("/v1/reload", "").is(200).json();
    let warnings = answer["warnings"].as_array().expect("a list is there");
    let texts = warnings
        .iter()
        .map(|text| text.as_str().unwrap().to_owned());
    texts.collect()
}

#[test]
fn a_column_that_became_text_is_told() {
    let project = project("");
    let running = serve(&project, &["--log-level", "warn"]);
    assert_eq!(warnings(&running), [""; 0]);
    project.write(
        "hosts/data.csv",
        "name,rack\nweb-1,7\nweb-2,7\nweb-3,seven\n",
    );
    assert_eq!(
        warnings(&running),
        [
            "table hosts: column \"rack\" is text: line 4 is not a number; correct it, or write create.sql"
        ]
    );
    project.write(
        "hosts/data.csv",
        "name,since\nweb-1,2026-01-31\nweb-2,20260201\nweb-3,2026-02-01\n",
    );
    configure(&project, "");
    let config = std::fs::read_to_string(project.file("knowdb.toml")).unwrap();
    let config = config.split("[lookups.host]").next().unwrap();
    project.write("knowdb.toml", config);
    assert_eq!(
        warnings(&running),
        [
            "table hosts: column \"since\" is text: most of its cells are dates, but line 3 is not; \
             correct it, or write create.sql"
        ]
    );
    let log = running.end().1;
    assert!(log.contains("line 4 is not a number"), "{log}");
}

#[test]
fn what_waits_for_a_restart_is_told_by_its_name() {
    let project = project("[server]\nthreads = 2\nlisten = '8378'\n");
    let log = project.file("access.log");
    let running = serve(&project, &["--access-log", log.to_str().unwrap()]);
    // A flag is not a change of the file.
    assert_eq!(warnings(&running), [""; 0]);
    configure(
        &project,
        "[server]\nthreads = 2\nlisten = '8379'\nbody_size_max = 4096\nhosts = 'a.example'\n",
    );
    let expected = "server.listen and server.body_size_max take effect only after a restart";
    assert_eq!(warnings(&running), [expected]);
    configure(&project, "[server]\nthreads = 2\nlisten = '8379'\n");
    assert_eq!(
        warnings(&running),
        ["server.listen takes effect only after a restart"]
    );
    configure(&project, "[server]\nthreads = 2\nlisten = '8378'\n");
    assert_eq!(warnings(&running), [""; 0]);
}

#[test]
fn an_open_server_keeps_its_last_key() {
    let lines = run(["key", "new", "--admin"]).ended(0);
    let key = lines.err.lines().next().unwrap().to_owned();
    let project = project(&format!("[server]\nerror_detail = true\n{}", lines.out));
    let running = Running::start(&project, &["--listen", "0.0.0.0:0"]);
    configure(&project, "");
    let headers = [("X-API-Key", key.as_str())];
    let mut client = running.client();
    let answer = client.ask("POST", "/v1/reload", &headers, b"").is(409);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("can be reached from other machines"),
        "{detail}"
    );
    client.get("/v1/lookup/host?name=web-1").is(401);
    client
        .get_with("/v1/lookup/host?name=web-1", &headers)
        .is(200);
}

#[test]
fn a_reload_by_a_signal_is_told() {
    let project = project("");
    let mut running = serve(&project, &[]);
    running.signal("HUP");
    let log = running.log_until("reloaded");
    assert!(
        log.contains("INFO") && log.contains("generation=2"),
        "{log}"
    );
    let running = serve(&project, &["--log-level", "error"]);
    running.client().post("/v1/reload", "").is(200);
    let told = "SIGTERM: answering the requests in progress\n";
    assert_eq!(running.end().1, told);
}

#[test]
fn a_table_that_loses_all_rows_is_told() {
    let project = project("");
    let mut running = serve(&project, &[]);
    project.write("hosts/data.csv", "name,rack\n");
    running.client().post("/v1/reload", "").is(200);
    let log = running.log_until("has no rows any more");
    assert!(log.contains("WARN") && log.contains("\"hosts\""), "{log}");
}

#[test]
fn half_a_reload_says_so() {
    let project = project("[server]\nerror_detail = true\n");
    let mut running = serve(&project, &[]);
    project.write("hosts/data.csv", "name,rack\nweb-9,7\n");
    configure(
        &project,
        "[lookups.new]\nsql = 'select nowhere from hosts'\n",
    );
    let mut client = running.client();
    let refused = client.post("/v1/reload", "").is(409).json();
    let told = "the new tables are in use, with the previous lookups";
    assert_eq!(refused["title"], told);
    let detail = refused["detail"].as_str().unwrap();
    assert!(!detail.contains(told), "{detail}");
    assert!(detail.contains("lookups.new"), "{detail}");
    client.get("/v1/lookup/host?name=web-9").is(200);
    client.get("/v1/lookup/new").is(404);
    let log = running.log_until(told);
    assert!(!log.contains("not reloaded"), "{log}");
}

#[test]
fn a_lookup_that_new_tables_do_not_fit_is_named() {
    let project = project("[server]\nerror_detail = true\n");
    let running = serve(&project, &[]);
    project.write("hosts/data.csv", "name,place\nweb-9,7\n");
    let config = std::fs::read_to_string(project.file("knowdb.toml")).unwrap();
    let at = |name: &str| {
        let found = config
            .lines()
            .position(|line| line == format!("[lookups.{name}]"));
        found.expect("it is there") + 1
    };
    let refused = running.client().post("/v1/reload", "").is(409).json();
    let detail = refused["detail"].as_str().unwrap();
    let named = ["host", "rack", "late"]
        .iter()
        .any(|name| detail.contains(&format!("knowdb.toml:{}: lookups.{name}: ", at(name))));
    assert!(named && detail.contains("rack"), "{detail}");
}
