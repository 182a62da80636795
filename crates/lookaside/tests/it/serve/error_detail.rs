//! What responses tell about failures: without `error_detail`, no SQL, no URL and no path.

use super::{Client, Running, serve};
use crate::program::Project;

/// Tables, an endless view that makes local queries fail, and an unavailable provider.
fn project(server: &str) -> Project {
    let config = "version = 2\n[local]\nquery_timeout_ms = 50\n[[tables]]\nname = 'hosts'\n\
         [[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 60000\n\
         connection_uri = 'postgres://u:hunter2@127.0.0.1:1/d'\n\
         [lookups.away]\nsql = 'select a from pg.t where a = :a'\n\
         [lookups.anyone]\nsql = 'select rack from anyone where name = :name'\n";
    Project::with_endless_view(&format!("{config}[server]\nquery_rows_max = 5\n{server}\n"))
}

/// Every route whose response may contain a failure.
const REQUESTS: [(&str, &str, &str, u16); 13] = [
    ("GET", "/v1/lookup/away?a=1", "", 503),
    ("POST", "/v1/lookup/away", "[1]", 503),
    ("GET", "/v1/lookup/anyone?name=x", "", 503),
    ("POST", "/v1/lookup/anyone", "[\"x\"]", 200),
    (
        "POST",
        "/v1/query",
        "{\"sql\":\"select a from pg.t where a = 1\"}",
        503,
    ),
    (
        "POST",
        "/v1/query",
        "{\"sql\":\"select rack from anyone where name = 'x'\"}",
        503,
    ),
    (
        "POST",
        "/v1/query",
        "{\"sql\":\"select nowhere from hosts\"}",
        422,
    ),
    ("POST", "/v1/enrich/events", "{\"host\":\"x\"}\n", 200),
    (
        "POST",
        "/v1/enrich/events?summary=true",
        "{\"host\":\"x\"}\n",
        200,
    ),
    (
        "POST",
        "/v1/enrich/events?strict=true",
        "{\"host\":\"x\"}\n",
        422,
    ),
    ("GET", "/v1/status", "", 200),
    ("GET", "/v1/lookups", "", 200),
    ("GET", "/readyz", "", 200),
];

