//! `delivery=exactly-once` of a followed file, with the position in the database.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lookaside_connect::Error;
use lookaside_embedded::Postgres;
use lookaside_stream::{
    Extent, Identity, Messages, ResultMeta, RunOptions, Sink, Source, StopFlag, Summary,
};
use lookaside_testing::wait_until;
use tempfile::TempDir;

use super::failures::Server;
use super::{connect, count, database, query, url};
use crate::running::flow;

/// A log in a folder of its own.
struct Log {
    folder: TempDir,
    count: usize,
}

impl Log {
    fn new() -> Self {
        let log = Self {
            folder: tempfile::tempdir().unwrap(),
            count: 0,
        };
        fs::write(log.path(), "").unwrap();
        log
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("app.log")
    }

    fn write(&mut self, count: usize) {
        let lines: String = (self.count..self.count + count)
            .map(|number| format!("{{\"n\":{number}}}\n"))
            .collect();
        self.count += count;
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).open(self.path()).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }
}

fn open(db: &Postgres, options: &str, followed: &Path) -> Result<(Source, Sink), Error> {
    let url = url(db, options).parse().unwrap();
    let (opened, mark) = lookaside_connect::open_sink_of_followed(&url, followed)?;
    let followed = followed.to_str().unwrap();
    let source = Source::new().with_followed_from(followed, mark).unwrap();
    Ok((
        source,
        Sink::messages("t", opened.sink, ResultMeta::default()),
    ))
}

/// A run of a thread of its own.
struct Run {
    stop: StopFlag,
    thread: thread::JoinHandle<lookaside_stream::Result<Summary>>,
}

impl Run {
    fn start(db: &Postgres, options: &str, log: &Log, rejects: Option<Sink>) -> Self {
        let (source, sink) = open(db, options, &log.path()).unwrap();
        let stop = StopFlag::new().unwrap();
        let run_options = RunOptions {
            stop: Some(stop.clone()),
            rejects,
            ..RunOptions::default()
        };
        let thread =
            thread::spawn(move || flow(&[]).run(source, vec![Identity; 2], sink, run_options));
        Self { stop, thread }
    }

    fn stop(self) -> Summary {
        self.stop.raise();
        self.thread.join().unwrap().unwrap()
    }
}

const OPTIONS: &str = "table=t&delivery=exactly-once&source=web1";

fn stored(db: &Postgres) -> String {
    let sql = "select position from lookaside_file_positions where source = 'web1'";
    query(db, sql).pop().unwrap_or_default()
}

/// Waits until the position at the end of the log is stored, and checks that each number is there
/// once.
fn check(db: &Postgres, log: &Log) {
    let end = fs::metadata(log.path()).unwrap().len();
    wait_until("the position is stored", || {
        stored(db).contains(&format!(" offset {end} "))
    });
    let found = query(db, "select count(*), count(distinct n), max(n) from t");
    assert_eq!(found, [format!("{0}|{0}|{1}", log.count, log.count - 1)]);
}

#[test]
fn a_run_continues_at_the_position_in_the_database() {
    let db = database();
    db.execute("create table t (n int)").unwrap();
    let mut log = Log::new();
    for round in 0..3 {
        log.write(7000);
        let run = Run::start(&db, OPTIONS, &log, None);
        check(&db, &log);
        // Without an event, and with a few.
        log.write(round);
        check(&db, &log);
        assert_eq!(run.stop().events_out, 7000 + round as u64);
    }
}

#[test]
fn sessions_that_are_ended_and_a_server_that_is_killed_repeat_nothing() {
    let mut server = Server::start();
    server.postgres().execute("create table t (n int)").unwrap();
    let mut log = Log::new();
    let run = Run::start(server.postgres(), OPTIONS, &log, None);
    for round in 1..=20 {
        log.write(3000);
        let before = count(server.postgres(), "t");
        wait_until("rows are written", || {
            count(server.postgres(), "t") > before
        });
        log.write(3000);
        if round % 10 == 0 {
            server.kill();
            server.restart();
            continue;
        }
        let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                   where application_name = 'lookaside'";
        query(server.postgres(), end);
    }
    check(server.postgres(), &log);
    run.stop();
}

#[test]
fn refused_rows_become_dead_letters_and_the_rest_is_written_once() {
    let db = database();
    db.execute("create table t (n int primary key check (n <> 617))")
        .unwrap();
    let mut log = Log::new();
    log.write(1000);
    // One that is refused because of another row, one that is not a row, one that is not JSON.
    let more = "{\"n\":5}\n{\"x\":1}\n{\n";
    let mut options = fs::OpenOptions::new();
    let mut file = options.append(true).open(log.path()).unwrap();
    file.write_all(more.as_bytes()).unwrap();
    let rejects = log.folder.path().join("bad.json");
    let sink = Sink::file(&rejects, Extent::Endless).unwrap();
    let run = Run::start(&db, OPTIONS, &log, Some(sink));
    let end = fs::metadata(log.path()).unwrap().len();
    wait_until("the position is stored", || {
        stored(&db).contains(&format!(" offset {end} "))
    });
    let mut letters: Vec<_> = fs::read_to_string(&rejects)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    letters.sort();
    assert_eq!(letters, ["{", "{\"n\":5}", "{\"n\":617}", "{\"x\":1}"]);
    let found = query(&db, "select count(*), count(distinct n) from t");
    assert_eq!(found, ["999|999"]);
    let summary = run.stop();
    assert_eq!(
        (summary.events_out, summary.rejects.count()),
        (999, 4),
        "{summary:?}"
    );
}

