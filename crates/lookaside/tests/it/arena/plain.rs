//! Profiles without a database.

use std::fs;
use std::io::Read as _;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{Client, Received};
use super::{Arena, NOBODY, address, serve};

fn check_text(received: &Received, expected: &str) {
    assert_eq!((received.status, received.text()), (200, expected));
    let content_type = received.header("content-type").unwrap();
    assert_eq!(content_type.split(';').next(), Some("text/plain"));
}

#[test]
fn baseline_adds_numbers() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    check_text(&client.get("/baseline11?a=13&b=42"), "55");
    check_text(&client.post("/baseline11?a=13&b=42", "20"), "75");
    check_text(&client.post_chunks("/baseline11?a=13&b=42", b"20", 1), "75");
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..20 {
        let [a, b, c] = [(); 3].map(|()| random.i64(100..1000));
        let target = format!("/baseline11?a={a}&b={b}");
        check_text(&client.get(&target), &(a + b).to_string());
        let sum = (a + b + c).to_string();
        check_text(&client.post(&target, c.to_string()), &sum);
    }
    check_text(&client.get("/baseline11?a=00013&b=-42"), "-29");
    let large = "/baseline11?a=9223372036854775807&b=9223372036854775807";
    check_text(&client.get(large), "18446744073709551614");
    for target in [
        "/baseline11?a=x&b=1",
        "/baseline11?a=&b=1",
        "/json/51",
        "/json/x",
        "/delay/x",
    ] {
        assert_eq!(client.get(target).status, 400, "{target}");
    }
    assert_eq!(client.get("/nothing").status, 404);
    assert_eq!(client.post("/pipeline", "").status, 405);
}

/// As the arena sends them: in pieces with pauses, and read to the connection's end.
#[test]
fn fragments() {
    let arena = Arena::without_database();
    let close = "Host: localhost\r\nConnection: close\r\n";
    let get = format!("GET /baseline11?a=13&b=42 HTTP/1.1\r\n{close}\r\n");
    let post = format!("POST /baseline11?a=13&b=42 HTTP/1.1\r\n{close}Content-Length: 2\r\n\r\n");
    let lines: Vec<&str> = get.split_inclusive("\r\n").collect();
    for (pieces, expected) in [
        (vec![&get[..9], &get[9..]], "55"),
        (lines, "55"),
        (vec![&*post, "20"], "75"),
        (vec![&*post, "2", "0"], "75"),
    ] {
        let mut client = arena.client();
        for piece in pieces {
            client.send(piece);
            // sleep: the pieces arrive one by one
            sleep(Duration::from_millis(30));
        }
        check_text(&client.receive(), expected);
        assert!(client.is_closed());
    }
}

#[test]
fn sixteen_requests_in_one_piece() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    client.send("GET /pipeline HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(16));
    for _ in 0..16 {
        check_text(&client.receive(), "ok");
    }
}

fn check_things(received: &Received, count: usize, factor: i64) {
    assert_eq!(received.status, 200);
    assert_eq!(received.header("content-type"), Some("application/json"));
    let mut body = received.body.clone();
    match received.header("content-encoding") {
        Some("gzip") => {
            body.clear();
            let mut decoder = flate2::read::GzDecoder::new(&received.body[..]);
            decoder.read_to_end(&mut body).unwrap();
            assert!(received.body.len() < body.len() / 2);
        }
        other => assert_eq!(other, None),
    }
    let all: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(all["count"], count);
    let things = all["items"].as_array().unwrap();
    assert_eq!(things.len(), count);
    for (index, thing) in things.iter().enumerate() {
        assert_eq!(thing["id"], index + 1);
        let number = |name: &str| thing[name].as_i64().unwrap();
        assert_eq!(
            number("total"),
            number("price") * number("quantity") * factor
        );
        assert!(thing["name"].is_string() && thing["category"].is_string());
        assert!(thing["active"].is_boolean());
        assert!(!thing["tags"].as_array().unwrap().is_empty());
        assert!(thing["rating"]["score"].is_i64() && thing["rating"]["count"].is_i64());
    }
}

#[test]
fn things_with_their_totals() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    for (count, factor) in [(12, 3), (22, 7), (31, 2), (50, 5), (1, 3), (0, 1)] {
        let received = client.get(&format!("/json/{count}?m={factor}"));
        check_things(&received, count, factor);
    }
    check_things(&client.get("/json/7"), 7, 1);
    for (count, factor) in [(25, 3), (40, 7), (50, 2)] {
        let target = format!("/json/{count}?m={factor}");
        let received = client.get_with(&target, "Accept-Encoding: gzip, br\r\n");
        assert_eq!(received.header("content-encoding"), Some("gzip"));
        assert_eq!(received.header("vary"), Some("Accept-Encoding"));
        check_things(&received, count, factor);
        let received = client.get_with(&target, "Accept-Encoding: gzip;q=0, br;q=0\r\n");
        assert_eq!(received.header("content-encoding"), None);
        check_things(&received, count, factor);
        let brotli = client.get_with(&target, "Accept-Encoding: br\r\n");
        assert_eq!(brotli.header("content-encoding"), Some("br"));
    }
}

