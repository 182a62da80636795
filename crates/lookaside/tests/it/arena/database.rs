//! Profiles with a database, including one that is stopped and started.

use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lookaside_embedded::Postgres;
use lookaside_testing::wait_until;

use super::death::{Count, End, until_more};
use super::{Arena, Client, ITEM_COUNT, address, seed, serve};

#[test]
fn ranges_of_prices() {
    let arena = Arena::new();
    let mut client = arena.client();
    for (min, max, limit) in [(5, 80, 7), (20, 150, 18), (100, 400, 33), (10, 50, 50)] {
        let target = format!("/async-db?min={min}&max={max}&limit={limit}");
        let received = client.get(&target);
        assert_eq!(received.header("content-type"), Some("application/json"));
        let all = received.json();
        let items = all["items"].as_array().unwrap();
        assert_eq!((&all["count"], items.len()), (&limit.into(), limit));
        for item in items {
            let price = item["price"].as_i64().unwrap();
            assert!((min..=max).contains(&price), "{item}");
            assert!(item["rating"]["score"].is_i64() && item["rating"]["count"].is_i64());
            assert!(item["tags"].is_array() && item["active"].is_boolean());
        }
    }
    assert_eq!(
        client.get("/async-db?min=9999&max=9999").text(),
        r#"{"items":[],"count":0}"#
    );
    assert_eq!(client.get("/async-db").json()["count"], 50);
    assert_eq!(client.get("/async-db?limit=1000").json()["count"], 50);
    assert_eq!(client.get("/async-db?limit=0").json()["count"], 1);
    assert_eq!(client.get("/async-db?min=x").status, 400);
    assert_eq!(client.get("/async-db?min=99999999999").status, 400);
    // Reads return the current rows.
    arena.execute("update items set price = 777 where id = 1");
    let one = client.get("/async-db?min=777&max=777").json();
    assert_eq!(
        (&one["count"], &one["items"][0]["id"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn fortunes() {
    let arena = Arena::new();
    let mut client = arena.client();
    let page = client.get("/fortunes");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let text = page.text();
    assert!(text.starts_with("<!DOCTYPE html>"));
    assert_eq!(text.matches("<tr>").count(), 202, "with the head");
    assert!(text.contains("Additional fortune added at request time."));
    assert!(text.contains("&lt;script&gt;") && !text.contains("<script>"));
    assert!(
        (18_432..65_536).contains(&page.body.len()),
        "{}",
        page.body.len()
    );
    arena.execute("insert into fortune values (201, 'zzz')");
    assert_eq!(client.get("/fortunes").text().matches("<tr>").count(), 203);
}

/// Many clients check that each answer belongs to their own request.
#[test]
fn answers_find_who_asked() {
    let arena = Arena::new();
    thread::scope(|scope| {
        for index in 0..8 {
            let arena = &arena;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(index);
                let mut client = arena.client();
                for _ in 0..50 {
                    let mut expected = Vec::new();
                    let mut requests = String::new();
                    for _ in 0..random.usize(1..16) {
                        let id = random.usize(1..=ITEM_COUNT);
                        let (path, tag) = match random.u8(..4) {
                            0 => (format!("/baseline11?a={id}&b=0"), format!("{id}")),
                            1 => (format!("/delay/{}", id % 5), format!("{}", id % 5)),
                            _ => (format!("/crud/items/{id}"), format!("{{\"id\":{id},")),
                        };
                        requests += &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                        expected.push(tag);
                    }
                    client.send(requests);
                    for tag in expected {
                        let text = client.receive();
                        assert!(text.text().starts_with(&tag), "{tag}: {text:?}");
                    }
                }
            });
        }
        // Some clients send a request and disconnect.
        for _ in 0..200 {
            let mut client = arena.client();
            client.send("GET /async-db HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(3));
        }
    });
    assert_eq!(arena.client().get("/crud/items/9").json()["id"], 9);
}

/// A database in a folder, that can be stopped and started again.
struct Restartable {
    folder: tempfile::TempDir,
    postgres: Option<Postgres>,
}

impl Restartable {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env::temp_dir()).unwrap();
        let mut restartable = Self {
            folder,
            postgres: None,
        };
        restartable.start();
        restartable
    }

    fn start(&mut self) {
        let place = self.folder.path().join("cluster");
        self.postgres = Some(Postgres::builder().path(place).start().unwrap());
    }

    fn stop(&mut self) {
        self.postgres.take().unwrap().close().unwrap();
    }

    fn url(&self) -> String {
        self.postgres.as_ref().unwrap().url()
    }
}

#[test]
fn a_database_that_is_away_at_first() {
    let mut database = Restartable::new();
    let url = database.url();
    seed(&url, ITEM_COUNT).unwrap();
    database.stop();
    let server = serve(&url, Path::new("/nonexistent"));
    let mut client = Client::connect(address(&server, 0));
    let empty = client.get("/async-db?min=10&max=50&limit=5");
    assert_eq!(
        (empty.status, empty.text()),
        (200, r#"{"items":[],"count":0}"#)
    );
    assert_eq!(client.get("/crud/items/1").status, 503);
    assert_eq!(client.get("/fortunes").status, 503);
    assert_eq!(client.get("/pipeline").text(), "ok");
    database.start();
    wait_until("it is found", || client.get("/crud/items/1").status == 200);
    assert_eq!(
        client.get("/async-db?min=10&max=50&limit=5").json()["count"],
        5
    );
    drop(server);
}

#[test]
fn a_database_that_is_restarted_under_load() {
    let mut database = Restartable::new();
    seed(&database.url(), ITEM_COUNT).unwrap();
    let server = serve(&database.url(), Path::new("/nonexistent"));
    let address = address(&server, 0);
    let is_over = AtomicBool::new(false);
    let counts: [Count; 6] = Default::default();
    thread::scope(|scope| {
        let end = End(&is_over);
        let loads: Vec<_> = (0..)
            .zip(&counts)
            .map(|(index, count)| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(index);
                    let mut client = Client::connect(address);
                    while !is_over.load(Ordering::Relaxed) {
                        let id = random.usize(1..=ITEM_COUNT);
                        let received = match random.u8(..3) {
                            0 => client.put(
                                &format!("/crud/items/{id}"),
                                r#"{"name":"x","price":1,"quantity":1}"#,
                            ),
                            _ => client.get(&format!("/crud/items/{id}")),
                        };
                        match received.status {
                            200 => {
                                assert_eq!(received.json()["id"], id, "somebody else's");
                                count.add(|count| &count.good);
                            }
                            // The database is unavailable, and the response says so.
                            503 => count.add(|count| &count.bad),
                            other => panic!("{other}: {received:?}"),
                        }
                    }
                })
            })
            .collect();
        until_more("it answers", &counts, 20, |count| &count.good);
        let postgres = database.postgres.as_ref().unwrap();
        // Sessions are terminated, then the server is stopped.
        postgres
            .execute(
                "select pg_terminate_backend(pid) from pg_stat_activity \
                 where pid <> pg_backend_pid() and backend_type = 'client backend'",
            )
            .unwrap();
        until_more("it answers again", &counts, 20, |count| &count.good);
        for _ in 0..2 {
            database.stop();
            until_more("all notice", &counts, 1, |count| &count.bad);
            database.start();
            until_more("it is back", &counts, 20, |count| &count.good);
        }
        drop(end);
        for load in loads {
            load.join().unwrap();
        }
    });
    drop(server);
}

/// While one session is stuck, others answer; and requests wait instead of being refused.
#[test]
fn more_requests_than_the_database_takes_at_once() {
    let arena = Arena::new();
    let count = 600;
    let mut clients: Vec<_> = (0..count).map(|_| arena.client()).collect();
    for client in &mut clients {
        client.send("GET /async-db?limit=5 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.receive().json()["count"], 5);
    }
}
