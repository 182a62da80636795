//! Queries of the folder's own tables end at their time limit, and when their caller cancels.

use std::future::Future;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use lookaside_knowledge::{
    CacheOutcome, ErrorKind, Extent, Freshness, Knowledge, Layer, Outcome, ParamBatch, Policy,
    QueryKind, Telemetry, Value, params,
};
use tempfile::TempDir;

use crate::folder::{folder, rows};

/// Counts endlessly; `:id` makes it a lookup.
const ENDLESS: &str = "with recursive n(i) as (select :id union all select i + 1 from n) \
                       select count(*) from n";
const QUICK: &str = "select generation from t where id + 0 = :id";
const NATIVE: &str = "select generation from t where id = :id";

/// Longer than any wait in these tests.
const SAFETY: Duration = Duration::from_secs(120);

/// Reports misses of L1, which happen just before SQLite is queried, and how queries ended.
#[derive(Debug)]
struct Listener {
    missed: Mutex<Sender<()>>,
    ended: Mutex<Sender<Outcome>>,
}

struct Events {
    missed: Receiver<()>,
    ended: Receiver<Outcome>,
}

impl Telemetry for Listener {
    fn on_cache(&self, layer: Layer, outcome: CacheOutcome) {
        if (layer, outcome) == (Layer::L1, CacheOutcome::Miss) {
            // The test may have dropped the receiver.
            let _ = self.missed.lock().unwrap().send(());
        }
    }

    fn on_query(&self, _: QueryKind, outcome: Outcome, _: Duration) {
        let _ = self.ended.lock().unwrap().send(outcome);
    }
}

fn open(config: &str) -> (TempDir, Knowledge, Events) {
    let folder = folder(config, &rows(3, 7));
    let (missed_sender, missed) = channel();
    let (ended_sender, ended) = channel();
    let listener = Listener {
        missed: Mutex::new(missed_sender),
        ended: Mutex::new(ended_sender),
    };
    let knowledge = Knowledge::builder(folder.path())
        .telemetry(Arc::new(listener))
        .open()
        .unwrap();
    (folder, knowledge, Events { missed, ended })
}

#[test]
fn a_query_ends_at_its_limit_and_the_session_goes_on() {
    let (_folder, knowledge, _) = open("[local]\nquery_timeout_ms = 40\n");
    let mut session = knowledge.session();
    let endless = session.prepare(ENDLESS).unwrap();
    let quick = session.prepare(QUICK).unwrap();
    for policy in [|| Policy::Global, || Policy::Bypass, || Policy::Global] {
        let error = session
            .first_with(&endless, &[Value::Int(1)], policy())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitReached);
        let text = error.to_string();
        for part in ["with recursive", "40ms", "query_timeout_ms of [local]"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let row = session.first_with(&quick, &[Value::Int(2)], policy());
        assert_eq!(row.unwrap(), Some(&[Value::Int(7)][..]));
    }
    let counts = knowledge.snapshot().counts;
    assert_eq!(counts.query_failures, 3, "no failure is kept as an answer");
    // Statements are compiled under the same limit, however long ago the last one ran.
    assert!(
        session
            .prepare("select id from t where id + 1 = :id")
            .is_ok()
    );
}

#[test]
fn a_sqlite_file_has_a_limit_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sqlite");
    // An empty file is an empty database.
    std::fs::write(&path, b"").unwrap();
    let builder = Knowledge::sqlite_builder(&path).query_timeout(Some(Duration::from_millis(30)));
    let error = builder
        .open()
        .unwrap()
        .query_all(ENDLESS, &params! {"id" => 1});
    assert_eq!(error.unwrap_err().kind(), ErrorKind::LimitReached);
}

#[test]
fn a_follower_waits_no_longer_than_the_limit() {
    let (_folder, knowledge, _) = open("[local]\nquery_timeout_ms = 60\n");
    let statement = knowledge.prepare(ENDLESS).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let error = knowledge
                    .session()
                    .first(&statement, &[Value::Int(1)])
                    .map(drop);
                assert_eq!(error.unwrap_err().kind(), ErrorKind::LimitReached);
            });
        }
    });
}

#[test]
fn a_query_is_cancelled_from_another_thread() {
    let (_folder, knowledge, events) = open("[local]\nquery_timeout_ms = 0\n");
    let mut session = knowledge.session();
    let endless = session.prepare(ENDLESS).unwrap();
    let native = session.prepare(NATIVE).unwrap();
    let cancel = session.cancel_handle();
    let asker = thread::spawn(move || {
        let error = session
            .first(&endless, &[Value::Int(1)])
            .map(drop)
            .unwrap_err();
        let row = session
            .first(&native, &[Value::Int(1)])
            .map(|row| row.is_some());
        (error, row)
    });
    events.missed.recv_timeout(SAFETY).expect("SQLite is asked");
    assert!(!cancel.is_cancelled());
    cancel.cancel();
    let (error, row) = asker.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(row.unwrap(), "native plans go on answering");
    // Other sessions are not affected.
    let row = knowledge.query_first(QUICK, &params! {"id" => 1}).unwrap();
    assert!(row.is_some());
}

