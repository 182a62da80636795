//! A topic of Kafka as the sink of requests.

use lookaside_testing::wait_until;

use super::{NDJSON, Run, numbers, project};
use crate::kafka::broker;

#[test]
fn a_request_is_answered_only_after_the_broker_has_its_results() {
    let Some(mut broker) = broker() else {
        return;
    };
    let project = project("");
    let topic = format!("kafka://{}/hooks", broker.address());
    let output = format!("{topic}?key=n");
    let run = Run::start(&project, "timeout_ms=200", &["--output", &output]);
    let mut client = run.client();
    let send = |client: &mut crate::serve::client::Client, n: u32| {
        let body = format!("{{\"n\":{n}}}\n{{\"n\":{}}}\n", n + 1);
        let answer = client.ask("POST", "/events", &[NDJSON], body.as_bytes());
        answer.status
    };
    let mut request_count = 1;
    // The first may have to wait for the topic.
    wait_until("the broker takes events", || {
        request_count += 1;
        send(&mut client, 0) == 200
    });
    broker.stop();
    assert_eq!(send(&mut client, 2), 503);
    broker.resume();
    wait_until("the broker takes events again", || {
        request_count += 1;
        send(&mut client, 4) == 200
    });
    let log = run.terminate();
    // What was answered with 503 was delivered later.
    let limit = (2 * request_count).to_string();
    let input = format!("{topic}?group=reader");
    let arguments = [
        "enrich",
        ".",
        "--input",
        &input,
        "--output",
        "found.json",
        "--limit",
        &limit,
    ];
    project.run(&arguments).ended(0);
    let mut found = numbers(&project.read("found.json"));
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [0, 1, 2, 3, 4, 5], "{log}");
}
