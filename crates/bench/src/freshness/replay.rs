//! What does it cost to decode and apply a change, from a recorded stream?
//!
//! The messages are recorded once by the functions of PostgreSQL for logical decoding, which return what a
//! walsender sends. They are replayed through the code of the live feed, without its connection.

use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_knowledge::ChangeReplay;
use lookaside_load::measure::Spread;
use lookaside_value::Value;

use super::Result;
use super::cpu::thread_cpu;
use super::report::{Aim, Report};
use super::server::{FeedServer, PROVIDER, SCHEMA};

/// Rows of the tables, which are changed in turn.
const ROW_COUNT: u64 = 10_000;

/// Rows of a larger transaction.
const LARGE_ROW_COUNT: u64 = 100;

/// Changes that are asked for at once when they are recorded.
const CHUNK: i64 = 20_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayOptions {
    pub(super) duration: Duration,
    pub(super) change_count: u64,
}

/// A recorded stream: the messages one after the other.
struct Recording {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    change_count: u64,
}

pub(super) fn run(server: &FeedServer, options: ReplayOptions) -> Result<Report> {
    let engine = server.engine_beside_unrelated(ROW_COUNT)?;
    let mut report = Report::new("unrelated, replayed", &server.note);
    report.parameter("changes", options.change_count);
    report.parameter("seconds", options.duration.as_secs_f64());
    let half = options.change_count / 2;
    let aims = [Aim::AtMost("median", 1.2)];
    for (name, table, rows, count, aims) in [
        ("unrelated, 1 row each", "unrelated", 1, half, &aims[..]),
        (
            "unrelated, 100 rows each",
            "unrelated",
            LARGE_ROW_COUNT,
            half,
            &aims[..],
        ),
        (
            "of a cached table, 1 row each",
            "registers",
            1,
            half / 2,
            &[],
        ),
    ] {
        let recording = record(server, table, rows, count.max(rows))?;
        let replay = engine.knowledge.replay_changes(PROVIDER);
        let mut replay = replay.ok_or("the provider has no change feed")?;
        let tracked = recording.replay(&mut replay)?;
        if (table == "registers") != (tracked > 0) {
            return Err(format!("{tracked} changes of {table} concern the lookup").into());
        }
        let figures = recording.measure(&mut replay, options.duration / 3)?;
        report.figure(name, "us a change", figures, aims);
        if table == "unrelated" {
            let rate = 1e6 / figures.median;
            let aims = [Aim::AtLeast("value", 100_000.0)];
            report.figure(format!("{name}: changes"), "/s of CPU", rate, &aims);
        }
    }
    report.note(
        "CPU time of the thread that decodes and applies; the socket is not part of it, see \
         unrelated, live",
    );
    Ok(report)
}

impl Recording {
    /// Passes on all messages; returns how many changes concern a lookup.
    fn replay(&self, replay: &mut ChangeReplay) -> Result<u64> {
        let mut begin = 0;
        for end in &self.ends {
            replay.take(&self.bytes[begin..*end])?;
            begin = *end;
        }
        Ok(replay.take_row_count())
    }

    /// Microseconds a change, over passes.
    fn measure(&self, replay: &mut ChangeReplay, duration: Duration) -> Result<Spread> {
        let begin = Instant::now();
        let mut passes = Vec::new();
        while passes.is_empty() || begin.elapsed() < duration {
            let before = thread_cpu();
            self.replay(replay)?;
            let used = thread_cpu() - before;
            passes.push(used.as_nanos() as f64 / 1e3 / self.change_count as f64);
        }
        Ok(Spread::new(passes))
    }
}

/// Makes changes in transactions of so many rows, and records what a walsender would send.
fn record(server: &FeedServer, table: &str, rows: u64, count: u64) -> Result<Recording> {
    const SLOT: &str = "lookaside_bench_replay";
    let mut connection = server.connect()?;
    let sql =
        format!("select pg_create_logical_replication_slot('{SLOT}', 'pgoutput', true)::text");
    connection.query(sql, &[])?;
    // The commits of a recording need not be on the disk one by one.
    let mut writer = server.connect()?;
    writer.batch_execute("set synchronous_commit = off")?;
    writer.batch_execute(format!(
        "do $$ begin \
             for i in 0..{transactions} - 1 loop \
                 update {SCHEMA}.{table} set version = version + 1 \
                 where id between (i * {rows}) % {ROW_COUNT} + 1 and (i * {rows}) % {ROW_COUNT} + {rows}; \
                 commit; \
             end loop; \
         end $$",
        transactions = count / rows
    ))?;
    // What is decoded has to be flushed.
    server
        .connect()?
        .batch_execute(format!("vacuum analyze {SCHEMA}.{table}"))?;
    let mut recording = Recording {
        bytes: Vec::new(),
        ends: Vec::new(),
        change_count: 0,
    };
    while read_changes(&mut connection, SLOT, &mut recording)? {}
    // The next recording has a slot of the same name.
    connection.query(
        &*format!("select pg_drop_replication_slot('{SLOT}')::text"),
        &[],
    )?;
    if recording.change_count < count / rows * rows {
        let recorded = recording.change_count;
        return Err(format!("only {recorded} of {count} changes were recorded").into());
    }
    Ok(recording)
}

/// Appends the next messages; returns whether there were any.
fn read_changes(
    connection: &mut Connection,
    slot: &str,
    recording: &mut Recording,
) -> Result<bool> {
    let sql = format!(
        "select data from pg_logical_slot_get_binary_changes('{slot}', null, {CHUNK}, \
         'proto_version', '1', 'publication_names', '{SCHEMA}')"
    );
    let answer = connection.query(sql, &[])?;
    for row in answer.rows.iter() {
        let [Value::Bytes(message)] = row else {
            return Err("a message is not bytes".into());
        };
        recording.change_count += u64::from(matches!(message.first(), Some(b'I' | b'U' | b'D')));
        recording.bytes.extend_from_slice(message);
        recording.ends.push(recording.bytes.len());
    }
    Ok(!answer.rows.is_empty())
}
