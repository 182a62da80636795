//! The interface for a service: the origin and age of answers, and what is not available locally.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use lookaside_knowledge::{
    AnsweredBy, Extent, Freshness, Knowledge, ParamBatch, Provenance, Statement, Value,
};

use crate::folder::{folder, rows, write_config, write_data};
use crate::live::{postgres, project};
use crate::non_blocking::block_on;

const NATIVE: &str = "select generation from t where id = :id";
const SQLITE: &str = "select generation from t where id + 0 = :id";

/// How long to wait for events that should happen at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// A tick of the coarse clock is 10 ms at most.
const TICK: Duration = Duration::from_millis(10);

fn ask(knowledge: &Knowledge, statement: &Statement, age_max: Option<Duration>) -> Provenance {
    let id = [Value::Int(1)];
    let answer = knowledge.answer_async(statement, &id, Extent::First, Freshness::aged(age_max));
    let (rows, provenance) = block_on(answer).unwrap();
    assert_eq!(rows.len(), 1);
    provenance
}

#[test]
fn an_answer_says_who_gave_it() {
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let mut session = knowledge.session();
    let (native, sqlite) = (knowledge.prepare(NATIVE), knowledge.prepare(SQLITE));
    let (native, sqlite) = (native.unwrap(), sqlite.unwrap());
    for (id, count) in [(1, 1), (9, 0)] {
        let id = [Value::Int(id)];
        for extent in [Extent::First, Extent::All] {
            let served = session
                .try_local(&native, &id, extent, Freshness::default())
                .unwrap()
                .unwrap();
            assert_eq!(served.rows.len(), count);
            assert_eq!(served.rows.columns()[0], "generation");
            assert_eq!(served.provenance.by, AnsweredBy::Native);
        }
    }
    let id = [Value::Int(1)];
    let is_at_hand = session
        .try_local(&sqlite, &id, Extent::First, Freshness::default())
        .unwrap();
    assert!(is_at_hand.is_none());
    assert_eq!(ask(&knowledge, &sqlite, None).by, AnsweredBy::Sqlite);
    for by in [AnsweredBy::L1, AnsweredBy::L0] {
        let served = session
            .try_local(&sqlite, &id, Extent::First, Freshness::default())
            .unwrap();
        assert_eq!(served.unwrap().provenance.by, by);
    }
    assert!(
        session
            .try_local(&sqlite, &[], Extent::First, Freshness::default())
            .is_err()
    );
}

#[test]
fn a_batch_comes_in_order() {
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let mut session = knowledge.session();
    for sql in [NATIVE, SQLITE] {
        let statement = knowledge.prepare(sql).unwrap();
        let mut batch = ParamBatch::new(1);
        for id in [3, 9, 1, 3] {
            batch.push([Value::Int(id)]);
        }
        for extent in [Extent::First, Extent::All] {
            for age_max in [None, Some(Duration::ZERO)] {
                let mut counts = Vec::new();
                session
                    .answer_each(
                        &statement,
                        &batch,
                        extent,
                        Freshness::aged(age_max),
                        |rows| {
                            counts.push(rows.unwrap().len());
                            ControlFlow::Continue(())
                        },
                    )
                    .unwrap();
                assert_eq!(counts, [1, 0, 1, 1], "{sql}");
            }
        }
    }
}

#[test]
fn a_statement_that_is_let_go_stops_no_reload() {
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let statement = knowledge.prepare(NATIVE).unwrap();
    let again = knowledge.prepare(NATIVE).unwrap();
    write_config(folder.path(), "");
    std::fs::write(
        folder.path().join("t/create.sql"),
        "create table {table} (id integer primary key, other integer)",
    )
    .unwrap();
    write_data(folder.path(), &rows(3, 8));
    assert!(knowledge.reload().is_err());
    knowledge.release(&statement).unwrap();
    assert!(knowledge.reload().is_err(), "somebody else holds on to it");
    knowledge.release(&again).unwrap();
    assert_eq!(knowledge.reload().unwrap(), 2);
    let mut session = knowledge.session();
    let id = [Value::Int(1)];
    let found = session
        .try_local(&statement, &id, Extent::First, Freshness::default())
        .unwrap();
    assert!(found.is_none());
    assert!(
        block_on(knowledge.answer_async(&statement, &id, Extent::First, Freshness::default()))
            .is_err()
    );
}

#[test]
fn a_provider_answers_and_an_old_answer_stands_in() {
    let Some(postgres) = postgres(true) else {
        return;
    };
    postgres
        .execute("create table t (id int primary key, generation int); insert into t values (1, 7)")
        .unwrap();
    let more = "stale_if_error_ms = 600000\nquery_timeout_ms = 60000\nacquire_timeout_ms = 60000";
    // Long enough for three queries on a busy machine.
    const TTL: Duration = Duration::from_secs(3);
    let folder = project(&postgres.url(), more, "[cache]\nttl_ms = 3000");
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let statement = knowledge.prepare(NATIVE).unwrap();
    let mut session = knowledge.session();
    let id = [Value::Int(1)];
    assert!(
        session
            .try_local(&statement, &id, Extent::First, Freshness::default())
            .unwrap()
            .is_none()
    );
    let asked = ask(&knowledge, &statement, None);
    assert_eq!((asked.by, asked.is_stale), (AnsweredBy::Provider, false));
    let served = session
        .try_local(&statement, &id, Extent::First, Freshness::default())
        .unwrap();
    assert_eq!(served.unwrap().provenance.by, AnsweredBy::L1);
    let young = ask(&knowledge, &statement, Some(Duration::ZERO));
    assert_eq!(young.by, AnsweredBy::Provider);
    let mut batch = ParamBatch::new(1);
    for id in [1, 2, 1] {
        batch.push([Value::Int(id)]);
    }
    let flights = knowledge.snapshot().counts.flights;
    let mut counts = Vec::new();
    session
        .answer_each(
            &statement,
            &batch,
            Extent::All,
            Freshness::default(),
            |rows| {
                counts.push(rows.unwrap().len());
                ControlFlow::Continue(())
            },
        )
        .unwrap();
    assert_eq!(counts, [1, 0, 1]);
    assert_eq!(knowledge.snapshot().counts.flights, flights + 1);

    postgres.close().unwrap();
    // sleep: the time to live has to pass
    thread::sleep(TTL + TICK);
    // The stale answer is used for a second, so that not every caller queries the server; a busy
    // machine may miss that.
    let mut other = knowledge.session();
    let begun = Instant::now();
    let (old, served) = loop {
        let old = ask(&knowledge, &statement, None);
        assert!(old.is_stale, "{old:?}");
        assert!(old.age >= TTL, "{old:?}");
        let served = other
            .try_local(&statement, &id, Extent::First, Freshness::default())
            .unwrap();
        if let Some(served) = served {
            break (old, served);
        }
        assert!(begun.elapsed() < PATIENCE, "it is never at hand");
    };
    assert!(served.provenance.is_stale);
    assert!(served.provenance.age >= old.age - TICK);
}