#[test]
fn issue_12_a_batch_ends_at_its_first_set_after_a_cancel() {
    let (_folder, knowledge, _) = open("[local]\nquery_timeout_ms = 0\n[cache]\nenabled = false\n");
    let mut sets = ParamBatch::new(1);
    (0..1000).for_each(|id| sets.push([Value::Int(id)]));
    for sql in [QUICK, NATIVE] {
        for (policy, age_max) in [("kept", None), ("new", Some(Duration::ZERO))] {
            let mut session = knowledge.session();
            let statement = session.prepare(sql).unwrap();
            let cancel = session.cancel_handle();
            let before = knowledge.snapshot().counts.queries;
            let mut visits = 0;
            let asked = session.answer_each(
                &statement,
                &sets,
                Extent::All,
                Freshness::aged(age_max),
                |rows| {
                    rows.unwrap();
                    visits += 1;
                    if visits == 3 {
                        cancel.cancel();
                    }
                    ControlFlow::Continue(())
                },
            );
            let case = format!("{sql}, {policy}");
            assert_eq!(asked.unwrap_err().kind(), ErrorKind::Cancelled, "{case}");
            assert_eq!(visits, 3, "{case}");
            let queries = knowledge.snapshot().counts.queries - before;
            assert_eq!(queries, if sql == QUICK { 3 } else { 0 }, "{case}");
        }
    }
}

#[test]
fn issue_12_a_batch_is_cancelled_as_a_whole_in_its_last_set() {
    let (_folder, knowledge, events) = open("[local]\nquery_timeout_ms = 0\n");
    let mut session = knowledge.session();
    let endless = session.prepare(ENDLESS).unwrap();
    let cancel = session.cancel_handle();
    let asker = thread::spawn(move || {
        let mut sets = ParamBatch::new(1);
        sets.push([Value::Int(1)]);
        let asked =
            session.answer_each(&endless, &sets, Extent::First, Freshness::default(), |_| {
                panic!("the set has no answer")
            });
        asked.unwrap_err().kind()
    });
    events.missed.recv_timeout(SAFETY).expect("SQLite is asked");
    cancel.cancel();
    assert_eq!(asker.join().unwrap(), ErrorKind::Cancelled);
}

#[test]
fn issue_12_a_cancelled_session_begins_no_query() {
    let (_folder, knowledge, _) = open("");
    let mut session = knowledge.session();
    let statement = session.prepare(QUICK).unwrap();
    session.cancel_handle().cancel();
    for policy in [Policy::Global, Policy::Bypass] {
        let asked = session.first_with(&statement, &[Value::Int(1)], policy);
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::Cancelled);
    }
    let statement = knowledge.prepare(NATIVE).unwrap();
    assert!(
        session
            .first(&statement, &[Value::Int(1)])
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_future_that_is_dropped_cancels_its_query() {
    let (_folder, knowledge, events) = open("[local]\nquery_timeout_ms = 0\n");
    let statement = knowledge.prepare(ENDLESS).unwrap();
    let params = [Value::Int(1)];
    let begins = |future: Pin<&mut dyn Future<Output = ()>>| {
        let polled = future.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        events.missed.recv_timeout(SAFETY).expect("SQLite is asked");
    };
    begins(pin!(async {
        let _ = knowledge.query_all_async(&statement, &params).await;
    }));
    assert_eq!(events.ended.recv_timeout(SAFETY), Ok(Outcome::Failure));
    begins(pin!(async {
        let asked =
            knowledge.answer_async(&statement, &params, Extent::First, Freshness::default());
        let _ = asked.await;
    }));
    assert_eq!(events.ended.recv_timeout(SAFETY), Ok(Outcome::Failure));
}

#[test]
fn the_end_of_a_program_cancels_all_queries() {
    let (_folder, knowledge, events) = open("[local]\nquery_timeout_ms = 0\n");
    let statement = knowledge.prepare(ENDLESS).unwrap();
    thread::scope(|scope| {
        let ask = |id: i64| {
            let (knowledge, statement) = (&knowledge, &statement);
            scope.spawn(move || {
                let asked = knowledge
                    .session()
                    .first(statement, &[Value::Int(id)])
                    .map(drop);
                asked.unwrap_err().kind()
            })
        };
        // The second waits for the first, and the third queries another key.
        let askers = [ask(1), ask(1), ask(2)];
        for _ in 0..2 {
            events.missed.recv_timeout(SAFETY).expect("SQLite is asked");
        }
        knowledge.cancel_queries();
        for asker in askers {
            assert_eq!(asker.join().unwrap(), ErrorKind::Cancelled);
        }
    });
}

#[test]
fn a_wait_for_a_provider_is_cancelled() {
    // A server that accepts connections and never sends anything.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = format!(
        "[provider.sqldb]\nkind = \"postgres\"\nname = \"silent\"\nquery_timeout_ms = 0\n\
         acquire_timeout_ms = 3600000\n\
         connection_uri = \"postgresql://u@{address}/d?sslmode=disable&connect_timeout=3600\"\n"
    );
    let (_folder, knowledge, _) = open(&config);
    let mut session = knowledge.session();
    let cancel = session.cancel_handle();
    let asker = thread::spawn(move || {
        let asked = session.query_first("select a from silent.b", ());
        asked.unwrap_err().kind()
    });
    let _connection = listener.accept().unwrap();
    cancel.cancel();
    assert_eq!(asker.join().unwrap(), ErrorKind::Cancelled);
}
