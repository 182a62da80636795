//! Snapshots, resets and clones, at rest and under load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lookaside_embedded::ErrorKind;
use sqlx::postgres::PgPoolOptions;

use crate::child::Child;
use crate::site::Site;
use crate::{ask, block_on, builder, has_server, wait_until};

#[test]
fn a_database_goes_back_to_what_it_was() {
    if !has_server() {
        return;
    }
    let db = builder()
        .sql("CREATE TABLE items (id serial, name text)")
        .start()
        .unwrap();
    let names = || ask(&db.url(), "SELECT name FROM items ORDER BY id");
    let add = |name: &str| {
        db.execute(&format!("INSERT INTO items (name) VALUES ('{name}')"))
            .unwrap()
    };
    assert_eq!(db.snapshots().unwrap(), [""; 0]);
    add("one");
    db.snapshot("with one").unwrap();
    add("two");
    db.snapshot("it's two; \"DROP\" \\ ü").unwrap();
    db.execute("DROP TABLE items").unwrap();
    assert_eq!(
        db.snapshots().unwrap(),
        ["it's two; \"DROP\" \\ ü", "with one"]
    );

    db.reset_to("with one").unwrap();
    assert_eq!(names(), ["one"]);
    add("another two");
    db.reset_to("it's two; \"DROP\" \\ ü").unwrap();
    assert_eq!(names(), ["one", "two"]);
    // Again and again.
    db.reset_to("with one").unwrap();
    assert_eq!(names(), ["one"]);

    let error = db.snapshot("with one").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    let error = db.reset_to("with three").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("with one"), "{error}");
    db.drop_snapshot("with one").unwrap();
    assert!(db.reset_to("with one").is_err());
    assert!(db.drop_snapshot("with one").is_err());
    assert_eq!(names(), ["one"]);
}

#[test]
fn the_database_of_the_administration_is_not_copied() {
    if !has_server() {
        return;
    }
    let db = builder()
        .database("postgres")
        .sql("CREATE TABLE items (id int)")
        .start()
        .unwrap();
    for error in [db.snapshot("x").unwrap_err(), db.try_clone().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains("`postgres`"), "{error}");
    }
    assert_eq!(ask(&db.url(), "SELECT count(*) FROM items"), ["0"]);
}

#[test]
fn snapshots_belong_to_their_database_and_go_with_it() {
    if !has_server() {
        return;
    }
    let (one, other) = (builder().start().unwrap(), builder().start().unwrap());
    one.snapshot("mine").unwrap();
    assert_eq!(other.snapshots().unwrap(), [""; 0]);
    assert!(other.reset_to("mine").is_err());
    let name = one.database().to_owned();
    let kept = format!(
        "SELECT 1 FROM pg_database d WHERE shobj_description(d.oid, 'pg_database') LIKE '%{name}%'"
    );
    assert_eq!(ask(&other.url(), &kept), ["1"]);
    one.close().unwrap();
    assert_eq!(ask(&other.url(), &kept), [""; 0]);
}

#[test]
fn a_clone_goes_its_own_way() {
    if !has_server() {
        return;
    }
    for wishes in [builder(), builder().fresh_cluster()] {
        let db = wishes.sql("CREATE TABLE items (id int)").start().unwrap();
        db.execute("INSERT INTO items VALUES (1)").unwrap();
        let clone = db.try_clone().unwrap();
        db.execute("INSERT INTO items VALUES (2)").unwrap();
        clone.execute("INSERT INTO items VALUES (3)").unwrap();
        let ids = |url: &str| ask(url, "SELECT id FROM items ORDER BY id");
        assert_eq!(ids(&db.url()), ["1", "2"]);
        assert_eq!(ids(&clone.url()), ["1", "3"]);
        assert_eq!(clone.is_shared(), db.is_shared());
        let name = clone.database().to_owned();
        drop(clone);
        let found = format!("SELECT 1 FROM pg_database WHERE datname = '{name}'");
        wait_until("the clone is gone", || ask(&db.url(), &found).is_empty());
    }
}