#[test]
fn things_and_echoes_through_tls() {
    let arena = Arena::without_database();
    let url = format!("https://{}", address(&arena.server, 1));
    let curl = |arguments: &[&str], path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--http1.1", "--max-time", "20"]);
        curl.args(["-w", "\n%{http_version} %{content_type}"]);
        let output = curl.args(arguments).arg(format!("{url}{path}")).output();
        match output {
            Ok(output) => {
                assert!(output.status.success(), "{output:?}");
                let mut body = output.stdout;
                let end = body.iter().rposition(|&byte| byte == b'\n').unwrap();
                let said = String::from_utf8(body.split_off(end + 1)).unwrap();
                body.pop();
                Some((body, said))
            }
            Err(_) => {
                assert!(std::env::var_os("CI").is_none(), "CI must have curl");
                use std::io::Write as _;
                let _ = writeln!(std::io::stderr(), "SKIP there is no curl");
                None
            }
        }
    };
    for (count, factor) in [(7, 2), (23, 11), (50, 1)] {
        let Some((body, said)) = curl(&[], &format!("/json/{count}?m={factor}")) else {
            return;
        };
        assert_eq!(said, "1.1 application/json");
        let received = Received {
            status: 200,
            head: "x\r\nContent-Type: application/json\r\n".to_owned(),
            body,
        };
        check_things(&received, count, factor);
    }
    let large: Vec<u8> = (0..100_000_u32).map(|index| (index >> 3) as u8).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("body");
    for body in [&large[..], &large[..10_000], b"x", b""] {
        fs::write(&path, body).unwrap();
        let argument = format!("@{}", path.display());
        let (echo, _) = curl(&["--data-binary", &argument], "/echo").unwrap();
        assert!(echo == body, "of {}", body.len());
    }
}

#[test]
fn echoes() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    let large: Vec<u8> = (0..100_000_u32).map(|index| (index >> 2) as u8).collect();
    for size in [0, 1, 1_000, 10_000, 100_000] {
        let body = &large[..size];
        assert!(client.post("/echo", body).body == body);
        assert!(client.post_chunks("/echo", body, 3_000).body == body);
    }
}

/// The received bytes are counted, not the announced ones.
#[test]
fn uploads_are_counted() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    check_text(&client.post("/upload", b"seventeen bytes!!"), "17");
    check_text(&client.post("/upload", b""), "0");
    let large = vec![b'x'; 20_000_000];
    for size in [48, 500_000, 2_000_000, 20_000_000] {
        check_text(&client.post("/upload", &large[..size]), &size.to_string());
    }
    check_text(
        &client.post_chunks("/upload", &large[..2_000_000], 70_000),
        "2000000",
    );
    // Curl waits for a 100 before it sends a large body.
    client.send(
        "POST /upload HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
         Content-Length: 500000\r\n\r\n",
    );
    assert_eq!(client.receive().status, 100);
    client.send(&large[..500_000]);
    check_text(&client.receive(), "500000");
}

#[test]
fn delays() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    check_text(&client.get("/delay/0"), "0");
    let mut took = |ms: u64| {
        let start = Instant::now();
        check_text(&client.get(&format!("/delay/{ms}")), &ms.to_string());
        start.elapsed()
    };
    assert!(took(37) >= Duration::from_millis(37));
    // A short delay is short, unless the machine is busy.
    let begin = Instant::now();
    while took(10) >= Duration::from_millis(400) {
        assert!(begin.elapsed() < Duration::from_secs(120), "it is long");
    }
    // Many at once, each of another length.
    let mut clients: Vec<(u64, Client)> =
        (0..32).map(|index| (5 + index, arena.client())).collect();
    for (ms, client) in &mut clients {
        client.send(format!(
            "GET /delay/{ms} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
    }
    for (ms, client) in &mut clients {
        check_text(&client.receive(), &ms.to_string());
    }
}

#[test]
fn files() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    for (name, size, content_type) in [
        ("reset.css", 8_192, "text/css"),
        ("app.js", 204_800, "text/javascript"),
        ("manifest.json", 2_883, "application/json"),
        ("hero.webp", 46_080, "image/webp"),
        ("bold.woff2", 22_528, "font/woff2"),
        ("vendor.js", 307_200, "text/javascript"),
    ] {
        let target = format!("/static/{name}");
        let received = client.get(&target);
        assert_eq!(
            (received.status, received.body.len()),
            (200, size),
            "{name}"
        );
        assert_eq!(received.header("content-type"), Some(content_type));
        let compressed = client.get_with(&target, "Accept-Encoding: br;q=1, gzip;q=0.8\r\n");
        let is_binary = name.ends_with(".webp") || name.ends_with(".woff2");
        let expected = if is_binary { None } else { Some("br") };
        assert_eq!(compressed.header("content-encoding"), expected);
        let gzip = client.get_with(&target, "Accept-Encoding: gzip\r\n");
        if gzip.header("content-encoding").is_some() {
            let mut body = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&gzip.body[..]);
            decoder.read_to_end(&mut body).unwrap();
            assert!(body == received.body);
        }
    }
    assert_eq!(client.get("/static/nonexistent.txt").status, 404);
}

/// The arena's own files are used if present, and a replaced one is noticed.
#[test]
fn files_of_the_arena() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("static");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("app.js"), "one").unwrap();
    let server = serve(NOBODY, folder.path());
    let mut client = Client::connect(address(&server, 0));
    assert_eq!(client.get("/static/app.js").text(), "one");
    fs::write(folder.path().join("new"), "two").unwrap();
    fs::rename(folder.path().join("new"), site.join("app.js")).unwrap();
    let start = Instant::now();
    while client.get("/static/app.js").text() == "one" {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "it is not noticed"
        );
    }
    assert_eq!(client.get("/static/app.js").text(), "two");
}

/// Incomplete headers time out within the arena's 20 s, and the server ends within its 2 s, both
/// with a margin.
#[test]
fn issue_12_the_times_of_the_arena_are_met() {
    let options = super::server::options(1);
    assert!(options.header_timeout.as_secs() <= 15);
    assert!(options.drain_timeout.as_millis() <= 1_500);
    assert!(lookaside_http::Options::default().header_timeout.as_secs() <= 15);
}
