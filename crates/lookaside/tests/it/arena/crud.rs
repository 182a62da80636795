//! Items: read, listed, created and changed, with a cache that must not return outdated items.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::death::End;
use super::{Arena, Client};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn items() {
    let arena = Arena::new();
    let mut client = arena.client();
    let list = client
        .get("/crud/items?category=electronics&limit=5")
        .json();
    let found = list["items"].as_array().unwrap();
    assert_eq!(found.len(), 5);
    assert_eq!(
        (&list["total"], &list["page"], &list["limit"]),
        (&5.into(), &1.into(), &5.into())
    );
    for item in found {
        assert_eq!(item["category"], "electronics");
        assert!(item["rating"]["score"].is_i64() && item["tags"].is_array());
    }
    let second = client
        .get("/crud/items?category=electronics&limit=5&page=2")
        .json();
    assert!(second["items"][0]["id"].as_i64() > found[4]["id"].as_i64());
    assert_eq!(client.get("/crud/items").json()["limit"], 10);
    assert_eq!(client.get("/crud/items?limit=1000").json()["limit"], 50);
    let padded = client
        .get("/crud/items?category=office&page=03&limit=10")
        .json();
    assert_eq!((&padded["page"], &padded["total"]), (&3.into(), &10.into()));
    let none = client.get("/crud/items?category=%27%3B--").json();
    assert_eq!(none["total"], 0);

    assert_eq!(client.get("/crud/items/1").json()["id"], 1);
    assert_eq!(
        client.get("/crud/items/00042").header("x-cache"),
        Some("MISS")
    );
    // From another connection, and so perhaps by another thread.
    for mut other in [arena.client(), arena.client(), arena.client()] {
        until_hit(&mut client, &mut other, 42);
    }
    // sleep: the time to live of the entry has to pass
    thread::sleep(Duration::from_millis(200));
    assert_eq!(client.get("/crud/items/42").header("x-cache"), Some("MISS"));
    for target in [
        "/crud/items/999999",
        "/crud/items/x",
        "/crud/items/99999999999",
    ] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }

    let body = r#"{"id":200001,"name":"N\"\\é","category":"test","price":150,"quantity":30}"#;
    assert_eq!(client.get("/crud/items/200001").status, 404);
    let created = client.post("/crud/items", body);
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["name"], "N\"\\é");
    assert_eq!(client.get("/crud/items/200001").json(), created.json());
    // The same id again is an update.
    let again = client.post("/crud/items", body.replace("150", "151"));
    assert_eq!(again.status, 201);
    assert_eq!(client.get("/crud/items/200001").json()["price"], 151);

    until_hit(&mut arena.client(), &mut client, 7);
    let changed = client.put("/crud/items/7", r#"{"name":"U","price":200,"quantity":25}"#);
    assert_eq!(changed.status, 200);
    let fields = changed.json();
    assert_eq!(
        (&fields["name"], &fields["price"]),
        (&"U".into(), &200.into())
    );
    let read = client.get("/crud/items/7");
    assert_eq!(read.header("x-cache"), Some("MISS"));
    assert_eq!(read.json(), fields);
    let other = r#"{"name":"U","category":"test","price":1,"quantity":2}"#;
    assert_eq!(
        client.put("/crud/items/7", other).json()["category"],
        "test"
    );
    assert_eq!(client.put("/crud/items/999999", other).status, 404);
    for body in [
        "",
        "{}",
        "[]",
        r#"{"name":1,"price":1,"quantity":1}"#,
        r#"{"name":"\u0000","price":1,"quantity":1}"#,
    ] {
        assert_eq!(client.put("/crud/items/7", body).status, 400, "{body}");
        assert_eq!(client.post("/crud/items", body).status, 400, "{body}");
    }
}

/// Requests an item until `second` hits the cache entry of `first`, which expires after 200 ms at
/// most, possibly too soon on a busy machine.
fn until_hit(first: &mut Client, second: &mut Client, id: i64) {
    let target = format!("/crud/items/{id}");
    let begin = Instant::now();
    loop {
        assert_eq!(first.get(&target).json()["id"], id);
        let found = second.get(&target);
        assert_eq!(found.json()["id"], id);
        if found.header("x-cache") == Some("HIT") {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "it is never at hand");
    }
}

/// Writers change an item repeatedly while many clients read it. Once a change is answered, later
/// requests must not see the old item: neither from the cache nor from a read that was in flight
/// when the change came.
#[test]
fn nobody_sees_an_item_as_it_was_before_a_change() {
    const READER_COUNT: usize = 6;
    const DURATION: Duration = Duration::from_secs(2);
    let arena = Arena::new();
    // The price that the last change has set. Release and Acquire: a price that a reader sees here
    // was confirmed before its request.
    let confirmed = AtomicI64::new(0);
    let (hits, misses) = (AtomicI64::new(0), AtomicI64::new(0));
    let is_over = AtomicBool::new(false);
    arena.client().put("/crud/items/5", &change(0));
    thread::scope(|scope| {
        let end = End(&is_over);
        for _ in 0..READER_COUNT {
            scope.spawn(|| {
                let mut client = arena.client();
                while !is_over.load(Ordering::Relaxed) {
                    let oldest = confirmed.load(Ordering::Acquire);
                    let item = client.get("/crud/items/5");
                    let price = item.json()["price"].as_i64().unwrap();
                    assert!(price >= oldest, "{price} was replaced by {oldest}");
                    let counter = match item.header("x-cache") {
                        Some("HIT") => &hits,
                        _ => &misses,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut client = arena.client();
        let mut random = fastrand::Rng::with_seed(4);
        let mut price = 0;
        let begin = Instant::now();
        // At least this long, and until there are enough hits, misses and changes.
        let has_enough = |price: i64| {
            let count = |counter: &AtomicI64| counter.load(Ordering::Relaxed);
            price > 50 && count(&hits) > 50 && count(&misses) > 50
        };
        while begin.elapsed() < DURATION || !has_enough(price) {
            price += 1;
            assert_eq!(client.put("/crud/items/5", &change(price)).status, 200);
            confirmed.store(price, Ordering::Release);
            // sleep: a random time between two changes
            thread::sleep(Duration::from_micros(random.u64(..2_000)));
            assert!(begin.elapsed() < PATIENCE, "{price} {hits:?} {misses:?}");
        }
        drop(end);
    });
}

fn change(price: i64) -> String {
    format!(r#"{{"name":"changed","price":{price},"quantity":1}}"#)
}
