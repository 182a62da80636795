//! The memory of answers, and fast answers while others take long.

use std::time::Instant;

use lookaside_testing::wait_until;

use super::{Client, PATIENCE, project, serve};

/// The value of a metric.
fn metric(client: &mut Client, name: &str) -> u64 {
    let answer = client.get("/metrics").is(200);
    let line = answer.text().lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then(|| value.parse().unwrap())
    });
    line.unwrap_or_else(|| panic!("there is no {name}"))
}

#[test]
fn issue_12_what_the_server_tells_of_itself_waits_for_no_query() {
    let project = project("[local]\nquery_timeout_ms = 0\n[server]\nquery_rows_max = 5\n");
    let running = serve(&project, &[]);
    let endless =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n";
    let body = format!("{{\"sql\":\"{endless}\"}}");
    // More than there are blocking threads.
    let count = 40;
    let mut busy: Vec<Client> = (0..count).map(|_| running.client()).collect();
    for client in &mut busy {
        client.send("POST", "/v1/query", &[], body.as_bytes());
    }
    let mut client = running.client();
    wait_until("the queries wait", || {
        metric(&mut client, "lookaside_http_waiting") > count
    });
    client.get("/v1/status").is(200);
    client.get("/healthz").is(200);
    client.get("/readyz").is(200);
    client.get("/v1/lookup/host?name=web-1").is(200);
}

#[test]
fn issue_12_answers_that_no_client_takes_are_bounded() {
    const LIMIT: u64 = 256 << 20;
    let project = project(
        "[lookups.text]\nsql = 'select text from texts where id = :id'\n[[tables]]\nname = 'texts'\n",
    );
    // Few and long texts, so that even a busy machine makes an answer before its client counts as
    // too slow.
    let text = "x".repeat(40_000);
    project.write("texts/data.csv", &format!("id,text\n1,{text}\n"));
    let running = serve(&project, &[]);
    // Each answer has 40 MB, which are held until it is read.
    let body = format!("[{}1]", "1,".repeat(999));
    let mut greedy: Vec<Client> = (0..16).map(|_| running.client()).collect();
    for client in &mut greedy {
        for _ in 0..4 {
            client.send("POST", "/v1/lookup/text", &[], body.as_bytes());
        }
    }
    let mut client = running.client();
    let begun = Instant::now();
    let refused = loop {
        // Each of the threads may add to it before it checks the limit, and revert that.
        let held = metric(&mut client, "lookaside_http_held_bytes");
        assert!(held < 3 * LIMIT, "{held} bytes");
        let answer = client.post("/v1/lookup/text", &body);
        if answer.status != 200 {
            break answer.is(503);
        }
        assert!(begun.elapsed() < PATIENCE, "nothing was refused");
    };
    assert_eq!(refused.header("Retry-After"), Some("1"));
    assert!(refused.text().contains("268435456 bytes"), "{refused:?}");
    // Short answers from tables are sent nevertheless.
    client.get("/v1/lookup/net?ip=10.0.0.1").is(200);
    drop(greedy);
    wait_until("the memory is free again", || {
        client.post("/v1/lookup/text", &body).status != 503
    });
    wait_until("nothing is held", || {
        metric(&mut client, "lookaside_http_held_bytes") == 0
    });
}

/// A retry helps if other clients have not received their answers, but not if the answer itself is
/// too large.
#[test]
fn issue_13_an_answer_that_never_has_room_is_not_to_be_tried_again() {
    let project = project("[server]\nquery_rows_max = 5\n");
    let running = serve(&project, &[]);
    let mut client = running.client();
    let body = r#"{"sql":"select zeroblob(300000000)"}"#;
    let refused = client.post("/v1/query", body).is(413);
    assert_eq!(refused.header("Retry-After"), None);
    assert!(refused.text().contains("268435456 bytes"), "{refused:?}");
    let small = client.post("/v1/query", r#"{"sql":"select zeroblob(3)"}"#);
    assert_eq!(small.is(200).text(), "[{\"zeroblob(3)\":\"0x000000\"}]");
}
