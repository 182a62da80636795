//! ClickHouse: a real server, and a scripted one for what only newer servers know.

use std::sync::Mutex;

use lookaside_connect::check_sink;
use lookaside_stream::Partition;
use lookaside_testing::ClickHouseServer;

use super::server::{HttpServer, Reply, Request};
use super::{Writing, numbers, problem};

fn create(server: &ClickHouseServer, table: &str) {
    server.query(&format!(
        "CREATE TABLE {table} (n UInt32, s String, e Enum8('a' = 1)) ENGINE = MergeTree ORDER BY n"
    ));
}

fn url(server: &ClickHouseServer, rest: &str) -> String {
    format!("clickhouse://{}/{rest}", server.address())
}

#[test]
fn rows_are_written_by_a_user_with_a_password() {
    let Some(server) = ClickHouseServer::shared() else {
        return;
    };
    create(server, "rows");
    let address = server.address();
    for options in ["", "&gzip=true"] {
        let url =
            format!("clickhouse://writer:secret@{address}/default.rows?batch_bytes=20000{options}");
        let mut writing = Writing::open(&url);
        writing.write(&numbers(0..3000));
        writing.flush();
        assert_eq!(writing.acknowledged(), 3000);
    }
    let found = server.query("SELECT count(), sum(n), uniq(n) FROM rows");
    assert_eq!(found.trim(), "6000\t8997000\t3000");
}

#[test]
fn a_bad_row_becomes_a_dead_letter_and_the_others_are_written_once() {
    let Some(server) = ClickHouseServer::shared() else {
        return;
    };
    create(server, "bad_rows");
    let mut writing = Writing::open(&url(server, "default.bad_rows"));
    let mut events = numbers(0..500);
    events[7] = "{\"n\":\"x\"}".to_owned();
    events[99] = "{\"n\":1,\"unknown\":2}".to_owned();
    events[400] = "{\"n\":1,".to_owned();
    events[401] = "{\"n\":1,\"e\":\"x\"}".to_owned();
    writing.write(&events);
    writing.flush();
    let refusals = writing.refusals();
    let expected = [
        (7, "Code: 27"),
        (99, "Code: 117"),
        (400, "Code: "),
        (401, "Unknown element"),
    ];
    assert_eq!(refusals.len(), expected.len(), "{refusals:?}");
    for ((event, reason), (n, text)) in refusals.iter().zip(expected) {
        assert_eq!(*event, events[n]);
        assert!(reason.contains(text), "{reason}");
    }
    assert_eq!(writing.acknowledged(), 500);
    let found = server.query("SELECT count(), uniq(n) FROM bad_rows");
    assert_eq!(found.trim(), "496\t496");
    // A setting that lets one of them in.
    let rest = "default.bad_rows?setting.input_format_skip_unknown_fields=1";
    let mut writing = Writing::open(&url(server, rest));
    writing.write(&events[99..100]);
    writing.flush();
    assert_eq!(writing.acknowledged(), 1);
}

#[test]
fn a_server_that_is_killed_costs_no_row() {
    let Some(mut server) = ClickHouseServer::start() else {
        return;
    };
    create(&server, "killed");
    let mut writing = Writing::open(&url(&server, "default.killed?batch_bytes=5000&batch_ms=1"));
    for round in 0..3 {
        writing.write(&numbers(round * 1000..(round + 1) * 1000));
        server.kill();
        server.restart();
    }
    writing.flush();
    assert_eq!(writing.acknowledged(), 3000);
    let found = server.query("SELECT uniq(n) FROM killed");
    assert_eq!(found.trim(), "3000");
}

#[test]
fn what_is_missing_is_said() {
    let Some(server) = ClickHouseServer::shared() else {
        return;
    };
    create(server, "found");
    let found = check_sink(&url(server, "default.found").parse().unwrap()).unwrap();
    assert!(
        found.contains("table default.found of ClickHouse "),
        "{found}"
    );
    let address = server.address();
    for (url, expected) in [
        (
            url(server, "default.none"),
            "the table default.none does not exist; create the table",
        ),
        (url(server, "none.found"), "none"),
        (url(server, "found"), "names no table with its database"),
        (
            url(server, "default.found?setting.none=1"),
            "remove the `setting.NAME`",
        ),
        (
            format!("clickhouse://writer:secret-x@{address}/default.found"),
            "correct the user and the password",
        ),
    ] {
        let error = problem(&url);
        assert!(error.contains(expected), "{url}: {error}");
    }
    let mut writing = Writing::open(&url(server, "default.found"));
    server.query("DROP TABLE found");
    writing.write(&numbers(0..10));
    let failure = writing.failure();
    assert!(failure.contains("create the table"), "{failure}");
}

/// The token of an insert, which has the documented form.
fn token(request: &Request) -> String {
    let insert = "/?query=INSERT%20INTO%20%60d%60.%60t%60%20FORMAT%20JSONEachRow&";
    let rest = request.path.strip_prefix(insert).expect("an insert");
    let token = rest.strip_prefix("insert_deduplication_token=");
    token.expect("a token").to_owned()
}

/// A server that knows tokens, and gives these statuses to the first inserts, then 200.
fn with_tokens(statuses: &'static [u16]) -> HttpServer {
    let count = Mutex::new(0);
    HttpServer::start(move |request| {
        if request.path.contains("SELECT") || request.path.contains("EXISTS") {
            return Reply::new(200, "1\n");
        }
        let mut count = count.lock().unwrap();
        *count += 1;
        Reply::new(statuses.get(*count - 1).copied().unwrap_or(200), "")
    })
}

fn inserts(server: &HttpServer) -> Vec<Request> {
    let posts = server.posts().into_iter();
    posts.filter(|post| post.path.contains("INSERT")).collect()
}

#[test]
fn a_batch_that_is_sent_again_has_the_same_token() {
    let server = with_tokens(&[503, 400]);
    let mut tokens = Vec::new();
    for partition in [
        Partition::with_stable_positions("clicks", 0),
        Partition::with_stable_positions("clicks", 0),
        Partition::new("clicks", 0),
    ] {
        let url = format!("clickhouse://{}/d.t", server.address());
        let mut writing = Writing::of(&url, partition);
        for _ in 0..2 {
            // Equal events of other positions are another batch.
            writing.write(&numbers(0..10));
            writing.flush();
        }
        let all = inserts(&server);
        tokens.push(all.iter().map(token).collect::<Vec<_>>());
    }
    // The whole batch twice, its halves, the next batch; then the run that reads the same again.
    let [_, second, third] = &tokens[..] else {
        panic!("three runs");
    };
    assert_eq!(second.len(), 7);
    assert_eq!(second[0], second[1]);
    assert_eq!(second[5], second[0], "the same messages in another run");
    assert_eq!(second[6], second[4]);
    let distinct: std::collections::HashSet<_> = third.iter().collect();
    // The batch, two halves, the next batch, and two of the run without stable positions.
    assert_eq!(distinct.len(), 6);
    let lines: Vec<_> = inserts(&server)
        .iter()
        .map(|post| post.lines().len())
        .collect();
    assert_eq!(lines, [10, 10, 5, 5, 10, 10, 10, 10, 10]);
}
