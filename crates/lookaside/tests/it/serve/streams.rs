//! Events through models, over HTTP.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use super::{Client, PATIENCE, Running};
use crate::program::Project;

const EVENT: &str = "{\"host\":\"web-1\",\"status\":200}\n";
const ENRICHED: &str =
    "{\"host\":\"web-1\",\"status\":200,\"class\":\"ok\",\"owner\":\"shop\",\"rack\":7}\n";

fn start() -> (Project, Running) {
    let project = Project::new();
    let running = super::serve(&project, &[]);
    (project, running)
}

/// A model of a project created by `lookaside new`.
pub(super) fn model(client: &mut Client) -> String {
    let lookups = client.get("/v1/lookups").is(200).json();
    lookups["models"][0].as_str().unwrap().to_owned()
}

#[test]
fn fields_have_the_types_of_the_project() {
    let project = Project::with(&[
        (
            "knowdb.toml",
            "version = 2\n[enrich]\ntimezone = 'Asia/Tokyo'\n[enrich.types]\nts = 'time'\n",
        ),
        (
            "models/e.oml",
            "name : e\n---\nepoch = read(ts) | Time::to_ts ;\n",
        ),
    ]);
    let running = super::serve(&project, &[]);
    let events = "{\"ts\":\"2026-01-01 09:00:00\"}\n{\"ts\":\"May\"}\n";
    let answer = running.client().post("/v1/enrich/e", events).is(200);
    assert_eq!(answer.text(), "{\"epoch\":1767225600}\n");
    assert_eq!(answer.header("X-Rejected"), Some("1"));
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
    assert_eq!(refused["detail"], "allowed methods: POST, OPTIONS");
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
    assert_eq!(
        unknown.json()["detail"],
        "unknown parameter \"frmat\"; did you mean \"format\"?"
    );

    for (query, expected) in [
        (
            "sumary=true",
            "unknown parameter \"sumary\"; did you mean \"summary\"?",
        ),
        (
            "zzz=1",
            "unknown parameter \"zzz\"; there are format, output_format, strict, summary, columns, extra",
        ),
        ("strict=yes", "strict is \"yes\"; it must be true or false"),
    ] {
        let refused = client.post(&format!("{target}?{query}"), EVENT).is(400);
        assert_eq!(refused.json()["detail"], expected);
    }

    // The file's settings apply where the request sets nothing.
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
        // The input is far larger than all pipes in between, so the answer has to be read
        // meanwhile.
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
    // A client that disconnects in the middle ends only its own stream.
    drop(client);
    let mut client = running.client();
    client.post(&target, EVENT).is(200);
    assert!(running.end().0.success());
}

/// A server with a `[server]` section, and the target of its model.
fn configured(section: &str) -> (Project, Running, String) {
    let project = Project::new();
    let config = project.read("knowdb.toml");
    project.write("knowdb.toml", &format!("{config}\n[server]\n{section}\n"));
    let running = super::serve(&project, &[]);
    let target = format!("/v1/enrich/{}", model(&mut running.client()));
    (project, running, target)
}

/// Begins a chunked stream.
pub(super) fn begin(running: &Running, target: &str) -> Client {
    let mut client = running.client();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.split().1.raw(head.as_bytes());
    client
}

/// An event of such a stream.
pub(super) fn chunk() -> String {
    format!("{:x}\r\n{EVENT}\r\n", EVENT.len())
}

/// The limits of ordinary bodies, however short, do not apply to a stream.
#[test]
fn issue_12_a_stream_that_sends_a_line_now_and_then_lasts() {
    let (_project, running, target) =
        configured("body_timeout_ms = 100\nbody_rate_min = 1073741824\nheader_timeout_ms = 60000");
    let mut client = begin(&running, &target);
    let (receiver, sender) = client.split();
    let begun = Instant::now();
    let mut is_first = true;
    // Several times as long as a body may take.
    while begun.elapsed() < Duration::from_millis(600) {
        sender.raw(chunk().as_bytes());
        if mem::take(&mut is_first) {
            assert_eq!(receiver.head("POST").status, 200);
        }
        assert_eq!(receiver.chunk(), ENRICHED.as_bytes());
        // sleep: the pace of a slow stream
        thread::sleep(Duration::from_millis(20));
    }
    sender.raw(b"0\r\n\r\n");
    assert_eq!(receiver.chunk(), b"");
    // Other bodies still have their limits.
    let mut slow = running.client();
    let head = b"POST /v1/lookup/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n[";
    slow.split().1.raw(head);
    slow.receive("POST").is(408);
}

