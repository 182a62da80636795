//! The age of answers: it counts from the query, in every layer, also if the database took longer
//! than the lifetime of an answer. The duration of queries is simulated by a manual clock.

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task;
use std::time::Instant;

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Postgres};

use super::*;
use crate::Freshness;
use crate::versions::DataVersion;
use crate::wait::block_on;
use crate::{AnsweredBy, Extent, Provenance, Statement};

const SECOND: Duration = Duration::from_secs(1);

/// Makes each query take this long.
#[derive(Debug)]
struct SlowQueries {
    clock: Clock,
    duration: Mutex<Duration>,
}

impl Telemetry for SlowQueries {
    fn on_query(&self, _: QueryKind, _: Outcome, _: Duration) {
        self.clock.advance(*self.duration.lock().unwrap());
    }
}

/// An engine whose queries take two seconds.
fn slow(folder: &TempDir) -> (Knowledge, Clock, Arc<SlowQueries>) {
    let clock = Clock::manual();
    let queries = Arc::new(SlowQueries {
        clock: clock.clone(),
        duration: Mutex::new(2 * SECOND),
    });
    let telemetry: Arc<dyn Telemetry> = Arc::<SlowQueries>::clone(&queries);
    let mut builder = Knowledge::builder(folder.path()).telemetry(telemetry);
    builder.clock = clock.clone();
    (builder.open().unwrap(), clock, queries)
}

fn answer(knowledge: &Knowledge, statement: &Statement, age_max: Option<Duration>) -> Provenance {
    let id = [Value::Int(1)];
    let asking = knowledge.answer_async(statement, &id, Extent::First, Freshness::aged(age_max));
    let (rows, provenance) = block_on(asking).unwrap();
    assert_eq!(rows.len(), 1);
    provenance
}

/// Queries, by each function, an answer that takes two seconds and is kept for one.
fn check_late(knowledge: &Knowledge, statement: &Statement, sql: &str, by: AnsweredBy) {
    let mut seen = knowledge.snapshot().counts;
    for age_max in [None, Some(SECOND / 2), Some(Duration::ZERO)] {
        let expected = Provenance {
            by,
            age: 2 * SECOND,
            fresh_for: Duration::ZERO,
            is_stale: false,
            horizon: None,
            version: DataVersion::UNTRACKED,
            at: None,
        };
        let provenance = answer(knowledge, statement, age_max);
        let provenance = Provenance {
            at: None,
            ..provenance
        };
        assert_eq!(provenance, expected, "{age_max:?}");
        assert_eq!(steps(knowledge, &mut seen)[6], 1, "{age_max:?}");
        assert_eq!(knowledge.snapshot().l1_len, 0, "{age_max:?}");
    }
    let mut session = knowledge.session();
    let mut own = CallCache::new();
    for _ in 0..2 {
        name(&mut session, sql, 1, Policy::Global);
        name(&mut session, sql, 1, Policy::CallScope(&mut own));
        assert_eq!(steps(knowledge, &mut seen)[6], 2);
        assert_eq!((knowledge.snapshot().l1_len, own.len()), (0, 0));
    }
}

#[test]
fn a_late_answer_of_sqlite_is_given_out_and_not_kept() {
    let folder = folder_with("ttl_ms = 1000");
    let (knowledge, _, _) = slow(&folder);
    let statement = knowledge.prepare(SQLITE).unwrap();
    check_late(&knowledge, &statement, SQLITE, AnsweredBy::Sqlite);
    // The age is also known without a cache.
    let folder = folder_with("enabled = false");
    let (knowledge, _, _) = slow(&folder);
    let statement = knowledge.prepare(SQLITE).unwrap();
    assert_eq!(answer(&knowledge, &statement, None).age, 2 * SECOND);
}

