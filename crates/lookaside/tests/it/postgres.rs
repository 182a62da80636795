//! `enrich` to tables of PostgreSQL, with the program itself.

use lookaside_embedded::Postgres;

use crate::program::{Project, run};

/// The URL of the table `t` in a database.
fn table(db: &Postgres) -> String {
    let folder = db.socket_folder().to_str().unwrap().replace('/', "%2F");
    format!(
        "postgres://{}@{folder}:{}/{}?table=t",
        db.user(),
        db.port(),
        db.database()
    )
}

fn copying(config: &str) -> Project {
    let config = format!("version = 2\n[enrich]\nmodel = 'copy'\nformat = 'json'\n{config}\n");
    let events = "{\"id\":1,\"s\":\"a\"}\n{\"id\":1,\"s\":\"b\"}\n{\"id\":\"x\"}\n";
    Project::with(&[
        ("knowdb.toml", &config),
        ("models/copy.oml", "name : copy\n---\n* = take() ;\n"),
        ("events.json", events),
    ])
}

/// The result of a query with one value.
fn query(db: &Postgres, sql: &str) -> String {
    use lookaside::client::postgres::blocking::Connection;

    let mut connection = Connection::connect(&db.url()).unwrap();
    let row = connection.query_one(sql, &[]).unwrap();
    row[0].to_text().to_string()
}

#[test]
fn settings_name_a_table_check_connects_and_results_become_rows() {
    let db = Postgres::temporary().unwrap();
    db.execute("create table t (id int primary key, s text)")
        .unwrap();
    let project = copying(&format!("output = '{}&conflict=update'", table(&db)));
    project
        .run(&["check", "."])
        .ended(0)
        .out_has(&["table public.t with 2 columns (id integer, s text), conflicts by id"]);
    let said = project
        .run(&["enrich", ".", "events.json", "--reject", "bad.json"])
        .ended(0);
    said.err_has(&["rejects: 1", "invalid input syntax for type integer"]);
    assert_eq!(query(&db, "select string_agg(id || s, ' ') from t"), "1b");
    assert_eq!(project.read("bad.json"), "{\"id\":\"x\"}\n");
    db.execute("drop table t").unwrap();
    let said = project.run(&["enrich", ".", "events.json"]).ended(1);
    said.err_has(&["the table `t` does not exist", "create the table"]);
}

#[test]
fn mistakes_are_named_without_secrets() {
    let project = copying("");
    let secret = "postgres://user:hidden@127.0.0.1:1/d?table=t";
    let enrich = ["enrich", ".", "events.json"];
    for (arguments, code, expected) in [
        (
            vec!["--output", secret, "--output-format", "csv"],
            2,
            "takes rows from JSON, not from the format csv",
        ),
        (vec!["--reject", secret], 2, "rejects are not rows"),
        (
            vec!["--output", "postgres://user:hidden@h/d"],
            2,
            "needs the option `table`",
        ),
        (vec!["--output", secret], 1, "no server answers"),
    ] {
        let said = project.run(&[&enrich[..], &arguments].concat()).ended(code);
        assert!(said.err.contains(expected), "{}", said.err);
        assert!(!said.err.contains("hidden"), "{}", said.err);
    }
    let said = project.run(&["enrich", ".", "--input", secret]).ended(2);
    said.err_has(&["postgres:// is not a source; events are only written to it"]);
    let sinks = run(["sinks"]).ended(0);
    sinks.out_has(&["postgres://app@localhost:5432/shop?table=clicks"]);
}

#[cfg(feature = "kafka")]
#[test]
fn processes_that_are_killed_and_stopped_write_each_row_once() {
    use lookaside_testing::wait_until;
    use rustix::process::{Pid, Signal, kill_process};

    use crate::kafka::{broker, end, produce, project, start};

    let Some(broker) = broker() else {
        return;
    };
    let db = Postgres::temporary().unwrap();
    db.execute("create table t (n int, id int, host text, topic text)")
        .unwrap();
    let rows = "from t where n < 1000000";
    let count = || {
        query(&db, &format!("select count(*) {rows}"))
            .parse::<u32>()
            .unwrap()
    };
    let project = project("");
    let clicks = format!("kafka://{}/clicks", broker.address());
    let input = format!("{clicks}?group=g&session.timeout.ms=6000&commit_interval_ms=20");
    let output = format!("{}&delivery=exactly-once", table(&db));
    // The first message may be lost while the broker creates the topic.
    produce(&project, &clicks, 1_000_000, 1);
    produce(&project, &clicks, 0, 10_000);
    let start = || start(&project, &input, &output);
    for _ in 0..2 {
        let (before, process) = (count(), start());
        wait_until("rows are written", || count() > before || count() == 10_000);
        end(process, Signal::KILL);
    }
    let processes = [start(), start()];
    wait_until("all rows are written", || count() == 10_000);
    // One is stopped for so long that the other one takes over its partitions.
    let stopped = Pid::from_child(&processes[0]);
    produce(&project, &clicks, 10_000, 5000);
    wait_until("rows are written", || count() > 10_000);
    kill_process(stopped, Signal::STOP).unwrap();
    produce(&project, &clicks, 15_000, 5000);
    wait_until("all partitions are taken over", || count() >= 20_000);
    kill_process(stopped, Signal::CONT).unwrap();
    produce(&project, &clicks, 20_000, 5000);
    wait_until("all rows are written", || count() >= 25_000);
    for process in processes {
        end(process, Signal::TERM);
    }
    let sql = "select count(*) || ' ' || count(distinct n) || ' ' || \
               count(*) filter (where host = 'host ' || n % 100)";
    assert_eq!(query(&db, &format!("{sql} {rows}")), "25000 25000 25000");
}
