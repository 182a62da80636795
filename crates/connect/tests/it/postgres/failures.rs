//! Servers that end and return, sessions that are ended, and tables that change.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_embedded::Postgres;
use lookaside_stream::StopFlag;
use lookaside_testing::{kill_postgres, wait_until};

use super::{connect, count, database, messages, open, query, reasons, url, write, write_all};
use crate::flush::flush;
use crate::running::unique;

/// A server that is killed and started again in the same place.
pub(super) struct Server {
    folder: PathBuf,
    postgres: Option<Postgres>,
}

impl Server {
    pub(super) fn start() -> Self {
        let folder = std::env::temp_dir().join(unique("lookaside-connect"));
        let mut server = Self {
            folder,
            postgres: None,
        };
        server.restart();
        server
    }

    pub(super) fn postgres(&self) -> &Postgres {
        self.postgres.as_ref().unwrap()
    }

    pub(super) fn kill(&mut self) {
        kill_postgres(&self.folder);
        drop(self.postgres.take());
    }

    pub(super) fn restart(&mut self) {
        self.postgres = Some(Postgres::builder().path(&self.folder).start().unwrap());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.postgres.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn numbers(first: usize, count: usize) -> Vec<String> {
    (first..first + count)
        .map(|id| format!("{{\"id\":{id}}}"))
        .collect()
}

#[test]
fn a_server_that_is_killed_costs_no_row() {
    let mut server = Server::start();
    server
        .postgres()
        .execute("create table t (id int primary key)")
        .unwrap();
    let mut sink = open(&url(
        server.postgres(),
        "table=t&conflict=ignore&batch_rows=200",
    ));
    let mut all = Vec::new();
    for round in 0..3 {
        let payloads = numbers(round * 20_000, 20_000);
        all.push(write(&mut *sink, payloads.iter().map(|payload| &**payload)));
        wait_until("some rows are written", || {
            count(server.postgres(), "t") > round * 20_000
        });
        server.kill();
        server.restart();
    }
    flush(&mut *sink).unwrap();
    assert_eq!(reasons(&sink.take_refused()), [""; 0]);
    assert!(all.iter().all(|written| written.is_delivered()));
    assert_eq!(count(server.postgres(), "t"), 60_000);
}

#[test]
fn sessions_that_are_ended_in_the_middle_of_a_batch_cost_no_row() {
    let db = database();
    db.execute(
        "create table t (id int);
         create function slow() returns trigger language plpgsql as
             $$ begin perform pg_sleep(0.0005); return new; end $$;
         create trigger slow before insert on t for each row execute function slow()",
    )
    .unwrap();
    let mut sink = open(&url(&db, "table=t&batch_rows=500&application_name=ended"));
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let ends = scope.spawn(|| {
            let mut connection = connect(&db);
            let sql = "select pg_terminate_backend(pid) from pg_stat_activity \
                       where application_name = 'ended' and query ilike 'copy%' and state = 'active' \
                         and now() - query_start > '50 ms'";
            let mut ended = 0;
            while ended < 5 && !is_over.load(Ordering::Relaxed) {
                ended += connection.query(sql, &[]).unwrap().rows.len();
            }
            ended
        });
        let payloads = numbers(0, 4000);
        let refused = write_all(&mut *sink, payloads.iter().map(|payload| &**payload));
        assert_eq!(reasons(&refused), [""; 0]);
        is_over.store(true, Ordering::Relaxed);
        ends.join().unwrap()
    });
    assert_eq!(ended, 5, "it was in the middle of a batch");
    let found = query(&db, "select count(*), count(distinct id) from t");
    assert_eq!(found, ["4000|4000"]);
}

