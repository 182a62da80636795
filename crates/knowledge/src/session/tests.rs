//! The answers of sessions, from which layer they come, and errors.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use lookaside_value::{
    Answers, BatchQuery, Extent, Lookup, LookupError, LookupErrorKind, ParamBatch, Text, Value,
};
use tempfile::TempDir;

mod ages;

use super::{Policy, Session};
use crate::clock::Clock;
use crate::event::{CacheOutcome, Layer, Outcome, QueryKind};
use crate::telemetry::Telemetry;
use crate::{CallCache, Counts, ErrorKind, Knowledge, PlanKind, params};

/// A statement that only SQLite answers; parentheses and sums have no native plan.
const SQLITE: &str = "select name from users where id + 0 = :id";
const NATIVE: &str = "select name from users where id = :id";

fn write_users(folder: &TempDir, rows: &str) {
    fs::write(
        folder.path().join("users/data.csv"),
        format!("id,name\n{rows}"),
    )
    .unwrap();
}

fn folder_with(cache: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "version = 2\n[cache]\n{cache}\n[[tables]]\nname = \"users\"\n\
         columns.by_header = [\"id\", \"name\"]\n"
    );
    fs::write(folder.path().join("knowdb.toml"), config).unwrap();
    fs::create_dir(folder.path().join("users")).unwrap();
    let create = "create table {table} (id integer, name text)";
    fs::write(folder.path().join("users/create.sql"), create).unwrap();
    let insert = "insert into {table} values (?1, ?2)";
    fs::write(folder.path().join("users/insert.sql"), insert).unwrap();
    write_users(&folder, "1,ada\n2,grace\n");
    folder
}

fn open(cache: &str) -> (TempDir, Knowledge, Clock) {
    let folder = folder_with(cache);
    let clock = Clock::manual();
    let mut builder = Knowledge::builder(folder.path());
    builder.clock = clock.clone();
    (folder, builder.open().unwrap(), clock)
}

fn name(session: &mut Session, sql: &str, id: i64, policy: Policy<'_>) -> Option<Value> {
    let row = session
        .query_first_with(sql, &params! {"id" => id}, policy)
        .unwrap();
    row.map(|row| row[0].clone())
}

/// Hits and misses of the caller's cache, L0 and L1, and queries, since `before`.
fn steps(knowledge: &Knowledge, before: &mut Counts) -> [u64; 7] {
    let now = knowledge.snapshot().counts;
    let old = std::mem::replace(before, now);
    [
        now.call_hits - old.call_hits,
        now.call_misses - old.call_misses,
        now.l0_hits - old.l0_hits,
        now.l0_misses - old.l0_misses,
        now.l1_hits - old.l1_hits,
        now.l1_misses - old.l1_misses,
        now.queries - old.queries,
    ]
}

#[test]
fn plans_are_as_these_tests_believe() {
    let (_folder, knowledge, _) = open("");
    assert_eq!(knowledge.explain(NATIVE).unwrap().kind, PlanKind::Hash);
    let explained = knowledge.explain(SQLITE).unwrap();
    assert_eq!(explained.kind, PlanKind::Sqlite);
    assert_eq!(explained.columns, ["name"]);
    assert_eq!(knowledge.tables().unwrap(), ["users"]);
    assert_eq!(
        knowledge.snapshot().statement_count,
        0,
        "explaining prepares nothing"
    );
}

#[test]
fn each_layer_answers_in_its_turn() {
    let (folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    let mut seen = Counts::default();
    let ada = Some(Value::from("ada"));
    let mut ask = |session: &mut Session, policy: Policy<'_>, expected: [u64; 7]| {
        assert_eq!(name(session, SQLITE, 1, policy), ada);
        assert_eq!(steps(&knowledge, &mut seen), expected);
    };
    let mut first = CallCache::new();
    ask(
        &mut session,
        Policy::CallScope(&mut first),
        [0, 1, 0, 0, 0, 1, 1],
    );
    ask(
        &mut session,
        Policy::CallScope(&mut first),
        [1, 0, 0, 0, 0, 0, 0],
    );
    let mut second = CallCache::new();
    ask(
        &mut session,
        Policy::CallScope(&mut second),
        [0, 1, 0, 0, 1, 0, 0],
    );
    ask(&mut session, Policy::Global, [0, 0, 0, 1, 1, 0, 0]);
    ask(&mut session, Policy::Global, [0, 0, 1, 0, 0, 0, 0]);
    ask(&mut session, Policy::Bypass, [0, 0, 0, 0, 0, 0, 1]);
    ask(
        &mut knowledge.session(),
        Policy::Global,
        [0, 0, 0, 1, 1, 0, 0],
    );
    knowledge.reload().unwrap();
    ask(
        &mut session,
        Policy::CallScope(&mut second),
        [0, 1, 0, 0, 0, 1, 1],
    );
    ask(
        &mut session,
        Policy::CallScope(&mut second),
        [1, 0, 0, 0, 0, 0, 0],
    );
    ask(&mut session, Policy::Global, [0, 0, 0, 1, 1, 0, 0]);
    drop(folder);
}

