//! `enrich` to tables of PostgreSQL, with the program itself.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::process::{Child, Command, Stdio};

use lookaside_embedded::Postgres;
use lookaside_testing::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Project, lookaside, run};

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

/// A project whose output `strict` is a table that refuses some rows, after they were written to it.
fn with_strict_output(db: &Postgres, config: &str) -> Project {
    db.execute(
        "create table t (n int);
         create table strict (n int check (n % 20 <> 0))",
    )
    .unwrap();
    let strict = table(db).replace("table=t", "table=strict&batch_rows=50");
    let config = format!(
        "version = 2\n[enrich]\nmodel = 'm'\nformat = 'json'\n{config}\n\
         [[enrich.output]]\nname = 'strict'\ntarget = '{strict}'\n"
    );
    let model = "name : m\n---\nn = read(n) ; @meta/output = read(to) ;\n";
    Project::with(&[
        ("knowdb.toml", &config),
        ("models/m.oml", model),
        ("models/copy.oml", "name : copy\n---\n* = take() ;\n"),
        ("app.log", ""),
    ])
}

/// Events for both outputs, of which one in twenty is refused.
fn mixed_events(numbers: Range<u32>) -> String {
    let lines = numbers.map(|n| match n % 10 {
        0 => format!("{{\"n\":{n},\"to\":\"strict\"}}\n"),
        _ => format!("{{\"n\":{n}}}\n"),
    });
    lines.collect()
}

/// Appends to the followed file.
fn append(project: &Project, text: &str) {
    let mut options = OpenOptions::new();
    let mut log = options.append(true).open(project.file("app.log")).unwrap();
    log.write_all(text.as_bytes()).unwrap();
}

/// A run, which is killed when the test fails.
struct Run(Child);

