//! Many at once: threads of one process, and processes that share one server.

use std::env;
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use lookaside_testing::wait_until;
use tokio_postgres::NoTls;

use crate::child::Child;
use crate::site::{Site, entries};
use crate::{ask, binaries, block_on, builder, has_server};

const TEST_COUNT: usize = 16;
const CONNECTION_COUNT: usize = 4;

#[test]
fn sixteen_tests_at_once_each_have_a_database_and_four_connections() {
    if !has_server() {
        return;
    }
    let begin = Instant::now();
    let all_connected = Barrier::new(TEST_COUNT);
    let test = |number: usize| {
        let db = builder()
            .sql("CREATE TABLE seen (number int)")
            .start()
            .unwrap();
        let url = db.url();
        block_on(async {
            let mut clients = Vec::new();
            for _ in 0..CONNECTION_COUNT {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
                tokio::spawn(connection);
                clients.push(client);
            }
            // All sixty-four are open now.
            all_connected.wait();
            let insert = format!("INSERT INTO seen VALUES ({number})");
            for client in &clients {
                client.batch_execute(&insert).await.unwrap();
            }
        });
        let sql = "SELECT count(*) || ' ' || min(number) || ' ' || max(number) FROM seen";
        assert_eq!(
            ask(&url, sql),
            [format!("{CONNECTION_COUNT} {number} {number}")]
        );
        db.database().to_owned()
    };
    let mut names: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..TEST_COUNT)
            .map(|number| scope.spawn(move || test(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    names.sort();
    names.dedup();
    assert_eq!(names.len(), TEST_COUNT);
    eprintln!("{TEST_COUNT} tests at once took {:?}", begin.elapsed());
}

#[test]
fn sixteen_processes_at_once_fill_an_empty_cache_and_share_one_server() {
    if !has_server() {
        return;
    }
    let Some(stocked) = binaries::stocked_cache() else {
        return;
    };
    let cache = binaries::cache_with_archive(stocked);
    let site = Site::with_cache(cache.path());
    let mut children: Vec<_> = (0..TEST_COUNT)
        .map(|_| {
            Child::start_with(&site, "temporary", |command| {
                command
                    .env("LOOKASIDE_PG_OFFLINE", "1")
                    .env_remove("LOOKASIDE_PG_BIN");
            })
        })
        .collect();
    let (mut urls, mut folders) = (Vec::new(), Vec::new());
    for child in &mut children {
        urls.push(child.hear("url "));
        folders.push(child.hear("folder "));
        child.hear("ready");
    }
    let made = "preparing PostgreSQL 18.6 for its first use";
    let makers = children.iter().filter(|child| child.said().contains(made));
    assert_eq!(makers.count(), 1);
    let templates = entries(&cache.path().join("template"));
    assert_eq!(templates.len(), 1, "{templates:?}");
    folders.dedup();
    assert_eq!(folders.len(), 1, "one server: {folders:?}");
    assert!(site.cluster_folders().contains(&folders[0].clone().into()));

    // Each has its own database.
    for child in &mut children {
        child.tell("sql CREATE TABLE mine (id int)");
    }
    for child in &mut children {
        child.hear("done");
    }
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), TEST_COUNT);
    for child in &mut children {
        assert!(child.end().success());
    }
    site.wait_until_clean();
}

#[test]
fn a_shared_server_stays_until_the_last_process_ends() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut first = Child::start(&site, "temporary");
    let folder = first.hear("folder ");
    let lost = first.hear("database ");
    first.hear("ready");
    let mut second = Child::start(&site, "temporary");
    let url = second.hear("url ");
    assert_eq!(second.hear("folder "), folder);
    second.hear("ready");

    // The one that started it goes, without a word.
    first.kill();
    second.tell("sql CREATE TABLE still (id int)");
    second.hear("done");
    // The next one to join removes what the ended one had.
    let names = "SELECT datname FROM pg_database";
    let mut third = Child::start(&site, "temporary");
    assert_eq!(third.hear("folder "), folder);
    let kept = third.hear("database ");
    wait_until("its database is gone", || !ask(&url, names).contains(&lost));
    assert!(ask(&url, names).contains(&kept));

    assert!(second.end().success());
    third.tell("sql SELECT 1");
    third.hear("done");
    third.kill();
    site.wait_until_clean();
}