#[test]
fn a_stream_that_pauses_for_too_long_is_ended() {
    let (_project, running, target) = configured("stream_idle_timeout_ms = 50");
    let limit = "stream_idle_timeout_ms of [server] (50)";
    let mut client = begin(&running, &target);
    let refused = client.receive("POST").is(408);
    assert!(refused.text().contains(limit), "{}", refused.text());
    // A stream with a content length.
    let mut client = running.client();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{EVENT}");
    client.split().1.raw(head.as_bytes());
    let refused = client.receive("POST").is(408);
    assert_eq!(refused.header("Connection"), Some("close"));
    assert!(refused.text().contains(limit), "{}", refused.text());
    // A stream whose answer has begun: the limit is reported in its last line.
    let mut client = running.client();
    let (receiver, sender) = client.split();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    sender.raw(format!("{head}{}", chunk()).as_bytes());
    assert_eq!(receiver.head("POST").status, 200);
    // Both lines come in one chunk if the limit passes before the first is sent.
    let mut lines = receiver.chunk();
    if lines == ENRICHED.as_bytes() {
        lines.extend(receiver.chunk());
    }
    let last = lines.strip_prefix(ENRICHED.as_bytes()).unwrap();
    let last: serde_json::Value = serde_json::from_slice(last).unwrap();
    assert_eq!(last["$error"]["status"], 408);
    let detail = last["$error"]["detail"].as_str().unwrap();
    assert!(detail.contains(limit), "{detail}");
    let (_, log) = running.end();
    let told = log.matches("an event stream was interrupted").count();
    assert!(told == 3 && log.contains(limit), "{log}");
}

/// One limit for the whole server, whichever threads the connections belong to.
#[test]
fn issue_12_the_limit_of_streams_is_that_of_the_server() {
    let (_project, running, target) = configured("stream_count_max = 3");
    let mut streams: Vec<Client> = Vec::new();
    let begun = |client: &mut Client| {
        let (receiver, sender) = client.split();
        sender.raw(chunk().as_bytes());
        let status = receiver.head("POST").status;
        if status == 200 {
            assert_eq!(receiver.chunk(), ENRICHED.as_bytes());
        }
        status
    };
    // Connections enough that both threads have some.
    for index in 0..12 {
        let mut client = begin(&running, &target);
        let status = begun(&mut client);
        assert_eq!(status, if index < 3 { 200 } else { 503 }, "{index}");
        if status == 200 {
            streams.push(client);
        }
    }
    let refused = running.client().post(&target, EVENT).is(503).json();
    assert_eq!(refused["title"], "too many concurrent streams");
    assert_eq!(refused["detail"], "stream_count_max of [server] is 3");
    // When a stream ends, its slot is free.
    let mut first = streams.remove(0);
    let (receiver, sender) = first.split();
    sender.raw(b"0\r\n\r\n");
    assert_eq!(receiver.chunk(), b"");
    let freed = Instant::now();
    while begun(&mut begin(&running, &target)) != 200 {
        assert!(freed.elapsed() < PATIENCE, "no place becomes free");
    }
}

