//! Tables that are loaded without SQLite are as SQLite would load them. In tests, blocks have 64 bytes.

use super::*;
use crate::load::derive;

/// A trigger makes SQLite load the table, and never runs.
const TRIGGER: &str = ";\ncreate trigger never after delete on {table} begin select 1; end;";

/// A cell that is a number, almost a number, or needs quotes.
fn cell(random: &mut fastrand::Rng) -> String {
    let odd = [
        "",
        "",
        "007",
        " 1",
        "1e3",
        "-0",
        "0.50",
        "true",
        "10.0.0.1",
        "\"a,b\"",
        "\"two\nlines, and more\"",
        "\"a \"\" quote\"",
        "it\"s",
        "\"\"",
        "é€",
        "2026-11-29",
        "9223372036854770000",
        "9223372036854775808",
        "a text that is longer than a value has room for",
    ];
    match random.u8(..4) {
        0 => random.choice(odd).unwrap().to_owned(),
        1 => random.i32(..).to_string(),
        2 => format!("{}.{}", random.i16(..), random.u8(..)),
        _ => random.u8(..5).to_string(),
    }
}

/// Records of two columns, some of which may be bad.
pub(super) fn data(random: &mut fastrand::Rng, bad_one_in: u32) -> String {
    let mut data = if random.bool() { "\u{feff}a,b" } else { "a,b" }.to_owned();
    let line_end = if random.bool() { "\n" } else { "\r\n" };
    let kinds: [usize; 2] = [random.usize(..3), random.usize(..3)];
    for row in 0..random.usize(..60) {
        data.push_str(line_end);
        let cells = kinds.map(|kind| match kind {
            0 => cell(random),
            1 => random.i16(..).to_string(),
            _ => row.to_string(),
        });
        data.push_str(&cells.join(","));
        if random.u32(..bad_one_in) == 0 {
            data.push_str([",c", "\"x", ",\"", "\n\n"][random.usize(..4)]);
        }
    }
    if random.bool() {
        data.push_str(line_end);
    }
    data
}

const ALL: &str = "select rowid, typeof(a), a, typeof(b), b from t order by rowid";

/// The rows of a load and its report, or its error; and whether SQLite has loaded the table.
fn outcome(folder: &Folder) -> (String, Option<bool>) {
    match folder.load() {
        Ok((database, report)) => {
            let table = &report.tables[0];
            let rows = rows(&database, ALL);
            let skipped: Vec<String> = (table.skipped.iter())
                .map(|row| format!("{}: {}", row.place, row.reason))
                .collect();
            let skipped = skipped
                .join("\n")
                .replace(&folder.0.path().display().to_string(), "");
            let (row_count, skipped_count) = (table.rows, table.skipped_count);
            // Notes about derived types are only those of derived tables.
            let warnings = table.warnings.iter().map(String::as_str);
            let warnings = warnings.filter(|it| !it.starts_with("column "));
            let warnings = warnings.collect::<Vec<&str>>().join("\n");
            let outcome = format!("{row_count}, {skipped_count} {skipped} {warnings}\n{rows}");
            (outcome, Some(table.loaded_by_sqlite.is_some()))
        }
        Err(error) => (folder.chain(&error), None),
    }
}

fn check(seed: u64) -> Option<bool> {
    let mut random = fastrand::Rng::with_seed(seed);
    let on_error = ["fail", "skip"][random.usize(..2)];
    let bad_one_in = [10, 1000][random.usize(..2)];
    let config = format!("[default]\non_error = '{on_error}'\n{TABLE}");
    let data = data(&mut random, bad_one_in);
    let direct = Folder::new(&config, &data);
    let creates = [
        "create table {table} (a integer, b real)",
        "create table {table} (a, b numeric)",
        "create table {table} (a integer primary key, b text)",
        "create table {table} (a text primary key, b int not null)",
        "create table {table} (a, b, unique (b, a))",
        "create table {table} (b double, a varchar(20) unique); create index i on {table} (b)",
    ];
    let inserts = [
        "insert into {table} (a, b) values (?1, ?2)",
        "insert into {table} (b, a) values (nullif(?2, ''), ?1);",
        "INSERT INTO \"{table}\" (\"a\", b) VALUES (NULLIF(?1, ''), ?2)",
    ];
    if random.bool() {
        direct.write("t/create.sql", creates[random.usize(..creates.len())]);
        direct.write("t/insert.sql", inserts[random.usize(..inserts.len())]);
    } else {
        direct.remove("t/create.sql");
        direct.remove("t/insert.sql");
    }
    let (found, by_sqlite) = outcome(&direct);
    let by_sqlite_alone = Folder::new(&config, &data);
    let project = Config::open(direct.0.path(), &[]).unwrap();
    // The error of a table whose columns cannot be derived is that of the table itself.
    if let Ok(sql) = table_sql(&project, &project.tables[0]) {
        let create = sql.create.text.trim_end().trim_end_matches(';').to_owned();
        by_sqlite_alone.write("t/create.sql", create + TRIGGER);
        by_sqlite_alone.write("t/insert.sql", sql.insert.text);
        let (expected, _) = outcome(&by_sqlite_alone);
        let derived = ["create.sql", "insert.sql"];
        let found = derived.iter().fold(found, |found, name| {
            found.replace(
                &format!("table \"t\": derived {name}"),
                &format!("t/{name}"),
            )
        });
        assert_eq!(found, expected, "seed {seed}\n{data}");
    }
    by_sqlite
}