#[test]
fn snapshots_of_a_folder_stay_with_it() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    for name in [None, Some("shop"), Some("t_0123456789abcd_0")] {
        let folder = site.path().join(name.unwrap_or("default"));
        let wishes = builder().path(&folder).sql("CREATE TABLE items (id int)");
        let wishes = name
            .into_iter()
            .fold(wishes, |wishes, name| wishes.database(name));
        wishes.start().unwrap().close().unwrap();
        let mut child = Child::start_in(&site, &folder);
        child.tell("sql INSERT INTO items VALUES (1)");
        child.hear("done");
        child.tell("snapshot one");
        child.hear("done");
        child.tell("sql INSERT INTO items VALUES (2)");
        child.hear("done");
        child.tell("clone");
        let clone = child.hear("done");
        child.kill();

        let db = builder().path(&folder).start().unwrap();
        let found = format!("SELECT 1 FROM pg_database WHERE datname = '{clone}'");
        wait_until("the clone of the dead is gone", || {
            ask(&db.url(), &found).is_empty()
        });
        let ids = || ask(&db.url(), "SELECT id FROM items ORDER BY id");
        assert_eq!(db.snapshots().unwrap(), ["one"]);
        assert_eq!(ids(), ["1", "2"]);
        db.reset_to("one").unwrap();
        assert_eq!(ids(), ["1"]);
        db.close().unwrap();
    }
}

#[test]
fn snapshots_and_resets_work_while_clients_write() {
    if !has_server() {
        return;
    }
    let db = builder()
        .sql("CREATE TABLE pairs (a int, b int)")
        .start()
        .unwrap();
    db.snapshot("empty").unwrap();
    let url = db.url();
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    // A pool that connects again by itself, as in any program.
    let write = || {
        block_on(async {
            let pool = PgPoolOptions::new()
                .max_connections(4)
                .acquire_timeout(Duration::from_secs(20));
            let pool = pool.connect_lazy(&url).unwrap();
            let insert = || async {
                let mut transaction = pool.begin().await?;
                sqlx::query("INSERT INTO pairs VALUES ($1, 0)")
                    .bind(1)
                    .execute(&mut *transaction)
                    .await?;
                sqlx::query("UPDATE pairs SET b = b + 1")
                    .execute(&mut *transaction)
                    .await?;
                sqlx::query("UPDATE pairs SET a = b")
                    .execute(&mut *transaction)
                    .await?;
                transaction.commit().await
            };
            while !is_over.load(Ordering::Relaxed) {
                // Refused while the database is copied, and in the way of each other.
                if insert().await.is_ok() {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    };
    let wait_for_more = || {
        let before = written.load(Ordering::Relaxed);
        wait_until("clients write on", || {
            written.load(Ordering::Relaxed) >= before + 5
        });
    };
    // Each transaction is there whole or not at all.
    let check = |url: &str| assert_eq!(ask(url, "SELECT count(*) FROM pairs WHERE a <> b"), ["0"]);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(write);
        }
        // However this ends, the writers do.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&is_over);
        for round in 0..5 {
            wait_for_more();
            db.snapshot(&format!("round {round}")).unwrap();
            wait_for_more();
            let clone = db.try_clone().unwrap();
            check(&clone.url());
            wait_for_more();
            db.reset_to(if round % 2 == 0 { "empty" } else { "round 0" })
                .unwrap();
            check(&db.url());
        }
        wait_for_more();
    });
    db.reset_to("round 4").unwrap();
    check(&db.url());
    assert_ne!(ask(&db.url(), "SELECT count(*) FROM pairs"), ["0"]);
    db.reset_to("empty").unwrap();
    assert_eq!(ask(&db.url(), "SELECT count(*) FROM pairs"), ["0"]);
}