#[test]
fn a_lock_and_a_limit_are_waited_for() {
    let db = database();
    db.execute("create table t (id int primary key)").unwrap();
    let options = "table=t&conflict=update&options=-c%20lock_timeout%3D20ms";
    let mut sink = open(&url(&db, options));
    let mut connection = connect(&db);
    connection.query("begin", &[]).unwrap();
    connection.query("insert into t values (1)", &[]).unwrap();
    let written = write(&mut *sink, [r#"{"id":1}"#]);
    // sleep: several attempts
    thread::sleep(Duration::from_millis(300));
    assert!(!written.is_delivered());
    connection.query("commit", &[]).unwrap();
    flush(&mut *sink).unwrap();
    assert_eq!(reasons(&sink.take_refused()), [""; 0]);
    assert!(written.is_delivered());
}

#[test]
fn a_run_gives_up_a_server_that_is_away() {
    let mut server = Server::start();
    server
        .postgres()
        .execute("create table t (id int)")
        .unwrap();
    let mut sink = open(&url(server.postgres(), "table=t"));
    let give_up = StopFlag::new().unwrap();
    sink.attach(&give_up);
    server.kill();
    let written = write(&mut *sink, [r#"{"id":1}"#]);
    thread::scope(|scope| {
        scope.spawn(|| {
            // sleep: the flush waits
            thread::sleep(Duration::from_millis(300));
            give_up.raise();
        });
        let begun = Instant::now();
        let error = flush(&mut *sink).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
        assert!(begun.elapsed() < Duration::from_secs(5));
    });
    drop(sink);
    assert!(!written.is_delivered());
}

#[test]
fn memory_is_limited_while_a_server_is_away() {
    let mut server = Server::start();
    server
        .postgres()
        .execute("create table t (id int, s text)")
        .unwrap();
    let mut sink = open(&url(server.postgres(), "table=t&buffer_max=1048576"));
    let give_up = StopFlag::new().unwrap();
    sink.attach(&give_up);
    server.kill();
    let payload = format!("{{\"id\":1,\"s\":\"{}\"}}", "x".repeat(1000));
    let (rows, written) = messages(std::iter::repeat_n(&*payload, 2000));
    thread::scope(|scope| {
        scope.spawn(|| {
            // sleep: the write waits
            thread::sleep(Duration::from_millis(300));
            give_up.raise();
        });
        let error = sink.write(&rows, &written.receipt).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
    });
}

#[test]
fn a_table_that_is_dropped_ends_the_run_with_the_reason() {
    let db = database();
    db.execute("create table t (id int)").unwrap();
    let mut sink = open(&url(&db, "table=t"));
    db.execute("drop table t").unwrap();
    let written = write(&mut *sink, [r#"{"id":1}"#]);
    let error = flush(&mut *sink).unwrap_err().to_string();
    assert!(
        error.contains("relation \"public.t\" does not exist [42P01]"),
        "{error}"
    );
    assert!(!written.is_delivered());
}

/// A trigger that fails for the row with the id 7 by raising an error.
fn failing_trigger(raise: &str) -> String {
    format!(
        "create function fail() returns trigger language plpgsql as
             $$ begin if new.id = 7 then {raise}; end if; return new; end $$;
         create trigger fail before insert on t for each row execute function fail()"
    )
}

#[test]
fn a_row_for_which_a_trigger_raises_any_error_is_refused_alone() {
    for raise in [
        "raise exception 'no' using errcode = 'XX000'",
        "raise exception 'no' using errcode = '0A000'",
        "perform 1 from no_such_table",
        "raise insufficient_privilege using message = 'no'",
    ] {
        for options in ["", "&conflict=ignore"] {
            check_refused_alone(raise, options);
        }
    }
}

#[test]
fn a_row_whose_transactions_always_fail_by_a_conflict_is_refused_alone() {
    check_refused_alone("raise exception 'no' using errcode = '40001'", "");
}

fn check_refused_alone(raise: &str, options: &str) {
    let db = database();
    db.execute(&format!(
        "create table t (id int primary key); {}",
        failing_trigger(raise)
    ))
    .unwrap();
    let mut sink = open(&url(&db, &format!("table=t{options}")));
    let payloads = numbers(0, 20);
    let refused = write_all(&mut *sink, payloads.iter().map(|payload| &**payload));
    let refused: Vec<_> = refused
        .iter()
        .map(|refused| String::from_utf8(refused.payload.clone().unwrap()).unwrap())
        .collect();
    assert_eq!(refused, [&*payloads[7]], "{raise} {options}");
    let sql = "select count(*), count(*) filter (where id = 7) from t";
    assert_eq!(query(&db, sql), ["19|0"], "{raise} {options}");
}

#[test]
fn batches_that_take_longer_than_statement_timeout_are_halved() {
    let db = database();
    db.execute(
        "create table t (id int);
         create function slow() returns trigger language plpgsql as
             $$ begin perform pg_sleep(0.01); return new; end $$;
         create trigger slow before insert on t for each row execute function slow()",
    )
    .unwrap();
    // A hundred rows take a second at least.
    let options = "table=t&options=-c%20statement_timeout%3D400ms";
    let mut sink = open(&url(&db, options));
    let payloads = numbers(0, 100);
    let refused = write_all(&mut *sink, payloads.iter().map(|payload| &**payload));
    assert_eq!(reasons(&refused), [""; 0]);
    let found = query(&db, "select count(*), count(distinct id) from t");
    assert_eq!(found, ["100|100"]);
}
