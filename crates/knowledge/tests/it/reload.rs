//! Reloads: atomic, and by call, by file change and by timer.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lookaside_knowledge::{Builder, Knowledge, Outcome, Telemetry, Value, params};
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::folder::{folder, replace, rows, write_config, write_data};

const NATIVE: &str = "select generation from t where id = :id";
const SQLITE: &str = "select generation from t where id + 0 = :id";

/// How long a test waits for a reload that should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How long a test checks that no reload happens; longer than files must be unchanged before they
/// are read.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

#[test]
fn readers_see_one_state_or_the_other_and_never_an_error() {
    const ROW_COUNT: i64 = 50;
    const RELOAD_COUNT: i64 = 20;
    let folder = folder("", &rows(ROW_COUNT, 1));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let statements = [NATIVE, SQLITE].map(|sql| knowledge.prepare(sql).unwrap());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for statement in &statements {
            let (knowledge, done) = (&knowledge, &done);
            scope.spawn(move || {
                let mut session = knowledge.session();
                let mut batch = ParamBatch::new(1);
                for id in 1..=ROW_COUNT {
                    batch.push([Value::Int(id)]);
                }
                let mut answers = Answers::new();
                let mut last = 0;
                loop {
                    // Read before the batch, so that the last state is checked as well.
                    let was_done = done.load(Ordering::Acquire);
                    session.answer(BatchQuery::first(statement.id()), &batch, &mut answers);
                    let seen: Vec<i64> = (0..answers.len())
                        .map(|index| answers.row(index).unwrap().unwrap()[0].as_int().unwrap())
                        .collect();
                    assert!(seen.iter().all(|&one| one == seen[0]), "a mix: {seen:?}");
                    assert!(seen[0] >= last, "back from {last} to {}", seen[0]);
                    last = seen[0];
                    if was_done {
                        break assert_eq!(last, RELOAD_COUNT + 1);
                    }
                }
            });
        }
        for generation in 2..=RELOAD_COUNT + 1 {
            write_data(folder.path(), &rows(ROW_COUNT, generation));
            assert_eq!(knowledge.reload().unwrap(), generation as u64);
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(knowledge.snapshot().reload_successes, RELOAD_COUNT as u64);
}

#[test]
fn a_failed_reload_changes_nothing() {
    let folder = folder("", "1,1\n");
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let native = knowledge.prepare(NATIVE).unwrap();
    let sqlite = knowledge.prepare(SQLITE).unwrap();
    let mut session = knowledge.session();
    let path = folder.path();
    let damages: [(&str, &dyn Fn()); 5] = [
        ("the table's data is gone", &|| {
            fs::remove_file(path.join("t/data.csv")).unwrap()
        }),
        ("a row is short", &|| write_data(path, "1,1\n2\n")),
        ("the configuration is wrong", &|| {
            fs::write(path.join("knowdb.toml"), "version = 3").unwrap()
        }),
        ("there is no configuration", &|| {
            fs::remove_file(path.join("knowdb.toml")).unwrap()
        }),
        ("a statement lost its column", &|| {
            let create = "create table {table} (id integer, other integer)";
            fs::write(path.join("t/create.sql"), create).unwrap();
        }),
    ];
    for (failures, (damage, make)) in (1..).zip(damages) {
        make();
        let error = knowledge.reload().expect_err(damage);
        assert!(!error.to_string().contains('\n'), "{damage}: {error}");
        let snapshot = knowledge.snapshot();
        assert_eq!(
            (snapshot.generation, snapshot.reload_failures),
            (1, failures),
            "{damage}"
        );
        for statement in [&native, &sqlite] {
            let row = session.first(statement, &[Value::Int(1)]).unwrap();
            assert_eq!(row, Some(&[Value::Int(1)][..]), "{damage}");
        }
        write_config(path, "");
        write_data(path, "1,1\n");
    }
    let create = "create table {table} (id integer, generation integer)";
    fs::write(path.join("t/create.sql"), create).unwrap();
    assert_eq!(
        knowledge.reload().unwrap(),
        2,
        "a failed reload takes no number"
    );
}

#[test]
fn a_text_that_nobody_prepared_does_not_hold_up_a_reload() {
    let folder = folder("", "1,1\n");
    let knowledge = Knowledge::open(folder.path()).unwrap();
    knowledge.query_first(NATIVE, &params! {"id" => 1}).unwrap();
    let create = "create table {table} (id integer, other integer)";
    fs::write(folder.path().join("t/create.sql"), create).unwrap();
    knowledge.reload().unwrap();
    let error = knowledge
        .query_first(NATIVE, &params! {"id" => 1})
        .unwrap_err();
    assert!(
        error.to_string().contains("no such column: generation"),
        "{error}"
    );
}

/// Sends the outcome of each reload.
#[derive(Debug)]
struct Reloads(Mutex<Sender<Outcome>>);

impl Telemetry for Reloads {
    fn on_reload(&self, outcome: Outcome, _: Duration) {
        // The test may have ended.
        let _ = self.0.lock().unwrap().send(outcome);
    }
}

pub(crate) fn listen(builder: Builder) -> (Knowledge, Receiver<Outcome>) {
    let (sender, receiver) = channel();
    let telemetry = Arc::new(Reloads(Mutex::new(sender)));
    (builder.telemetry(telemetry).open().unwrap(), receiver)
}

fn generation(knowledge: &Knowledge) -> Value {
    knowledge
        .query_first(NATIVE, &params! {"id" => 1})
        .unwrap()
        .unwrap()[0]
        .clone()
}

#[test]
fn a_changed_file_is_noticed() {
    let folder = folder("", "1,1\n");
    let (knowledge, reloads) = listen(Knowledge::builder(folder.path()).watch(true));
    let path = folder.path();
    write_data(path, "1,2\n");
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(generation(&knowledge), Value::Int(2));
    replace(
        &path.join("t/insert.sql"),
        "insert into nowhere values (?1, ?2)",
    );
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Failure));
    assert_eq!(generation(&knowledge), Value::Int(2));
    let insert = "insert into {table} values (?1, ?2 + 1)";
    replace(&path.join("t/insert.sql"), insert);
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(generation(&knowledge), Value::Int(3));
}

