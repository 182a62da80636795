//! A folder of files, tested by clients.

use std::fs;
use std::time::Duration;

use lookaside_http::{Listen, Options, Router, Server, StaticFiles, StaticOptions};

use crate::client::{Client, Received};
use crate::service::single;

/// Larger than what is read into a buffer, than a file's share of an iteration, and than a socket's
/// buffers.
const LARGE_SIZE: usize = 5_000_000;

fn large() -> Vec<u8> {
    (0..LARGE_SIZE)
        .map(|index| ((index * 31) >> 3) as u8)
        .collect()
}

struct Site {
    folder: tempfile::TempDir,
    server: Server,
}

impl Site {
    fn new() -> Self {
        Self::with(single(), StaticOptions::default())
    }

    fn with(options: Options, files: StaticOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("public");
        fs::create_dir(&path).unwrap();
        for (name, content) in [
            ("app.js", b"original".as_slice()),
            ("app.js.br", b"brotli"),
            ("app.js.gz", b"gz"),
            ("plain.txt", b"0123456789"),
            ("empty", b""),
            ("index.html", b"<p>"),
            ("../secret", b"secret"),
            ("large.bin", &large()),
        ] {
            fs::write(path.join(name), content).unwrap();
        }
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
        let server = Server::start(options, vec![listen], move |_io| {
            let mut router = Router::new(StaticFiles::open(&path, files.clone()).unwrap());
            router
                .get("/static/{*path}", |files, request, reply| {
                    files.serve(request, request.param("path").unwrap(), reply);
                })
                .get("/hello", |_, _, reply| reply.text("hello"));
            router
        });
        Self {
            folder,
            server: server.unwrap(),
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.server)
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.folder.path().join("public").join(name), content).unwrap();
    }
}

fn get(client: &mut Client, name: &str, lines: &str) -> Received {
    client.send(format!(
        "GET /static/{name} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"
    ));
    client.receive()
}

