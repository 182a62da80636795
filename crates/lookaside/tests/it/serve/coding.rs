//! Answers in the coding that their client likes.

use std::io::Read as _;

use flate2::read::GzDecoder;

use super::running::project;
use super::streams::model;
use super::{Answer, Client, serve};
use crate::program::Project;

const GZIP: (&str, &str) = ("Accept-Encoding", "gzip");

/// A project with a table whose rows together are a long answer.
fn long() -> Project {
    let project = project(
        "[lookups.all]\nsql = 'select name, rack from hosts order by rack'\nmany = true\n\
         [lookups.big]\nsql = 'select text from texts where id = :id'\nparams.id = 'int'\n\
         [lookups.pairs]\nsql = 'select a.name, b.rack from hosts a, hosts b limit 9000'\nmany = true\n\
         [[tables]]\nname = 'texts'\n",
    );
    let text = "as long as it takes, ".repeat(100);
    project.write(
        "texts/data.csv",
        &format!("id,text\n1,\"{text}\"\n2,short\n"),
    );
    write_hosts(&project, 0);
    project
}

fn write_hosts(project: &Project, first: usize) {
    let rows = (first..first + 200).map(|rack| format!("host-{rack},{rack}\n"));
    let rows: String = rows.collect();
    project.write("hosts/data.csv", &format!("name,rack\n{rows}"));
}

fn unpacked(answer: &Answer) -> String {
    assert_eq!(answer.header("Content-Encoding"), Some("gzip"));
    let mut text = String::new();
    let mut decoder = GzDecoder::new(&answer.body[..]);
    decoder
        .read_to_string(&mut text)
        .expect("it is gzip, and whole");
    text
}

fn varies(answer: &Answer) -> bool {
    let vary = answer.header("Vary").unwrap_or_default();
    vary.split(", ").any(|name| name == "Accept-Encoding")
}

