//! Tables that are read from their compiled form are as a load makes them, and so are their reports.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::*;

/// The folder, its rows and its report, with what was done with the compiled form.
fn outcome(folder: &Folder) -> (String, Compiled) {
    outcome_with(folder, Selection::All)
}

fn outcome_with(folder: &Folder, selection: Selection) -> (String, Compiled) {
    let loaded = Config::open(folder.0.path(), &[])
        .and_then(|config| load_with(&config, &[], selection, &NoProgress, None));
    match loaded {
        Ok(loaded) => {
            let database = loaded.databases.with_all().unwrap();
            let rows = rows(&database, "select rowid, * from t order by rowid");
            let schema = rows_of_schema(&database);
            let mut table = loaded.report.tables[0].clone();
            let compiled = std::mem::take(&mut table.compiled);
            table.elapsed = std::time::Duration::ZERO;
            (format!("{rows}\n{schema}\n{table:?}"), compiled)
        }
        Err(error) => (folder.chain(&error), Compiled::None),
    }
}

fn rows_of_schema(database: &Database) -> String {
    rows(database, "select sql from sqlite_schema")
}

fn off(folder: &Folder) -> String {
    let on = fs::read_to_string(folder.0.path().join("knowdb.toml")).unwrap();
    let off = match on.contains("[default]\n") {
        true => on.replace("[default]\n", "[default]\ncompiled = false\n"),
        false => on.replace("version = 2\n", "version = 2\ndefault.compiled = false\n"),
    };
    folder.write("knowdb.toml", off);
    let (expected, compiled) = outcome(folder);
    assert_eq!(compiled, Compiled::None);
    folder.write("knowdb.toml", on);
    expected
}

/// Loads a folder three times: without a compiled form, writing it, and reading it.
fn check(folder: &Folder) {
    let expected = off(folder);
    let (written, compiled) = outcome(folder);
    assert_eq!(written, expected);
    assert!(matches!(compiled, Compiled::Written(_)), "{compiled:?}");
    let (read, compiled) = outcome(folder);
    assert_eq!(read, expected);
    assert!(matches!(compiled, Compiled::Read(_)), "{compiled:?}");
}

fn compiled_files(folder: &Folder) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.0.path().join(".lookaside")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|it| !it.ends_with(".gitignore")).collect();
    files.sort();
    files
}

const DATA: &str = "a,b\n1,x\n2,y\n3,\"a text that is longer than a value has room for\"\n";

#[test]
fn rows_and_reports_are_those_of_a_load() {
    check(&Folder::new(TABLE, DATA));
    check(&Folder::new(TABLE, "a,b\n"));
    // Derived SQL with notes, and several files with one column that is a text because of one cell.
    for (data, config) in [
        ("a,b\n1,true\n2,false\n007,true\n", TABLE),
        ("a,b\n1,10.0.0.1\n2,::1\n", TABLE),
        ("a,b\n1.5,10.0.0.1\n2,10.0.0.2\n", TABLE),
        (DATA, &*format!("{TABLE}expected_rows.max = 1\n")),
        ("a,b\n1,x\n2\n3,z,z\n4,y\n", &*format!("{SKIP}{TABLE}")),
    ] {
        let folder = Folder::new(config, data);
        check(&folder);
        folder.remove("t/create.sql");
        check(&folder);
        folder.remove("t/insert.sql");
        check(&folder);
    }
    let parts = "[[tables]]\nname = 't'\ndata_file = 'part*.csv'\n";
    let folder = Folder::new(parts, "");
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    folder.write("t/part1.csv", "a,b\n1,x\n2,y\n");
    folder.write("t/part2.csv", "a,b\n3,x\n007,y\n");
    check(&folder);
    // A warning of the file.
    let delimiter = Folder::new("[[tables]]\nname = 't'\n", "a;b\n1;2\n3;4\n");
    delimiter.remove("t/create.sql");
    delimiter.remove("t/insert.sql");
    assert!(off(&delimiter).contains("csv.delimiter"));
    check(&delimiter);
    let keys = Folder::new(TABLE, "a,b\n7,x\n2,y\n");
    keys.write(
        "t/create.sql",
        "create table {table} (a integer primary key, b text unique)",
    );
    check(&keys);
}

