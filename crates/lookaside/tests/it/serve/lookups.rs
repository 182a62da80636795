//! Questions and answers: one, many, conditional, while the tables change.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_embedded::Postgres;

use super::running::{configure, socket};
use super::{Answer, Client, Running, project, serve};
use crate::program::{Project, run};
use crate::providers::has_postgres;

const PATIENCE: Duration = Duration::from_secs(60);

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
        // The port may be somebody's on this machine; then the message says what to do.
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
    assert_eq!(detail, "ask with one of GET, HEAD, POST, OPTIONS");
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
    // An answer that is too long is no answer.
    client.get("/v1/lookup/rack?rack=8").is(200);
    let long = client.get("/v1/lookup/rack?rack=7").is(422);
    assert!(long.text().contains("rows_max is 3"), "{}", long.text());
    let long = client.post("/v1/lookup/rack", "[8, 7, 8]").is(422).json();
    assert_eq!(long["set"], 1, "{long}");
    // What a form sends is shown what is read here.
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
    // Those that wait elsewhere, and all rows of each.
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
    // A native plan, SQLite, and bodies that were kept.
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
    // What no table says holds for a moment.
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
fn a_reload_fails_no_request_and_changes_all_at_once() {
    let project = project("");
    let running = serve(&project, &[]);
    let (is_over, answered) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
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
                        // Its plan is there from the first moment of the new tables on.
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
            while answered.load(Ordering::Relaxed) == before && begun.elapsed() < PATIENCE {
                thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(answered.load(Ordering::Relaxed) > 40);
    let (status, log) = running.end();
    assert!(status.success(), "{log}");
}

#[test]
fn a_reload_that_fails_leaves_everything_as_it_was() {
    let project = project("");
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
    // A lookup may go together with its table.
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
    let begun = Instant::now();
    while client.get("/v1/lookup/host?name=web-9").status != 200 {
        assert!(begun.elapsed() < PATIENCE, "the change was never seen");
        thread::sleep(Duration::from_millis(20));
    }
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
    // In one piece, so that all of them are there when the first is answered.
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

/// Who had an answer.
fn from(answer: &Answer) -> &str {
    answer.header("X-Cache").unwrap_or_default()
}

/// Asks until an answer is as it is wanted: how long answers hold is a matter of the clock.
fn until(
    client: &mut Client,
    target: &str,
    known: Option<&str>,
    is_wanted: impl Fn(&Answer) -> bool,
) -> Answer {
    let begun = Instant::now();
    loop {
        let headers: Vec<_> = known
            .map(|tag| ("If-None-Match", tag))
            .into_iter()
            .collect();
        let answer = client.get_with(target, &headers);
        if is_wanted(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "the last one: {answer:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_provider_answers_and_its_old_answer_stands_in() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .fresh_cluster()
        .sql("create table host (name text primary key, rack int); insert into host values ('a', 1), ('b', 2)")
        .start()
        .unwrap();
    let project = Project::with(&[(
        "knowdb.toml",
        "version = 2\n[cache]\nttl_ms = 60000\n[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\n\
         connection_uri = '${DATABASE_URL}'\nstale_if_error_ms = 60000\nquery_timeout_ms = 20000\n\
         [lookups.host]\nsql = 'select name, rack from pg.host where name = :name'\nprovider = 'pg'\n\
         params.name = 'text'\nttl_ms = 300\n\
         [lookups.rack]\nsql = 'select name from pg.host where rack = :rack'\nmany = true\n",
    )]);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let running = Running::of(command);
    let mut client = running.client();
    let target = "/v1/lookup/host?name=a";
    let asked = client.get(target).is(200);
    assert_eq!(asked.text(), r#"{"name":"a","rack":1}"#);
    assert!(from(&asked).starts_with("provider; age=0.0"), "{asked:?}");
    let kept = until(&mut client, target, None, |answer| {
        from(answer).starts_with("body; age=")
    });
    assert_eq!(kept.header("Age"), Some("0"));
    let tag = kept.header("ETag").unwrap().to_owned();
    client.get_with(target, &[("If-None-Match", &tag)]).is(304);
    client.get("/v1/lookup/host?name=x").is(404);
    let answer = client
        .post("/v1/lookup/host", r#"["b", "x", "a", "b"]"#)
        .is(200);
    assert_eq!(
        answer.text(),
        r#"[{"name":"b","rack":2},null,{"name":"a","rack":1},{"name":"b","rack":2}]"#
    );
    let answer = client.post("/v1/lookup/rack", "[2, 9]").is(200);
    assert_eq!(answer.text(), r#"[[{"name":"b"}],[]]"#);

    // Another row, seen when the answer has grown too old; the same body is the same validator.
    postgres
        .execute("update host set rack = 5 where name = 'b'")
        .unwrap();
    let fresh = until(&mut client, target, Some(&tag), |answer| {
        from(answer).starts_with("provider")
    });
    assert_eq!(fresh.status, 304);
    until(&mut client, "/v1/lookup/host?name=b", None, |answer| {
        answer.text() == r#"{"name":"b","rack":5}"#
    });

    drop(postgres);
    let gone = Instant::now();
    let old = until(&mut client, target, Some(&tag), |answer| {
        from(answer).starts_with("stale; age=")
    });
    assert_eq!((old.status, old.header("ETag")), (200, None));
    // Nobody who has an old answer waits for a connection as long as the others.
    assert!(
        gone.elapsed() < Duration::from_secs(6),
        "{:?}",
        gone.elapsed()
    );
    let batch = client.post("/v1/lookup/host", r#"["a", "b"]"#).is(200);
    assert!(from(&batch).starts_with("stale; age="), "{batch:?}");
    assert!(batch.header("Age").is_some(), "{batch:?}");
    let unknown = client.get("/v1/lookup/host?name=never").is(503);
    assert_eq!(unknown.header("Retry-After"), Some("1"));
    assert!(!unknown.text().contains("select"), "{}", unknown.text());
    client.get("/readyz").is(200);
    let metrics = client.get("/metrics").is(200);
    let metrics = metrics.text();
    for gauge in [
        "connections{provider=\"pg\",state=\"idle\"} 0",
        "opened_total{provider=\"pg\"} ",
    ] {
        let gauge = format!("\nlookaside_pool_{gauge}");
        assert!(metrics.contains(&gauge), "{gauge} in\n{metrics}");
    }
    let (_, log) = running.end();
    assert!(log.contains("its old answers stand in"), "{log}");
}

#[test]
fn a_server_that_was_never_there_stops_nothing_else() {
    let project = project(
        "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 300\n\
         connection_uri = 'postgres://u:hunter2@127.0.0.1:1/d'\n\
         [lookups.away]\nsql = 'select a from pg.t where a = :a'\nparams.a = 'int'\n",
    );
    let running = serve(&project, &[]);
    let mut client = running.client();
    let lookups = client.get("/v1/lookups").is(200).json();
    let lookups = lookups["lookups"].as_array().unwrap();
    let away = lookups.iter().find(|it| it["name"] == "away").unwrap();
    assert_eq!(away["params"][0]["name"], "a");
    assert_eq!(away["params"][0]["type"], "int");
    assert_eq!(
        (&away["url"], &away["ready"]),
        (&"/v1/lookup/away?a={a}".into(), &false.into())
    );
    client.get("/v1/lookup/host?name=web-1").is(200);
    for told in [
        "WARN",
        "provider=\"pg\"",
        "lookups=\"away\"",
        "cannot connect",
    ] {
        assert!(running.greeting.contains(told), "{}", running.greeting);
    }
    let answer = client.get("/v1/lookup/away?a=1").is(503);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("provider pg does not answer; "),
        "{detail}"
    );
    let batch = client.post("/v1/lookup/away", "[1]").is(503);
    assert_eq!(batch.json()["detail"], detail);
    let ready = client.get("/readyz").is(200).json();
    assert_eq!(ready["lookups_not_ready"][0], "away");
    let (status, log) = running.end();
    assert!(status.success());
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn why_a_provider_does_not_answer_is_told_each_time() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .fresh_cluster()
        .sql("create table host (name text primary key); insert into host values ('a')")
        .start()
        .unwrap();
    let project = Project::with(&[(
        "knowdb.toml",
        "version = 2\n[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\n\
         connection_uri = '${DATABASE_URL}'\nquery_timeout_ms = 300\n[server]\nerror_detail = true\n\
         [lookups.host]\nsql = 'select name from pg.host where name = :name'\nparams.name = 'text'\n",
    )]);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let running = Running::of(command);
    let mut client = running.client();
    client.get("/v1/lookup/host?name=a").is(200);
    drop(postgres);
    // The server takes a moment to end, and the first error may be of a connection that ended.
    let begun = Instant::now();
    let mut key = 0;
    while client.get(&format!("/v1/lookup/host?name={key}")).status != 503 {
        assert!(begun.elapsed() < PATIENCE, "the server never ended");
        key += 1;
    }
    thread::sleep(Duration::from_millis(500));
    for more in 1..4 {
        let key = key + more;
        let answer = client.get(&format!("/v1/lookup/host?name={key}")).is(503);
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("provider `pg` "), "{detail}");
        assert!(detail.contains("cannot connect"), "{key}: {detail}");
    }
    let (_, log) = running.end();
    // Each request says it; the log hears it seldom.
    let told_count = log.matches("a lookup failed").count();
    assert!((1..4).contains(&told_count), "{log}");
}

#[test]
fn a_signal_ends_the_wait_for_a_server_that_is_away() {
    let project = project(
        "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 60000\n\
         connection_uri = 'postgres://u:hunter2@127.0.0.1:1/d'\n\
         [lookups.away]\nsql = 'select a from pg.t where a = :a'\n",
    );
    let begun = Instant::now();
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(
        begun.elapsed() < PATIENCE / 2,
        "{:?}\n{log}",
        begun.elapsed()
    );
    assert!(!log.contains("hunter2"), "{log}");
}

/// A port that nobody listens on yet.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Carries bytes between connections to a port and a server, until the test ends.
fn forward(port: u16, target: String) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    thread::spawn(move || {
        for there in listener.incoming() {
            let (mut there, mut back) = {
                let there = there.unwrap();
                (there.try_clone().unwrap(), there)
            };
            let here = std::net::TcpStream::connect(&target).unwrap();
            let (mut here, mut server) = (here.try_clone().unwrap(), here);
            thread::spawn(move || std::io::copy(&mut there, &mut here));
            thread::spawn(move || std::io::copy(&mut server, &mut back));
        }
    });
}

#[test]
fn a_server_that_comes_later_is_asked_then() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .tcp()
        .sql("create table t (a int); insert into t values (7)")
        .start()
        .unwrap();
    let url = postgres.tcp_url().unwrap();
    let (user, rest) = url.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let port = free_port();
    let project = project(&format!(
        "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 300\n\
         connection_uri = '{user}@127.0.0.1:{port}/{database}'\n\
         [lookups.away]\nsql = 'select a from pg.t where a = :a'\nparams.a = 'int'\n"
    ));
    let running = serve(&project, &[]);
    let mut client = running.client();
    client.get("/v1/lookup/away?a=7").is(503);
    forward(port, server.to_owned());
    let begun = Instant::now();
    loop {
        let answer = client.get("/v1/lookup/away?a=7");
        if answer.status == 200 {
            assert_eq!(answer.text(), "{\"a\":7}");
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the server was never asked");
        thread::sleep(Duration::from_millis(50));
    }
    client.get("/v1/lookup/away?a=x").is(400);
    let (status, log) = running.end();
    assert!(status.success());
    assert!(log.contains("a provider answers"), "{log}");
}
