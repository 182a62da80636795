//! Connections that callers drive themselves, on a thread that waits and on an event loop.

use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::Postgres;
use lookaside_knowledge::{
    ErrorKind, EventLoop, Extent, Freshness, Knowledge, Session, Statement, Value,
};
use lookaside_testing::{Brand, Server, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{TEN_THOUSAND, lock_table, mysql_database, open, postgres, project, write_project};

/// Without a cache, every query goes to the server.
const UNCACHED: &str = "[cache]\nenabled = false";

const BY_ID: &str = "select name from t where id = :id";

fn name(id: i64) -> Value {
    Value::from(format!("n{id}"))
}

/// The number of connections that callers have locked.
fn locked_count(knowledge: &Knowledge) -> usize {
    knowledge.providers()[0].pool.locked_count
}

/// Queries until a direct connection is available.
fn ask_until_direct(knowledge: &Knowledge, session: &mut Session, statement: &Statement) {
    wait_until("a connection is opened for the caller", || {
        let row = session.first(statement, &[Value::Int(1)]).unwrap();
        assert_eq!(row.unwrap(), [name(1)]);
        locked_count(knowledge) > 0
    });
}

/// The number of other active queries in the database that contain this text.
fn active_count(postgres: &Postgres, text: &str) -> String {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = current_database() \
         and state = 'active' and query like '%{text}%' and pid <> pg_backend_pid()"
    );
    scalar(postgres, &sql)
}

/// The only value of a query.
fn scalar(postgres: &Postgres, sql: &str) -> String {
    let mut connection = Connection::connect(&postgres.url()).unwrap();
    let answer = connection.query(sql, &[]).unwrap();
    answer.rows.row(0)[0].to_text().to_string()
}

fn end_all(postgres: &Postgres) {
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity \
        where datname = current_database() and pid <> pg_backend_pid()";
    postgres.execute(sql).unwrap();
}

#[test]
fn issue_14_half_of_the_pool_at_most_is_driven_by_callers() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    for (pool_size, direct_count_max) in [(1, 0), (2, 1), (5, 2)] {
        let folder = project(
            &postgres.url(),
            &format!("pool_size = {pool_size}"),
            UNCACHED,
        );
        let knowledge = open(&folder);
        let statement = knowledge.prepare(BY_ID).unwrap();
        if direct_count_max > 0 {
            ask_until_direct(&knowledge, &mut knowledge.session(), &statement);
        }
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut session = knowledge.session();
                    for id in 1..=200 {
                        let row = session.first(&statement, &[Value::Int(id)]).unwrap();
                        assert_eq!(row.unwrap(), [name(id)]);
                        let pool = &knowledge.providers()[0].pool;
                        assert!(pool.connection_count <= pool_size, "{pool:?}");
                        // A connection that is being locked is not driven yet.
                        assert!(pool.locked_count <= direct_count_max, "{pool:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn issue_14_a_lost_connection_of_a_callers_own_loses_no_answer() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", UNCACHED);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let mut session = knowledge.session();
    for _ in 0..5 {
        ask_until_direct(&knowledge, &mut session, &statement);
        end_all(&postgres);
        for id in 1..=20 {
            let row = session
                .first(&statement, &[Value::Int(id)])
                .unwrap_or_else(|error| panic!("{error}: {:#?}", knowledge.providers()));
            assert_eq!(row.unwrap(), [name(id)]);
        }
    }
}

#[test]
fn issue_14_a_query_that_ends_early_ends_on_the_server_as_well() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "query_timeout_ms = 3000", UNCACHED);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let slow = knowledge
        .prepare("select pg_sleep(600)::text, :id::int as slow_one")
        .unwrap();
    let mut session = knowledge.session();

    ask_until_direct(&knowledge, &mut session, &statement);
    let error = session.first(&slow, &[Value::Int(1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    wait_until("the server ends it", || {
        active_count(&postgres, "slow_one") == "0"
    });
    ask_until_direct(&knowledge, &mut session, &statement);

    thread::scope(|scope| {
        let cancel = session.cancel_handle();
        scope.spawn(move || {
            wait_until("it runs", || active_count(&postgres, "slow_one") == "1");
            cancel.cancel();
            wait_until("the server ends it", || {
                active_count(&postgres, "slow_one") == "0"
            });
        });
        let error = session.first(&slow, &[Value::Int(1)]).unwrap_err();
        // Either of them may be first; on a busy machine, it is the timeout.
        assert!(
            matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Unavailable),
            "{error}"
        );
    });
}

#[test]
fn issue_14_a_provider_that_a_reload_drops_keeps_no_connection() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", UNCACHED);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let mut session = knowledge.session();
    let mut event_loop = Loop::new();
    ask_until_direct(&knowledge, &mut session, &statement);
    event_loop.ask_until_direct(&knowledge, &mut session, &statement);
    write_project(folder.path(), &postgres.url(), "pool_size = 3", UNCACHED);
    knowledge.reload().unwrap();
    session.first(&statement, &[Value::Int(1)]).unwrap();
    // The connections of the old provider are closed, including those of the loop.
    wait_until("one connection is left", || {
        event_loop.turn(Duration::ZERO);
        let sql = "select count(*) from pg_stat_activity \
            where datname = current_database() and pid <> pg_backend_pid()";
        scalar(&postgres, sql) == "1"
    });
}

