//! The requests as the arena's load generators send them, byte by byte, in their profiles' shapes.

use std::io::Read as _;

use serde_json::Value;

use super::client::Received;
use super::{Arena, Client, ITEM_COUNT};

const HOST: &str = "Host: localhost:8080\r\n";

fn get(target: &str, lines: &str) -> String {
    format!("GET {target} HTTP/1.1\r\n{HOST}{lines}\r\n")
}

fn send(method: &str, target: &str, body: &str) -> String {
    let size = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n\
         Content-Length: {size}\r\n\r\n{body}"
    )
}

/// Sends a request `count` times on each of several connections.
fn run(
    arena: &Arena,
    connections: usize,
    count: usize,
    requests: &[String],
    check: impl Fn(usize, &Received),
) {
    for connection in 0..connections {
        let mut client = arena.client();
        let index = connection % requests.len();
        for _ in 0..count {
            client.send(&requests[index]);
            let received = client.receive();
            assert!(received.head.starts_with("HTTP/1.1 "), "{received:?}");
            check(index, &received);
        }
    }
}

fn decoded(received: &Received) -> Vec<u8> {
    let mut body = Vec::new();
    match received.header("content-encoding") {
        None => body.extend_from_slice(&received.body),
        Some("gzip") => {
            let mut decoder = flate2::read::GzDecoder::new(&received.body[..]);
            decoder.read_to_end(&mut body).unwrap();
        }
        Some("br") => {
            let mut decoder = brotli::Decompressor::new(&received.body[..], 4096);
            decoder.read_to_end(&mut body).unwrap();
        }
        Some(other) => panic!("{other} was not asked for"),
    }
    body
}

/// The names of an object's fields in the order of its text.
fn names(text: &str) -> Vec<&str> {
    let parts = text.split('"').collect::<Vec<_>>();
    let names = parts.windows(2).enumerate();
    let names = names.filter(|(index, pair)| index % 2 == 1 && pair[1].starts_with(':'));
    names.map(|(_, pair)| pair[0]).collect()
}

#[test]
fn baseline_and_limited_connections() {
    let arena = Arena::without_database();
    let target = "/baseline11?a=13&b=42";
    let requests = [
        get(target, ""),
        format!("POST {target} HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\n20"),
        format!(
            "POST {target} HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n2\r\n20\r\n0\r\n\r\n"
        ),
    ];
    run(&arena, 30, 10, &requests, |index, received| {
        let expected = if index == 0 { "55" } else { "75" };
        assert_eq!((received.status, received.text()), (200, expected));
        assert_eq!(received.header("content-type"), Some("text/plain"));
    });
}

#[test]
fn pipelined() {
    let arena = Arena::without_database();
    let mut client = arena.client();
    for _ in 0..20 {
        client.send(get("/pipeline", "").repeat(16));
        for _ in 0..16 {
            let received = client.receive();
            assert_eq!((received.status, received.text()), (200, "ok"));
            assert_eq!(received.header("content-type"), Some("text/plain"));
        }
    }
}

#[test]
fn json_plain_and_compressed() {
    let arena = Arena::without_database();
    let pairs = [(1, 3), (5, 7), (10, 2), (15, 5), (25, 4), (40, 8), (50, 6)];
    let target = |(count, factor): &(usize, i64)| format!("/json/{count}?m={factor}");
    let mut all = Vec::new();
    for (lines, encodings) in [
        ("", &[None][..]),
        ("Accept-Encoding: gzip, br\r\n", &[Some("gzip"), Some("br")]),
    ] {
        let requests: Vec<_> = pairs.iter().map(|pair| get(&target(pair), lines)).collect();
        run(&arena, 14, 25, &requests, |index, received| {
            let (count, factor) = pairs[index];
            assert_eq!(received.header("content-type"), Some("application/json"));
            assert!(encodings.contains(&received.header("content-encoding")) || count < 25);
            let body = String::from_utf8(decoded(received)).unwrap();
            let things: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(things["count"], count);
            let things = things["items"].as_array().unwrap();
            assert_eq!(things.len(), count);
            for thing in things {
                let number = |name: &str| thing[name].as_i64().unwrap();
                let total = number("price") * number("quantity") * factor;
                assert_eq!(number("total"), total);
            }
            if count == 1 {
                let expected = [
                    "items", "id", "name", "category", "price", "quantity", "active", "tags",
                    "rating", "score", "count", "total", "count",
                ];
                assert_eq!(names(&body), expected);
            }
        });
        all.push(requests);
    }
    // The decompressed body is the same.
    for (plain, compressed) in all[0].iter().zip(&all[1]) {
        let mut client = arena.client();
        let [plain, compressed] = [plain, compressed].map(|request| {
            client.send(request);
            decoded(&client.receive())
        });
        assert!(plain == compressed);
    }
}