#[test]
fn a_long_answer_says_behind_its_events_how_many_they_are() {
    let (_project, running) = start();
    let mut client = running.client();
    let target = format!("/v1/enrich/{}", model(&mut client));
    let count = 5000;
    let events = format!("{}broken\n", EVENT.repeat(count));
    let ask = |client: &mut Client, query: &str, headers: &[(&str, &str)]| {
        let target = format!("{target}{query}");
        client
            .ask("POST", &target, headers, events.as_bytes())
            .is(200)
    };
    let summary = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
    let answer = ask(&mut client, "", &[]);
    assert_eq!(answer.text().lines().count(), count);
    let announced = answer.header("Trailer").unwrap();
    assert!(announced.contains("X-Events") && announced.contains("X-Rejected"));
    let events_count = count.to_string();
    for (name, expected) in [
        ("X-Events", events_count.as_str()),
        ("X-Rejected", "1"),
        ("X-Failed", "0"),
    ] {
        assert_eq!(answer.trailer(name), Some(expected), "{name}");
    }
    let reason = answer.trailer("X-Reject-Reason").unwrap();
    assert!(reason.starts_with("line 5001: "), "{reason}");
    // The same as a summary line, if requested; also in a compressed answer.
    let last = serde_json::json!({"events": count, "dropped": 0, "rejected": 1, "failed": 0, "reject_reason": reason});
    let answer = ask(&mut client, "?summary=true", &[]);
    assert_eq!(answer.text().lines().count(), count + 1);
    let line = answer.text().lines().last().unwrap();
    assert_eq!(summary(line), serde_json::json!({"$summary": last}));
    let answer = ask(&mut client, "?summary=true", &[("Accept-Encoding", "gzip")]);
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&answer.body[..]);
    std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
    assert_eq!(text.lines().last(), Some(line));
    assert_eq!(answer.trailer("X-Events"), Some(events_count.as_str()));
    // A short answer has the line, too, and its counts in the head as always.
    let answer = client
        .post(&format!("{target}?summary=true"), EVENT)
        .is(200);
    let (event, line) = answer.text().split_at(ENRICHED.len());
    assert_eq!(event, ENRICHED);
    let expected = serde_json::json!({"events": 1, "dropped": 0, "rejected": 0, "failed": 0});
    assert_eq!(summary(line), serde_json::json!({"$summary": expected}));
    assert_eq!(answer.header("X-Events"), Some("1"));
    // One that answers event by event has both at its end.
    let (receiver, sender) = client.split();
    let head = format!(
        "POST {target}?summary=true HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let chunk = format!("{:x}\r\n{EVENT}\r\n0\r\n\r\n", EVENT.len());
    sender.raw(format!("{head}{chunk}").as_bytes());
    let answer = receiver.receive("POST").is(200);
    assert_eq!(answer.trailer("X-Events"), Some("1"));
    assert_eq!(answer.text(), format!("{ENRICHED}{line}"));
    // A CSV has no room for such a line.
    let csv = [("Accept", "text/csv")];
    let refused = client.ask(
        "POST",
        &format!("{target}?summary=true"),
        &csv,
        EVENT.as_bytes(),
    );
    assert!(refused.is(400).text().contains("JSON lines"));
    let answer = ask(&mut client, "", &csv);
    assert_eq!(answer.trailer("X-Events"), Some(events_count.as_str()));
}

#[test]
fn a_model_is_reached_by_a_name_with_a_slash() {
    let project = Project::new();
    let file = project.file("models/events.oml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (name, _) = text.split_once('\n').unwrap();
    std::fs::write(&file, text.replacen(name, "name : web/access", 1)).unwrap();
    let running = super::serve(&project, &[]);
    let mut client = running.client();
    assert_eq!(model(&mut client), "web/access");
    for path in ["web/access", "web%2Faccess", "web%2faccess", "%77eb/access"] {
        let answer = client.post(&format!("/v1/enrich/{path}"), EVENT).is(200);
        assert_eq!(answer.text(), ENRICHED, "{path}");
    }
    for path in ["web%2", "web%252Faccess", "web//access", "web", "web%FF"] {
        let refused = client.post(&format!("/v1/enrich/{path}"), EVENT).is(404);
        assert!(refused.text().contains("no model has this name"), "{path}");
    }
    let document = client.get("/openapi.json").is(200).json();
    assert!(document["paths"]["/v1/enrich/web/access"]["post"].is_object());
}