#[test]
fn long_answers_of_lookups_are_compressed_for_who_accepts_it() {
    let project = long();
    let running = serve(&project, &[]);
    let mut client = running.client();
    // Bodies that are kept, and one of a native plan that is not.
    for (target, is_kept) in [("/v1/lookup/all", true), ("/v1/lookup/big?id=1", false)] {
        let plain = client.get(target).is(200);
        assert_eq!(plain.header("Content-Encoding"), None);
        assert!(varies(&plain), "{plain:?}");
        let strong = plain.header("ETag").unwrap().to_owned();
        let weak = format!("W/{strong}");
        for round in 0..3 {
            let packed = client.get_with(target, &[GZIP]).is(200);
            assert!(packed.body.len() < plain.body.len() / 2);
            assert_eq!(unpacked(&packed), plain.text());
            // The bytes are others, so the strong validator would be wrong.
            assert_eq!(packed.header("ETag"), Some(weak.as_str()), "{round}");
            assert_eq!(packed.header("Vary"), plain.header("Vary"));
            assert_eq!(packed.header("X-Cache") == Some("body"), is_kept);
            let head = client.ask("HEAD", target, &[GZIP], b"").is(200);
            let size = packed.body.len().to_string();
            assert_eq!(head.header("Content-Length"), Some(size.as_str()));
        }
        for (accepted, coding) in [
            ("br", Some("br")),
            ("gzip, br", Some("gzip")),
            ("gzip;q=0.5, br;q=1.0", Some("br")),
            ("deflate", None),
            ("gzip;q=0", None),
            ("gzip;q=0.1, identity", None),
            ("identity;q=0, *;q=0", None),
        ] {
            let answer = client
                .get_with(target, &[("Accept-Encoding", accepted)])
                .is(200);
            assert_eq!(answer.header("Content-Encoding"), coding, "{accepted}");
            assert!(varies(&answer), "{accepted}");
            let tag = if coding.is_some() { &weak } else { &strong };
            assert_eq!(answer.header("ETag"), Some(tag.as_str()), "{accepted}");
        }
        for (known, tag) in [(&strong, &strong), (&weak, &weak), (&"*".to_owned(), &weak)] {
            let headers = [GZIP, ("If-None-Match", known.as_str())];
            let answer = client.get_with(target, &headers).is(304);
            assert_eq!(answer.header("ETag"), Some(tag.as_str()));
            assert_eq!(answer.header("Content-Encoding"), None);
            assert!(varies(&answer));
        }
    }
    // What is short goes as it is, whoever asks.
    let short = client.get_with("/v1/lookup/big?id=2", &[GZIP]).is(200);
    assert_eq!(short.text(), r#"{"text":"short"}"#);
    assert_eq!(short.header("Content-Encoding"), None);
    assert_eq!(short.header("Vary"), Some("Accept, Accept-Encoding"));
    // New tables have new answers, compressed or not.
    write_hosts(&project, 1000);
    client.post("/v1/reload", "").is(200);
    let plain = client.get("/v1/lookup/all").is(200);
    assert!(plain.text().contains("host-1007"));
    for _ in 0..2 {
        let packed = client.get_with("/v1/lookup/all", &[GZIP]).is(200);
        assert_eq!(unpacked(&packed), plain.text());
    }
}

/// Too much to be compressed on an I/O thread.
#[test]
fn an_answer_that_takes_a_while_to_compress_keeps_its_place_and_its_head() {
    let running = serve(&long(), &[]);
    let mut client = running.client();
    let (long, short) = ("/v1/lookup/pairs", "/v1/lookup/big?id=2");
    let plain = client.get(long).is(200);
    assert!(plain.body.len() > 256 << 10, "{}", plain.body.len());
    let weak = format!("W/{}", plain.header("ETag").unwrap());
    for _ in 0..2 {
        // The one behind it is answered at once, and sent in its turn.
        client.send("GET", long, &[GZIP], b"");
        client.send("GET", short, &[GZIP], b"");
        let packed = client.receive("GET").is(200);
        assert_eq!(unpacked(&packed), plain.text());
        assert_eq!(packed.header("ETag"), Some(weak.as_str()));
        assert_eq!(packed.header("Vary"), plain.header("Vary"));
        assert!(
            packed
                .header("X-Cache")
                .is_some_and(|from| from.starts_with('l'))
        );
        assert_eq!(client.receive("GET").is(200).text(), r#"{"text":"short"}"#);
    }
    let head = client.ask("HEAD", long, &[GZIP], b"").is(200);
    assert_eq!(head.header("Content-Encoding"), Some("gzip"));
    let known = [GZIP, ("If-None-Match", weak.as_str())];
    client.get_with(long, &known).is(304);
    let metrics = client.get("/metrics").is(200);
    assert!(
        metrics.text().contains("\nlookaside_http_waiting 1\n"),
        "only this one waits"
    );
}

#[test]
fn batches_and_documents_are_compressed_too() {
    let running = serve(&long(), &[]);
    let mut client = running.client();
    let post = |client: &mut Client, body: &str, more: &[(&str, &str)]| {
        client
            .ask("POST", "/v1/lookup/host", more, body.as_bytes())
            .is(200)
    };
    // On the I/O thread, and beside it.
    for count in [100, 5000] {
        let names: Vec<String> = (0..count).map(|name| format!("\"host-{name}\"")).collect();
        let body = format!("[{}]", names.join(","));
        let plain = post(&mut client, &body, &[]);
        assert_eq!(plain.header("Content-Encoding"), None);
        assert!(varies(&plain));
        let packed = post(&mut client, &body, &[GZIP]);
        assert_eq!(unpacked(&packed), plain.text());
        assert!(varies(&packed));
        let form = ("Accept", "application/vnd.msgpack");
        let packed = post(&mut client, &body, &[GZIP, form]);
        assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
    }
    for target in [
        "/",
        "/openapi.json",
        "/v1/lookups",
        "/metrics",
        "/v1/status",
    ] {
        let plain = client.get(target).is(200);
        assert_eq!(plain.header("Content-Encoding"), None, "{target}");
        let packed = client.get_with(target, &[GZIP]).is(200);
        if plain.body.len() >= 1024 {
            assert!(varies(&plain) && varies(&packed), "{target}");
            let text = unpacked(&packed);
            assert_eq!(text.get(..6), plain.text().get(..6), "{target}");
        } else {
            assert_eq!(target, "/v1/status");
        }
    }
    let origin = serve(&long_with_cors(), &[]);
    let headers = [GZIP, ("Origin", "https://app.example")];
    let answer = origin.client().get_with("/v1/lookup/all", &headers).is(200);
    assert_eq!(
        answer.header("Vary"),
        Some("Accept, Accept-Encoding, Origin")
    );
}

fn long_with_cors() -> Project {
    let project = long();
    let config = project.read("knowdb.toml");
    let cors = "[server]\ncors = 'https://app.example'\n";
    project.write("knowdb.toml", &format!("{config}{cors}"));
    project
}

#[test]
fn events_are_compressed_where_nobody_waits_for_each() {
    let project = Project::new();
    let running = serve(&project, &[]);
    let mut client = running.client();
    let target = format!("/v1/enrich/{}", model(&mut client));
    let event = "{\"host\":\"web-1\",\"status\":200}\n";
    for count in [1, 100, 50_000] {
        let events = event.repeat(count);
        let plain = client.post(&target, &events).is(200);
        let packed = client
            .ask("POST", &target, &[GZIP], events.as_bytes())
            .is(200);
        if count == 1 {
            assert_eq!(packed.header("Content-Encoding"), None);
            assert_eq!(packed.text(), plain.text());
        } else {
            assert_eq!(unpacked(&packed), plain.text(), "{count}");
            assert!(varies(&plain) && varies(&packed));
        }
        assert_eq!(packed.header("X-Events"), plain.header("X-Events"));
    }
    // Who sends events as they come gets each at once, so there is nothing to compress.
    let (receiver, sender) = client.split();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n0\r\n\r\n",
        event.len()
    );
    sender.raw(head.as_bytes());
    let answer = receiver.receive("POST").is(200);
    assert_eq!(answer.header("Content-Encoding"), None);
    assert!(answer.text().contains("web-1"));
}