impl Run {
    fn start(project: &Project, mut command: Command) -> Self {
        command
            .current_dir(project.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// A run that follows `app.log`.
    fn follow(project: &Project, output: &str) -> Self {
        let mut command = lookaside();
        command
            .args(["enrich", ".", "app.log", "--follow", "--output", output])
            .args(["--reject", "bad.json"]);
        Self::start(project, command)
    }

    fn terminate(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let said = io::read_to_string(self.0.stderr.take().unwrap()).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(143), "{said}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the rest of `app.log` is written, and checks that each of these events is there once.
fn check_followed(db: &Postgres, project: &Project, count: u32) {
    let exists = "select to_regclass('lookaside_file_positions') is not null";
    wait_until("the run has begun", || query(db, exists) == "true");
    let end = fs::metadata(project.file("app.log")).unwrap().len();
    let stored = format!(
        "select count(*) from lookaside_file_positions where position like '% offset {end} %'"
    );
    wait_until("the position at the end is stored", || {
        query(db, &stored) == "1"
    });
    let sql = "select count(*) || ' ' || count(distinct n) || ' ' || max(n) from t";
    let rows = count - count / 10;
    assert_eq!(query(db, sql), format!("{rows} {rows} {}", count - 1));
    // At least once.
    let sql = "select count(distinct n)::text from strict";
    assert_eq!(query(db, sql), (count / 20).to_string());
    let rejects = project.read("bad.json");
    let rejects: HashSet<_> = rejects.lines().collect();
    assert_eq!(rejects.len(), (count / 20) as usize, "{rejects:?}");
}

#[test]
fn a_followed_file_is_written_once_by_runs_that_are_killed() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let db = Postgres::temporary().unwrap();
    let project = with_strict_output(&db, "");
    let output = format!("{}&delivery=exactly-once&source=app", table(&db));
    let count = || {
        query(&db, "select count(*)::text from t")
            .parse::<u32>()
            .unwrap()
    };
    let mut written = 0;
    for round in 0..8 {
        let mut run = Run::follow(&project, &output);
        let enough = count() + random.u32(1..8000);
        wait_until("rows are written", || {
            let more = random.u32(1..3000);
            append(&project, &mixed_events(written..written + more));
            written += more;
            let ended = run.0.try_wait().unwrap();
            assert_eq!(ended, None, "seed {seed}");
            count() >= enough
        });
        if round % 3 == 2 {
            // The next run reads its rest, as any other.
            let rotated = [1, 2].map(|number| project.file(&format!("app.log.{number}")));
            if rotated[0].exists() {
                fs::rename(&rotated[0], &rotated[1]).unwrap();
            }
            fs::rename(project.file("app.log"), &rotated[0]).unwrap();
            fs::write(project.file("app.log"), "").unwrap();
        }
    }
    let more = 20 - written % 20;
    append(&project, &mixed_events(written..written + more));
    let run = Run::follow(&project, &output);
    check_followed(&db, &project, written + more);
    run.terminate();
}

#[test]
fn elements_of_arrays_are_written_once_by_runs_that_are_killed() {
    let db = Postgres::temporary().unwrap();
    let project = with_strict_output(&db, "split = 'n'");
    let output = format!("{}&delivery=exactly-once&source=app", table(&db));
    let count = || query(&db, "select count(*)::text from t");
    let lines: String = (0..20_000)
        .map(|line| 3 * line)
        .map(|n| format!("{{\"n\":[{n},{},{}]}}\n", n + 1, n + 2))
        .collect();
    append(&project, &lines);
    for _ in 0..6 {
        let before = count();
        let _run = Run::follow(&project, &output);
        wait_until("rows are written", || {
            count() != before || before == "60000"
        });
    }
    let _run = Run::follow(&project, &output);
    wait_until("all rows are written", || count() == "60000");
    let sql = "select count(*) || ' ' || count(distinct n) from t";
    assert_eq!(query(&db, sql), "60000 60000");
}

#[test]
fn a_run_that_stores_positions_does_not_wait_for_itself() {
    let db = Postgres::temporary().unwrap();
    let project = with_strict_output(&db, "");
    // A small buffer, so that the run waits for the table while another output refuses rows.
    let options = "delivery=exactly-once&source=app&batch_rows=100&buffer_max=1048576";
    let output = format!("{}&{options}", table(&db));
    append(&project, &mixed_events(0..100_000));
    let run = Run::follow(&project, &output);
    check_followed(&db, &project, 100_000);
    run.terminate();
}

#[test]
fn a_file_that_is_renamed_after_an_idle_run_is_read_by_the_next_one() {
    let db = Postgres::temporary().unwrap();
    let project = with_strict_output(&db, "");
    let output = format!("{}&delivery=exactly-once&source=app", table(&db));
    let run = Run::follow(&project, &output);
    let exists = "select to_regclass('lookaside_file_positions') is not null";
    wait_until("the run has begun", || query(&db, exists) == "true");
    let stored = "select count(*) from lookaside_file_positions";
    wait_until("the position is stored", || query(&db, stored) == "1");
    drop(run);
    append(&project, "{\"n\":1}\n");
    fs::rename(project.file("app.log"), project.file("app.log.1")).unwrap();
    fs::write(project.file("app.log"), "{\"n\":2}\n").unwrap();
    let run = Run::follow(&project, &output);
    wait_until("both are written", || {
        query(&db, "select count(*) from t") == "2"
    });
    run.terminate();
}

#[test]
fn a_followed_file_that_is_written_once_has_one_position() {
    let db = Postgres::temporary().unwrap();
    db.execute("create table t (id int, s text)").unwrap();
    let project = copying("");
    let exactly_once = format!("{}&delivery=exactly-once", table(&db));
    let named = format!("{exactly_once}&source=a");
    for (arguments, expected) in [
        (
            vec!["events.json", "--follow", "--output", &exactly_once],
            "needs the option `source`",
        ),
        (
            vec!["events.json", "--output", &named],
            "needs a topic of Kafka or a followed file as input",
        ),
        (
            vec![
                "events.json",
                "--follow",
                "--output",
                &named,
                "--checkpoint",
                "c",
            ],
            "--checkpoint and delivery=exactly-once both store the position",
        ),
        (
            vec!["events.json", "events.json", "--follow", "--output", &named],
            "requires a single followed file",
        ),
        (
            vec!["events.json", "--named-output", &format!("n={named}")],
            "delivery=exactly-once is not possible for the named output n",
        ),
    ] {
        let said = project.run(&[&["enrich", "."], &arguments[..]].concat());
        said.ended(2).err_has(&[expected]);
    }
}

#[cfg(feature = "kafka")]
#[test]
fn processes_that_are_killed_and_stopped_write_each_row_once() {
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

#[cfg(feature = "kafka")]
#[test]
fn transactions_do_not_wait_for_rows_that_another_output_refuses() {
    let Some(broker) = crate::kafka::broker() else {
        return;
    };
    let db = Postgres::temporary().unwrap();
    let project = with_strict_output(&db, "");
    project.write("events.json", &mixed_events(0..20_000));
    let topic = |name: &str| format!("kafka://{}/{name}", broker.address());
    let produce = ["enrich", ".", "events.json", "--model", "copy", "--output"];
    let (clicks, rich) = (topic("clicks"), topic("rich"));
    for name in [&clicks, &rich] {
        // The first messages may be lost while the broker creates the topic.
        project.run(&[&produce[..], &[name, "--limit", "1"]].concat());
    }
    project.run(&[&produce[..], &[&clicks]].concat()).ended(0);
    for (group, output) in [
        ("a", format!("{}&delivery=exactly-once", table(&db))),
        ("b", format!("{rich}?delivery=exactly-once")),
    ] {
        db.execute("truncate strict").unwrap();
        let input = format!("{clicks}?group={group}");
        let mut command = lookaside();
        command
            .args(["enrich", ".", "--input", &input, "--output", &output])
            .args(["--reject", &format!("{group}.json")]);
        let run = Run::start(&project, command);
        let rejects =
            || fs::read_to_string(project.file(&format!("{group}.json"))).unwrap_or_default();
        wait_until("all refused rows are rejects", || {
            rejects().lines().collect::<HashSet<_>>().len() == 1000
        });
        wait_until("all other rows are written", || {
            query(&db, "select count(distinct n)::text from strict") == "1000"
        });
        run.terminate();
    }
}

#[cfg(feature = "redis")]
#[test]
fn entries_of_redis_that_are_read_again_leave_one_row() {
    let Some(server) = lookaside_testing::RedisServer::shared() else {
        return;
    };
    let stream = format!("redis://{}/ids-{}", server.address(), std::process::id());
    let input = format!("{stream}?group=g&consumer=c&pending_max=2000");
    let db = Postgres::temporary().unwrap();
    db.execute("create table t (n int, id text primary key, x xid8 default pg_current_xact_id())")
        .unwrap();
    let model = "name : m\n---\nn = read(n) ; id = @meta/headers/redis-id ;\n";
    let project = Project::with(&[
        (
            "knowdb.toml",
            "version = 2\n[enrich]\nmodel = 'm'\nformat = 'json'\n",
        ),
        ("models/m.oml", model),
        ("models/copy.oml", "name : copy\n---\n* = take() ;\n"),
    ]);
    project.write("events.json", &mixed_events(0..20_000));
    let copy = ["enrich", ".", "events.json", "--model", "copy", "--output"];
    project.run(&[&copy[..], &[&stream]].concat()).ended(0);
    let count = || {
        query(&db, "select count(*)::text from t")
            .parse::<u32>()
            .unwrap()
    };
    // Small transactions, so that a run is killed between a commit and its acknowledgement.
    let output = format!("{}&conflict=ignore&batch_rows=10", table(&db));
    for _ in 0..5 {
        let before = count();
        let mut command = lookaside();
        command.args(["enrich", ".", "--input", &input, "--output", &output]);
        let _run = Run::start(&project, command);
        wait_until("rows are written", || count() > before || count() == 20_000);
    }
    let mut command = lookaside();
    command.args(["enrich", ".", "--input", &input, "--output", &output]);
    let run = Run::start(&project, command);
    wait_until("all rows are written", || count() == 20_000);
    run.terminate();
    let sql = "select count(*) || ' ' || count(distinct n) || ' ' || count(distinct id) from t";
    assert_eq!(query(&db, sql), "20000 20000 20000");
}