/// All files of the arena, in their three forms.
#[test]
fn static_files() {
    let arena = Arena::without_database();
    let files = [
        ("reset.css", 8_192, "text/css"),
        ("layout.css", 25_600, "text/css"),
        ("theme.css", 18_432, "text/css"),
        ("components.css", 204_800, "text/css"),
        ("utilities.css", 61_440, "text/css"),
        ("analytics.js", 12_288, "text/javascript"),
        ("helpers.js", 22_528, "text/javascript"),
        ("app.js", 204_800, "text/javascript"),
        ("vendor.js", 307_200, "text/javascript"),
        ("router.js", 35_840, "text/javascript"),
        ("header.html", 122_880, "text/html"),
        ("footer.html", 56_320, "text/html"),
        ("logo.svg", 15_344, "image/svg+xml"),
        ("icon-sprite.svg", 71_680, "image/svg+xml"),
        ("manifest.json", 2_883, "application/json"),
        ("regular.woff2", 18_432, "font/woff2"),
        ("bold.woff2", 22_528, "font/woff2"),
        ("hero.webp", 46_080, "image/webp"),
        ("thumb1.webp", 8_192, "image/webp"),
        ("thumb2.webp", 6_144, "image/webp"),
    ];
    for (lines, expected) in [
        ("", None),
        ("Accept-Encoding: br;q=1, gzip;q=0.8\r\n", Some("br")),
        ("Accept-Encoding: gzip\r\n", Some("gzip")),
        // As sent by `curl --compressed`.
        ("Accept-Encoding: deflate, gzip, br, zstd\r\n", Some("br")),
    ] {
        let requests = files.map(|(name, ..)| get(&format!("/static/{name}"), lines));
        run(&arena, 20, 2, &requests, |index, received| {
            let (name, size, content_type) = files[index];
            let is_binary = name.ends_with(".webp") || name.ends_with(".woff2");
            let expected = expected.filter(|_| !is_binary);
            assert_eq!(received.status, 200, "{name}");
            assert_eq!(received.header("content-encoding"), expected, "{name}");
            let found = received.header("content-type").unwrap();
            assert_eq!(found.split(';').next(), Some(content_type), "{name}");
            assert_eq!(decoded(received).len(), size, "{name}");
            assert!(expected.is_none() || received.body.len() < size);
        });
    }
    let mut client = arena.client();
    assert_eq!(client.get("/static/nonexistent.txt").status, 404);
}

#[test]
fn async_db_and_api() {
    let arena = Arena::new();
    let limits = [5, 10, 20, 35, 50];
    let requests = limits.map(|limit| get(&format!("/async-db?min=10&max=50&limit={limit}"), ""));
    run(&arena, 10, 25, &requests, |index, received| {
        assert_eq!(received.status, 200);
        assert_eq!(received.header("content-type"), Some("application/json"));
        let body = received.json();
        assert_eq!(body["count"], limits[index]);
        let items = body["items"].as_array().unwrap();
        assert_eq!(items.len(), limits[index]);
        for item in items {
            assert!((10..=50).contains(&item["price"].as_i64().unwrap()));
        }
        if index == 0 {
            let first = received.text().split("}}").next().unwrap();
            let expected = [
                "items", "id", "name", "category", "price", "quantity", "active", "tags", "rating",
                "score", "count",
            ];
            assert_eq!(names(first), expected);
        }
    });
    let requests = [
        get("/baseline11?a=13&b=42", ""),
        get("/json/50?m=1", ""),
        get("/async-db?min=10&max=50&limit=50", ""),
    ];
    run(&arena, 24, 5, &requests, |index, received| match index {
        0 => assert_eq!(received.text(), "55"),
        _ => assert_eq!(received.json()["count"], 50),
    });
}