#[test]
fn without_a_cache_each_question_is_a_query() {
    let (_folder, knowledge, _) = open("enabled = false");
    let mut session = knowledge.session();
    let mut seen = Counts::default();
    let mut own = CallCache::new();
    for (policy, expected) in [
        (Policy::Global, [0, 0, 0, 0, 0, 0, 1]),
        (Policy::Global, [0, 0, 0, 0, 0, 0, 1]),
        (Policy::CallScope(&mut own), [0, 1, 0, 0, 0, 0, 1]),
    ] {
        name(&mut session, SQLITE, 1, policy);
        assert_eq!(steps(&knowledge, &mut seen), expected);
    }
    name(&mut session, SQLITE, 1, Policy::CallScope(&mut own));
    assert_eq!(steps(&knowledge, &mut seen), [1, 0, 0, 0, 0, 0, 0]);
    assert!(!knowledge.snapshot().cache_enabled);
}

#[test]
fn native_plans_need_no_cache() {
    let (_folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    assert_eq!(
        name(&mut session, NATIVE, 1, Policy::Global),
        Some("ada".into())
    );
    assert_eq!(name(&mut session, NATIVE, 7, Policy::Bypass), None);
    let snapshot = knowledge.snapshot();
    assert_eq!(
        (snapshot.counts.native_hits, snapshot.counts.native_absent),
        (1, 1)
    );
    assert_eq!((snapshot.counts.queries, snapshot.l1_len), (0, 0));
    assert_eq!(
        (snapshot.counts.metadata_misses, snapshot.metadata_len),
        (1, 1)
    );
}

#[test]
fn answers_expire_also_empty_ones() {
    let (_folder, knowledge, clock) = open("ttl_ms = 1000");
    let mut session = knowledge.session();
    let mut own = CallCache::new();
    let mut seen = Counts::default();
    for id in [1, 99] {
        name(&mut session, SQLITE, id, Policy::Global);
        assert_eq!(steps(&knowledge, &mut seen)[6], 1);
        clock.advance(Duration::from_millis(990));
        name(&mut session, SQLITE, id, Policy::Global);
        name(&mut session, SQLITE, id, Policy::CallScope(&mut own));
        name(&mut knowledge.session(), SQLITE, id, Policy::Global);
        assert_eq!(
            steps(&knowledge, &mut seen)[6],
            0,
            "still fresh in all layers"
        );
        clock.advance(Duration::from_millis(20));
        name(&mut session, SQLITE, id, Policy::CallScope(&mut own));
        assert_eq!(steps(&knowledge, &mut seen), [0, 1, 0, 0, 0, 1, 1]);
        name(&mut session, SQLITE, id, Policy::Global);
        assert_eq!(steps(&knowledge, &mut seen), [0, 0, 0, 1, 1, 0, 0]);
    }
}

#[test]
fn a_reload_is_seen_by_every_layer_at_the_next_call() {
    let (folder, knowledge, _) = open("");
    let statements = [SQLITE, NATIVE].map(|sql| knowledge.prepare(sql).unwrap());
    let mut session = knowledge.session();
    let mut own = CallCache::new();
    let id = [Value::Int(1)];
    for (rows, expected) in [
        ("1,ada\n", Some("ada")),
        ("1,eva\n", Some("eva")),
        ("", None),
    ] {
        write_users(&folder, rows);
        knowledge.reload().unwrap();
        let expected = expected.map(Value::from);
        for statement in &statements {
            for _ in 0..2 {
                let row = session.first(statement, &id).unwrap();
                assert_eq!(row.map(|row| row[0].clone()), expected);
                let own = Policy::CallScope(&mut own);
                let row = session.first_with(statement, &id, own).unwrap();
                assert_eq!(row.map(|row| row[0].clone()), expected);
                let rows = session.all(statement, &id).unwrap();
                assert_eq!(rows.iter().next().map(|row| row[0].clone()), expected);
            }
        }
    }
    assert_eq!(session.generation(), 4);
}

#[test]
fn first_and_all_are_different_answers() {
    let (folder, knowledge, _) = open("");
    write_users(&folder, "1,a\n1,b\n2,c\n");
    knowledge.reload().unwrap();
    let mut session = knowledge.session();
    for sql in [SQLITE, NATIVE] {
        for _ in 0..2 {
            let first = session
                .query_first(sql, &params! {"id" => 1})
                .unwrap()
                .unwrap();
            assert_eq!(first.value("name"), Some(&"a".into()));
            let all = session.query_all(sql, &params! {"id" => 1}).unwrap();
            let mut names: Vec<String> = all.iter().map(|row| row[0].to_string()).collect();
            names.sort();
            assert_eq!(names, ["a", "b"], "{sql}");
            assert_eq!(all.columns(), ["name"]);
            assert!(
                session
                    .query_all(sql, &params! {"id" => 3})
                    .unwrap()
                    .is_empty()
            );
        }
    }
}

/// Holds up the query until all threads have missed their own caches.
#[derive(Debug)]
struct Gate {
    waiting_for: usize,
    missed: Mutex<usize>,
    changed: Condvar,
    queries: AtomicUsize,
}

impl Telemetry for Gate {
    fn on_cache(&self, layer: Layer, outcome: CacheOutcome) {
        if (layer, outcome) == (Layer::L0, CacheOutcome::Miss) {
            *self.missed.lock().unwrap() += 1;
            self.changed.notify_all();
        }
    }

    fn on_query(&self, kind: QueryKind, outcome: Outcome, _: Duration) {
        assert_eq!((kind, outcome), (QueryKind::First, Outcome::Success));
        self.queries.fetch_add(1, Ordering::Relaxed);
        let missed = self.missed.lock().unwrap();
        drop(
            self.changed
                .wait_while(missed, |missed| *missed < self.waiting_for)
                .unwrap(),
        );
    }
}

#[test]
fn concurrent_misses_of_a_key_are_one_query() {
    const THREAD_COUNT: usize = 8;
    let folder = folder_with("");
    let gate = Arc::new(Gate {
        waiting_for: THREAD_COUNT,
        missed: Mutex::new(0),
        changed: Condvar::new(),
        queries: AtomicUsize::new(0),
    });
    let knowledge = Knowledge::builder(folder.path())
        .telemetry(gate.clone())
        .open()
        .unwrap();
    let statement = knowledge.prepare(SQLITE).unwrap();
    let barrier = Barrier::new(THREAD_COUNT);
    thread::scope(|scope| {
        for _ in 0..THREAD_COUNT {
            scope.spawn(|| {
                let mut session = knowledge.session();
                barrier.wait();
                let row = session.first(&statement, &[Value::Int(2)]).unwrap();
                assert_eq!(row, Some(&["grace".into()][..]));
            });
        }
    });
    assert_eq!(gate.queries.load(Ordering::Relaxed), 1);
    let counts = knowledge.snapshot().counts;
    assert_eq!(
        (counts.l1_misses, counts.l1_hits),
        (1, THREAD_COUNT as u64 - 1)
    );
}

#[test]
fn a_failure_is_returned_and_not_kept() {
    let (_folder, knowledge, _) = open("");
    // The function gets a number instead of an address, which is an error when it runs.
    let statement = knowledge.prepare("select ip4_int(:x) where 1 = 1").unwrap();
    let mut session = knowledge.session();
    for failures in 1..3 {
        let error = session.first(&statement, &[Value::Int(5)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("ip4_int"), "{error}");
        assert_eq!(knowledge.snapshot().counts.query_failures, failures);
        assert_eq!(knowledge.snapshot().l1_len, 0);
    }
    let row = session
        .first(&statement, &[Value::from("0.0.0.9")])
        .unwrap();
    assert_eq!(row, Some(&[Value::Int(9)][..]));
}

fn check_refused(sql: &str, expected: &str) {
    let (_folder, knowledge, _) = open("");
    let error = knowledge.prepare(sql).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{sql}");
    let text = error.to_string();
    assert!(
        text.contains(expected) && !text.contains('\n'),
        "{sql}: {text}"
    );
    assert_eq!(knowledge.snapshot().statement_count, 0, "{sql}");
}

#[test]
fn only_single_queries_are_prepared() {
    check_refused("delete from users", "only queries");
    check_refused("with x as (select 1) delete from users", "only queries");
    check_refused("pragma user_version", "only queries");
    check_refused("attach 'x' as y", "only queries");
    check_refused("select 1; delete from users", "one statement");
    check_refused("select salary from users", "no such column: salary");
    check_refused("select * from nobody", "no such table: nobody");
    check_refused("select 'unended", "unrecognized token");
    check_refused("select :a::text", "parameter");
    check_refused("select ?1", "`:name`");
}

#[test]
fn wrong_parameters_are_named() {
    let (_folder, knowledge, _) = open("");
    let sql = "select * from users where id = :id and name = :name";
    let mut session = knowledge.session();
    let mut check = |params: &[(&str, Value)], expected: &str| {
        let error = session.query_first(sql, params).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::Refused);
    };
    check(
        &params! {"id" => 1},
        "no value is given for parameter `name`",
    );
    check(&[], "`id`, `name`");
    check(
        &params! {"id" => 1, "name" => "x", "nmae" => "y"},
        "no parameter is named `nmae`",
    );
    let error = session.query_first(sql, &[Value::Int(1)]).unwrap_err();
    assert!(
        error.to_string().contains("1 values for 2 parameters"),
        "{error}"
    );
    let statement = session.prepare(sql).unwrap();
    assert!(session.first(&statement, &[]).is_err());
    assert!(session.all(&statement, &[]).is_err());
    assert_eq!(statement.params(), ["id", "name"]);
    let (_other_folder, other, _) = open("");
    let error = other.session().first(&statement, &[]).unwrap_err();
    assert!(error.to_string().contains("another engine"), "{error}");
}

#[test]
fn batches_answer_each_set_and_share_the_rows() {
    let (_folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    let id = [Text::from("id")];
    for sql in [NATIVE, SQLITE] {
        let statement = Lookup::prepare(&mut session, sql, &id).unwrap();
        assert_eq!(
            session.prepare(sql).unwrap().id(),
            statement,
            "one text, one statement"
        );
        assert_eq!(session.columns(statement), ["name"]);
        let mut batch = ParamBatch::new(1);
        for id in [2, 9, 1, 2] {
            batch.push([Value::Int(id)]);
        }
        let mut answers = Answers::new();
        session.answer(BatchQuery::first(statement), &batch, &mut answers);
        let names: Vec<Option<&str>> = (0..answers.len())
            .map(|index| answers.row(index).unwrap().and_then(|row| row[0].as_str()))
            .collect();
        assert_eq!(names, [Some("grace"), None, Some("ada"), Some("grace")]);
    }
}

#[test]
fn a_batch_is_answered_with_all_rows_of_each_set() {
    let folder = folder_with("");
    write_users(&folder, "1,ada\n2,grace\n2,bo\n");
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let mut session = knowledge.session();
    let id = [Text::from("id")];
    for sql in [NATIVE, SQLITE] {
        let statement = Lookup::prepare(&mut session, sql, &id).unwrap();
        let mut batch = ParamBatch::new(1);
        for id in [2, 9, 1, 2] {
            batch.push([Value::Int(id)]);
        }
        let mut query = BatchQuery {
            extent: Extent::All,
            ..BatchQuery::first(statement)
        };
        let mut answers = Answers::new();
        session.answer(query, &batch, &mut answers);
        let names = |answers: &Answers, index| {
            let rows = answers.all(index).map_err(Clone::clone)?;
            Ok(rows.map(|rows| rows.iter().map(|row| row[0].to_string()).collect()))
        };
        let found = |answers: &Answers, index| names(answers, index).unwrap();
        let two = ["grace", "bo"].map(str::to_owned);
        let [grace, ada] = [Some(Vec::from(two)), Some(vec!["ada".to_owned()])];
        for (index, expected) in [&grace, &None, &ada, &grace].into_iter().enumerate() {
            assert_eq!(found(&answers, index), *expected, "{sql}");
        }
        query.rows_max = 1;
        session.answer(query, &batch, &mut answers);
        assert_eq!(found(&answers, 1), None);
        assert_eq!(found(&answers, 2), ada);
        let error: LookupError = names(&answers, 3).unwrap_err();
        assert_eq!(error.kind(), LookupErrorKind::LimitReached);
        assert!(
            error
                .to_string()
                .starts_with("the answer has 2 rows, and rows_max is 1;")
        );
    }
}

#[test]
fn failures_in_a_batch_stay_with_their_sets() {
    let (_folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    let names = [Text::from("x")];
    let statement =
        Lookup::prepare(&mut session, "select ip4_int(:x) where 1 = 1", &names).unwrap();
    let mut batch = ParamBatch::new(1);
    batch.push([Value::from("0.0.0.1")]);
    batch.push([Value::Int(1)]);
    batch.push([Value::from("0.0.0.2")]);
    let mut answers = Answers::new();
    session.answer(BatchQuery::first(statement), &batch, &mut answers);
    assert_eq!(answers.row(0).unwrap(), Some(&[Value::Int(1)][..]));
    assert_eq!(answers.row(1).unwrap_err().kind(), LookupErrorKind::Refused);
    assert_eq!(answers.row(2).unwrap(), Some(&[Value::Int(2)][..]));
    // A batch that cannot be answered at all returns an error for each set.
    let mut wide = ParamBatch::new(2);
    wide.push([Value::Null, Value::Null]);
    session.answer(BatchQuery::first(statement), &wide, &mut answers);
    assert!(
        answers
            .row(0)
            .unwrap_err()
            .to_string()
            .contains("2 values for 1 parameters")
    );
    let unknown = lookaside_value::StatementId::from_index(7);
    session.answer(BatchQuery::first(unknown), &batch, &mut answers);
    assert_eq!(answers.len(), 3);
    assert!(answers.row(2).is_err());
    assert!(session.columns(unknown).is_empty());
}

#[test]
fn a_language_names_the_order_of_parameters() {
    let (_folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    let sql = "select :a || :b || :a";
    for (order, expected) in [(["a", "b"], "121"), (["b", "a"], "212")] {
        let order = order.map(Text::from);
        let statement = Lookup::prepare(&mut session, sql, &order).unwrap();
        let mut batch = ParamBatch::new(2);
        batch.push([Value::from("1"), Value::from("2")]);
        let mut answers = Answers::new();
        session.answer(BatchQuery::first(statement), &batch, &mut answers);
        assert_eq!(answers.row(0).unwrap(), Some(&[Value::from(expected)][..]));
    }
    for wrong in [&["a"][..], &["a", "b", "c"], &["a", "c"]] {
        let wrong: Vec<Text> = wrong.iter().map(|&name| Text::from(name)).collect();
        let error = Lookup::prepare(&mut session, sql, &wrong).unwrap_err();
        assert_eq!(error.kind(), LookupErrorKind::Refused);
    }
}

#[test]
fn positions_of_a_text_are_those_of_its_first_appearances() {
    let (_folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    let sql = "select :a || :b";
    let turned = ["b", "a"].map(Text::from);
    Lookup::prepare(&mut session, sql, &turned).unwrap();
    let values = [Value::from("1"), Value::from("2")];
    for _ in 0..2 {
        let row = session.query_first(sql, &values).unwrap().unwrap();
        assert_eq!(row[0], Value::from("12"));
    }
    let named = params! {"b" => "2", "a" => "1"};
    let row = session.query_first(sql, &named).unwrap().unwrap();
    assert_eq!(row[0], Value::from("12"));
}

#[test]
fn prepared_statements_take_no_room_from_other_texts() {
    let (_folder, knowledge, _) = open("");
    for number in 0..1024 {
        knowledge.prepare(&format!("select {number}")).unwrap();
    }
    let mut session = knowledge.session();
    session.query_first("select 'kept'", ()).unwrap();
    session.query_first("select 'kept'", ()).unwrap();
    assert_eq!(knowledge.snapshot().counts.l0_hits, 1);
    assert_eq!(knowledge.snapshot().statement_count, 1025);
}

#[test]
fn any_number_of_texts_is_answered() {
    let (_folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    for number in 0..1100_i64 {
        let sql = format!("select {number} + :x");
        let row = session
            .query_first(&sql, &params! {"x" => 1})
            .unwrap()
            .unwrap();
        assert_eq!(row[0], Value::Int(number + 1));
    }
    assert_eq!(knowledge.snapshot().statement_count, 1024);
    let error = session.query_all("select 5000 + :x", ()).unwrap_err();
    assert!(
        error.to_string().contains("0 values for 1 parameters"),
        "{error}"
    );
    // Statements that are prepared explicitly are still admitted.
    knowledge.prepare(NATIVE).unwrap();
    assert_eq!(knowledge.snapshot().statement_count, 1025);
}