/// An event loop and its results.
struct Loop {
    event_loop: EventLoop<i64>,
    woken_count: Arc<AtomicU32>,
    answers: Vec<(i64, lookaside_knowledge::Result<Option<Value>>)>,
}

impl Loop {
    fn new() -> Self {
        let woken_count = Arc::new(AtomicU32::new(0));
        let woken = Arc::clone(&woken_count);
        let owner = thread::current();
        let event_loop = EventLoop::new(1, move || {
            woken.fetch_add(1, Ordering::Relaxed);
            owner.unpark();
        });
        Self {
            event_loop: event_loop.unwrap(),
            woken_count,
            answers: Vec::new(),
        }
    }

    fn begin(&mut self, session: &mut Session, statement: &Statement, id: i64) {
        let params = [Value::Int(id)];
        let begun = self.event_loop.begin(
            id,
            session,
            statement,
            &params,
            Extent::First,
            Freshness::default(),
        );
        assert_eq!(begun, Ok(()), "a provider answers it");
    }

    /// Waits for the descriptor, at most `timeout`, and makes a turn.
    fn turn(&mut self, timeout: Duration) {
        let fd = self.event_loop.as_fd();
        let timeout = Timespec::try_from(match self.event_loop.is_due() {
            true => Duration::ZERO,
            false => timeout,
        });
        let ready = poll(
            &mut [PollFd::new(&fd, PollFlags::IN)],
            Some(&timeout.unwrap()),
        );
        let is_ready = ready.unwrap() > 0;
        let answers = &mut self.answers;
        self.event_loop
            .turn(Instant::now(), is_ready, |id, answered| {
                let answer = answered.expect("it does not panic");
                let value = answer.map(|(rows, _)| rows.first().map(|row| row[0].clone()));
                answers.push((id, value));
            });
    }

    fn turn_until_answered(&mut self, count: usize) {
        wait_until("all is answered", || {
            self.turn(Duration::from_millis(5));
            self.answers.len() >= count
        });
    }

    fn ask_until_direct(
        &mut self,
        knowledge: &Knowledge,
        session: &mut Session,
        statement: &Statement,
    ) {
        wait_until("the loop has a connection", || {
            let woken_count = self.woken_count.load(Ordering::Relaxed);
            self.answers.clear();
            self.begin(session, statement, 1);
            self.turn_until_answered(1);
            assert_eq!(self.answers[0].1.as_ref().unwrap(), &Some(name(1)));
            // If another thread is involved in an answer, it wakes this one.
            locked_count(knowledge) > 0 && self.woken_count.load(Ordering::Relaxed) == woken_count
        });
    }
}

