//! Tables whose rows are those of another SQLite database.

use std::fs;
use std::path::PathBuf;

use lookaside_knowledge::{ErrorKind, Knowledge, Outcome, PlanKind, Value, params};
use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;
use tempfile::TempDir;

use crate::reload::{PATIENCE, QUIET, listen};

const ENTRY: &str = "[[tables]]\nname = 'users'\ndir = '.'\nsqlite = 'shop.db'\n";

/// A folder with a database, and the connection that made it.
struct Shop {
    folder: TempDir,
    database: Connection,
}

impl Shop {
    fn new(entry: &str, sql: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("version = 2\n{ENTRY}{entry}");
        fs::write(folder.path().join("knowdb.toml"), config).unwrap();
        let database = Connection::open(folder.path().join("shop.db")).unwrap();
        database.execute_batch(sql).unwrap();
        Self { folder, database }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    fn execute(&self, sql: &str) {
        self.database.execute_batch(sql).unwrap();
    }

    fn open(&self) -> Knowledge {
        Knowledge::open(self.folder.path()).unwrap()
    }

    #[track_caller]
    fn check_refused(&self, kind: ErrorKind, expected: &str) {
        let error = Knowledge::open(self.folder.path()).unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

const USERS: &str = "create table users (id integer primary key, name text, score real, note);
    insert into users values (1, 'Ada', 1.5, x'00ff'), (2, 'Bo', 2.0, 7), (-3, null, null, 'x');";

fn names(knowledge: &Knowledge) -> Vec<String> {
    let rows = knowledge
        .query_all("select name from users order by id", ())
        .unwrap();
    rows.iter().map(|row| row[0].to_string()).collect()
}

#[test]
fn rows_have_the_values_of_the_database() {
    let shop = Shop::new("", USERS);
    let knowledge = shop.open();
    let sql = "select id, name, score, note from users where id = :id";
    assert_eq!(knowledge.explain(sql).unwrap().kind, PlanKind::Hash);
    for (id, expected) in [
        (
            1,
            [
                Value::Int(1),
                "Ada".into(),
                Value::Float(1.5),
                Value::from(vec![0_u8, 255]),
            ],
        ),
        (
            2,
            [Value::Int(2), "Bo".into(), Value::Float(2.0), Value::Int(7)],
        ),
        (-3, [Value::Int(-3), Value::Null, Value::Null, "x".into()]),
    ] {
        let row = knowledge.query_first(sql, &params! {"id" => id}).unwrap();
        assert_eq!(row.unwrap().to_vec(), expected);
    }
}

/// Values of other types than their column declares, and types of every affinity.
#[test]
fn values_are_stored_as_they_are() {
    let values =
        "(1, '1', 1, 1, 1, '1'), (1.5, 2.5, 2.5, 2.5, '2.5', 'x'), ('x', x'31', 'x', 'x', 3, 7)";
    for (columns, strict) in [
        (
            "a int, b varchar(9), c, d double precision, e decimal(9, 2), f any",
            "",
        ),
        ("a any, b any, c any, d any, e any, f any", " strict"),
    ] {
        let sql =
            format!("create table users ({columns}){strict}; insert into users values {values};");
        let shop = Shop::new("", &sql);
        let select = "select a, b, c, d, e, f from users order by rowid";
        let rows = shop.open().query_all(select, ()).unwrap();
        let mut statement = shop.database.prepare(select).unwrap();
        let mut expected = statement.query([]).unwrap();
        for row in rows.iter() {
            let theirs = expected.next().unwrap().unwrap();
            for (index, ours) in row.iter().enumerate() {
                let theirs = match theirs.get(index).unwrap() {
                    SqlValue::Null => Value::Null,
                    SqlValue::Integer(int) => Value::Int(int),
                    SqlValue::Real(float) => Value::Float(float),
                    SqlValue::Text(text) => Value::from(text),
                    SqlValue::Blob(bytes) => Value::from(bytes),
                };
                assert_eq!(*ours, theirs, "{columns}, column {index}");
            }
        }
        assert_eq!(rows.len(), 3);
    }
}

#[test]
fn many_rows_come_in_their_order() {
    // Several chunks, some because of their size.
    let shop = Shop::new(
        "",
        "create table users (id integer primary key, name text);
         insert into users
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
             select i, case when i % 5000 = 0 then hex(zeroblob(600000)) else 'n' || i end from n;",
    );
    let rows = shop
        .open()
        .query_all("select id, name from users", ())
        .unwrap();
    assert_eq!(rows.len(), 20_000);
    for (index, row) in rows.iter().enumerate() {
        let id = index as i64 + 1;
        assert_eq!(row[0], Value::Int(id));
        match id % 5000 {
            0 => assert_eq!(row[1].as_str().unwrap().len(), 1_200_000),
            _ => assert_eq!(row[1], Value::from(format!("n{id}"))),
        }
    }
}

#[test]
fn a_table_or_view_of_another_name_and_some_of_its_columns() {
    let shop = Shop::new(
        "sqlite_table = 'grown ups'\ncolumns.by_header = ['Name', 'id']\n",
        &format!("{USERS} create view \"grown ups\" as select id, upper(name) as name from users;"),
    );
    let rows = shop.open().query_all("select * from users", ()).unwrap();
    let columns: Vec<&str> = rows.columns().iter().map(|it| it.as_str()).collect();
    assert_eq!(columns, ["Name", "id"]);
    assert_eq!(names(&shop.open()), ["", "ADA", "BO"].map(str::to_owned));
}

#[test]
fn commits_to_either_journal_are_noticed() {
    for mode in ["delete", "wal"] {
        let shop = Shop::new("", &format!("pragma journal_mode = {mode}; {USERS}"));
        let (knowledge, reloads) = listen(Knowledge::builder(shop.folder.path()).watch(true));
        shop.execute("begin immediate; insert into users values (9, 'Cy', 0, 0);");
        knowledge.reload().unwrap();
        assert_eq!(names(&knowledge), ["", "Ada", "Bo"], "{mode}");
        shop.execute("commit");
        // The reload above, and perhaps one for the log that an open transaction has begun.
        while names(&knowledge).len() < 4 {
            assert_eq!(
                reloads.recv_timeout(PATIENCE),
                Ok(Outcome::Success),
                "{mode}"
            );
        }
        assert_eq!(names(&knowledge), ["", "Ada", "Bo", "Cy"], "{mode}");
        // The loads hold no lock.
        shop.execute("delete from users; vacuum;");
        while !names(&knowledge).is_empty() {
            assert_eq!(
                reloads.recv_timeout(PATIENCE),
                Ok(Outcome::Success),
                "{mode}"
            );
        }
    }
}

#[test]
fn a_load_that_found_the_database_locked_is_repeated() {
    let shop = Shop::new("", USERS);
    let (knowledge, reloads) = listen(Knowledge::builder(shop.folder.path()).watch(true));
    shop.execute("insert into users (id, name) values (9, 'Cy'); begin exclusive;");
    if reloads.recv_timeout(PATIENCE) == Ok(Outcome::Success) {
        // The load was faster than the lock.
        assert_eq!(names(&knowledge).len(), 4);
        return;
    }
    shop.execute("rollback");
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(names(&knowledge), ["", "Ada", "Bo", "Cy"]);
}

/// A reader of a database whose log was removed creates an empty one.
#[test]
fn a_load_causes_no_further_load() {
    let shop = Shop::new("", &format!("pragma journal_mode = wal; {USERS}"));
    let Shop { folder, database } = shop;
    drop(database);
    let file = folder.path().join("shop.db");
    for builder in [
        Knowledge::builder(folder.path()),
        Knowledge::sqlite_builder(&file),
    ] {
        let (knowledge, reloads) = listen(builder.watch(true));
        assert!(reloads.recv_timeout(QUIET).is_err());
        Connection::open(&file)
            .unwrap()
            .execute_batch("insert into users (name) values ('Cy')")
            .unwrap();
        assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
        let count = names(&knowledge).len();
        // The commit, and perhaps the checkpoint after it.
        let more = (0..9).take_while(|_| reloads.recv_timeout(QUIET).is_ok());
        assert!(more.count() < 9, "reloads without end");
        assert_eq!(names(&knowledge).len(), count);
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_the_rows_before_stay() {
    let shop = Shop::new("", USERS);
    let knowledge = shop.open();
    shop.execute("alter table users rename to people; create view v as select 1;");
    shop.check_refused(
        ErrorKind::Data,
        "shop.db: the database has no table \"users\"; set sqlite_table to one of its tables and views: people, v",
    );
    assert!(knowledge.reload().is_err());
    assert_eq!(names(&knowledge), ["", "Ada", "Bo"]);

    shop.execute("drop view v; drop table people;");
    shop.check_refused(
        ErrorKind::Data,
        "shop.db: the database has no table \"users\", nor any other table or view",
    );
    shop.execute("create table users (id, name); insert into users values (1, 'a'), (2, cast(x'ff' as text));");
    shop.check_refused(
        ErrorKind::Data,
        "shop.db: row 2: column \"name\" has a text that is not UTF-8",
    );
    shop.execute("delete from users; vacuum");
    assert_eq!(names(&shop.open()), Vec::<String>::new());

    let other = Shop::new("columns.by_header = ['id', 'nam']\n", USERS);
    other.check_refused(
        ErrorKind::Data,
        "shop.db: table \"users\" has no column \"nam\"; its columns are: id, name, score, note",
    );
    let missing = Shop::new("", USERS);
    fs::remove_file(missing.file()).unwrap();
    missing.check_refused(
        ErrorKind::Environment,
        "shop.db: the data file of table \"users\" does not exist",
    );
    fs::write(missing.file(), "id,name\n1,Ada\n".repeat(100)).unwrap();
    missing.check_refused(
        ErrorKind::Refused,
        "shop.db: reading the SQLite database: file is not a database",
    );
}

#[test]
fn a_damaged_database_never_panics() {
    let shop = Shop::new("", USERS);
    shop.execute("insert into users select id + 10, hex(zeroblob(99)), 1, 1 from users");
    shop.execute("pragma wal_checkpoint");
    let bytes = fs::read(shop.file()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("knowdb.toml"),
        format!("version = 2\n{ENTRY}"),
    )
    .unwrap();
    let file = folder.path().join("shop.db");
    let (mut refused, mut loaded) = (0, 0);
    let mut check = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        match Knowledge::open(folder.path()) {
            Ok(_) => loaded += 1,
            Err(error) => {
                assert!(error.to_string().contains("shop.db"), "{error}");
                refused += 1;
            }
        }
    };
    for at in (0..bytes.len()).step_by(41) {
        check(&bytes[..at]);
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        check(&damaged);
    }
    assert!(refused > 50 && loaded > 50, "{refused}, {loaded}");
}

#[test]
fn wrong_entries_are_refused_with_their_line() {
    for (entry, expected) in [
        (
            "data_file = 'a.csv'",
            "knowdb.toml:5: tables.sqlite is set together with data_file",
        ),
        (
            "mmdb = 'a.mmdb'",
            "knowdb.toml:5: tables.sqlite is set together with mmdb",
        ),
        (
            "columns.by_index = [0]",
            "knowdb.toml:6: columns.by_index does not apply to a SQLite database; use by_header",
        ),
    ] {
        Shop::new(&format!("{entry}\n"), USERS).check_refused(ErrorKind::Config, expected);
    }
    let folder = tempfile::tempdir().unwrap();
    let config = "version = 2\n[[tables]]\nname = 'a'\nsqlite_table = 'b'\n";
    fs::write(folder.path().join("knowdb.toml"), config).unwrap();
    let error = Knowledge::open(folder.path()).unwrap_err().to_string();
    let expected =
        "knowdb.toml:4: tables.sqlite_table applies to rows of a SQLite database; add sqlite";
    assert!(error.contains(expected), "{error}");
}