/// Creates a folder for the table, like the current one but with this generation.
fn copy_of_table(table: &Path, next: &Path, generation: i64) {
    fs::create_dir(next).unwrap();
    for file in ["create.sql", "insert.sql"] {
        fs::copy(table.join(file), next.join(file)).unwrap();
    }
    let data = format!("id,generation\n1,{generation}\n");
    fs::write(next.join("data.csv"), data).unwrap();
}

/// The configuration is not in the folder that is replaced.
#[test]
fn a_folder_that_is_replaced_is_noticed_each_time() {
    let folder = folder("", "1,1\n");
    let path = folder.path();
    let base = path.join("base");
    let table = base.join("t");
    fs::create_dir(&base).unwrap();
    fs::rename(path.join("t"), &table).unwrap();
    let config = fs::read_to_string(path.join("knowdb.toml")).unwrap();
    fs::write(
        path.join("knowdb.toml"),
        format!("base_dir = \"base\"\n{config}"),
    )
    .unwrap();
    let (knowledge, reloads) = listen(Knowledge::builder(path).watch(true));
    for generation in [2, 4, 6] {
        let next = base.join(format!("t.{generation}"));
        copy_of_table(&table, &next, generation);
        // Atomically: on a busy machine, the reloader may run between two steps.
        renameat_with(CWD, &next, CWD, &table, RenameFlags::EXCHANGE).unwrap();
        assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
        assert_eq!(self::generation(&knowledge), Value::Int(generation));
        assert!(reloads.recv_timeout(QUIET).is_err(), "one for each change");
        write_data(&base, &format!("1,{}\n", generation + 1));
        assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
        assert_eq!(self::generation(&knowledge), Value::Int(generation + 1));
    }
}

#[cfg(unix)]
#[test]
fn a_folder_behind_a_link_is_noticed_when_the_link_changes() {
    use std::os::unix::fs::symlink;
    let folder = folder("", "1,1\n");
    let path = folder.path();
    fs::rename(path.join("t"), path.join("t.1")).unwrap();
    symlink("t.1", path.join("t")).unwrap();
    let (knowledge, reloads) = listen(Knowledge::builder(path).watch(true));
    for generation in [2, 4] {
        let next = path.join(format!("t.{generation}"));
        copy_of_table(&path.join("t"), &next, generation);
        symlink(&next, path.join("link")).unwrap();
        fs::rename(path.join("link"), path.join("t")).unwrap();
        assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
        assert_eq!(self::generation(&knowledge), Value::Int(generation));
        assert!(reloads.recv_timeout(QUIET).is_err(), "one for each change");
        write_data(path, &format!("1,{}\n", generation + 1));
        assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
        assert_eq!(self::generation(&knowledge), Value::Int(generation + 1));
    }
}

#[test]
fn a_table_that_a_new_configuration_waits_for_is_noticed() {
    let folder = folder("", "1,1\n");
    let (knowledge, reloads) = listen(Knowledge::builder(folder.path()).watch(true));
    let path = folder.path();
    let table = "[[tables]]\nname = \"u\"\ncolumns.by_header = [\"id\"]";
    write_config(path, table);
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Failure));
    fs::create_dir(path.join("next")).unwrap();
    fs::write(path.join("next/data.csv"), "id\n1\n").unwrap();
    fs::rename(path.join("next"), path.join("u")).unwrap();
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(knowledge.tables().unwrap(), ["t", "u"]);
}

#[test]
fn a_file_beside_the_watched_ones_reloads_nothing() {
    let folder = folder("", "1,1\n");
    let (knowledge, reloads) = listen(Knowledge::builder(folder.path()).watch(true));
    fs::write(folder.path().join("t/notes.txt"), "x").unwrap();
    write_data(folder.path(), "1,2\n");
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    drop(knowledge);
    assert!(
        reloads.recv().is_err(),
        "one reload, and the thread ends with the engine"
    );
}