#[test]
fn issue_14_an_event_loop_answers_whatever_happens_to_its_connections() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "", UNCACHED);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let mut session = knowledge.session();
    let mut event_loop = Loop::new();
    event_loop.ask_until_direct(&knowledge, &mut session, &statement);
    let woken_count = event_loop.woken_count.load(Ordering::Relaxed);
    for round in 0..20 {
        event_loop.answers.clear();
        // As many as one connection takes, and more.
        let ids = 0..30 + i64::from(round % 3) * 100;
        for id in ids.clone() {
            event_loop.begin(&mut session, &statement, id);
        }
        if round >= 10 {
            event_loop.turn(Duration::ZERO);
            end_all(&postgres);
        }
        event_loop.turn_until_answered(ids.clone().count());
        event_loop.answers.sort_by_key(|(id, _)| *id);
        for (id, (answered, answer)) in ids.clone().zip(&event_loop.answers) {
            assert_eq!(*answered, id);
            let expected = (id > 0).then(|| name(id));
            let answer = answer.as_ref();
            let answer = answer.unwrap_or_else(|e| panic!("{e}: {:#?}", knowledge.providers()));
            assert_eq!(answer, &expected);
        }
        if round == 0 {
            // They were received on the loop's own connection: no other thread was involved.
            assert_eq!(event_loop.woken_count.load(Ordering::Relaxed), woken_count);
        }
    }
}

#[test]
fn issue_14_a_slow_query_on_an_event_loop_holds_up_no_other() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    postgres
        .execute("create table held as select 1 as id, 'n1' as name")
        .unwrap();
    let folder = project(&postgres.url(), "query_timeout_ms = 600000", UNCACHED);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let held = knowledge
        .prepare("select name from held where id = :id")
        .unwrap();
    let mut session = knowledge.session();
    let mut event_loop = Loop::new();
    event_loop.ask_until_direct(&knowledge, &mut session, &statement);
    let lock = lock_table(&postgres, "held");
    event_loop.answers.clear();
    event_loop.begin(&mut session, &held, 1);
    event_loop.turn(Duration::ZERO);
    wait_until("it waits", || active_count(&postgres, "from held") == "1");
    // sleep: from now on it is older than a stalled one
    thread::sleep(Duration::from_millis(50));
    for id in 2..=100 {
        event_loop.begin(&mut session, &statement, id);
    }
    event_loop.turn_until_answered(99);
    assert!(event_loop.answers.iter().all(|(id, _)| *id > 1));
    drop(lock);
    event_loop.turn_until_answered(100);
    assert_eq!(event_loop.answers[99].1.as_ref().unwrap(), &Some(name(1)));
}

#[test]
fn issue_14_queries_of_an_event_loop_end_when_they_are_cancelled_or_late() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "query_timeout_ms = 2000", UNCACHED);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let mut session = knowledge.session();
    let mut event_loop = Loop::new();
    event_loop.ask_until_direct(&knowledge, &mut session, &statement);
    let lock = lock_table(&postgres, "t");
    event_loop.answers.clear();
    event_loop.begin(&mut session, &statement, 1);
    event_loop.turn(Duration::ZERO);
    assert!(event_loop.event_loop.deadline().is_some());
    event_loop.turn_until_answered(1);
    let error = event_loop.answers[0].1.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    wait_until("the server ends it", || {
        event_loop.turn(Duration::from_millis(5));
        active_count(&postgres, "from t where") == "0"
    });

    event_loop.begin(&mut session, &statement, 2);
    event_loop.turn(Duration::ZERO);
    assert_eq!(event_loop.event_loop.cancel_all().collect::<Vec<_>>(), [2]);
    drop(lock);
    event_loop.ask_until_direct(&knowledge, &mut session, &statement);
}

#[test]
fn issue_14_lookups_of_a_mysql_are_answered_on_connections_of_their_callers() {
    for server in [Brand::MariaDb, Brand::MySql]
        .into_iter()
        .filter_map(Server::shared)
    {
        let (mut connection, url) = mysql_database(server);
        connection
            .query("create table t (id int primary key, name varchar(20))", &[])
            .unwrap();
        let rows: Vec<String> = (1..=500).map(|id| format!("({id}, 'n{id}')")).collect();
        let insert = format!("insert into t values {}", rows.join(", "));
        connection.query(insert, &[]).unwrap();
        let folder = project(&url, "", UNCACHED);
        let knowledge = open(&folder);
        let statement = knowledge.prepare(BY_ID).unwrap();
        let mut session = knowledge.session();
        let mut event_loop = Loop::new();
        event_loop.ask_until_direct(&knowledge, &mut session, &statement);
        for id in 0..=500 {
            let row = session.first(&statement, &[Value::Int(id)]).unwrap();
            assert_eq!(row.map(|row| row[0].clone()), (id > 0).then(|| name(id)));
        }
        event_loop.answers.clear();
        for id in 0..=500 {
            event_loop.begin(&mut session, &statement, id);
        }
        event_loop.turn_until_answered(501);
        event_loop.answers.sort_by_key(|(id, _)| *id);
        for (id, (_, answer)) in (0..=500).zip(&event_loop.answers) {
            assert_eq!(answer.as_ref().unwrap(), &(id > 0).then(|| name(id)));
        }
    }
}