#[test]
fn issue_15_the_age_of_an_answer_with_a_long_lifetime_is_known() {
    let days = |count: u32| 24 * 3600 * count * SECOND;
    let folder = folder_with("ttl_ms = 2592000000");
    let (knowledge, clock, queries) = slow(&folder);
    *queries.duration.lock().unwrap() = Duration::ZERO;
    let statement = knowledge.prepare(SQLITE).unwrap();
    answer(&knowledge, &statement, None);
    for day in 1..=24 {
        clock.advance(days(1));
        let Provenance { by, age, .. } = answer(&knowledge, &statement, None);
        assert_ne!(by, AnsweredBy::Sqlite, "{day}");
        assert_eq!(age, days(day));
    }
    clock.advance(days(1));
    let provenance = answer(&knowledge, &statement, None);
    assert_eq!(provenance.by, AnsweredBy::Sqlite, "it lives for 24.8 days");
}

#[test]
fn an_answer_is_as_old_as_its_question() {
    let folder = folder_with("ttl_ms = 3000");
    let (knowledge, clock, queries) = slow(&folder);
    let statement = knowledge.prepare(SQLITE).unwrap();
    let check = |age_max, by, age| {
        let provenance = answer(&knowledge, &statement, age_max);
        assert_eq!((provenance.by, provenance.age), (by, age));
        assert_eq!(provenance.fresh_for, 3 * SECOND - age);
    };
    let try_local = |session: &mut Session| {
        let id = [Value::Int(1)];
        let served = session.try_local(&statement, &id, Extent::First, Freshness::default());
        let provenance = served.unwrap().unwrap().provenance;
        (provenance.by, provenance.age)
    };
    check(None, AnsweredBy::Sqlite, 2 * SECOND);
    clock.advance(SECOND / 2);
    let mut session = knowledge.session();
    assert_eq!(try_local(&mut session), (AnsweredBy::L1, 5 * SECOND / 2));
    assert_eq!(try_local(&mut session), (AnsweredBy::L0, 5 * SECOND / 2));
    // A caller that requires a younger answer makes a new query, and other callers find its answer.
    *queries.duration.lock().unwrap() = SECOND / 4;
    check(Some(2 * SECOND), AnsweredBy::Sqlite, SECOND / 4);
    let mut other = knowledge.session();
    assert_eq!(try_local(&mut other), (AnsweredBy::L1, SECOND / 4));
    clock.advance(3 * SECOND);
    check(None, AnsweredBy::Sqlite, SECOND / 4);
}

/// A project whose provider has a table `t` of one row.
fn provider(more: &str) -> Option<(Postgres, TempDir)> {
    let version = "18".parse().unwrap();
    if let Err(error) = Binaries::find(version, &()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must have one: {error}"
        );
        // Bypasses the harness, which hides the output of passing tests.
        let _ = writeln!(io::stderr(), "SKIP no PostgreSQL 18 to test with: {error}");
        return None;
    }
    let postgres = Postgres::builder().version(version).fresh_cluster();
    let postgres = postgres
        .sql("create sequence asked; create table t as select 1 as id")
        .start()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "version = 2\n[cache]\nttl_ms = 1000\n[[provider.sqldb]]\nname = 'pg'\n\
         kind = 'postgres'\nconnection_uri = '{}'\n{more}\n",
        postgres.url()
    );
    fs::write(folder.path().join("knowdb.toml"), config).unwrap();
    Some((postgres, folder))
}

/// A different answer to each query.
const NUMBERED: &str = "select nextval('asked') as name from t where id = :id";

#[test]
fn a_late_answer_of_a_provider_goes_to_those_who_wait_and_is_not_kept() {
    let Some((postgres, folder)) = provider("") else {
        return;
    };
    let (knowledge, clock, _) = slow(&folder);
    let statement = knowledge.prepare(NUMBERED).unwrap();
    check_late(&knowledge, &statement, NUMBERED, AnsweredBy::Provider);
    let id = [Value::Int(1)];
    let ask = |age_max| {
        Box::pin(knowledge.answer_async(&statement, &id, Extent::First, Freshness::aged(age_max)))
    };
    // The second caller waits for the first query, unless it requires an answer that is no older
    // than its own query.
    for (age_max, is_shared) in [
        (None, true),
        (Some(SECOND / 2), true),
        (Some(SECOND / 8), true),
        (Some(Duration::ZERO), false),
    ] {
        let before = knowledge.snapshot().counts.queries;
        let locked = lock_table(&postgres);
        let (mut first, mut second) = (ask(None), ask(age_max));
        begin(&mut first);
        clock.advance(SECOND / 4);
        begin(&mut second);
        drop(locked);
        let answers = block_on(async { tokio::join!(first, second) });
        let ((first, _), (second, provenance)) = (answers.0.unwrap(), answers.1.unwrap());
        let asked = knowledge.snapshot().counts.queries - before;
        assert_eq!(first == second, is_shared, "{age_max:?}");
        assert_eq!(asked, if is_shared { 1 } else { 2 }, "{age_max:?}");
        if is_shared {
            assert_eq!(provenance.age, 9 * SECOND / 4);
            assert_eq!(provenance.by, AnsweredBy::L1);
        }
        assert_eq!(knowledge.snapshot().l1_len, 0, "{age_max:?}");
    }
}

