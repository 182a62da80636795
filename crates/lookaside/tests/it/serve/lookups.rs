//! Lookups: single, batched and conditional.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::running::socket;
use super::{Answer, Client, Running, project, serve};
use crate::program::{Project, run};

#[test]
fn the_example_is_served_as_it_stands() {
    let folder = crate::program::example();
    let folder = folder.to_str().unwrap();
    run(["check", folder]).ended(0).out_has(&[
        "lookup asn(ip ipv4): interval index",
        "lookup department(name any): sqlite",
    ]);
    let home = Project::empty();
    let mut command = crate::program::lookaside();
    command
        .args(["serve", folder, "--listen", "127.0.0.1:0"])
        .env("XDG_RUNTIME_DIR", home.path());
    let running = Running::of(command);
    let tried = running.greeting.split_once("try:  curl '").unwrap().1;
    let url = tried.trim_end().trim_end_matches('\'');
    let target = url
        .strip_prefix("http://")
        .unwrap()
        .strip_prefix(&running.address)
        .unwrap();
    let answer = running.client().get(target).is(200);
    assert_eq!(answer.json()["asn"], 4_200_000_883_u64);
    assert!(running.end().0.success());
}

#[test]
fn the_default_is_a_port_and_a_socket_of_the_user() {
    let (project, home) = (project(""), Project::empty());
    let mut command = Running::command(&project, &[]);
    command.env("XDG_RUNTIME_DIR", home.path());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut err = String::new();
    while !err.contains("try:  ") && stderr.read_line(&mut err).unwrap() > 0 {}
    if err.contains("try:  ") {
        assert!(err.contains("  http://127.0.0.1:8300\n"), "{err}");
        assert!(err.contains("/lookaside.sock\n"), "{err}");
        let mut client = Client::unix(&home.file("lookaside.sock"));
        client.get("/v1/lookup/host?name=web-1").is(200);
    } else {
        // The port may be in use on this machine; then the message has a hint.
        assert!(err.contains("`--listen 8301`"), "{err}");
    }
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn a_row_comes_in_each_form() {
    let running = serve(&project(""), &[]);
    let mut client = running.client();
    let answer = client.get("/v1/lookup/net?ip=10.0.1.9").is(200);
    assert_eq!(answer.text(), r#"{"owner":"shop, \"new\""}"#);
    assert_eq!(answer.header("Content-Type"), Some("application/json"));
    assert_eq!(answer.header("X-Cache"), Some("native"));
    assert_eq!(answer.header("Vary"), Some("Accept, Accept-Encoding"));
    assert!(
        answer
            .header("Server-Timing")
            .unwrap()
            .starts_with("lookup;dur=")
    );
    let mut form =
        |accept: &str| client.get_with("/v1/lookup/net?ip=10.0.1.9", &[("Accept", accept)]);
    assert_eq!(
        form("text/csv").is(200).text(),
        "owner\r\n\"shop, \"\"new\"\"\"\r\n"
    );
    assert_eq!(
        form("application/x-ndjson").is(200).text(),
        "{\"owner\":\"shop, \\\"new\\\"\"}\n"
    );
    let packed = form("application/vnd.msgpack, application/json;q=0.5").is(200);
    assert_eq!(packed.body, b"\x81\xa5owner\xabshop, \"new\"");
    assert_eq!(
        form("text/*, */*;q=0.1")
            .is(200)
            .header("Content-Type")
            .unwrap()[..8],
        *"text/csv"
    );
    form("image/png").is(406);
    let head = client
        .ask("HEAD", "/v1/lookup/net?ip=10.0.1.9", &[], b"")
        .is(200);
    assert_eq!(head.header("Content-Length"), Some("25"));
    let answer = client.get("/v1/lookup/host?name=db+1").is(200);
    assert_eq!(answer.text(), r#"{"name":"db 1","rack":8}"#);
    client.get("/v1/lookup/host?name=db%201").is(200);
}

#[test]
fn refusals_name_what_is_wrong() {
    let running = serve(&project(""), &[]);
    let mut client = running.client();
    let absent = client.get("/v1/lookup/net?ip=192.0.2.1").is(404);
    assert_eq!(
        absent.header("Content-Type"),
        Some("application/problem+json")
    );
    assert_eq!(absent.header("ETag"), None);
    let faults = |answer: Answer| {
        let json = answer.is(400).json();
        let faults = json["parameters"].as_array().unwrap().clone();
        let texts = faults.iter().map(|fault| {
            let text = |name: &str| fault[name].as_str().unwrap().to_owned();
            format!("{} {}", text("name"), text("problem"))
        });
        texts.collect::<Vec<String>>().join("; ")
    };
    for (query, expected) in [
        ("", "ip is missing"),
        ("?ip=x", "ip must be an IPv4 address such as 192.0.2.1"),
        ("?ip=10.0.0.1&ip=10.0.0.1", "ip is given twice"),
        ("?ip=10.0.0.1&pi=1", "pi is unknown"),
    ] {
        let answer = client.get(&format!("/v1/lookup/net{query}"));
        assert_eq!(faults(answer), expected);
    }
    client.get("/v1/lookup/nets?ip=10.0.0.1").is(404);
    client.get("/v1/lookup/").is(404);
    client.get("/nothing").is(404);
    let answer = client
        .ask("DELETE", "/v1/lookup/net?ip=10.0.0.1", &[], b"")
        .is(405);
    assert_eq!(answer.header("Allow"), Some("GET, HEAD, POST, OPTIONS"));
    let detail = &answer.json()["detail"];
    assert_eq!(detail, "allowed methods: GET, HEAD, POST, OPTIONS");
    client.post("/v1/query", "{}").is(403);
    let answer = client.post("/v1/lookup/net", r#"["10.0.0.1", "x"]"#);
    assert_eq!(answer.json()["set"], 1);
    assert_eq!(
        faults(answer),
        "ip must be an IPv4 address such as 192.0.2.1"
    );
    for (body, set) in [(r#"["10.0.0.1", [1]]"#, 1), (r#"["10.0.0.1",,]"#, 1)] {
        let refused = client.post("/v1/lookup/net", body).is(400).json();
        assert_eq!(refused["set"], set, "{body}: {refused}");
    }
    client.post("/v1/lookup/net", "[").is(400);
    // An answer with too many rows is an error.
    client.get("/v1/lookup/rack?rack=8").is(200);
    let long = client.get("/v1/lookup/rack?rack=7").is(422);
    assert!(long.text().contains("rows_max is 3"), "{}", long.text());
    let long = client.post("/v1/lookup/rack", "[8, 7, 8]").is(422).json();
    assert_eq!(long["set"], 1, "{long}");
    // For a form body, the error shows the expected body.
    let refused = client.post("/v1/lookup/rack", "rack=7").is(400).json();
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.contains("a JSON array of parameter sets, [{\"rack\":1}], or"),
        "{detail}"
    );
}

#[test]
fn batches_are_answered_in_order() {
    let running = serve(&project(""), &[]);
    let mut client = running.client();
    let answer = client
        .post(
            "/v1/lookup/net",
            r#"[{"ip":"10.0.0.7"}, "192.0.2.1", "10.0.1.1"]"#,
        )
        .is(200);
    assert_eq!(
        answer.text(),
        r#"[{"owner":"lab"},null,{"owner":"shop, \"new\""}]"#
    );
    let answer = client
        .post("/v1/lookup/net", "\"10.0.0.7\"\n\"192.0.2.1\"\n")
        .is(200);
    assert_eq!(answer.text(), "{\"owner\":\"lab\"}\nnull\n");
    assert_eq!(answer.header("Content-Type"), Some("application/x-ndjson"));
    // Lookups that run on other threads, with all rows of each.
    let answer = client
        .post("/v1/lookup/late", r#"[8, 9, {"rack":8}]"#)
        .is(200);
    assert_eq!(answer.text(), r#"[{"name":"db 1"},null,{"name":"db 1"}]"#);
    let answer = client.post("/v1/lookup/rack", r#"[8, 9]"#).is(200);
    assert_eq!(answer.text(), r#"[[{"name":"db 1"}],[]]"#);
    // Too long for the I/O thread.
    let count = 20_000;
    let sets: Vec<String> = (0..count)
        .map(|index| format!("\"10.0.{}.1\"", index % 3))
        .collect();
    let answer = client
        .post("/v1/lookup/net", format!("[{}]", sets.join(",")))
        .is(200);
    let json = answer.json();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), count);
    for (index, row) in rows.iter().enumerate() {
        let owner = row["owner"].as_str();
        let expected = [Some("lab"), Some("shop, \"new\""), None][index % 3];
        assert_eq!(owner, expected, "answer {index}");
    }
}

#[test]
fn pipelined_questions_keep_their_order_whoever_answers() {
    let running = serve(&project(""), &[]);
    let mut client = running.client();
    let targets = [
        "late?rack=8",
        "host?name=web-1",
        "late?rack=7",
        "net?ip=10.0.0.1",
        "host?name=x",
    ];
    for _ in 0..20 {
        for target in targets {
            client.send("GET", &format!("/v1/lookup/{target}"), &[], b"");
        }
        for (status, text) in [
            (200, "db 1"),
            (200, "web-1"),
            (200, "web-1"),
            (200, "lab"),
            (404, "no row"),
        ] {
            let answer = client.receive("GET").is(status);
            assert!(answer.text().contains(text), "{}", answer.text());
        }
    }
}

#[test]
fn a_validator_holds_as_long_as_the_tables() {
    let project = project("");
    let running = serve(&project, &[]);
    let mut client = running.client();
    // A native plan, SQLite, and cached bodies.
    for target in ["net?ip=10.0.0.1", "rack?rack=8"] {
        let target = format!("/v1/lookup/{target}");
        let answer = client.get(&target).is(200);
        let tag = answer.header("ETag").unwrap().to_owned();
        let weak = format!("W/{tag}");
        let list = format!("\"x\", {weak}");
        let any = "*".to_owned();
        for (known, told) in [(&tag, &tag), (&list, &weak), (&any, &tag)] {
            let again = client
                .get_with(&target, &[("If-None-Match", known)])
                .is(304);
            assert_eq!(again.header("ETag"), Some(told.as_str()));
            for same in ["Cache-Control", "Vary"] {
                assert!(answer.header(same).is_some(), "{same}");
                assert_eq!(again.header(same), answer.header(same), "{same}");
            }
        }
        let csv = [("If-None-Match", tag.as_str()), ("Accept", "text/csv")];
        client.get_with(&target, &csv).is(200);
        client.post("/v1/reload", "").is(200);
        let again = client.get_with(&target, &[("If-None-Match", &tag)]).is(200);
        assert_ne!(again.header("ETag"), Some(tag.as_str()));
    }
    let any = [("If-None-Match", "*")];
    client.get_with("/v1/lookup/host?name=none", &any).is(404);
    // An answer that does not depend on tables only has a limited lifetime.
    let first = client.get("/v1/lookup/dice").is(200);
    let tag = first.header("ETag").unwrap().to_owned();
    let again = client
        .get_with("/v1/lookup/dice", &[("If-None-Match", &tag)])
        .is(304);
    assert!(again.header("Cache-Control").unwrap().contains("max-age"));
    assert_eq!(again.header("Vary"), first.header("Vary"));
    client.get_with("/v1/lookup/dice", &any).is(304);
}

#[test]
fn the_end_answers_what_is_here() {
    let project = project("");
    let (path, listen) = socket(&project);
    let running = Running::start(&project, &["--listen", &listen]);
    assert!(
        running
            .greeting
            .contains(&format!("try:  curl --unix-socket {}", path.display()))
    );
    let mut client = Client::unix(&path);
    client.get("/readyz").is(200);
    // In one piece, so that all of them have arrived when the first is answered.
    let targets = ["late?rack=8", "late?rack=7", "host?name=web-1"];
    let requests = targets
        .map(|target| format!("GET /v1/lookup/{target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.split().1.raw(requests.concat().as_bytes());
    client.receive("GET").is(200);
    running.signal("TERM");
    client.receive("GET").is(200);
    client.receive("GET").is(200);
    let mut running = running;
    assert!(running.wait().0.success());
    assert!(!path.exists(), "the socket's file is gone");
}

#[test]
fn answers_that_are_too_large_are_refused_before_they_fill_the_memory() {
    let project = project(
        "[cache]\ncapacity_bytes = 1000000\n\
         [lookups.large]\nsql = 'select hex(zeroblob(20000)) as text from hosts where rack + 0 = :rack'\n\
         params.rack = 'int'\n[server]\nbody_size_max = 1000000\n",
    );
    let running = serve(&project, &[]);
    let mut client = running.client();
    client.get("/v1/lookup/large?rack=8").is(200);
    let before = running.memory_peak();
    let sets = format!("[{}]", vec!["8"; 60_000].join(","));
    let refused = client.post("/v1/lookup/large", sets).is(413).json();
    let detail = refused["detail"].as_str().unwrap();
    // Of 40 kB each.
    assert!(
        detail.starts_with("the answers to the first 200 parameter sets"),
        "{detail}"
    );
    assert!(detail.contains("more than 8000000 bytes"), "{detail}");
    // Twice the body while it grows, the caches, and overhead of the allocator.
    let grown = running.memory_peak() - before;
    assert!(grown < 64 << 20, "{grown} bytes more than before");
    assert!(running.end().0.success());
}

#[test]
fn a_body_that_is_too_long_is_told_its_size_and_the_limit() {
    let project = project("[server]\nbody_size_max = 1024\n");
    let running = serve(&project, &[]);
    let long = running
        .client()
        .post("/v1/lookup/host", "x".repeat(2000))
        .is(413);
    assert_eq!(
        long.json()["detail"],
        "the body has 2000 bytes; the maximum is 1024 (body_size_max); send less in one request"
    );
    // A body without a content length.
    let mut client = running.client();
    let head =
        "POST /v1/lookup/host HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = format!("7d0\r\n{}\r\n", "x".repeat(2000));
    client.split().1.raw(format!("{head}{body}").as_bytes());
    let long = client.receive("POST").is(413);
    assert_eq!(
        long.json()["detail"],
        "the body has more than 1024 bytes (body_size_max), the maximum; send less in one request"
    );
}

/// Undeclared parameters treat it as FORMATS.md specifies for events.
#[test]
fn issue_12_negative_zero_is_the_same_in_parameters_and_events() {
    let project = project(
        "[server]\nquery_rows_max = 5\n[lookups.same]\nsql = 'select typeof(:x) as type, :x as x'\n",
    );
    project.write("models/same.oml", "name : same\n---\nx = read(x) ;\n");
    let running = serve(&project, &[]);
    let mut client = running.client();
    for (number, kind, shown) in [("-0", "integer", "0"), ("-0.0", "real", "-0.0")] {
        let row = format!("{{\"type\":\"{kind}\",\"x\":{shown}}}");
        for body in [format!("[{number}]"), format!("[{{\"x\":{number}}}]")] {
            let answer = client.post("/v1/lookup/same", &body).is(200);
            assert_eq!(answer.text().trim(), format!("[{row}]"), "{body}");
        }
        let answer = client
            .post("/v1/lookup/same", format!("{{\"x\":{number}}}\n"))
            .is(200);
        assert_eq!(answer.text().trim(), row);
        let query = format!(
            "{{\"sql\":\"select typeof(:x) as type, :x as x\",\"params\":{{\"x\":{number}}}}}"
        );
        let answer = client.post("/v1/query", &query).is(200);
        assert_eq!(answer.text().trim(), format!("[{row}]"));
        let event = format!("{{\"x\":{number}}}\n");
        let answer = client.post("/v1/enrich/same", &event).is(200);
        assert!(
            answer.text().contains(&format!("\"x\":{shown}")),
            "{}",
            answer.text()
        );
    }
}
