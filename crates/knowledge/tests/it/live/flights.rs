//! How many queries and flights a server gets.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use lookaside_client::postgres::blocking::Connection;
use lookaside_knowledge::{CallCache, Contract, ErrorKind, Knowledge, Policy, Value, params};
use lookaside_testing::wait_until;
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, Text};

use super::{TEN_THOUSAND, open, postgres, project};

const BY_ID: &str = "select name from t where id = :id";

fn ask(knowledge: &Knowledge, ids: impl IntoIterator<Item = i64>) -> Vec<Option<Value>> {
    let mut session = knowledge.session();
    let statement = Lookup::prepare(&mut session, BY_ID, &[Text::from("id")]).unwrap();
    assert_eq!(session.columns(statement), ["name"]);
    let mut batch = ParamBatch::new(1);
    for id in ids {
        batch.push([Value::Int(id)]);
    }
    let mut answers = Answers::new();
    session.answer(BatchQuery::first(statement), &batch, &mut answers);
    (0..answers.len())
        .map(|index| answers.row(index).unwrap().map(|row| row[0].clone()))
        .collect()
}

#[test]
fn a_batch_of_misses_is_one_flight() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", "[cache]\ncapacity = 5000");
    let knowledge = open(&folder);
    // Each key twice, and some that do not exist.
    let ids = || (0..1000).chain(0..1000);
    let check = |answers: Vec<Option<Value>>| {
        assert_eq!(answers.len(), 2000);
        for (id, answer) in ids().zip(answers) {
            let expected = (id > 0).then(|| Value::from(format!("n{id}")));
            assert_eq!(answer, expected, "{id}");
        }
    };
    check(ask(&knowledge, ids()));
    let counts = knowledge.snapshot().counts;
    assert_eq!(
        (counts.flights, counts.queries),
        (1, 1000),
        "equal keys are asked for once"
    );
    // Another session finds them in the shared cache.
    check(ask(&knowledge, ids()));
    let counts = knowledge.snapshot().counts;
    assert_eq!((counts.flights, counts.queries), (1, 1000));
    assert_eq!(counts.l1_misses, 1000);
    assert_eq!(counts.l0_hits + counts.l1_hits, 2000);
    // Only missing keys are queried.
    ask(&knowledge, 900..1100);
    let counts = knowledge.snapshot().counts;
    assert_eq!((counts.flights, counts.queries), (2, 1100));
}

#[test]
fn a_batch_has_its_answers_from_all_layers() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", "");
    // Rows that are copied, and rows that are kept alive.
    for sql in [
        "select name from t where id = :id",
        "select name, id, 1, 2, 3 from t where id = :id",
    ] {
        let knowledge = open(&folder);
        let mut sessions = [knowledge.session(), knowledge.session()];
        // The last batch mixes keys that are in L0, in L1 and in no cache, each of them twice.
        let mixed: Vec<i64> = (0..200).map(|index| index * 73 % 100 + 1).collect();
        for (session, ids) in [
            (0, (1..=60).collect::<Vec<i64>>()),
            (1, (30..=80).collect()),
            (1, mixed),
        ] {
            let session = &mut sessions[session];
            let statement = Lookup::prepare(session, sql, &[Text::from("id")]).unwrap();
            let mut batch = ParamBatch::new(1);
            ids.iter().for_each(|id| batch.push([Value::Int(*id)]));
            let mut answers = Answers::new();
            session.answer(BatchQuery::first(statement), &batch, &mut answers);
            assert_eq!(answers.len(), ids.len());
            for (index, id) in ids.iter().enumerate() {
                let row = answers.row(index).unwrap().unwrap();
                assert_eq!(row[0], Value::from(format!("n{id}")), "{sql}");
            }
        }
        let counts = knowledge.snapshot().counts;
        assert_eq!((counts.flights, counts.queries), (3, 100));
        assert_eq!(counts.l0_hits + counts.l1_hits, 2 * 51 + 31 + 2 * 29);
        // Three keys in the same set of L0 are rare.
        assert!((80..=2 * 51).contains(&counts.l0_hits), "{counts:?}");
    }
}

#[test]
fn without_a_cache_a_batch_is_one_flight_each_time() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", "[cache]\nenabled = false");
    let knowledge = open(&folder);
    for flight_count in 1..=2 {
        ask(&knowledge, (1..500).chain(1..500));
        let counts = knowledge.snapshot().counts;
        assert_eq!(
            (counts.flights, counts.queries),
            (flight_count, flight_count * 499)
        );
    }
}