#[test]
fn crud() {
    let arena = Arena::new();
    let ids = [1, 42, 99, ITEM_COUNT];
    let reads = ids.map(|id| get(&format!("/crud/items/{id:05}"), ""));
    let change = r#"{"name":"Updated","category":"test","price":200,"quantity":25}"#;
    let changes = ids.map(|id| send("PUT", &format!("/crud/items/{id:05}"), change));
    let list = get("/crud/items?category=electronics&page=03&limit=10", "");
    let body = r#"{"id":100001,"name":"New Item","category":"test","price":150,"quantity":30}"#;
    let creation = send("POST", "/crud/items", body);
    let requests: Vec<_> = reads
        .into_iter()
        .chain(changes)
        .chain([list, creation])
        .collect();
    run(&arena, 20, 40, &requests, |index, received| {
        let body = received.json();
        match index {
            0..4 => {
                assert_eq!((received.status, &body["id"]), (200, &ids[index].into()));
                assert!(matches!(received.header("x-cache"), Some("HIT" | "MISS")));
            }
            4..8 => {
                assert_eq!(
                    (received.status, &body["id"]),
                    (200, &ids[index - 4].into())
                );
                assert_eq!(
                    (&body["name"], &body["price"]),
                    (&"Updated".into(), &200.into())
                );
            }
            8 => {
                assert_eq!((received.status, &body["page"]), (200, &3.into()));
                assert_eq!((&body["limit"], &body["total"]), (&10.into(), &10.into()));
            }
            _ => {
                assert_eq!((received.status, &body["id"]), (201, &100_001.into()));
                assert_eq!(body["price"], 150);
            }
        }
        assert_eq!(received.header("content-type"), Some("application/json"));
    });
}

/// Two hundred rows and one more, each with what has to be escaped, in the order of their bytes.
#[test]
fn fortunes() {
    let arena = Arena::new();
    run(&arena, 4, 20, &[get("/fortunes", "")], |_, received| {
        let page = received.text();
        assert_eq!((received.status, page.matches("<tr>").count()), (200, 202));
        let rows = page.split("<tr><td>").skip(1);
        let messages = rows.map(|row| row.split("<td>").nth(1).unwrap().split("</td>").next());
        let messages: Vec<_> = messages
            .map(|message| {
                let text = message.unwrap().replace("&lt;", "<").replace("&gt;", ">");
                let text = text.replace("&quot;", "\"").replace("&apos;", "'");
                text.replace("&amp;", "&")
            })
            .collect();
        assert!(messages.is_sorted());
        let bare = ['<', '>', '"', '\''];
        let rows = page.split("<tr><td>").skip(1);
        for row in rows {
            let message = row
                .split("<td>")
                .nth(1)
                .unwrap()
                .split("</td>")
                .next()
                .unwrap();
            assert!(!message.contains(bare), "{message}");
        }
    });
}

#[test]
fn delays_and_echoes_on_one_connection() {
    let arena = Arena::without_database();
    let body = "x".repeat(3_000);
    let echo = format!("POST /echo HTTP/1.1\r\n{HOST}Content-Length: 3000\r\n\r\n{body}");
    let mut client: Client = arena.client();
    // Responses are sent in the order of the requests, whichever is ready first.
    client.send(
        [&get("/delay/30", ""), &echo, &get("/delay/1", ""), &echo]
            .map(String::as_str)
            .concat(),
    );
    for expected in ["30", &body, "1", &body] {
        assert_eq!(client.receive().text(), expected);
    }
}