/// Blocks the reload until the test has dropped the engine.
#[derive(Debug)]
struct Held {
    reloads: Mutex<Sender<Outcome>>,
    let_go: Mutex<Receiver<()>>,
}

impl Telemetry for Held {
    fn on_reload(&self, outcome: Outcome, _: Duration) {
        self.reloads.lock().unwrap().send(outcome).unwrap();
        self.let_go.lock().unwrap().recv().unwrap();
    }
}

#[test]
fn the_last_handle_may_be_dropped_while_the_tables_are_reloaded() {
    let folder = folder("refresh_ms = 20", "1,1\n");
    let (reloads, noticed) = channel();
    let (let_go, held) = channel();
    let telemetry = Arc::new(Held {
        reloads: Mutex::new(reloads),
        let_go: Mutex::new(held),
    });
    let builder = Knowledge::builder(folder.path()).telemetry(telemetry);
    let knowledge = builder.open().unwrap();
    write_data(folder.path(), "1,2\n");
    assert_eq!(noticed.recv_timeout(PATIENCE), Ok(Outcome::Success));
    drop(knowledge);
    let_go.send(()).unwrap();
    // The listener is dropped with the engine, which the thread itself drops now.
    assert_eq!(
        noticed.recv_timeout(PATIENCE),
        Err(RecvTimeoutError::Disconnected)
    );
}

/// A listener that reloads once after the first load.
#[derive(Debug, Default)]
struct Again(Mutex<Option<Knowledge>>);

impl Telemetry for Again {
    fn on_reload(&self, _: Outcome, _: Duration) {
        let knowledge = self.0.lock().unwrap().take();
        if let Some(knowledge) = knowledge {
            knowledge.reload().unwrap();
        }
    }
}

#[test]
fn a_listener_may_reload() {
    let folder = folder("", "1,1\n");
    let again = Arc::new(Again::default());
    let builder = Knowledge::builder(folder.path()).telemetry(again.clone());
    let knowledge = builder.open().unwrap();
    *again.0.lock().unwrap() = Some(knowledge.clone());
    let (done, ended) = channel();
    thread::spawn(move || {
        knowledge.reload().unwrap();
        done.send(knowledge.generation()).unwrap();
    });
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(3));
}

#[test]
fn a_table_with_an_interval_is_read_again_when_it_changed() {
    let folder = folder("refresh_ms = 20", "1,1\n");
    let (knowledge, reloads) = listen(Knowledge::builder(folder.path()));
    write_data(folder.path(), "1,2\n");
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(generation(&knowledge), Value::Int(2));
    assert_eq!(knowledge.snapshot().reload_successes, 1);
}

#[test]
fn a_copy_of_a_database_is_made_anew_at_each_reload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.sqlite");
    let database = rusqlite::Connection::open(&file).unwrap();
    database
        .execute_batch("create table t (id, generation); insert into t values (1, 1)")
        .unwrap();
    let knowledge = Knowledge::sqlite_builder(&file).open().unwrap();
    assert_eq!(generation(&knowledge), Value::Int(1));
    database
        .execute_batch("update t set generation = 2")
        .unwrap();
    assert_eq!(generation(&knowledge), Value::Int(1));
    assert_eq!(knowledge.reload().unwrap(), 2);
    assert_eq!(generation(&knowledge), Value::Int(2));
}

#[test]
fn new_and_removed_files_of_a_pattern_are_noticed() {
    let folder = folder("data_file = \"*/part-*.csv\"", "");
    let path = folder.path();
    let part = |file: &str, row: &str| {
        let file = path.join("t").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        replace(&file, &format!("id,generation\n{row}\n"));
    };
    part("a/part-1.csv", "1,1");
    let (knowledge, reloads) = listen(Knowledge::builder(path).watch(true));
    let count = || {
        let row = knowledge.query_first("select count(*) from t", ()).unwrap();
        row.unwrap().as_ref().values()[0].clone()
    };
    assert_eq!(count(), Value::Int(1));
    part("a/part-2.csv", "2,1");
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(count(), Value::Int(2));
    // In a new folder.
    part("new/part-3.csv", "3,1");
    while count() != Value::Int(3) {
        assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    }
    fs::remove_file(path.join("t/a/part-1.csv")).unwrap();
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(count(), Value::Int(2));
    part("a/other.csv", "4,1");
    assert!(
        reloads.recv_timeout(QUIET).is_err(),
        "not a file of the table"
    );
    // All are gone: the old rows stay.
    fs::remove_dir_all(path.join("t/new")).unwrap();
    while reloads.recv_timeout(PATIENCE) != Ok(Outcome::Success) {}
    fs::remove_dir_all(path.join("t/a")).unwrap();
    while reloads.recv_timeout(PATIENCE) != Ok(Outcome::Failure) {}
    assert_eq!(count(), Value::Int(1));
    part("a/part-9.csv", "9,1");
    while reloads.recv_timeout(PATIENCE) != Ok(Outcome::Success) {}
    assert_eq!(count(), Value::Int(1));
}