/// [`Session::set_freshness`](lookaside_knowledge::Session::set_freshness) applies to each way to query.
#[test]
fn issue_15_all_queries_of_a_session_are_as_fresh_as_it_requires() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    (postgres
        .execute("create table t(id int primary key, name text); insert into t values (1, '0')"))
    .unwrap();
    let folder = project(&postgres.url(), "", "");
    let knowledge = open(&folder);
    let mut session = knowledge.session();
    let statement = session.prepare(BY_ID).unwrap();
    let text = |row: &[Value]| row[0].to_string();
    let id = [Value::Int(1)];
    type Query<'a> = &'a dyn Fn(&mut lookaside_knowledge::Session) -> String;
    let queries: [(&str, Query<'_>); 7] = [
        ("first", &|it| {
            text(it.first(&statement, &id).unwrap().unwrap())
        }),
        ("first_row", &|it| {
            text(&it.first_row(&statement, &id).unwrap().unwrap())
        }),
        ("all", &|it| text(it.all(&statement, &id).unwrap().row(0))),
        ("query_first", &|it| {
            text(
                &it.query_first(&statement, &params! {"id" => 1})
                    .unwrap()
                    .unwrap(),
            )
        }),
        ("query_all", &|it| {
            text(
                it.query_all(&statement, &params! {"id" => 1})
                    .unwrap()
                    .row(0),
            )
        }),
        ("call scope", &|it| {
            let mut cache = CallCache::new();
            let policy = Policy::CallScope(&mut cache);
            text(it.all_with(&statement, &id, policy).unwrap().row(0))
        }),
        ("batch", &|it| {
            let mut batch = ParamBatch::new(1);
            batch.push(id.clone());
            let mut answers = Answers::new();
            it.answer(BatchQuery::first(statement.id()), &batch, &mut answers);
            text(answers.row(0).unwrap().unwrap())
        }),
    ];
    for (index, (name, query)) in queries.into_iter().enumerate() {
        let changed = format!("change {index}");
        session.set_freshness(Contract::ANY.into());
        let cached = query(&mut session);
        postgres
            .execute(&format!("update t set name = '{changed}'"))
            .unwrap();
        assert_eq!(query(&mut session), cached, "{name}: any");
        session.set_freshness(Contract::NOW.into());
        assert_eq!(query(&mut session), changed, "{name}: now");
    }
}

#[test]
fn the_server_counts_the_same() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    // The statistics of the table count each row that was read.
    let folder = project(&postgres.url(), "", "[cache]\ncapacity = 5000");
    let knowledge = open(&folder);
    ask(&knowledge, (1..=1000).chain(1..=1000));
    ask(&knowledge, 1..=1000);
    drop(knowledge);
    let counted = open(&folder);
    let sql = "select idx_scan from pg_stat_user_tables where relname = 't'";
    // The server publishes the statistics of a connection at its end, or a while later.
    let mut reads = Value::Null;
    wait_until("the server has counted", || {
        let row = counted.query_first_with(sql, (), Policy::Bypass).unwrap();
        reads = row.unwrap()[0].clone();
        reads != Value::Int(0) && reads != Value::Null
    });
    assert_eq!(reads, Value::Int(1000));
}

#[test]
fn concurrent_misses_of_one_key_are_one_query() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let folder = project(&postgres.url(), "", "");
    let knowledge = open(&folder);
    let sql = "select :n::int as n, pg_sleep(0.2) is null as slept";
    knowledge.prepare(sql).unwrap();
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let row = knowledge
                    .query_first(sql, &params! {"n" => 7})
                    .unwrap()
                    .unwrap();
                assert_eq!(row[0], Value::Int(7));
            });
        }
    });
    assert_eq!(knowledge.snapshot().counts.queries, 1);
}

#[test]
fn batches_with_common_keys_do_not_stand_in_each_others_way() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(
        &postgres.url(),
        "",
        "[cache]\ncapacity = 20000\nttl_ms = 100000",
    );
    let knowledge = open(&folder);
    let barrier = Barrier::new(6);
    thread::scope(|scope| {
        for worker in 0..6 {
            let (knowledge, barrier) = (&knowledge, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..10 {
                    let mut ids: Vec<i64> = (round * 500 + 1..=round * 500 + 700).collect();
                    if worker % 2 == 1 {
                        ids.reverse();
                    }
                    if worker == 5 {
                        for id in ids {
                            let row = knowledge.query_first(BY_ID, &params! {"id" => id});
                            assert_eq!(row.unwrap().unwrap()[0], Value::from(format!("n{id}")));
                        }
                        continue;
                    }
                    for (id, answer) in ids.iter().zip(ask(knowledge, ids.clone())) {
                        assert_eq!(answer, Some(Value::from(format!("n{id}"))));
                    }
                }
            });
        }
    });
    // 5,200 different keys.
    assert_eq!(knowledge.snapshot().counts.queries, 5200);
}

