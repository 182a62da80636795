//! Answers in the coding that the client prefers.

use std::io::{Read as _, Write as _};

use flate2::read::GzDecoder;

use super::running::project;
use super::streams::model;
use super::{Answer, Client, serve};
use crate::program::Project;

const GZIP: (&str, &str) = ("Accept-Encoding", "gzip");

/// A project with a table whose rows make a long answer.
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
    // Cached bodies, and one of a native plan that is not cached.
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
            // The bytes differ, so the strong validator would be wrong.
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
    // Short answers are never compressed.
    let short = client.get_with("/v1/lookup/big?id=2", &[GZIP]).is(200);
    assert_eq!(short.text(), r#"{"text":"short"}"#);
    assert_eq!(short.header("Content-Encoding"), None);
    assert_eq!(short.header("Vary"), Some("Accept, Accept-Encoding"));
    // After a reload the answers are new, compressed or not.
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
        // The next request is answered at once, and its response is sent in order.
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
    // On the I/O thread, and on another one.
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
    // A client that streams events gets each result at once, so nothing is compressed.
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

/// A body in a coding.
fn packed(coding: &str, body: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        "br" => {
            let mut packed = Vec::new();
            let mut encoder = brotli::CompressorWriter::new(&mut packed, 4096, 1, 18);
            encoder.write_all(body).unwrap();
            drop(encoder);
            packed
        }
        "zstd" => zstd::encode_all(body, 1).unwrap(),
        _ => body.to_vec(),
    }
}

#[test]
fn bodies_of_requests_are_decoded() {
    let project = project("[server]\nbody_size_max = 100000\nquery_rows_max = 5\n");
    let running = serve(&project, &[]);
    let mut client = running.client();
    let sets = format!("[{}]", vec!["7"; 20_000].join(","));
    let ask = |client: &mut Client, target: &str, coding: &str, body: &[u8]| {
        let headers = [("Content-Encoding", coding)];
        client.ask("POST", target, &headers, &packed(coding, body))
    };
    for coding in ["gzip", "br", "zstd", "identity"] {
        let answer = ask(&mut client, "/v1/lookup/late", coding, b"[8, 9]").is(200);
        assert_eq!(answer.text(), "[{\"name\":\"db 1\"},null]", "{coding}");
        let lines = b"{\"name\":\"web-1\"}\n{\"name\":\"x\"}\n";
        let answer = ask(&mut client, "/v1/lookup/host", coding, lines).is(200);
        let expected = "{\"name\":\"web-1\",\"rack\":7}\nnull\n";
        assert_eq!(answer.text(), expected, "{coding}");
        let sql = br#"{"sql": "select 1 as one"}"#;
        let answer = ask(&mut client, "/v1/query", coding, sql).is(200);
        assert_eq!(answer.text(), "[{\"one\":1}]", "{coding}");
        ask(&mut client, "/v1/lookup/late", coding, sets.as_bytes()).is(200);
        if coding == "identity" {
            continue;
        }
        // The limit applies to the decoded body.
        let bomb = format!("[{}]", vec!["7"; 1_000_000].join(","));
        let refused = ask(&mut client, "/v1/lookup/late", coding, bomb.as_bytes()).is(413);
        assert!(
            refused.text().contains("more than 100000 bytes"),
            "{coding}"
        );
        let headers = [("Content-Encoding", coding)];
        if coding == "br" {
            // A window of 1 GiB, which the decoder would accept.
            let large = [0x11, 0x1e, 0x03];
            let refused = client.ask("POST", "/v1/lookup/late", &headers, &large);
            assert!(refused.is(400).text().contains("larger than 16 MiB"));
        }
        let refused = client
            .ask("POST", "/v1/lookup/late", &headers, b"[8]")
            .is(400);
        assert!(refused.text().contains(coding), "{}", refused.text());
        let mut cut = packed(coding, sets.as_bytes());
        cut.pop();
        client
            .ask("POST", "/v1/lookup/late", &headers, &cut)
            .is(400);
    }
    for coding in ["deflate", "gzip, gzip", "compress", "x"] {
        for target in ["/v1/lookup/late", "/v1/query"] {
            let refused = ask(&mut client, target, coding, b"[8]").is(415);
            assert_eq!(refused.header("Accept-Encoding"), Some("gzip, br, zstd"));
        }
    }
    assert!(running.end().0.success());
}

#[test]
fn streams_of_events_are_decoded_as_they_come() {
    let project = Project::new();
    let running = serve(&project, &[]);
    let mut client = running.client();
    let target = format!("/v1/enrich/{}", model(&mut client));
    let event = "{\"host\":\"web-1\",\"status\":200}\n";
    let plain = client.post(&target, event.repeat(3000)).is(200);
    for coding in ["gzip", "br", "zstd"] {
        let headers = [("Content-Encoding", coding)];
        let body = packed(coding, event.repeat(3000).as_bytes());
        let answer = client.ask("POST", &target, &headers, &body).is(200);
        assert_eq!(answer.body, plain.body, "{coding}");
        // A truncated or invalid body is an error, not the end of the body.
        let short = packed(coding, event.repeat(10).as_bytes());
        for wrong in [&short[..short.len() - 1], event.as_bytes()] {
            let mut other = running.client();
            let refused = other.ask("POST", &target, &headers, wrong);
            assert_eq!(refused.status, 422, "{coding}: {}", refused.text());
            assert!(refused.text().contains(coding), "{}", refused.text());
        }
    }
    let refused = client.ask("POST", &target, &[("Content-Encoding", "x")], b"");
    assert_eq!(
        refused.is(415).header("Accept-Encoding"),
        Some("gzip, br, zstd")
    );

    // An event that has arrived completely is answered before the next one arrives.
    let mut client = running.client();
    let (receiver, sender) = client.split();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
         Content-Encoding: gzip\r\n\r\n"
    );
    sender.raw(head.as_bytes());
    let level = flate2::Compression::fast();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    for round in 0..3 {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let piece = std::mem::take(encoder.get_mut());
        sender.raw(format!("{:x}\r\n", piece.len()).as_bytes());
        sender.raw(&piece);
        sender.raw(b"\r\n");
        if round == 0 {
            assert_eq!(receiver.head("POST").status, 200);
        }
        assert_eq!(receiver.chunk(), &plain.body[..plain.body.len() / 3000]);
    }
    let piece = encoder.finish().unwrap();
    sender.raw(format!("{:x}\r\n", piece.len()).as_bytes());
    sender.raw(&piece);
    sender.raw(b"\r\n0\r\n\r\n");
    assert!(receiver.chunk().is_empty());
    assert!(receiver.trailers().contains("X-Events: 3\r\n"));
}
