//! Settings of the server, users and databases by name, replication, and applications' folders.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use lookaside_embedded::ErrorKind;
use lookaside_testing::wait_until;

use crate::{ask, builder, has_server};

#[test]
fn settings_reach_the_server() {
    if !has_server() {
        return;
    }
    let odd = "a value with 'quotes', \"more\" and $spaces; =";
    let db = builder()
        .setting("timezone", "Asia/Tokyo")
        .setting("cluster_name", odd)
        .start()
        .unwrap();
    assert_eq!(ask(&db.url(), "SHOW timezone"), ["Asia/Tokyo"]);
    assert_eq!(ask(&db.url(), "SHOW cluster_name"), [odd]);
    // Data that is not read again is not made safe.
    assert_eq!(ask(&db.url(), "SHOW fsync"), ["off"]);
    // The caller's word is the last.
    let db = builder()
        .setting("fsync", "on")
        .setting("max_connections", "7")
        .start()
        .unwrap();
    assert_eq!(ask(&db.url(), "SHOW fsync"), ["on"]);
    assert_eq!(ask(&db.url(), "SHOW max_connections"), ["7"]);
}

#[test]
fn settings_that_are_ours_are_refused_at_once() {
    if !has_server() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["port", "Listen-Addresses", "data_directory", "hba_file"] {
        for options in [
            builder(),
            builder().fresh_cluster(),
            builder().path(folder.path().join("data")),
        ] {
            let error = options.setting(name, "1").start().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    assert!(!folder.path().join("data").exists());
}

#[test]
fn a_folder_keeps_its_port() {
    if !has_server() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let start = || builder().path(parent.path().join("data")).tcp().start();
    let db = start().unwrap();
    let (port, url) = (db.port(), db.tcp_url());
    db.close().unwrap();
    let db = start().unwrap();
    assert_eq!(db.tcp_url(), url);
    assert_eq!(ask(&db.tcp_url().unwrap(), "SELECT 1"), ["1"]);
    db.close().unwrap();
    // Unless another process has it by now.
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let db = start().unwrap();
    assert_ne!(db.port(), port);
    assert_eq!(ask(&db.tcp_url().unwrap(), "SELECT 1"), ["1"]);
    db.close().unwrap();
    drop(taken);
}

#[test]
fn no_password_stands_in_the_log_which_only_its_owner_reads() {
    if !has_server() {
        return;
    }
    let db = builder()
        .user("chef")
        .tcp()
        .setting("log_statement", "all")
        .setting("log_min_duration_statement", "0")
        .start()
        .unwrap();
    db.execute("SELECT 'what the caller asks'").unwrap();
    let path = db.folder().join("log");
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.contains("what the caller asks"), "{log}");
    assert!(!log.contains(db.password().unwrap()), "{log}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn user_and_database_get_their_names() {
    if !has_server() {
        return;
    }
    let db = builder().user("chef").database("kitchen").start().unwrap();
    assert!(!db.is_shared());
    assert_eq!((db.user(), db.database()), ("chef", "kitchen"));
    assert_eq!(
        ask(
            &db.url(),
            "SELECT current_user || ' ' || current_database()"
        ),
        ["chef kitchen"]
    );
    assert_eq!(
        ask(
            &db.url(),
            "SELECT rolsuper FROM pg_roles WHERE rolname = 'chef'"
        ),
        ["t"]
    );
    let owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'kitchen'";
    assert_eq!(ask(&db.url(), owner), ["chef"]);
    // Names are kept by a reset.
    db.snapshot("s").unwrap();
    db.reset_to("s").unwrap();
    assert_eq!(ask(&db.url(), owner), ["chef"]);
}

#[test]
fn replication_slots_decode_changes() {
    if !has_server() {
        return;
    }
    let db = builder().logical_replication().start().unwrap();
    assert_eq!(ask(&db.url(), "SHOW wal_level"), ["logical"]);
    db.execute(
        "CREATE TABLE items (id int PRIMARY KEY); CREATE PUBLICATION all_items FOR ALL TABLES",
    )
    .unwrap();
    let slot = format!("s_{}", db.database());
    let made =
        format!("SELECT slot_name FROM pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    assert_eq!(ask(&db.url(), &made), [&*slot]);
    db.execute("INSERT INTO items VALUES (1), (2)").unwrap();
    let changes = format!(
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, \
         'proto_version', '1', 'publication_names', 'all_items') WHERE get_byte(data, 0) = ascii('I')"
    );
    // A commit is decoded when it is written down, which is not waited for here.
    wait_until("both are decoded", || ask(&db.url(), &changes) == ["2"]);
    // Slots without a reader go with their database.
    db.close().unwrap();
}

#[test]
fn an_application_has_a_folder_of_its_name() {
    if !has_server() {
        return;
    }
    for name in ["", "a/b", ".hidden", ".."] {
        let error = builder().app(name).start().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{name}: {error}");
    }
}
