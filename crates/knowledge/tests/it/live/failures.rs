//! Servers that are unavailable, stop, and become available again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_knowledge::{ErrorKind, Knowledge, Value, params};
use lookaside_testing::wait_until;
use lookaside_value::{Answers, BatchQuery, Lookup, LookupErrorKind, ParamBatch, Text};
use rustix::process::{Pid, Signal, kill_process};

use super::{TEN_THOUSAND, add_local_table, lock_table, open, postgres, project, write_project};

/// A short timeout, because queries wait for a server that is unavailable.
const IMPATIENT: &str = "acquire_timeout_ms = 2000";

#[test]
fn a_server_that_is_not_there_stops_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let tables = add_local_table(folder.path());
    // No server listens on port 1.
    write_project(
        folder.path(),
        "postgres://u@127.0.0.1:1/d",
        IMPATIENT,
        tables,
    );
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let row = knowledge.query_first("select name from local_t where id = 1", ());
    assert_eq!(row.unwrap().unwrap()[0], Value::from("here"));
    let timeouts = || knowledge.providers()[0].pool.wait_timeout_total;
    let before = timeouts();
    let error = knowledge.query_first("select a from u", ()).unwrap_err();
    // Only one query waits for it.
    assert!(timeouts() <= before + 1, "{before} {}", timeouts());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_retryable());
    let text = error.to_string();
    assert!(
        text.contains("provider `pg` (postgres://u@127.0.0.1:1/d)"),
        "{text}"
    );
    assert!(text.contains("refused"), "{text}");
    assert!(
        text.ends_with("no server listens on that port; check host and port"),
        "{text}"
    );
    assert!(knowledge.probe_provider("pg").is_err());
    assert_eq!(knowledge.reload().unwrap(), 2);
}

#[test]
fn a_server_that_comes_back_answers_again() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    // Long enough for an answer on a busy machine.
    let more = "stale_if_error_ms = 600000\nquery_timeout_ms = 3000";
    let folder = tempfile::tempdir().unwrap();
    let local = add_local_table(folder.path());
    let tables = format!("[cache]\nttl_ms = 1\n{local}");
    write_project(folder.path(), &postgres.url(), more, &tables);
    let knowledge = open(&folder);
    let by_id = knowledge
        .prepare("select name from t where id = :id")
        .unwrap();
    let ask = |id: i64| knowledge.query_first(&by_id, &params! {"id" => id});
    assert_eq!(ask(1).unwrap().unwrap()[0], Value::from("n1"));

    // After a server has closed all connections, it is queried again on another one.
    let end = "select pg_terminate_backend(pid) from pg_stat_activity \
        where datname = current_database() and pid <> pg_backend_pid()";
    for id in 2..10 {
        postgres.execute(end).unwrap();
        assert_eq!(ask(id).unwrap().unwrap()[0], Value::from(format!("n{id}")));
    }

    // A query without an answer in time does not delay other queries, and gets its last good
    // answer.
    let locked = lock_table(&postgres, "t");
    let started = Instant::now();
    assert_eq!(ask(1).unwrap().unwrap()[0], Value::from("n1"));
    assert!(
        started.elapsed() >= Duration::from_millis(2900),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(knowledge.snapshot().counts.stale_answers, 1);
    let error = ask(9999).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let row = knowledge.query_first("select name from local_t where id = 1", ());
    assert_eq!(row.unwrap().unwrap()[0], Value::from("here"));
    drop(locked);
    wait_until("it answers again", || match ask(9999) {
        Ok(row) => row.unwrap()[0] == Value::from("n9999"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            false
        }
    });
}

#[test]
fn followers_of_one_key_do_not_wait_for_one_timeout_each() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "query_timeout_ms = 3000", "");
    let knowledge = open(&folder);
    let by_id = knowledge
        .prepare("select name from t where id = :id")
        .unwrap();
    let _locked = lock_table(&postgres, "t");
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let error = knowledge
                    .query_first(&by_id, &params! {"id" => 1})
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable);
            });
        }
    });
    // All of them began within the first timeout, so none waits for more than two.
    let flights = knowledge.snapshot().counts.flights;
    assert!((1..=2).contains(&flights), "{flights}");
}