/// The number of short processes that share a server, unless `LOOKASIDE_TEST_PROCESS_COUNT` is set.
const PROCESS_COUNT: usize = 60;

/// How many of them are there at once, and how many of their databases may be left.
const PROCESS_COUNT_AT_ONCE: usize = 2;
const LEFT_COUNT_MAX: usize = 10;

/// What `cargo nextest` does: a process for each test. They end before they have dropped their
/// databases, and every tenth is killed.
#[test]
fn databases_of_short_processes_do_not_pile_up() {
    if !has_server() {
        return;
    }
    let count = env::var("LOOKASIDE_TEST_PROCESS_COUNT").map_or(PROCESS_COUNT, |count| {
        let count = count.parse();
        count.expect("LOOKASIDE_TEST_PROCESS_COUNT is a number")
    });
    let site = Site::new();
    let mut holder = Child::start(&site, "temporary");
    let (url, own) = (holder.hear("url "), holder.hear("database "));
    holder.hear("ready");
    let begin = Instant::now();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..PROCESS_COUNT_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let is_killed = number.is_multiple_of(10);
                    let role = ["exit at once", "killed at once"][usize::from(is_killed)];
                    let mut child = Child::start(&site, role);
                    child.hear("ready");
                    assert_ne!(child.end().success(), is_killed);
                }
            });
        }
    });
    let taken = begin.elapsed();
    let others = format!(
        "SELECT datname FROM pg_database WHERE datname LIKE 't\\_%' AND datname NOT LIKE '{}%'",
        &own[..own.rfind('_').unwrap()]
    );
    let left = ask(&url, &others);
    eprintln!("{count} processes took {taken:?} and left {}", left.len());
    assert!(left.len() <= LEFT_COUNT_MAX, "{left:#?}");
    assert!(holder.end().success());
    site.wait_until_clean();
}

/// No process joins after these, and all of them leave their databases.
#[test]
fn databases_of_processes_that_end_at_once_are_dropped_by_those_that_stay() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut holder = Child::start(&site, "temporary");
    let (url, own) = (holder.hear("url "), holder.hear("database "));
    holder.hear("ready");
    let start = |_| Child::start(&site, "temporary");
    let mut children: Vec<_> = (0..16).map(start).collect();
    let names: Vec<_> = children
        .iter_mut()
        .map(|child| child.hear("database "))
        .collect();
    for child in &mut children {
        child.hear("ready");
    }
    let databases = || ask(&url, "SELECT datname FROM pg_database");
    assert!(names.iter().all(|name| databases().contains(name)));
    for child in &mut children {
        child.kill();
    }
    wait_until("their databases are dropped", || {
        let owners = databases().into_iter();
        let mut owners = owners.filter(|name| name.starts_with("t_"));
        owners.all(|name| name[..16] == own[..16])
    });
    holder.tell("sql SELECT 1");
    holder.hear("done");
    assert!(holder.end().success());
    site.wait_until_clean();
}

#[test]
fn processes_that_come_while_a_server_ends_get_one() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut last = Child::start(&site, "temporary");
    last.hear("ready");
    for _ in 0..10 {
        // The server ends as the next one looks for it: it is joined or replaced, never lost.
        let mut next = Child::start(&site, "temporary");
        // sleep: a random time between a start and a kill
        thread::sleep(std::time::Duration::from_millis(fastrand::u64(0..12)));
        last.kill();
        next.hear("ready");
        next.tell("sql SELECT 1");
        next.hear("done");
        last = next;
    }
    last.kill();
    site.wait_until_clean();
}

#[test]
fn other_settings_mean_another_server() {
    if !has_server() {
        return;
    }
    let plain = builder().start().unwrap();
    let options = || builder().setting("work_mem", "12345kB");
    let (tuned, same) = (options().start().unwrap(), options().start().unwrap());
    assert_ne!(plain.folder(), tuned.folder());
    assert_eq!(tuned.folder(), same.folder());
    assert_eq!(ask(&tuned.url(), "SHOW work_mem"), ["12345kB"]);
    assert!(fs::exists(plain.folder()).unwrap());
}