#[test]
fn random_tables_are_those_of_a_load() {
    let seed = fastrand::u64(..1 << 60);
    let mut direct_count = 0;
    for seed in (0..60).chain(seed..seed + 40) {
        let mut random = fastrand::Rng::with_seed(seed);
        let data = super::direct::data(&mut random, 10);
        let folder = Folder::new(&format!("{SKIP}{TABLE}"), &data);
        folder.remove("t/create.sql");
        folder.remove("t/insert.sql");
        let expected = off(&folder);
        let (written, compiled) = outcome(&folder);
        assert_eq!(written, expected, "seed {seed}");
        if matches!(compiled, Compiled::Written(_)) {
            direct_count += 1;
            let (read, compiled) = outcome(&folder);
            assert_eq!(read, expected, "seed {seed}\n{data}");
            assert!(matches!(compiled, Compiled::Read(_)), "seed {seed}");
        }
    }
    assert!(
        direct_count > 40,
        "{direct_count} direct loads, seed {seed}"
    );
}

#[test]
fn messages_name_the_files_of_the_present_folder() {
    let folder = Folder::new(&format!("{SKIP}{TABLE}"), "a,b\n1,x\n2\n");
    outcome(&folder);
    let moved = Folder::new(&format!("{SKIP}{TABLE}"), "a,b\n1,x\n2\n");
    fs::rename(
        folder.0.path().join(".lookaside"),
        moved.0.path().join(".lookaside"),
    )
    .unwrap();
    // The place of the skipped record names the other folder.
    let (found, compiled) = outcome(&moved);
    assert!(matches!(compiled, Compiled::Written(_)), "{compiled:?}");
    assert!(found.contains(&moved.0.path().display().to_string()));
    let folder = Folder::new(TABLE, DATA);
    outcome(&folder);
    let moved = Folder::new(TABLE, DATA);
    fs::rename(
        folder.0.path().join(".lookaside"),
        moved.0.path().join(".lookaside"),
    )
    .unwrap();
    let (_, compiled) = outcome(&moved);
    assert!(matches!(compiled, Compiled::Read(_)), "{compiled:?}");
}

#[test]
fn other_data_sql_or_configuration_is_loaded_and_compiled_anew() {
    let folder = Folder::new(TABLE, DATA);
    check(&folder);
    let with = |line: &str| format!("version = 2\n{line}\n[[tables]]\nname = 't'\n");
    let reversed = with("") + "columns.by_header = ['b', 'a']\n";
    let changes = [
        ("t/data.csv", "a,b\n1,x\n2,y\n3,z\n"),
        ("t/create.sql", "create table {table} (a text, b text)"),
        ("t/insert.sql", "insert into {table} (b, a) values (?1, ?2)"),
        ("t/clean.sql", "delete from {table} where 1 = 1"),
        ("knowdb.toml", &reversed),
        // Each differs from the one before in one setting.
        ("knowdb.toml", &with("")),
        ("knowdb.toml", &with("csv.trim = false")),
        ("knowdb.toml", &with("")),
        ("knowdb.toml", &with("default.on_error = 'skip'")),
    ];
    for (file, text) in changes {
        folder.write(file, text);
        check(&folder);
        assert_eq!(compiled_files(&folder).len(), 1);
    }
}

#[test]
fn files_that_change_during_a_load_are_not_compiled() {
    let load_changed = |data: Option<&str>| {
        let folder = Folder::new(TABLE, DATA);
        let config = Config::open(folder.0.path(), &[]).unwrap();
        let table = &config.tables[0];
        let sql = SqlFiles::read(table).unwrap();
        let tables = CompiledTables::new(config.compiled.as_deref(), Selection::All);
        let compiled = CompiledTable::open(&config, table, &sql, &tables).unwrap();
        if let Some(data) = data {
            folder.write("t/data.csv", data);
        }
        let connection = Connection::open_in_memory().unwrap();
        let loading = Loading {
            config: &config,
            connection: &connection,
            progress: &NoProgress,
            memory_used: 0,
            is_named: false,
        };
        let (report, ..) = load_table(&loading, table, sql, Some(&compiled), None).unwrap();
        report.compiled
    };
    assert!(matches!(load_changed(None), Compiled::Written(_)));
    // It is not known what was read.
    assert_eq!(load_changed(Some(DATA)), Compiled::None);
    assert_eq!(load_changed(Some(&DATA.replace('x', "y"))), Compiled::None);
}