#[test]
fn tasks_wait_without_a_thread() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", "");
    let knowledge = Arc::new(open(&folder));
    // One thread for all tasks: a task that blocked it would block all, forever.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..50)
            .map(|id| {
                let knowledge = Arc::clone(&knowledge);
                tokio::spawn(async move {
                    let sql = "select :id::int as id, pg_sleep(0.1) is null as slept";
                    let params = params! {"id" => id % 25};
                    let row = knowledge.query_first_async(sql, &params).await.unwrap();
                    assert_eq!(row.unwrap()[0], Value::Int(id % 25));
                    let rows = knowledge
                        .query_all_async(BY_ID, &params! {"id" => id})
                        .await;
                    assert_eq!(rows.unwrap().len(), usize::from(id > 0));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let snapshot = knowledge.snapshot();
    assert_eq!(snapshot.counts.queries, 25 + 50);
    // A waiting query holds no session, so there was never more than one per core.
    let core_count = thread::available_parallelism().unwrap().get();
    assert!(snapshot.session_count <= core_count, "{snapshot:?}");
}

#[test]
fn a_statement_of_another_engine_is_refused_while_there_are_providers() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", "");
    let (ours, other) = (open(&folder), open(&folder));
    let statement = other.prepare(BY_ID).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let ask = || runtime.block_on(ours.query_first_async(&statement, &params! {"id" => 1}));
    let refusal = "prepared by another engine";
    let error = ask().unwrap_err().to_string();
    assert!(error.contains(refusal), "{error}");
    // Nor is a statement with the same number answered instead.
    ours.prepare("select name from t where id < :id").unwrap();
    let error = ask().unwrap_err().to_string();
    assert!(error.contains(refusal), "{error}");
}

#[test]
fn a_sync_query_within_a_runtime_only_blocks() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let folder = project(&postgres.url(), "", "");
    let knowledge = open(&folder);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        // More than tokio's cooperative budget of a task.
        for number in 0..300 {
            let params = params! {"n" => number};
            let row = knowledge.query_first("select :n::int as n", &params);
            assert_eq!(row.unwrap().unwrap()[0], Value::Int(number));
        }
        drop(knowledge);
    });
}

#[test]
fn a_query_that_is_dropped_passes_its_turn_on() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let folder = project(&postgres.url(), "", "");
    let knowledge = open(&folder);
    let sql = "select :n::int as n, pg_sleep(0.3) is null as slept";
    knowledge.prepare(sql).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let params = params! {"n" => 1};
        let dropped = knowledge.query_first_async(sql, &params);
        let short = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(short, dropped).await.is_err());
        let waited = (
            knowledge.query_first_async(sql, &params),
            knowledge.query_first_async(sql, &params),
        );
        let (first, second) = tokio::join!(waited.0, waited.1);
        assert_eq!(first.unwrap().unwrap()[0], Value::Int(1));
        assert_eq!(second.unwrap().unwrap()[0], Value::Int(1));
    });
    // The dropped query is not counted; of the other two, one was sent.
    assert_eq!(knowledge.snapshot().counts.queries, 1);
}

#[test]
fn issue_13_the_failure_of_another_query_is_not_the_answer_to_those_who_wait() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let timeout = Duration::from_secs(6);
    let folder = project(&postgres.url(), "query_timeout_ms = 6000", "");
    let knowledge = open(&folder);
    let connect = || Connection::connect(&postgres.url()).unwrap();
    let mut lock = connect();
    lock.query("select pg_advisory_lock(13)", &[]).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let ask = |sql: &'static str, id: i64| {
        let knowledge = knowledge.clone();
        runtime.spawn(async move {
            let params = params! {"id" => id};
            knowledge.query_first_async(sql, &params).await
        })
    };
    let slow = ask("select pg_sleep(600)::text, :id::int as id", 1);
    // sleep: what waits for the lock has to have time left when the slow query has none.
    thread::sleep(timeout / 2);
    let locked = "select pg_advisory_xact_lock_shared(13)::text as a, :id::int as id";
    let leader = ask(locked, 1);
    wait_until("it waits for the lock", || {
        let sql = "select 1 from pg_stat_activity where wait_event = 'advisory'";
        connect().query(sql, &[]).unwrap().rows.len() == 1
    });
    let follower = ask(locked, 1);
    let error = runtime.block_on(slow).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    leader.abort();
    lock.query("select pg_advisory_unlock(13)", &[]).unwrap();
    let row = runtime.block_on(follower).unwrap();
    assert_eq!(row.unwrap().unwrap()[1], Value::Int(1));
}
