//! A database that is killed under load, with all its processes at once, and restarted in place.

use std::env;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use std::{fs, iter};

use lookaside_embedded::Postgres;
use lookaside_testing::wait_until;

use super::{Client, ITEM_COUNT, address, seed, serve};

const LOAD_COUNT: usize = 6;

/// A database in a folder, on a port.
struct Mortal {
    folder: tempfile::TempDir,
    postgres: Option<Postgres>,
}

impl Mortal {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env::temp_dir()).unwrap();
        let postgres = None;
        let mut mortal = Self { folder, postgres };
        mortal.start();
        mortal
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("cluster")
    }

    fn start(&mut self) {
        self.postgres = Some(
            Postgres::builder()
                .path(self.place())
                .tcp()
                .start()
                .unwrap(),
        );
    }

    fn url(&self) -> String {
        self.postgres.as_ref().unwrap().tcp_url().unwrap()
    }

    /// Kills the postmaster and its children, which would otherwise end a moment later by
    /// themselves.
    fn kill(&mut self) {
        let pid_file = self.place().join("data/postmaster.pid");
        let text = fs::read_to_string(pid_file).unwrap();
        let first: u32 = text.lines().next().unwrap().parse().unwrap();
        let pids: Vec<_> = iter::once(first).chain(children(first)).collect();
        assert!(pids.len() > 1, "it has at least its own helpers");
        let names = pids.iter().map(u32::to_string);
        // A process that has already ended is not a failure.
        let _ = Command::new("kill").arg("-9").args(names).output().unwrap();
        let is_there = |pid: &u32| match stat(*pid) {
            Some((state, _)) => state != 'Z',
            None => false,
        };
        wait_until("it is dead", || !pids.iter().any(is_there));
    }

    /// Restarts it in place.
    fn restart(&mut self) {
        let url = self.url();
        let port = self.postgres.as_ref().unwrap().port();
        drop(self.postgres.take());
        // Another connection may have been assigned the port meanwhile.
        wait_until("its port is free", || {
            TcpListener::bind(("127.0.0.1", port)).is_ok()
        });
        self.start();
        assert_eq!(self.url(), url, "clients look for it where it was");
    }
}

/// The state of a process, and its parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain any character.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, other)| other == parent))
        .collect()
}

/// What a client knows about the item that it changes: the price is one of those sent since the
/// last confirmed one.
struct Own {
    id: usize,
    confirmed: i64,
    sent: i64,
}

impl Own {
    fn check(&self, price: i64) {
        let Self {
            id,
            confirmed,
            sent,
        } = *self;
        assert!(
            (confirmed..=sent).contains(&price),
            "item {id} is at {price}, after {confirmed} of {sent}"
        );
    }

    fn price(&self, client: &mut Client) -> Option<i64> {
        let received = client.get(&format!("/crud/items/{}", self.id));
        match received.status {
            200 => {
                let item = received.json();
                assert_eq!(item["id"], self.id, "somebody else's");
                item["price"].as_i64()
            }
            503 => None,
            other => panic!("{other}: {received:?}"),
        }
    }
}

/// The numbers of successful and failed requests of a load.
#[derive(Default)]
pub(super) struct Count {
    pub(super) good: AtomicUsize,
    pub(super) bad: AtomicUsize,
}