#[test]
fn one_bad_set_of_a_batch_fails_alone() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let folder = project(&postgres.url(), "", "");
    let knowledge = open(&folder);
    let mut session = knowledge.session();
    let sql = "select 100 / :n::int as n";
    let statement = Lookup::prepare(&mut session, sql, &[Text::from("n")]).unwrap();
    let mut batch = ParamBatch::new(1);
    for value in [
        Value::Int(1),
        Value::Int(0),
        Value::from("x"),
        Value::from("50"),
        Value::Null,
    ] {
        batch.push([value]);
    }
    let mut answers = Answers::new();
    session.answer(BatchQuery::first(statement), &batch, &mut answers);
    let cell = |index| answers.row(index).map(|row| row.unwrap()[0].clone());
    assert_eq!(cell(0).unwrap(), Value::Int(100));
    assert_eq!(cell(3).unwrap(), Value::Int(2));
    assert_eq!(cell(4).unwrap(), Value::Null);
    let divided = cell(1).unwrap_err();
    assert_eq!(divided.kind(), LookupErrorKind::Refused);
    assert!(
        divided.to_string().contains("division by zero"),
        "{divided}"
    );
    let misfit = cell(2).unwrap_err();
    assert!(misfit.to_string().contains("parameter `n`: "), "{misfit}");
    assert!(!misfit.to_string().contains('$'), "{misfit}");
}

#[test]
fn a_reload_takes_providers_over_and_reads_new_ones() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tables = add_local_table(folder.path());
    write_project(
        folder.path(),
        "postgres://u@127.0.0.1:1/d",
        IMPATIENT,
        tables,
    );
    let knowledge = Knowledge::open(folder.path()).unwrap();
    assert!(
        knowledge
            .query_first("select name from t where id = 1", ())
            .is_err()
    );
    write_project(folder.path(), &postgres.url(), "", tables);
    knowledge.reload().unwrap();
    let statement = knowledge
        .prepare("select name from t where id = :id")
        .unwrap();
    let ask = || knowledge.query_first(&statement, &params! {"id" => 3});
    assert_eq!(ask().unwrap().unwrap()[0], Value::from("n3"));
    // A broken file changes nothing.
    fs::write(folder.path().join("knowdb.toml"), "version = 3").unwrap();
    assert!(knowledge.reload().is_err());
    assert_eq!(ask().unwrap().unwrap()[0], Value::from("n3"));
    // The server may be unavailable when the tables are loaded again; its statements are described
    // later.
    write_project(
        folder.path(),
        "postgres://u@127.0.0.1:1/d",
        IMPATIENT,
        tables,
    );
    knowledge.reload().unwrap();
    assert_eq!(ask().unwrap_err().kind(), ErrorKind::Unavailable);
    write_project(folder.path(), &postgres.url(), "", tables);
    knowledge.reload().unwrap();
    assert_eq!(ask().unwrap().unwrap()[0], Value::from("n3"));
}

#[test]
fn who_is_not_let_in_hears_why_and_what_next() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let url = postgres.url();
    let error_at = |url: &str| {
        let folder = project(url, IMPATIENT, "");
        let error = open(&folder).probe_provider("pg").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        error.to_string()
    };
    let (place, _) = url.split_once('?').unwrap_or((&url, ""));
    let (_, database) = place.rsplit_once('/').unwrap();
    let text = error_at(&url.replacen(database, "there_is_none", 1));
    assert!(
        text.contains("database \"there_is_none\" does not exist"),
        "{text}"
    );
    assert!(
        text.contains("; create the database, or name another one"),
        "{text}"
    );
    // The probe's own statement is not mentioned.
    assert!(!text.contains("select"), "{text}");
}

#[test]
fn issue_13_a_query_that_was_too_slow_shortens_no_later_one() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let more = "pool_size = 2\nquery_timeout_ms = 4000\nidle_timeout_ms = 200";
    let folder = project(&postgres.url(), more, "[cache]\nenabled = false");
    let knowledge = open(&folder);
    let sleep = "select pg_sleep(:seconds)::text, :id::int as id";
    let statement = knowledge.prepare(sleep).unwrap();
    let ask = |seconds: f64, id| {
        let params = [Value::Float(seconds), Value::Int(id)];
        let mut session = knowledge.session();
        session.first(&statement, &params).map(|row| row.is_some())
    };
    thread::scope(|scope| {
        // More than there are connections: some of them wait for one in vain.
        for id in 0..5 {
            scope.spawn(move || {
                let error = ask(600.0, id).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            });
        }
    });
    wait_until("its connections are closed", || {
        knowledge.providers()[0].pool.connection_count == 0
    });
    // A server that is away has 200 ms.
    ask(0.5, 1).unwrap();
}

