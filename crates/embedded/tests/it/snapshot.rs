//! Snapshots, resets and clones, at rest and under load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lookaside_embedded::ErrorKind;
use lookaside_testing::{wait_for_async, wait_until};
use sqlx::postgres::PgPoolOptions;
use tokio_postgres::{Client, NoTls};

use crate::child::Child;
use crate::death::crash;
use crate::site::Site;
use crate::{TIMEOUT, ask, block_on, builder, has_server, rng};

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
        "SELECT 1 FROM pg_database d WHERE shobj_description(d.oid, 'pg_database') LIKE '% {name}: %'"
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
    for options in [builder(), builder().fresh_cluster()] {
        let db = options.sql("CREATE TABLE items (id int)").start().unwrap();
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
        let options = builder().path(&folder).sql("CREATE TABLE items (id int)");
        let options = name
            .into_iter()
            .fold(options, |options, name| options.database(name));
        options.start().unwrap().close().unwrap();
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
        wait_until("the clone of the ended process is gone", || {
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
fn a_reset_that_is_killed_in_the_middle_loses_nothing() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let folder = site.path().join("data");
    let mut child = Child::start_in(&site, &folder);
    let url = child.hear("url ").replace("/main", "/postgres");
    for order in [
        "sql CREATE TABLE items AS SELECT 1 AS id",
        "snapshot one",
        "sql INSERT INTO items VALUES (2)",
    ] {
        child.tell(order);
        child.hear("done");
    }
    block_on(async {
        let connect = || async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        };
        let until_found = async |client: &Client, sql: &str| {
            wait_for_async(sql, async || {
                let rows = client.query(sql, &[]).await.unwrap();
                rows.first().map(|row| row.get::<_, String>(0))
            })
            .await
        };
        let (gate, lock, look) = (connect().await, connect().await, connect().await);
        let known = "SELECT datname::text FROM pg_database WHERE datname LIKE 't\\_%' \
                     AND datallowconn";
        // It waits before it closes the database, then before the copy takes the name.
        gate.batch_execute("BEGIN; ALTER DATABASE main CONNECTION LIMIT 9")
            .await
            .unwrap();
        child.tell("reset one");
        let fresh = until_found(&look, known).await;
        lock.batch_execute(&format!("BEGIN; COMMENT ON DATABASE {fresh} IS 'held'"))
            .await
            .unwrap();
        gate.batch_execute("ROLLBACK").await.unwrap();
        let waiting = "SELECT query FROM pg_stat_activity \
                       WHERE wait_event_type = 'Lock' AND query LIKE '%RENAME%'";
        until_found(&look, waiting).await;
        // The lock's holder goes with the server, perhaps a moment sooner than the session that waits.
        crash(&folder);
        child.kill();
    });
    let db = builder().path(&folder).start().unwrap();
    let ids = || ask(&db.url(), "SELECT id FROM items ORDER BY id");
    assert!(matches!(ids().len(), 1 | 2), "{:?}", ids());
    db.reset_to("one").unwrap();
    assert_eq!(ids(), ["1"]);
}

#[test]
fn a_snapshot_or_reset_that_is_killed_leaves_the_database_as_it_was() {
    if !has_server() {
        return;
    }
    let mut rng = rng("a_snapshot_or_reset_that_is_killed");
    let site = Site::new();
    let folder = site.path().join("data");
    let db = builder()
        .path(&folder)
        .sql("CREATE TABLE items AS SELECT 1 AS id")
        .start()
        .unwrap();
    db.snapshot("one").unwrap();
    db.close().unwrap();
    for round in 0..10 {
        let mut child = Child::start_in(&site, &folder);
        child.hear("ready");
        child.tell(match round % 2 {
            0 => "reset one",
            _ => "snapshot another",
        });
        let life = Duration::from_millis(rng.u64(0..60));
        // sleep: a random life time before the kill
        thread::sleep(life);
        child.kill();
        eprintln!("round {round}: killed after {life:?}");
        let db = builder().path(&folder).start().unwrap();
        assert_eq!(ask(&db.url(), "SELECT id FROM items"), ["1"]);
        // There with all that belongs to it, or not at all.
        let _ = db.drop_snapshot("another");
        assert_eq!(db.snapshots().unwrap(), ["one"]);
        let left = "SELECT datname FROM pg_database WHERE datname LIKE 't\\_%' \
                    AND shobj_description(oid, 'pg_database') IS NULL";
        wait_until("nothing is left", || ask(&db.url(), left).is_empty());
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
                .acquire_timeout(TIMEOUT);
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