#[test]
fn files_are_sent_whole() {
    let site = Site::new();
    let mut client = site.client();
    let reply = get(&mut client, "app.js", "");
    assert_eq!((reply.status, reply.text()), (200, "original"));
    assert_eq!(reply.header("content-type"), Some("text/javascript"));
    assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
    assert_eq!(reply.header("content-encoding"), None);
    assert_eq!(reply.header("accept-ranges"), Some("bytes"));
    assert!(reply.header("last-modified").unwrap().ends_with(" GMT"));
    assert_eq!(get(&mut client, "", "").text(), "<p>");
    let empty = get(&mut client, "empty", "");
    assert_eq!(
        (empty.status, empty.header("content-length")),
        (200, Some("0"))
    );
    assert_eq!(get(&mut client, "plain.txt", "").header("vary"), None);
    let reply = get(&mut client, "large.bin", "");
    assert!(reply.body == large());
    // Further requests are answered after it, in order.
    let all = ["large.bin", "app.js", "large.bin", "plain.txt"];
    for name in all {
        client.send(format!("GET /static/{name} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    client.send("GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let sizes = all.map(|_| client.receive().body.len());
    assert_eq!(sizes, [LARGE_SIZE, 8, LARGE_SIZE, 10]);
    assert_eq!(client.receive().text(), "hello");
    assert!(client.is_closed());
}

#[test]
fn heads_and_other_methods() {
    let site = Site::new();
    let mut client = site.client();
    for (name, size) in [("app.js", "8"), ("large.bin", "5000000"), ("empty", "0")] {
        client.send(format!("HEAD /static/{name} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let reply = client.receive_head();
        assert_eq!(
            (reply.status, reply.header("content-length")),
            (200, Some(size))
        );
    }
    // RFC 9110, 14.2: parts are for GET alone.
    client.send("HEAD /static/app.js HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n");
    let reply = client.receive_head();
    let length = reply.header("content-length");
    assert_eq!((reply.status, length), (200, Some("8")));
    client.send("DELETE /static/app.js HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.receive().status, 405);
}

#[test]
fn clients_get_the_form_that_they_like() {
    let site = Site::new();
    let mut client = site.client();
    for (accepted, expected) in [
        ("br;q=1, gzip;q=0.8", (200, Some("br"), "brotli")),
        ("gzip, br", (200, Some("br"), "brotli")),
        ("gzip", (200, Some("gzip"), "gz")),
        ("gzip;q=0.5, identity", (200, None, "original")),
        ("br;q=0", (200, None, "original")),
        ("*;q=0", (406, None, "")),
    ] {
        let reply = get(
            &mut client,
            "app.js",
            &format!("Accept-Encoding: {accepted}\r\n"),
        );
        let found = (reply.status, reply.header("content-encoding"), reply.text());
        assert_eq!(found, expected, "{accepted}");
        assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
        if reply.status == 200 {
            assert_eq!(reply.header("content-type"), Some("text/javascript"));
        }
    }
    let tag = |client: &mut Client, lines| {
        let reply = get(client, "app.js", lines);
        reply.header("etag").unwrap().to_owned()
    };
    let (plain, br) = (
        tag(&mut client, ""),
        tag(&mut client, "Accept-Encoding: br\r\n"),
    );
    assert_ne!(plain, br, "they are not the same bytes");
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let site = Site::with(
        single(),
        StaticOptions {
            check_interval: Duration::ZERO,
            cache_control: Some("max-age=60".to_owned()),
            ..StaticOptions::default()
        },
    );
    let mut client = site.client();
    let first = get(&mut client, "plain.txt", "");
    let tag = first.header("etag").unwrap();
    let date = first.header("last-modified").unwrap();
    for lines in [
        format!("If-None-Match: \"x\", {tag}\r\n"),
        format!("If-None-Match: W/{tag}\r\nIf-Modified-Since: yesterday\r\n"),
        format!("If-Modified-Since: {date}\r\n"),
    ] {
        let reply = get(&mut client, "plain.txt", &lines);
        assert_eq!((reply.status, &*reply.body), (304, &b""[..]), "{lines}");
        assert_eq!(reply.header("etag"), Some(tag));
        assert_eq!(reply.header("cache-control"), Some("max-age=60"));
    }
    site.write("plain.txt", b"other text");
    let lines = format!("If-None-Match: {tag}\r\n");
    let reply = get(&mut client, "plain.txt", &lines);
    assert_eq!((reply.status, reply.text()), (200, "other text"));
    assert_ne!(reply.header("etag"), Some(tag));
}

#[test]
fn parts() {
    let site = Site::new();
    let mut client = site.client();
    let reply = get(&mut client, "plain.txt", "Range: bytes=2-4\r\n");
    assert_eq!((reply.status, reply.text()), (206, "234"));
    assert_eq!(reply.header("content-range"), Some("bytes 2-4/10"));
    let reply = get(&mut client, "plain.txt", "Range: bytes=10-\r\n");
    assert_eq!(
        (reply.status, reply.header("content-range")),
        (416, Some("bytes */10"))
    );
    let reply = get(&mut client, "large.bin", "Range: bytes=100-4500000\r\n");
    assert_eq!(reply.status, 206);
    assert!(reply.body == large()[100..=4_500_000]);
    let reply = get(&mut client, "plain.txt", "Range: bytes=0-1,3-4\r\n");
    assert_eq!((reply.status, reply.text()), (200, "0123456789"));
}

/// Sent unchanged, since client libraries would normalize these.
#[test]
fn nothing_outside_is_shown() {
    let site = Site::new();
    let mut client = site.client();
    for path in [
        "../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "%2e%2e%2fsecret",
        "app.js/../../secret",
        "/etc/passwd",
        "%2fetc/passwd",
        "..;/secret",
        "app.js%00",
        "app.js/",
        "nonexistent.txt",
    ] {
        let reply = get(&mut client, path, "");
        assert_eq!(reply.status, 404, "{path}");
        assert!(!reply.text().contains("secret"), "{path}");
    }
}

/// The file gets shorter while it is sent: the client notices that the body is incomplete.
#[test]
fn a_file_that_shrinks_breaks_its_reply() {
    let site = Site::new();
    let mut client = site.client();
    client.send("GET /static/large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut first = [0; 1];
    std::io::Read::read_exact(&mut client.stream(), &mut first).unwrap();
    site.write("large.bin", b"short");
    let mut rest = Vec::new();
    // The end may appear as a reset.
    let _ = std::io::Read::read_to_end(&mut client.stream(), &mut rest);
    assert!(rest.len() < LARGE_SIZE, "{}", rest.len());
    // Other clients are not affected.
    assert_eq!(get(&mut site.client(), "plain.txt", "").status, 200);
}

/// A client that reads slowly neither blocks the thread nor keeps the file's bytes in memory.
#[test]
fn a_slow_client_holds_nobody_up() {
    let site = Site::new();
    let mut slow = site.client();
    for _ in 0..8 {
        slow.send("GET /static/large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    let mut quick = site.client();
    for _ in 0..50 {
        assert_eq!(get(&mut quick, "app.js", "").text(), "original");
    }
    for _ in 0..8 {
        assert!(slow.receive().body == large());
    }
}

/// A file that was truncated since the server's last check is sent in its current state.
#[test]
fn issue_12_a_file_that_was_cut_is_no_500() {
    let site = Site::with(
        single(),
        StaticOptions {
            // It does not check again by itself.
            check_interval: Duration::from_secs(3600),
            ..StaticOptions::default()
        },
    );
    let mut client = site.client();
    for name in ["plain.txt", "large.bin"] {
        let before = get(&mut client, name, "");
        site.write(name, b"012");
        let after = get(&mut client, name, "");
        assert_eq!((after.status, after.text()), (200, "012"), "{name}");
        assert_ne!(before.header("etag"), after.header("etag"));
        let part = get(&mut client, name, "Range: bytes=1-\r\n");
        assert_eq!((part.status, part.text()), (206, "12"), "{name}");
    }
    // A deleted file is served until the server checks again.
    assert_eq!(get(&mut client, "app.js", "").text(), "original");
    site.write("app.js", b"");
    let empty = get(&mut client, "app.js", "");
    assert_eq!((empty.status, empty.text()), (200, ""));
    assert_eq!(site.server.counters().replies_5xx, 0);
}