#[test]
fn descriptions_and_refusals_end_an_outage_as_well() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    // The server is available while the link to its socket exists.
    let url = postgres.url();
    let parameter = |name: &str| {
        let (_, rest) = url.split_once(&format!("{name}="))?;
        rest.split('&').next().map(str::to_owned)
    };
    let host = parameter("host").expect("the socket's folder is in the URL");
    let port = parameter("port").unwrap_or_else(|| "5432".to_owned());
    let sockets = tempfile::tempdir().unwrap();
    let name = format!(".s.PGSQL.{port}");
    let socket = Path::new(&host.replace("%2F", "/")).join(&name);
    let link = sockets.path().join(&name);
    let other = sockets.path().display().to_string();
    let url = url.replace(&format!("host={host}"), &format!("host={other}"));

    let more = "query_timeout_ms = 60000\nidle_timeout_ms = 200";
    let folder = project(&url, more, "[cache]\nenabled = false");
    let is_described = |knowledge: &Knowledge| {
        let sql = "select :id::int as described";
        let failures = knowledge.describe_all([sql], Duration::from_secs(60));
        failures.iter().all(Option::is_none)
    };
    let is_refused = |knowledge: &Knowledge| {
        let divided = knowledge.query_first("select 1 / :id::int as id", &params! {"id" => 0});
        divided.unwrap_err().kind() == ErrorKind::Refused
    };
    for is_answered in [&is_described as &dyn Fn(&Knowledge) -> bool, &is_refused] {
        symlink(&socket, &link).unwrap();
        let knowledge = open(&folder);
        let ask = |seconds: f64| {
            let sql = "select pg_sleep(:seconds)::text as slept";
            knowledge.query_first(sql, &params! {"seconds" => seconds})
        };
        let wait_until_closed = || {
            wait_until("its connections are closed", || {
                knowledge.providers()[0].pool.connection_count == 0
            });
        };
        ask(0.0).unwrap();
        let divided = knowledge.query_first("select 1 / :id::int as id", &params! {"id" => 1});
        divided.unwrap();
        fs::remove_file(&link).unwrap();
        wait_until_closed();
        assert_eq!(ask(0.0).unwrap_err().kind(), ErrorKind::Unavailable);
        symlink(&socket, &link).unwrap();
        wait_until("it answers", || is_answered(&knowledge));
        wait_until_closed();
        // During an outage a query has 200 ms.
        ask(0.5).unwrap();
        fs::remove_file(&link).unwrap();
    }
}

/// An administrator, or a fail-over, ends all sessions at once. A query that is sent again may meet
/// another session that is about to end.
#[test]
fn issue_14_a_query_survives_the_end_of_all_sessions() {
    let Some(postgres) = postgres(true) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = project(&postgres.url(), "pool_size = 3\npipeline_depth = 1", "");
    let knowledge = open(&folder);
    let by_id = "select name from t where id = :id";
    let pool = || knowledge.providers()[0].pool.clone();
    let lock = lock_table(&postgres, "t");
    thread::scope(|scope| {
        for id in 1..=3 {
            let knowledge = &knowledge;
            scope.spawn(move || knowledge.query_first(by_id, &params! {"id" => id}).unwrap());
        }
        wait_until("all wait for the table", || pool().in_flight_count == 3);
        drop(lock);
    });
    wait_until("all connections are idle", || pool().idle_count == 3);
    let mut administrator = Connection::connect(&postgres.url()).unwrap();
    let sessions = "from pg_stat_activity where datname = current_database() \
                    and backend_type = 'client backend' and pid <> pg_backend_pid()";
    let answer = administrator.query(format!("select pid {sessions}"), &[]);
    let rows = answer.unwrap().rows;
    let processes: Vec<Pid> = (0..rows.len())
        .map(|row| rows.row(row)[0].to_text().parse().unwrap())
        .map(|process: i32| Pid::from_raw(process).unwrap())
        .collect();
    assert_eq!(processes.len(), 3);
    // They end only when they go on: each after the query has come to it.
    for process in &processes {
        kill_process(*process, Signal::STOP).unwrap();
    }
    let terminated =
        administrator.query(format!("select pg_terminate_backend(pid) {sessions}"), &[]);
    assert_eq!(terminated.unwrap().rows.len(), 3);
    thread::scope(|scope| {
        let query = scope.spawn(|| knowledge.query_first(by_id, &params! {"id" => 4}));
        for (ended, process) in processes.iter().enumerate() {
            wait_until("the query is sent", || {
                pool().lost_total == ended as u64 && pool().in_flight_count == 1
            });
            kill_process(*process, Signal::CONT).unwrap();
        }
        let row = query.join().unwrap().unwrap();
        assert_eq!(row.unwrap()[0], Value::from("n4"));
    });
}