#[test]
fn tables_are_as_sqlite_loads_them() {
    let seed = fastrand::u64(..1 << 60);
    let outcomes: Vec<Option<bool>> = (0..400).chain(seed..seed + 400).map(check).collect();
    let direct_count = outcomes.iter().filter(|it| **it == Some(false)).count();
    assert!(
        direct_count > 250,
        "{direct_count} direct loads, seed {seed}"
    );
}

#[test]
fn columns_of_blocks_are_those_of_the_whole_file() {
    let seed = fastrand::u64(..1 << 60);
    for seed in (0..300).chain(seed..seed + 300) {
        let mut random = fastrand::Rng::with_seed(seed);
        let data = data(&mut random, 100);
        let folder = Folder::new(TABLE, &data);
        let config = Config::open(folder.0.path(), &[]).unwrap();
        let table = &config.tables[0];
        let Ok(mut rows) = Rows::open(&config, table) else {
            continue;
        };
        let whole = derive::columns(&mut rows).unwrap();
        let Some(files) = CsvFiles::open(&config, table).unwrap() else {
            assert!(!data.trim_end().contains('\n'), "seed {seed}\n{data}");
            continue;
        };
        let parts = files.columns().unwrap();
        assert_eq!(
            derive::described(&parts),
            derive::described(&whole),
            "seed {seed}\n{data}"
        );
        assert_eq!(
            derive::notes(&parts, rows.files()),
            derive::notes(&whole, rows.files()),
            "seed {seed}\n{data}"
        );
    }
}

#[test]
fn sql_that_does_more_runs_in_sqlite() {
    let by_sqlite = |create: &str, insert: &str, data: &str| {
        let folder = Folder::new(TABLE, data);
        folder.write("t/create.sql", create);
        folder.write("t/insert.sql", insert);
        let (_, report) = folder.load().unwrap();
        report.tables[0].loaded_by_sqlite
    };
    let two = "a,b\n1,x\n2,y\n";
    let table = "create table {table} (a, b)";
    for insert in [
        "insert into {table} values (?1, ?2)",
        "insert into {table} (b, a) values (?2, ?1)",
        "-- a comment\ninsert into t (a, b) values (nullif(?1, ''), ?2);",
    ] {
        assert_eq!(by_sqlite(table, insert, two), None, "{insert}");
    }
    let values = "insert into {table} values (?1, ?2)";
    for (create, insert, data, why) in [
        (
            table,
            "insert into {table} values (?1, lower(?2))",
            two,
            "computes a value",
        ),
        (
            table,
            "insert into {table} values (?1, nullif(?2, 'x'))",
            two,
            "computes a value",
        ),
        (
            table,
            "insert into {table} values (?1, 7), (?2, 8)",
            two,
            "not one insert",
        ),
        (
            table,
            "insert or ignore into {table} values (?1, ?2)",
            two,
            "not one insert",
        ),
        (
            table,
            "insert into {table} select ?1, ?2 where ?1 <> '1'",
            two,
            "not one insert",
        ),
        (
            "create table {table} (a check (a <> ''), b)",
            values,
            two,
            "a check",
        ),
        (
            "create table {table} (a, b collate nocase)",
            values,
            two,
            "a collation",
        ),
        ("create table {table} (a, b) strict", values, two, ""),
        (
            "create table {table} (a integer primary key, b) without rowid",
            values,
            two,
            "row ids",
        ),
        (
            "create table {table} (a, b, c default 1)",
            "insert into {table} (a, b) values (?1, ?2)",
            two,
            "default",
        ),
        (
            "create table {table} (a, b, c as (a))",
            "insert into {table} (a, b) values (?1, ?2)",
            two,
            "generated",
        ),
        (
            "create table {table} (a, b); create unique index i on t (a) where b = 1",
            values,
            two,
            "partial",
        ),
        (
            "create table u (c unique); insert into u values ('1'), ('2'); create table {table} (a references u (c), b)",
            values,
            two,
            "foreign key",
        ),
        (
            "create table {table} (a unique on conflict replace, b)",
            values,
            "a,b\n1,x\n1,y\n",
            "conflict",
        ),
    ] {
        if why.is_empty() {
            continue;
        }
        let found = by_sqlite(create, insert, data);
        assert!(
            found.is_some_and(|found| found.contains(why)),
            "{create} {insert}: {found:?}"
        );
    }
    let folder = Folder::new(TABLE, "a,b\n");
    let (_, report) = folder.load().unwrap();
    assert_eq!(report.tables[0].loaded_by_sqlite, None);
}