#[test]
fn damaged_files_are_replaced() {
    let folder = Folder::new(TABLE, DATA);
    check(&folder);
    let expected = off(&folder);
    let [file] = &*compiled_files(&folder) else {
        panic!("one file");
    };
    let whole = fs::read(file).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 32;
        for damaged in [&changed, &whole[..at]] {
            fs::write(file, damaged).unwrap();
            let (found, compiled) = outcome(&folder);
            assert_eq!(found, expected, "byte {at}");
            assert!(matches!(compiled, Compiled::Written(_)), "{compiled:?}");
        }
        assert_eq!(fs::read(file).unwrap(), whole);
    }
}

#[test]
fn a_folder_that_cannot_be_made_fails_no_load() {
    let folder = Folder::new(TABLE, DATA);
    let expected = off(&folder);
    // A file has the name of the folder.
    folder.write(".lookaside", "");
    let (found, compiled) = outcome(&folder);
    assert_eq!(found, expected);
    assert!(matches!(compiled, Compiled::Failed(_)), "{compiled:?}");
    folder.remove(".lookaside");
    // A folder that is read-only, except for a superuser.
    let path = folder.0.path().join(".lookaside");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).unwrap();
    let (found, compiled) = outcome(&folder);
    assert_eq!(found, expected);
    if !rustix::process::geteuid().is_root() {
        assert!(matches!(compiled, Compiled::Failed(_)), "{compiled:?}");
    }
}

#[test]
fn small_tables_are_compiled_on_request_only() {
    let folder = Folder::new(TABLE, DATA);
    let (expected, compiled) = outcome_with(&folder, Selection::Large);
    assert_eq!(compiled, Compiled::None);
    assert!(!folder.0.path().join(".lookaside").exists());
    check(&folder);
    let (found, compiled) = outcome_with(&folder, Selection::Large);
    assert_eq!(found, expected);
    assert!(matches!(compiled, Compiled::Read(_)), "{compiled:?}");
    folder.write(
        "knowdb.toml",
        format!("version = 2\n[default]\ncompiled = 'x/y'\n{TABLE}"),
    );
    outcome(&folder);
    assert_eq!(
        fs::read_dir(folder.0.path().join("x/y")).unwrap().count(),
        2
    );
}

#[test]
fn the_folder_is_a_truth_value_or_a_path() {
    let problem =
        "compiled must be true or false, without quotes, or the path of a folder in quotes";
    for value in ["''", "1", "'false'"] {
        let folder = Folder::new(&format!("[default]\ncompiled = {value}\n{TABLE}"), DATA);
        let (error, _) = outcome(&folder);
        assert!(error.contains("knowdb.toml:3"), "{error}");
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn tables_that_sqlite_loads_are_not_compiled() {
    let folder = Folder::new(TABLE, DATA);
    folder.write("t/insert.sql", "insert into {table} values (?1, lower(?2))");
    let (_, compiled) = outcome(&folder);
    assert_eq!(compiled, Compiled::None);
    assert!(!folder.0.path().join(".lookaside").exists());
}

#[test]
fn loads_at_once_share_a_folder() {
    let folder = Folder::new(TABLE, DATA);
    let expected = off(&folder);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(outcome(&folder).0, expected);
                }
            });
        }
    });
    assert_eq!(compiled_files(&folder).len(), 1);
}