#[test]
fn without_error_detail_no_answer_holds_sql_or_names_of_hosts() {
    let project = project("");
    let running = serve(&project, &[]);
    let mut client = running.client();
    let folder = project.path().display().to_string();
    let hides = |answer: &str| {
        for internal in [
            "select ",
            "postgres://",
            "127.0.0.1:1",
            "hunter2",
            ".oml",
            "knowdb",
            &folder,
        ] {
            assert!(!answer.contains(internal), "{internal:?} in {answer}");
        }
    };
    for (method, target, body, status) in REQUESTS {
        let answer = client.ask(method, target, &[], body.as_bytes()).is(status);
        hides(&format!("{answer:?}"));
        hides(answer.text());
    }
    project.write("knowdb.toml", "version = 2\nwrong = 1\n");
    let refused = client.post("/v1/reload", "").is(409);
    hides(refused.text());
    assert!(refused.text().contains("the server's log has the details"));
    let (_, log) = running.end();
    for told in ["a query failed", "no such column: nowhere", "knowdb.toml:2"] {
        assert!(log.contains(told), "{told} in\n{log}");
    }
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn with_error_detail_answers_hold_the_cause() {
    let project = project("error_detail = true");
    let running = serve(&project, &[]);
    let mut client = running.client();
    let mut ask = |target: &str, body: &str| client.post(target, body).text().to_owned();
    let missing = ask("/v1/query", "{\"sql\":\"select nowhere from hosts\"}");
    assert!(missing.contains("no such column: nowhere"), "{missing}");
    let away = ask("/v1/query", "{\"sql\":\"select a from pg.t where a = 1\"}");
    assert!(away.contains("127.0.0.1:1"), "{away}");
    let strict = ask("/v1/enrich/events?strict=true", "{\"host\":\"x\"}\n");
    assert!(strict.contains("events.oml:5:"), "{strict}");
    let status = client.get("/v1/status").is(200).json();
    assert!(status["providers"][0]["place"].is_string(), "{status}");
}

#[test]
fn a_lookup_that_fails_within_a_stream_has_a_visible_cause() {
    let project = project("");
    let running = serve(&project, &[]);
    let mut client = running.client();
    let events = "{\"host\":\"web-1\"}\n{\"host\":\"x\"}\n{\"host\":\"y\"}\n";
    let cause = "line 2: the query took longer than [local] query_timeout_ms, which is 50";
    let answer = client.post("/v1/enrich/events", events).is(200);
    assert_eq!(answer.header("X-Failed"), Some("2"));
    assert_eq!(answer.header("X-Failure-Reason"), Some(cause));
    let answer = client
        .post("/v1/enrich/events?summary=true", events)
        .is(200);
    let last = answer.text().lines().last().unwrap();
    assert_eq!(
        last,
        format!(
            "{{\"$summary\":{{\"dropped\":0,\"events\":3,\"failed\":2,\"failure_reason\":\"{cause}\",\"rejected\":0}}}}"
        )
    );
    // The same in the trailer of a chunked response.
    let mut chunked = super::streams::begin(&running, "/v1/enrich/events");
    let (receiver, sender) = chunked.split();
    sender.raw(format!("{:x}\r\n{events}\r\n0\r\n\r\n", events.len()).as_bytes());
    let answer = receiver.receive("POST").is(200);
    assert_eq!(answer.trailer("X-Failed"), Some("2"));
    assert_eq!(answer.trailer("X-Failure-Reason"), Some(cause));
    // A successful response has no reason.
    let answer = client
        .post("/v1/enrich/events", "{\"host\":\"web-1\"}\n")
        .is(200);
    assert_eq!(answer.header("X-Failure-Reason"), None);
    let strict = client
        .post("/v1/enrich/events?strict=true", events)
        .is(422)
        .json();
    assert_eq!(strict["title"], "a lookup failed");
    let detail = strict["detail"].as_str().unwrap();
    assert!(detail.starts_with(&format!("{cause}; ")), "{detail}");
    // A line that is not an event, before one whose lookup fails.
    let strict = client
        .post(
            "/v1/enrich/events?strict=true",
            "broken\n{\"host\":\"x\"}\n",
        )
        .is(422)
        .json();
    assert_eq!(strict["title"], "the events could not be read to their end");
    let counted = |client: &mut Client, outcome: &str| {
        let metrics = client.get("/metrics").is(200);
        let mark =
            format!("lookaside_http_lookups_total{{model=\"events\",outcome=\"{outcome}\"}} ");
        let count = metrics.text().split_once(&mark).unwrap().1;
        count.lines().next().unwrap().parse::<u64>().unwrap()
    };
    assert!(counted(&mut client, "failed") >= 8);
    assert!(counted(&mut client, "found") >= 4);
    let (_, log) = running.end();
    // One line per request.
    let told = log.matches("a lookup failed model=\"events\"").count();
    assert_eq!(told, 5, "{log}");
    assert!(log.contains("query_timeout_ms of [local]"), "{log}");
}

#[test]
fn a_batch_says_of_a_local_query_which_limit_it_reached() {
    let project = project("");
    let running: Running = serve(&project, &[]);
    let mut client = running.client();
    let batch = client.post("/v1/lookup/anyone", "[\"x\"]").is(200).json();
    let detail = "the query took longer than [local] query_timeout_ms, which is 50";
    assert_eq!(batch[0]["$error"]["detail"], detail);
    let one = client.get("/v1/lookup/anyone?name=x").is(503).json();
    assert!(one["detail"].as_str().unwrap().starts_with(detail), "{one}");
    let missing = client
        .post(
            "/v1/query",
            "{\"sql\":\"select rack from hosts where name = :name\"}",
        )
        .is(400)
        .json();
    assert_eq!(missing["parameters"][0]["name"], "name");
    assert!(missing["detail"].as_str().unwrap().contains("\"params\""));
}
