//! Events through models, over HTTP.

use super::{Client, Running};
use crate::program::Project;

const EVENT: &str = "{\"host\":\"web-1\",\"status\":200}\n";
const ENRICHED: &str =
    "{\"host\":\"web-1\",\"status\":200,\"class\":\"ok\",\"owner\":\"shop\",\"rack\":7}\n";

fn start() -> (Project, Running) {
    let project = Project::new();
    let running = super::serve(&project, &[]);
    (project, running)
}

fn model(client: &mut Client) -> String {
    let lookups = client.get("/v1/lookups").is(200).json();
    lookups["models"][0].as_str().unwrap().to_owned()
}

#[test]
fn events_are_enriched() {
    let (_project, running) = start();
    let mut client = running.client();
    let target = format!("/v1/enrich/{}", model(&mut client));
    let answer = client.post(&target, EVENT).is(200);
    assert_eq!(answer.text(), ENRICHED);
    assert_eq!(answer.header("Content-Type"), Some("application/x-ndjson"));
    assert_eq!(answer.header("X-Events"), Some("1"));
    // The connection goes on.
    let answer = client
        .post(&target, format!("{EVENT}broken\n{EVENT}"))
        .is(200);
    assert_eq!(answer.text(), format!("{ENRICHED}{ENRICHED}"));
    assert_eq!(answer.header("X-Rejected"), Some("1"));
    client
        .post(&format!("{target}?strict=true"), "broken\n")
        .is(422);
    let csv = [("Content-Type", "text/csv"), ("Accept", "text/csv")];
    let answer = client
        .ask("POST", &target, &csv, b"host,status\nweb-1,200\n")
        .is(200);
    assert!(
        answer
            .text()
            .starts_with("host,status,class,owner,rack\r\n")
            || answer.text().starts_with("host,status,class,owner,rack\n"),
        "{}",
        answer.text()
    );
    client.post("/v1/enrich/nothing", EVENT).is(404);
    client.post(&format!("{target}?format=xml"), EVENT).is(400);
    client.post(&format!("{target}?frmat=json"), EVENT).is(400);
    client.get(&target).is(405);
    assert!(running.end().0.success());
}

#[test]
fn a_long_stream_goes_both_ways_at_once() {
    let (_project, running) = start();
    let mut client = running.client();
    let target = format!("/v1/enrich/{}", model(&mut client));
    let count = 100_000;
    let events = EVENT.repeat(count);
    let mut sender = running.client();
    std::thread::scope(|scope| {
        // What is sent is far more than all pipes between hold, so an answer has to be read meanwhile.
        let mut other = client;
        scope.spawn(move || {
            let answer = other.post("/v1/lookup/nothing", "[]");
            assert_eq!(answer.status, 404);
        });
        let (reader, writer) = sender.split();
        let events = &events;
        let target = &target;
        scope.spawn(move || writer.send("POST", target, &[], events.as_bytes()));
        let answer = reader.receive("POST").is(200);
        assert_eq!(answer.body.len(), ENRICHED.len() * count);
        assert!(
            answer
                .text()
                .lines()
                .all(|line| line == ENRICHED.trim_end())
        );
    });
}

#[test]
fn an_event_that_trickles_in_is_answered_before_the_next_one() {
    let (_project, running) = start();
    let mut client = running.client();
    let target = format!("/v1/enrich/{}", model(&mut client));
    let (receiver, sender) = client.split();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    sender.raw(head.as_bytes());
    let chunk = format!("{:x}\r\n{EVENT}\r\n", EVENT.len());
    for round in 0..3 {
        sender.raw(chunk.as_bytes());
        if round == 0 {
            assert_eq!(receiver.head("POST").status, 200);
        }
        assert_eq!(receiver.chunk(), ENRICHED.as_bytes());
    }
    // A client that goes away in the middle ends its stream only.
    drop(client);
    let mut client = running.client();
    client.post(&target, EVENT).is(200);
    assert!(running.end().0.success());
}
