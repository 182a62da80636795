//! Temporary databases: each alone, gone with its value, handed out from those that stand ready.

use std::sync::Barrier;
use std::thread;

use lookaside_embedded::{ErrorKind, Postgres};
use lookaside_testing::wait_until;
use tokio::time::timeout;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::child::Child;
use crate::site::Site;
use crate::{TIMEOUT, ask, block_on, builder, has_server, try_ask};

fn databases(url: &str) -> Vec<String> {
    ask(
        url,
        "SELECT datname FROM pg_database WHERE datname LIKE 't\\_%' ORDER BY 1",
    )
}

#[test]
fn databases_are_isolated_and_go_with_their_values() {
    if !has_server() {
        return;
    }
    let (one, other) = (builder().start().unwrap(), builder().start().unwrap());
    assert_ne!(one.database(), other.database());
    assert_eq!(one.folder(), other.folder());
    one.execute("CREATE TABLE mine (id int); INSERT INTO mine VALUES (1), (2)")
        .unwrap();
    assert_eq!(ask(&one.url(), "SELECT count(*) FROM mine"), ["2"]);
    let error = other.execute("SELECT * FROM mine").unwrap_err();
    assert_eq!(
        (error.kind(), error.sqlstate()),
        (ErrorKind::Refused, Some("42P01"))
    );

    // Also with a session on it.
    let (name, url) = (one.database().to_owned(), one.url());
    let session = std::thread::spawn(move || try_ask(&url, "SELECT pg_sleep(100000)"));
    let sessions = format!(
        "SELECT 1 FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE '%pg_sleep%'"
    );
    wait_until("there is a session", || {
        !ask(&other.url(), &sessions).is_empty()
    });
    drop(one);
    wait_until("the database is gone", || {
        !databases(&other.url()).contains(&name)
    });
    assert!(session.join().unwrap().is_err());

    // `close` waits by itself.
    let third = builder().start().unwrap();
    let name = third.database().to_owned();
    third.close().unwrap();
    assert!(!databases(&other.url()).contains(&name));
}

#[test]
fn a_new_database_is_empty_and_speaks_unicode() {
    if !has_server() {
        return;
    }
    let db = builder().start().unwrap();
    assert_eq!(db.version().major, 18);
    assert!(db.is_shared());
    assert_eq!(db.tcp_url(), None);
    assert_eq!(db.password(), None);
    let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    assert_eq!(ask(&db.url(), tables), ["0"]);
    assert_eq!(ask(&db.url(), "SHOW server_encoding"), ["UTF8"]);
    assert_eq!(ask(&db.url(), "SELECT lower('ÄÖÉ')"), ["äöé"]);
    assert_eq!(ask(&db.url(), "SELECT current_user"), [db.user()]);
    assert_eq!(ask(&db.url(), "SELECT current_database()"), [db.database()]);
    assert_eq!(ask(&db.url(), "SHOW listen_addresses"), [""]);
}

#[test]
fn the_next_database_stands_ready() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut child = Child::start(&site, "temporary");
    let url = child.hear("url ");
    let first = child.hear("database ");
    child.hear("ready");
    // It will be dropped.
    let url = url.replace(&first, "postgres");
    // Once one was missing, another is made ahead, and handed out when it stands ready.
    wait_until("what is handed out was there before", || {
        let before = databases(&url);
        child.tell("another");
        before.contains(&child.hear("database "))
    });
    // The last one was dropped with its value.
    wait_until("the first is gone", || !databases(&url).contains(&first));
    assert!(child.end().success());
    site.wait_until_clean();
}

#[test]
fn a_cluster_of_its_own_ends_with_its_value() {
    if !has_server() {
        return;
    }
    let db = builder().fresh_cluster().start().unwrap();
    assert!(!db.is_shared());
    let clone = db.try_clone().unwrap();
    let folder = db.folder().to_owned();
    assert_eq!(ask(&db.url(), "SELECT 1"), ["1"]);
    // The last one turns out the light.
    drop(db);
    assert_eq!(ask(&clone.url(), "SELECT 1"), ["1"]);
    // `close` waits by itself.
    let second = clone.try_clone().unwrap();
    let name = second.database().to_owned();
    second.close().unwrap();
    assert!(!databases(&clone.url()).contains(&name));
    clone.close().unwrap();
    assert!(!folder.exists());
    assert_eq!(crate::site::processes(&folder), []);
}