#[test]
fn tables_that_other_sql_names_are_loaded_by_sqlite() {
    let two = "[[tables]]\nname = 't'\n[[tables]]\nname = 'u'\n";
    let folder = Folder::new(two, "a,b\n1,x\n2,y\n");
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    folder.write("u/data.csv", "k,id\np,1\nq,2\n");
    folder.write("u/create.sql", "create table {table} (k text, name text)");
    let select = "insert into {table} select ?1, (select b from \"T\" where a = ?2)";
    folder.write("u/insert.sql", select);
    assert_eq!(folder.select("select * from u"), r#""p","x" "q","y""#);
    let (_, report) = folder.load().unwrap();
    let named = Some("the SQL of another table names it");
    assert_eq!(report.tables[0].loaded_by_sqlite, named);
    folder.write("u/insert.sql", "insert into {table} values (?1, ?2)");
    let (_, report) = folder.load().unwrap();
    assert_eq!(report.tables[0].loaded_by_sqlite, None);
    for (script, expected) in [
        (
            "alter table t add column z default 5",
            "1,\"x\",5 2,\"y\",5",
        ),
        ("insert into t values (7, 'z')", "1,\"x\" 2,\"y\" 7,\"z\""),
        ("update t set b = 'w'", "1,\"w\" 2,\"w\""),
    ] {
        let create = format!("create table {{table}} (k text, name text); {script};");
        folder.write("u/create.sql", create);
        assert_eq!(folder.select("select * from t"), expected, "{script}");
    }
    // A trigger of another table.
    let both = "[[tables]]\nname = 't'\n[[tables]]\nname = 'u'\n";
    let folder = Folder::new(both, "a,b\n1,x\n");
    let create = "create table {table} (a, b); create table x (id);
        create trigger tr after insert on x begin insert into t values (new.id, 'made'); end;";
    folder.write("t/create.sql", create);
    folder.write("u/data.csv", "k\n7\n");
    folder.write("u/create.sql", "create table {table} (k)");
    folder.write("u/insert.sql", "insert into x values (?1)");
    let rows = "\"1\",\"x\" \"7\",\"made\"";
    assert_eq!(folder.select("select * from t"), rows);
    let temporary = "create table {table} (a integer, b text);
        create temp trigger tr after insert on {table} begin
            update t set b = b || '!' where rowid = new.rowid; end;";
    let folder = Folder::new(TABLE, "a,b\n1,x\n");
    folder.write("t/create.sql", temporary);
    assert_eq!(folder.select("select * from t"), "1,\"x!\"");
}

#[test]
fn functions_with_integers_are_called_directly() {
    let folder = Folder::new(TABLE, "a,b\n1.2.3.4,x\n10.0.0.1,y\n");
    folder.write("t/create.sql", "create table {table} (a integer, b text)");
    folder.write(
        "t/insert.sql",
        "insert into {table} values (ip4_int(?1), ?2)",
    );
    assert_eq!(
        folder.select("select * from t"),
        "16909060,\"x\" 167772161,\"y\""
    );
    let (_, report) = folder.load().unwrap();
    assert_eq!(report.tables[0].loaded_by_sqlite, None);
}

#[test]
fn the_memory_of_compiled_rows_is_limited_too() {
    let data: String = (0..300_000)
        .map(|row| format!("{row},value {row}\n"))
        .collect();
    let folder = Folder::new(TABLE, format!("a,b\n{data}"));
    let (_, report) = folder.load().unwrap();
    assert!(matches!(report.tables[0].compiled, Compiled::Written(_)));
    let config = format!("version = 2\n{TABLE}[local]\ntable_memory_max = 1000\n");
    folder.write("knowdb.toml", config);
    let error = folder.select("select 1");
    assert!(error.contains("table_memory_max"), "{error}");
}

#[test]
fn a_pipe_in_the_place_of_a_compiled_table_is_not_opened() {
    let data: String = (0..300_000)
        .map(|row| format!("{row},value {row}\n"))
        .collect();
    let folder = Folder::new(TABLE, format!("a,b\n{data}"));
    folder.load().unwrap();
    let compiled = fs::read_dir(folder.0.path().join(".lookaside")).unwrap();
    let files = compiled.map(|entry| entry.unwrap().path());
    let file = files
        .into_iter()
        .find(|file| file.extension().is_some_and(|it| it == "table"));
    let file = file.unwrap();
    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(folder.select("select count(*) from t"), "300000");
}