#[test]
fn refused_rows_at_the_end_of_a_run_do_not_keep_it_from_ending() {
    let db = database();
    db.execute("create table t (n int check (n <> 3))").unwrap();
    let mut log = Log::new();
    log.write(10);
    // Nothing is committed before the run is stopped.
    let options = format!("{OPTIONS}&batch_ms=2000");
    let run = Run::start(&db, &options, &log, None);
    // sleep: the lines are read
    thread::sleep(Duration::from_millis(500));
    let summary = run.stop();
    assert_eq!((summary.events_out, summary.rejects.count()), (9, 1));
    assert_eq!(count(&db, "t"), 9);
    let end = fs::metadata(log.path()).unwrap().len();
    assert!(stored(&db).contains(&format!(" offset {end} ")));
}

#[test]
fn of_two_runs_under_one_name_the_second_one_to_commit_ends() {
    let db = database();
    db.execute("create table t (n int)").unwrap();
    let mut log = Log::new();
    log.write(10);
    let first = Run::start(&db, OPTIONS, &log, None);
    check(&db, &log);
    let second = Run::start(&db, OPTIONS, &log, None);
    log.write(1000);
    wait_until("one of them ends", || {
        first.thread.is_finished() || second.thread.is_finished()
    });
    let (ended, other) = match first.thread.is_finished() {
        true => (first, second),
        false => (second, first),
    };
    let error = ended.thread.join().unwrap().unwrap_err();
    let reason = std::error::Error::source(&error).unwrap().to_string();
    let expected =
        "another run has moved the position of `web1` in \"public\".\"lookaside_file_positions\"";
    assert!(reason.contains(expected), "{reason}");
    check(&db, &log);
    other.stop();
}

/// The results of a block, with a further one for another sink.
fn block(payloads: &[&str]) -> (Messages, super::Written) {
    let (messages, written) = super::messages(payloads.iter().copied());
    written.receipt.add(0, 1);
    (messages, written)
}

#[test]
fn no_row_becomes_visible_before_the_other_results_of_its_block_are_delivered() {
    let db = database();
    db.execute("create table t (n int)").unwrap();
    let mut log = Log::new();
    log.write(1);
    let url = url(&db, OPTIONS).parse().unwrap();
    let (opened, mark) = lookaside_connect::open_sink_of_followed(&url, &log.path()).unwrap();
    // The beginning of the file, which is stored.
    assert!(mark.is_some() && stored(&db).contains(" offset 0 "));
    let mut sink = opened.sink;
    let mark = "device 1 inode 2 born 3 seen 4 offset 5 line 1 read 5 head 6 tail 7";
    let mark = mark.parse().unwrap();
    let (messages, written) = block(&["{\"n\":1}", "{\"n\":2}"]);
    assert_eq!(messages.iter().count(), 2);
    sink.write(&messages, &written.receipt).unwrap();
    written.receipt.release();
    sink.end_block(&mark, &written.receipt).unwrap();
    assert!(!sink.flush(Duration::from_millis(500)).unwrap());
    assert!(count(&db, "t") == 0 && stored(&db).contains(" offset 0 "));
    written.receipt.deliver(0, 1);
    crate::flush::flush(&mut *sink).unwrap();
    assert_eq!(count(&db, "t"), 2);
    let stored = stored(&db);
    assert!(stored.starts_with(&format!("{mark} run ")) && stored.ends_with(" file \"app.log\""));
    assert!(written.is_delivered());
}

#[test]
fn what_is_wrong_is_named_with_the_way_out() {
    let db = database();
    db.execute("create table t (n int)").unwrap();
    let log = Log::new();
    let error = |options: &str, path: &Path| {
        let error = open(&db, options, path).map(|_| ()).unwrap_err();
        format!("{error}; {}", error.hint().unwrap_or_default())
    };
    let without = error("table=t&delivery=exactly-once", &log.path());
    assert!(without.contains("needs the option `source`"), "{without}");
    let useless = error("table=t&source=a", &log.path());
    assert!(useless.contains("needs the option `delivery`"), "{useless}");
    let mut written = Log::new();
    written.write(1);
    let run = Run::start(&db, OPTIONS, &written, None);
    check(&db, &written);
    run.stop();
    let other = error(OPTIONS, &log.folder.path().join("other.log"));
    assert!(
        other.contains("belongs to \"app.log\", not to \"other.log\"")
            && other.contains("delete the row"),
        "{other}"
    );
    connect(&db)
        .query("update lookaside_file_positions set position = 'x'", &[])
        .unwrap();
    let strange = error(OPTIONS, &log.path());
    assert!(strange.contains("is not one of this version"), "{strange}");
    db.execute(
        "drop table lookaside_file_positions; create view lookaside_file_positions as select 1",
    )
    .unwrap();
    let view = error(OPTIONS, &log.path());
    assert!(view.contains("the server refuses"), "{view}");
}
