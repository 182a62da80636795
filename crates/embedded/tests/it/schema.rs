//! What a database begins with.

use std::fs;

use lookaside_embedded::ErrorKind;

use crate::child::Child;
use crate::site::{Site, tempdir};
use crate::{ask, builder, has_server};

#[test]
fn a_database_begins_with_extensions_sql_and_migrations() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "2_fill.up.sql",
        "INSERT INTO items VALUES (1, 'ä'), (2, 'b');",
    );
    write("2_fill.down.sql", "THIS IS NOT SQL");
    write(
        "1_create.sql",
        "CREATE TABLE items (id int, name text);\nCREATE INDEX ON items USING gin (name gin_trgm_ops);",
    );
    write("README.md", "THIS IS NOT SQL");
    let options = || {
        builder()
            .sql("CREATE SCHEMA early; SELECT similarity('a', 'b')")
            .migrations(folder.path())
            .extension("pg_trgm")
    };
    let (one, other) = (options().start().unwrap(), options().start().unwrap());
    for db in [&one, &other] {
        assert_eq!(
            ask(&db.url(), "SELECT name FROM items ORDER BY id"),
            ["ä", "b"]
        );
        assert_eq!(
            ask(
                &db.url(),
                "SELECT nspname FROM pg_namespace WHERE nspname = 'early'"
            ),
            ["early"]
        );
    }
    one.execute("DROP TABLE items").unwrap();
    assert_eq!(ask(&other.url(), "SELECT count(*) FROM items"), ["2"]);
    let trgm = one
        .extensions()
        .unwrap()
        .into_iter()
        .find(|extension| extension.name == "pg_trgm")
        .unwrap();
    assert!(trgm.installed.is_some());
    assert_eq!(trgm.installed.as_ref(), Some(&trgm.version));
    assert!(trgm.comment.contains("trigram"), "{trgm:?}");

    // A plain database has nothing of it, and a changed migration is another template.
    let plain = builder().start().unwrap();
    let trgm = plain
        .extensions()
        .unwrap()
        .into_iter()
        .find(|extension| extension.name == "pg_trgm")
        .unwrap();
    assert_eq!(trgm.installed, None);
    // After 2, not after 1.
    write("10_more.sql", "INSERT INTO items VALUES (3, 'c')");
    let third = options().start().unwrap();
    assert_eq!(ask(&third.url(), "SELECT count(*) FROM items"), ["3"]);
    // It holds for a separate cluster too.
    let own = options().fresh_cluster().start().unwrap();
    assert_eq!(ask(&own.url(), "SELECT count(*) FROM items"), ["3"]);
}

#[test]
fn an_error_names_file_and_line() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let file = folder.path().join("1_users.sql");
    fs::write(
        &file,
        "-- Ümläute\nCREATE TABLE a (id int);\n\nCREATE TABEL b (id int);\n",
    )
    .unwrap();
    let (path, data) = (file.to_str().unwrap(), folder.path().join("data"));
    for options in [builder(), builder().fresh_cluster(), builder().path(&data)] {
        let error = options
            .clone()
            .migrations(folder.path())
            .start()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert_eq!(error.sqlstate(), Some("42601"));
        for part in [path, "line 4", "TABEL"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = options
            .sql("SELECT 1;\nSELECT * FROM nowhere")
            .start()
            .unwrap_err();
        assert!(error.to_string().contains("initial SQL, line 2"), "{error}");
    }
    // Mended, it goes on from where nothing had happened.
    fs::write(&file, "CREATE TABLE a (id int); CREATE TABLE b (id int)").unwrap();
    for options in [builder(), builder().path(&data)] {
        let db = options.migrations(folder.path()).start().unwrap();
        assert_eq!(ask(&db.url(), "SELECT count(*) FROM b"), ["0"]);
    }

    let error = builder()
        .extension("no_such_extension")
        .start()
        .unwrap_err();
    assert!(
        error.to_string().contains("extension `no_such_extension`"),
        "{error}"
    );
    let error = builder()
        .migrations(folder.path().join("nowhere"))
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    let error = builder().migrations(&data).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
}

#[test]
fn a_schema_of_many_threads_is_made_once() {
    if !has_server() {
        return;
    }
    // As a test of its own would: unlike any other's schema, and slow.
    let sql = format!(
        "CREATE TABLE t (id int); SELECT pg_sleep(0.2) -- {}",
        std::process::id()
    );
    let urls: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| builder().sql(&sql).start().unwrap()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for db in &urls {
        assert_eq!(ask(&db.url(), "SELECT count(*) FROM t"), ["0"]);
    }
}

#[test]
fn rows_that_are_not_used_are_not_gathered() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut child = Child::start(&site, "temporary");
    child.hear("ready");
    child.tell("sql SELECT repeat('x', 1000) FROM generate_series(1, 300000)");
    child.hear("done");
    let status = fs::read_to_string(format!("/proc/{}/status", child.process.id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most.unwrap().trim().trim_end_matches(" kB");
    assert!(
        most.parse::<u32>().unwrap() < 150_000,
        "{most} kB of 300 MB"
    );
}
