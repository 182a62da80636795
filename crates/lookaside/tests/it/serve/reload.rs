//! What a reload says of what it did, and of what it could not.

use super::running::{configure, project};
use super::{Running, serve};
use crate::program::run;

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
            "table hosts: column \"since\" is text: most of its cells are dates, and line 3 is none; \
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
    // A flag is no change of the file.
    assert_eq!(warnings(&running), [""; 0]);
    configure(
        &project,
        "[server]\nthreads = 2\nlisten = '8379'\nbody_size_max = 4096\nhosts = 'a.example'\n",
    );
    let expected = "server.listen and server.body_size_max change with a restart only";
    assert_eq!(warnings(&running), [expected]);
    configure(&project, "[server]\nthreads = 2\nlisten = '8379'\n");
    assert_eq!(
        warnings(&running),
        ["server.listen changes with a restart only"]
    );
    configure(&project, "[server]\nthreads = 2\nlisten = '8378'\n");
    assert_eq!(warnings(&running), [""; 0]);
}

#[test]
fn an_open_server_keeps_its_last_key() {
    let lines = run(["key", "new", "--admin"]).ended(0);
    let key = lines.err.lines().next().unwrap().to_owned();
    let project = project(&lines.out);
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
    assert_eq!(running.end().1, "");
}

#[test]
fn half_a_reload_says_so() {
    let project = project("");
    let mut running = serve(&project, &[]);
    project.write("hosts/data.csv", "name,rack\nweb-9,7\n");
    configure(
        &project,
        "[lookups.new]\nsql = 'select nowhere from hosts'\n",
    );
    let mut client = running.client();
    let refused = client.post("/v1/reload", "").is(409).json();
    let told = "the tables are new, the lookups stay as they were";
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
    let project = project("");
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