/// Stops the server process of a query until this is dropped: it neither answers nor ends.
struct Stopped(String);

impl Stopped {
    fn of(postgres: &Postgres, text: &str) -> Self {
        let sql = format!(
            "select pid from pg_stat_activity where datname = current_database() \
             and state = 'active' and query like '%{text}%' and pid <> pg_backend_pid()"
        );
        let process = scalar(postgres, &sql);
        signal("-STOP", &process);
        Self(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(signal: &str, process: &str) {
    let status = Command::new("kill").args([signal, process]).status();
    assert!(status.unwrap().success());
}

#[test]
fn issue_14_no_query_waits_behind_one_that_was_given_up() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "query_timeout_ms = 3000", UNCACHED);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let slow = knowledge
        .prepare("select pg_sleep(600)::text, :id::int as stopped_one")
        .unwrap();
    let mut session = knowledge.session();
    let mut event_loop = Loop::new();
    event_loop.ask_until_direct(&knowledge, &mut session, &statement);
    event_loop.answers.clear();
    event_loop.begin(&mut session, &slow, 1);
    wait_until("it runs", || {
        // The statement is prepared first.
        event_loop.turn(Duration::from_millis(5));
        active_count(&postgres, "stopped_one") == "1"
    });
    let stopped = Stopped::of(&postgres, "stopped_one");
    event_loop.turn_until_answered(1);
    let error = event_loop.answers[0].1.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for id in 2..=20 {
        event_loop.answers.clear();
        event_loop.begin(&mut session, &statement, id);
        event_loop.turn_until_answered(1);
        assert_eq!(event_loop.answers[0].1.as_ref().unwrap(), &Some(name(id)));
    }
    drop(stopped);

    ask_until_direct(&knowledge, &mut session, &statement);
    thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            wait_until("it runs", || active_count(&postgres, "stopped_one") == "1");
            Stopped::of(&postgres, "stopped_one")
        });
        let error = session.first(&slow, &[Value::Int(1)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let _stopped = stopping.join().unwrap();
        for id in 2..=20 {
            let row = session.first(&statement, &[Value::Int(id)]).unwrap();
            assert_eq!(row.unwrap(), [name(id)]);
        }
    });
}

#[test]
fn issue_14_queries_behind_one_that_was_given_up_are_cancelled_as_well() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    for pool_size in [1, 2, 8] {
        let more = format!("query_timeout_ms = 1500\npool_size = {pool_size}");
        let folder = project(&postgres.url(), &more, UNCACHED);
        let knowledge = open(&folder);
        let statement = knowledge.prepare(BY_ID).unwrap();
        let slow = knowledge
            .prepare("select pg_sleep(600)::text, :id::int as given_up")
            .unwrap();
        let mut session = knowledge.session();
        let mut event_loop = Loop::new();
        if pool_size > 1 {
            event_loop.ask_until_direct(&knowledge, &mut session, &statement);
            event_loop.answers.clear();
        }
        for id in 0..12 {
            event_loop.begin(&mut session, &slow, id);
        }
        thread::scope(|scope| {
            for id in 0..12 {
                let (knowledge, slow) = (&knowledge, &slow);
                scope.spawn(move || {
                    let mut session = knowledge.session();
                    let error = session.first(slow, &[Value::Int(id)]).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                });
            }
            event_loop.turn_until_answered(12);
        });
        wait_until("the server has ended them", || {
            event_loop.turn(Duration::from_millis(5));
            active_count(&postgres, "given_up") == "0"
        });
        let row = session.first(&statement, &[Value::Int(5)]).unwrap();
        assert_eq!(row.unwrap(), [name(5)]);
    }
}