/// Blocks all queries to the provider until the connection is dropped.
fn lock_table(postgres: &Postgres) -> Connection {
    let config = Config::parse(&postgres.url(), &Environment::empty()).unwrap();
    let Config::Postgres(config) = config else {
        panic!("{config} is not PostgreSQL");
    };
    let mut connection = Connection::connect_with(&config, Options::default()).unwrap();
    for sql in ["begin", "lock table t"] {
        connection.query(sql, &[]).unwrap();
    }
    connection
}

/// Polls a future for the first time; it must be pending.
fn begin<F: Future>(asking: &mut Pin<Box<F>>) {
    let mut context = task::Context::from_waker(task::Waker::noop());
    assert!(asking.as_mut().poll(&mut context).is_pending());
}

#[test]
fn who_asks_after_somebody_else_failed_has_an_answer_of_that_question() {
    let Some((postgres, folder)) = provider("") else {
        return;
    };
    let (knowledge, clock, queries) = slow(&folder);
    *queries.duration.lock().unwrap() = SECOND / 4;
    let statement = knowledge.prepare(NUMBERED).unwrap();
    let id = [Value::Int(1)];
    let ask =
        || Box::pin(knowledge.answer_async(&statement, &id, Extent::First, Freshness::default()));
    let locked = lock_table(&postgres);
    let (mut first, mut second) = (ask(), ask());
    begin(&mut first);
    begin(&mut second);
    clock.advance(10 * SECOND);
    drop(first);
    drop(locked);
    let (_, provenance) = block_on(second).unwrap();
    assert_eq!(provenance.age, SECOND / 4);
    assert_eq!(knowledge.snapshot().l1_len, 1);
}

#[test]
fn an_old_answer_grows_older_while_it_stands_in() {
    let more = "stale_if_error_ms = 600000\nacquire_timeout_ms = 300";
    let Some((postgres, folder)) = provider(more) else {
        return;
    };
    let (knowledge, clock, queries) = slow(&folder);
    *queries.duration.lock().unwrap() = Duration::ZERO;
    let sql = "select id as name from t where id = :id";
    let statement = knowledge.prepare(sql).unwrap();
    assert!(!answer(&knowledge, &statement, None).is_stale);
    drop(postgres);
    // The server takes a while to end.
    let begun = Instant::now();
    let old = loop {
        clock.advance(2 * SECOND);
        let answer = answer(&knowledge, &statement, None);
        if answer.is_stale {
            break answer;
        }
        assert!(begun.elapsed() < 60 * SECOND, "the server never ended");
    };
    assert!(old.fresh_for <= SECOND, "{old:?}");
    clock.advance(SECOND / 2);
    let mut session = knowledge.session();
    let id = [Value::Int(1)];
    let served = session.try_local(&statement, &id, Extent::First, Freshness::default());
    let kept = served.unwrap().unwrap().provenance;
    assert!(kept.is_stale, "{kept:?}");
    // Less a millisecond, because ticks round down.
    let grown = Duration::from_millis(499);
    assert!(kept.age >= old.age + grown, "{kept:?} after {old:?}");
    assert!(kept.fresh_for <= old.fresh_for - grown, "{kept:?}");
    let mut batch = ParamBatch::new(1);
    batch.push(id);
    let stand_ins = session.answer_each(
        &statement,
        &batch,
        Extent::First,
        Freshness::default(),
        |_| ControlFlow::Continue(()),
    );
    assert_eq!(stand_ins.unwrap().unwrap().age_max, kept.age);
}