impl Count {
    pub(super) fn add(&self, counter: impl Fn(&Self) -> &AtomicUsize) {
        // Relaxed: only the number matters.
        counter(self).fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until a counter of each load has grown.
pub(super) fn until_more(
    what: &str,
    counts: &[Count],
    more: usize,
    counter: impl Fn(&Count) -> &AtomicUsize,
) {
    let now = || {
        counts
            .iter()
            .map(|count| counter(count).load(Ordering::Relaxed))
    };
    let before: Vec<_> = now().collect();
    wait_until(what, || {
        now().zip(&before).all(|(now, before)| now >= before + more)
    });
}

/// Sends pipelined requests of all kinds and checks that each answer belongs to its request;
/// returns what is known about its own item.
fn load(address: SocketAddr, index: usize, count: &Count, is_over: &AtomicBool) -> Own {
    let mut random = fastrand::Rng::with_seed(index as u64);
    let mut client = Client::connect(address);
    // The first items belong to the loads; others only read them.
    let id = index + 1;
    let mut own = Own {
        id,
        confirmed: 1_000_000,
        sent: 1_000_000,
    };
    let body = |price: i64| format!(r#"{{"name":"x","price":{price},"quantity":1}}"#);
    wait_until("it begins", || {
        client
            .put(&format!("/crud/items/{id}"), &body(own.sent))
            .status
            == 200
    });
    let mut bad_before = 0;
    while !is_over.load(Ordering::Relaxed) {
        let bad = count.bad.load(Ordering::Relaxed);
        if bad > bad_before {
            // sleep: leaves the database some time to come back
            thread::sleep(Duration::from_millis(5));
            bad_before = bad;
        }
        if random.u8(..4) == 0 {
            own.sent += 1;
            let received = client.put(&format!("/crud/items/{id}"), &body(own.sent));
            match received.status {
                200 => {
                    own.confirmed = own.sent;
                    assert_eq!(received.json()["price"], own.sent);
                    count.add(|count| &count.good);
                }
                503 => count.add(|count| &count.bad),
                other => panic!("{other}: {received:?}"),
            }
            if let Some(price) = own.price(&mut client) {
                own.check(price);
            }
            continue;
        }
        let mut expected = Vec::new();
        let mut requests = String::new();
        for _ in 0..random.usize(1..8) {
            let id = random.usize(1..=ITEM_COUNT);
            let (path, begin, end) = match random.u8(..8) {
                0 => (format!("/baseline11?a={id}&b=0"), format!("{id}"), ""),
                1 => ("/fortunes".to_owned(), "<!DOCTYPE".to_owned(), "</html>"),
                2 => (
                    "/async-db?limit=3".to_owned(),
                    "{\"items\":[".to_owned(),
                    "}",
                ),
                _ => (format!("/crud/items/{id}"), format!("{{\"id\":{id},"), "}}"),
            };
            requests += &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            expected.push((path, begin, end));
        }
        client.send(requests);
        for (path, begin, end) in expected {
            let received = client.receive();
            match received.status {
                200 => {
                    let text = received.text();
                    let is_right = text.starts_with(&begin) && text.ends_with(end);
                    assert!(is_right, "{path}: {text}");
                    count.add(|count| &count.good);
                }
                503 => count.add(|count| &count.bad),
                other => panic!("{path}: {other}: {received:?}"),
            }
        }
    }
    own
}

/// Ends the loads when dropped, also by a failed assertion, so that the test does not hang.
pub(super) struct End<'a>(pub(super) &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_database_that_is_killed_under_load() {
    let mut database = Mortal::new();
    seed(&database.url(), ITEM_COUNT).unwrap();
    let server = serve(&database.url(), Path::new("/nonexistent"));
    let address = address(&server, 0);
    let is_over = AtomicBool::new(false);
    let counts: [Count; LOAD_COUNT] = Default::default();
    let owns: Vec<_> = thread::scope(|scope| {
        let end = End(&is_over);
        let loads: Vec<_> = (0..LOAD_COUNT)
            .map(|index| {
                let (count, is_over) = (&counts[index], &is_over);
                scope.spawn(move || load(address, index, count, is_over))
            })
            .collect();
        until_more("it answers", &counts, 20, |count| &count.good);
        for _ in 0..3 {
            database.kill();
            until_more("all notice", &counts, 5, |count| &count.bad);
            database.restart();
            until_more("it is back", &counts, 20, |count| &count.good);
        }
        drop(end);
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    // Confirmed changes have survived the crash of the database.
    let mut client = Client::connect(address);
    for own in owns {
        // The first request on an old connection may fail.
        let mut price = None;
        wait_until("the item is read", || {
            price = own.price(&mut client);
            price.is_some()
        });
        own.check(price.unwrap());
    }
    drop(server);
}