#[test]
fn indexes_of_statements_are_compiled() {
    let data: String = (0..100).fold("a,b\n".to_owned(), |data, row| {
        format!("{data}{},{}\n", row % 50, row * 7)
    });
    let folder = Folder::new(TABLE, &data);
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let statement = |sql: &str| UsedStatement {
        sql: sql.to_owned(),
        takes_all_rows: true,
    };
    let statements = [
        statement("select b from t where a = :a"),
        statement("select a from t where b = :b and a = :a"),
        statement("select nothing from nowhere"),
    ];
    let compiled_count = || {
        compile(&config, &statements, &NoProgress).unwrap();
        compiled_files(&folder).len()
    };
    assert_eq!(compiled_count(), 3);
    // They are found: a file that is read is not written again.
    let stamps = || -> Vec<_> {
        let files = compiled_files(&folder).into_iter();
        files
            .map(|file| fs::metadata(file).unwrap().modified().unwrap())
            .collect()
    };
    let before = stamps();
    assert_eq!(compiled_count(), 3);
    assert_eq!(stamps(), before);
    let answers = || {
        let knowledge = crate::Knowledge::open(folder.0.path()).unwrap();
        let mut session = knowledge.session();
        let statement = session.prepare("select b from t where a = :a").unwrap();
        let rows = session.all(&statement, &[crate::Value::from("7")]).unwrap();
        (rows.len(), format!("{rows:?}"))
    };
    let expected = answers();
    assert_eq!(expected.0, 2);
    // Without the index, with one that is damaged, and with those of other data.
    for file in compiled_files(&folder) {
        if file.extension().is_none_or(|it| it != "index") {
            continue;
        }
        fs::write(file, "damaged").unwrap();
    }
    assert_eq!(answers(), expected);
    folder.write("t/data.csv", data.replace("49,", "7,"));
    assert_ne!(answers(), expected);
}

/// Calls a function while a table is loaded.
struct Once<F>(AtomicBool, F);

impl<F: Fn()> Once<F> {
    fn new(call: F) -> Self {
        Self(AtomicBool::new(false), call)
    }
}

impl<F: Fn()> Progress for Once<F> {
    fn advanced(&self, _: LoadProgress<'_>) {
        if !self.0.swap(true, Ordering::Relaxed) {
            (self.1)();
        }
    }
}

fn load_meanwhile(folder: &Folder, call: impl Fn()) -> LoadedTables {
    let config = Config::open(folder.0.path(), &[]).unwrap();
    load_with(&config, &[], Selection::All, &Once::new(call), None).unwrap()
}

/// Replaces the data file as a deployment does.
fn replace(folder: &Folder, data: &str) {
    folder.write("t/next.csv", data);
    let path = |name: &str| folder.0.path().join("t").join(name);
    fs::rename(path("next.csv"), path("data.csv")).unwrap();
}

#[test]
fn a_file_that_is_replaced_and_put_back_is_not_compiled() {
    let folder = Folder::new(TABLE, DATA);
    let expected = off(&folder);
    let loaded = load_meanwhile(&folder, || {
        replace(&folder, "9,other\n");
        replace(&folder, DATA);
    });
    assert_eq!(loaded.report.tables[0].compiled, Compiled::None);
    // Without replacement, it is.
    let (written, compiled) = outcome(&folder);
    assert_eq!(written, expected);
    assert!(matches!(compiled, Compiled::Written(_)), "{compiled:?}");
}

#[test]
fn types_and_rows_are_those_of_one_version_of_a_file() {
    let folder = Folder::new(
        "[[tables]]\nname = 't'\ncolumns.by_header = ['a', 'b']\n",
        "a,b\n1,x\n",
    );
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    let loaded = load_meanwhile(&folder, || replace(&folder, "a,b\n007,y\n"));
    let database = loaded.databases.with_all().unwrap();
    assert_eq!(rows(&database, "select * from t"), "\"007\",\"y\"");
    assert_eq!(loaded.report.tables[0].warnings, [""; 0]);
    // A file that does not stop to change is loaded with a warning.
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let changing = Changing(&folder, AtomicU64::new(0));
    let loaded = load_with(&config, &[], Selection::All, &changing, None).unwrap();
    let warnings = &loaded.report.tables[0].warnings;
    assert!(
        warnings[0].starts_with("a file of the table has changed"),
        "{warnings:?}"
    );
    assert_eq!(loaded.report.tables[0].compiled, Compiled::None);
}

/// Replaces the file whenever a part of it has been loaded.
struct Changing<'f>(&'f Folder, AtomicU64);

impl Progress for Changing<'_> {
    fn advanced(&self, _: LoadProgress<'_>) {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        replace(self.0, &format!("a,b\n{number},z\n"));
    }
}