#[test]
fn a_shared_server_that_crashed_is_replaced() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut child = Child::start(&site, "temporary");
    let folder = child.hear("folder ");
    child.hear("ready");
    crate::death::crash(folder.as_ref());
    child.tell("sql SELECT 1");
    let error = child.hear("error ");
    assert!(error.starts_with("Crashed"), "{error}");
    assert!(
        error.contains("database system is ready to accept connections"),
        "{error}"
    );
    child.tell("another");
    assert_ne!(child.hear("folder "), folder);
    child.tell("sql SELECT 1");
    child.hear("done");
    assert!(child.end().success());
    site.wait_until_deserted();
}

/// How many sessions of ours have a database's server.
const OURS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lookaside'";

/// How many owners of databases are known to be alive.
const OWNERS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

#[test]
fn an_owner_whose_sessions_were_ended_gets_new_ones() {
    if !has_server() {
        return;
    }
    let db = builder().fresh_cluster().start().unwrap();
    assert_eq!(ask(&db.url(), OWNERS), ["1"]);
    for _ in 0..3 {
        ask(
            &db.url(),
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        );
        assert_eq!(ask(&db.url(), OWNERS), ["0"]);
        db.try_clone().unwrap().close().unwrap();
        assert_eq!(ask(&db.url(), OWNERS), ["1"]);
    }
}

#[test]
fn timeouts_of_sessions_are_not_ours() {
    if !has_server() {
        return;
    }
    let db = builder()
        .fresh_cluster()
        .setting("idle_session_timeout", "50")
        .setting("statement_timeout", "1")
        .setting("lock_timeout", "1")
        .setting("default_transaction_read_only", "on")
        .start()
        .unwrap();
    let clone = db.try_clone().unwrap();
    assert_ne!(db.database(), clone.database());
    // A session of another client is ended for its idleness. Ours has been idle for longer.
    block_on(async {
        let (_client, connection) = tokio_postgres::connect(&db.url(), NoTls).await.unwrap();
        let ended = timeout(TIMEOUT, connection).await.expect("it is ended");
        assert_eq!(
            ended.unwrap_err().code(),
            Some(&SqlState::IDLE_SESSION_TIMEOUT)
        );
    });
    // Without the limits, which hold for clients as well.
    let unlimited = ["idle_session_timeout", "statement_timeout", "lock_timeout"]
        .map(|name| format!("-c%20{name}%3D0%20"));
    let url = format!(
        "{}&options={}-c%20default_transaction_read_only%3Doff",
        db.url(),
        unlimited.concat()
    );
    assert_eq!(ask(&url, OWNERS), ["1"]);
    // The caller's SQL lives with the caller's settings. Its session may not be idle for long
    // either, but a busy machine may take longer to send the statement.
    let name = db.database();
    ask(
        &url,
        &format!("ALTER DATABASE {name} SET idle_session_timeout = 0"),
    );
    let error = db.execute("SELECT pg_sleep(1)").unwrap_err();
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
}

#[test]
fn sessions_of_ours_do_not_pile_up() {
    if !has_server() {
        return;
    }
    let db = builder().fresh_cluster().start().unwrap();
    let barrier = Barrier::new(24);
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..20 {
                    db.snapshots().unwrap();
                }
            });
        }
    });
    // The owner's, and those that wait for the next query.
    wait_until("the others are closed", || {
        ask(&db.url(), OURS)[0].parse::<u32>().unwrap() <= 5
    });
}

#[test]
fn a_zero_byte_is_the_callers_mistake() {
    if !has_server() {
        return;
    }
    let db = builder().fresh_cluster().start().unwrap();
    for error in [
        db.execute("SELECT '\0'").unwrap_err(),
        db.snapshot("a\0b").unwrap_err(),
        builder().database("a\0b").start().unwrap_err(),
        builder().setting("cluster_name", "\0").start().unwrap_err(),
        builder().sql("SELECT '\0'").start().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains("zero byte"), "{error}");
    }
    // The session goes on.
    db.execute("SELECT 1").unwrap();
    db.snapshot("ab").unwrap();
}

#[test]
fn handles_pass_between_threads() {
    fn check<T: Send + Sync + std::fmt::Debug>() {}
    check::<Postgres>();
}
