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

/// A model of a project as `lookaside new` makes it.
pub(super) fn model(client: &mut Client) -> String {
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
    let reason = answer.header("X-Reject-Reason").unwrap();
    assert!(
        reason.starts_with("line 2: ") && reason.len() > 12,
        "{reason}"
    );
    let answer = client.post(&target, EVENT).is(200);
    assert_eq!(answer.header("X-Reject-Reason"), None);
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
    let refused = client.get(&target).is(405).json();
    assert_eq!(refused["detail"], "ask with one of POST, OPTIONS");
    assert!(running.end().0.success());
}

#[test]
fn the_columns_of_a_csv_are_those_that_the_request_names() {
    let (project, running) = start();
    let mut client = running.client();
    let target = format!("/v1/enrich/{}", model(&mut client));
    let csv = [("Accept", "text/csv")];
    let events = format!("{EVENT}{{\"host\":\"web-1\",\"status\":200,\"more\":1}}\n");
    let ask = |query: &str| {
        running
            .client()
            .ask("POST", &format!("{target}{query}"), &csv, events.as_bytes())
    };
    let answer = ask("?columns=host,more,rack").is(200);
    assert_eq!(answer.header("X-Rejected"), Some("2"));
    let answer = ask("?columns=host,more,rack&extra=ignore").is(200);
    assert_eq!(answer.text(), "host,more,rack\nweb-1,,7\nweb-1,1,7\n");
    let answer = ask("?columns=host,status,class,owner,rack,more&strict=true").is(200);
    assert_eq!(answer.header("X-Rejected"), None);
    let refused = ask("?strict=true").is(422).json();
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.contains("?columns=a,b,c") && !detail.contains("--"),
        "{detail}"
    );
    ask("?columns=host,host").is(400);
    // JSON has no columns.
    let refused = client.post(&format!("{target}?columns=a"), EVENT).is(400);
    assert!(refused.text().contains("columns"), "{}", refused.text());
    let unknown = client.post(&format!("{target}?frmat=json"), EVENT).is(400);
    assert!(unknown.text().contains("columns"), "{}", unknown.text());

    // What the file says counts where the request says nothing.
    let config = std::fs::read_to_string(project.file("knowdb.toml")).unwrap();
    let config = config.split("[enrich]").next().unwrap();
    let options =
        "output_format = 'csv'\noutput_options = { columns = 'host,rack', extra = 'ignore' }";
    project.write("knowdb.toml", &format!("{config}\n[enrich]\n{options}\n"));
    client.post("/v1/reload", "").is(200);
    assert_eq!(ask("").is(200).text(), "host,rack\nweb-1,7\nweb-1,7\n");
    let named = ask("?columns=rack,host").is(200);
    assert_eq!(named.text(), "rack,host\n7,web-1\n7,web-1\n");
    let json = [("Accept", "application/json")];
    let answer = client.ask("POST", &target, &json, EVENT.as_bytes()).is(200);
    assert_eq!(answer.text(), ENRICHED);
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
