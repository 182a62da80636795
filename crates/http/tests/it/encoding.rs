//! Bodies that are compressed on request.

use std::io::Read as _;
use std::process::Command;

use lookaside_http::encoding::{BodyEncoding, Compressor};
use lookaside_http::{Listen, Router, Server};

use crate::client::{Client, Received, address};
use crate::service::single;

fn start() -> Server {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    Server::start(single(), vec![listen], |_io| {
        let mut router = Router::new(Compressor::default());
        router
            .get("/json/{size}", |compressor, request, reply| {
                let size = request.param("size").unwrap().parse().unwrap();
                let encoding = BodyEncoding::of(request);
                compressor.send_with(encoding, reply, "application/json", |out| {
                    out.extend_from_slice(&body(size));
                });
            })
            .get("/image", |compressor, request, reply| {
                let encoding = BodyEncoding::of(request);
                compressor.send(encoding, reply, "image/png", &body(5000));
            });
        router
    })
    .unwrap()
}

fn body(size: usize) -> Vec<u8> {
    b"{\"id\":1,\"name\":\"a\"},"
        .iter()
        .copied()
        .cycle()
        .take(size)
        .collect()
}

fn decode(reply: &Received) -> Vec<u8> {
    let mut decoded = Vec::new();
    match reply.header("content-encoding") {
        None => decoded.extend_from_slice(&reply.body),
        Some("gzip") => {
            let mut decoder = flate2::read::GzDecoder::new(&reply.body[..]);
            decoder.read_to_end(&mut decoded).unwrap();
        }
        Some("br") => {
            let mut decoder = brotli::Decompressor::new(&reply.body[..], 4096);
            decoder.read_to_end(&mut decoded).unwrap();
        }
        other => panic!("{other:?} was not asked for"),
    }
    decoded
}

#[test]
fn each_client_gets_what_it_likes() {
    let server = start();
    let mut client = Client::connect(&server);
    for (lines, size, expected) in [
        ("", 5000, None),
        ("Accept-Encoding:\r\n", 5000, None),
        ("Accept-Encoding: gzip, br\r\n", 5000, Some("gzip")),
        ("Accept-Encoding: br;q=1, gzip;q=0.8\r\n", 5000, Some("br")),
        (
            "Accept-Encoding: gzip;q=0.1\r\nAccept-Encoding: br\r\n",
            5000,
            Some("br"),
        ),
        ("Accept-Encoding: gzip;q=0, *;q=0\r\n", 5000, Some("none")),
        ("Accept-Encoding: gzip;q=0\r\n", 5000, None),
        ("Accept-Encoding: zstd\r\n", 5000, None),
        ("Accept-Encoding: gzip\r\n", 1023, None),
        ("Accept-Encoding: gzip\r\n", 1024, Some("gzip")),
        ("Accept-Encoding: gzip, identity;q=0\r\n", 10, Some("gzip")),
    ] {
        client.send(format!(
            "GET /json/{size} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"
        ));
        let reply = client.receive();
        assert_eq!(reply.header("vary"), Some("Accept-Encoding"), "{lines}");
        if expected == Some("none") {
            assert_eq!((reply.status, &*reply.body), (406, &b""[..]), "{lines}");
            continue;
        }
        assert_eq!(reply.header("content-encoding"), expected, "{lines}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert!(decode(&reply) == body(size), "{lines}");
        assert!(expected.is_none() || size < 100 || reply.body.len() < size / 4);
        // A HEAD gets the same headers.
        client.send(format!(
            "HEAD /json/{size} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"
        ));
        let head = client.receive_head();
        let without_date = |reply: &Received| {
            let mut headers = reply.headers.clone();
            headers.retain(|(name, _)| name != "Date");
            headers
        };
        assert_eq!(without_date(&head), without_date(&reply));
    }
    client.send("GET /image HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    let reply = client.receive();
    assert_eq!(reply.header("content-encoding"), None);
    assert_eq!(reply.body, body(5000));
}

#[test]
fn curl_understands_it() {
    let server = start();
    let url = format!("http://{}/json/5000", address(&server));
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--compressed", &url]);
    let Ok(output) = curl.output() else {
        return crate::skip("curl");
    };
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == body(5000));
}
