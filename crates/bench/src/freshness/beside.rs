//! What do changes that concern no cached answer cost the lookups beside them?
//!
//! One thread looks up without a pause, and another one writes as fast as the server takes it, or not:
//! rounds with and without changes alternate.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_load::measure::Spread;
use lookaside_load::workload::{KeyArguments, KeyLaw};
use lookaside_value::Value;

use super::Result;
use super::cpu::{feed_cpu, thread_cpu};
use super::report::{Aim, Report};
use super::server::{Engine, FeedServer};

/// Rows of the tables.
const ROW_COUNT: u64 = 10_000;

/// Rows of one update.
const UPDATE_ROW_COUNT: u64 = 100;

const UPDATE: &str = "update lookaside_bench_freshness.unrelated set version = version + 1 \
                      where id between $1 and $2";

/// Lookups between two clock readings.
const BLOCK: usize = 4096;

/// How far the walsender may be behind at the end of a round, in bytes of the log.
const BEHIND_MAX: i64 = 64 << 10;

/// How long it may take to catch up.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// What the writer does.
const PAUSED: u8 = 0;
const WRITING: u8 = 1;
const ENDED: u8 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct BesideOptions {
    pub(super) duration: Duration,
    pub(super) round_count: usize,
}

pub(super) fn run(server: &FeedServer, options: BesideOptions) -> Result<Report> {
    let engine = server.engine_beside_unrelated(ROW_COUNT)?;
    let mut report = Report::new("unrelated, live", &server.note);
    report.parameter("rows an update", UPDATE_ROW_COUNT);
    report.parameter("rounds", options.round_count);
    report.parameter("seconds", options.duration.as_secs_f64());
    let writer = BulkWriter::default();
    let rounds = thread::scope(|scope| {
        let writing = scope.spawn(|| writer.run(server));
        let measured = measure(server, &engine, &writer, options);
        writer.set(ENDED);
        let written = writing.join().expect("the writer does not panic");
        let rounds = measured?;
        written.map(|()| rounds)
    })?;
    let Rounds {
        with,
        without,
        added,
        rates,
        feed,
    } = rounds;
    report.figure("lookup with changes", "ns", Spread::new(with), &[]);
    report.figure("lookup without", "ns", Spread::new(without), &[]);
    let aims = [Aim::AtMost("median", 5.0)];
    report.figure("added to a lookup", "%", Spread::new(added), &aims);
    report.figure("changes", "/s", Spread::new(rates), &[]);
    match feed.is_empty() {
        true => report.note("the CPU time of the feed is unknown"),
        false => report.figure("CPU of the feed", "us a change", Spread::new(feed), &[]),
    }
    report.note(
        "a lookup is a hit of the session's cache, in CPU time of its thread; the CPU of the feed \
         includes its socket",
    );
    Ok(report)
}

#[derive(Default)]
struct Rounds {
    with: Vec<f64>,
    without: Vec<f64>,
    /// Percent, of each pair of rounds.
    added: Vec<f64>,
    rates: Vec<f64>,
    feed: Vec<f64>,
}

fn measure(
    server: &FeedServer,
    engine: &Engine,
    writer: &BulkWriter,
    options: BesideOptions,
) -> Result<Rounds> {
    let mut session = engine.warm_session(ROW_COUNT)?;
    let mut admin = server.connect()?;
    let slot = engine.feed()?.slot.ok_or("the feed has no slot")?;
    let zipf = KeyArguments {
        rows: ROW_COUNT,
        keys: KeyLaw::Zipf,
    };
    let keys: Vec<[Value; 1]> = (zipf.draw(1 << 16).into_iter())
        .map(|key| [Value::Int(key)])
        .collect();
    let mut blocks = keys.chunks_exact(BLOCK).cycle();
    // Nanoseconds of CPU time a lookup.
    let mut look_up = |duration: Duration| -> Result<f64> {
        let (begin, before, mut count) = (Instant::now(), thread_cpu(), 0);
        while count == 0 || begin.elapsed() < duration {
            for key in blocks.next().expect("a cycle has no end") {
                let row = session.first(&engine.statement, key)?;
                black_box(row.ok_or("a row is missing")?);
            }
            count += BLOCK;
        }
        Ok((thread_cpu() - before).as_nanos() as f64 / count as f64)
    };
    let length = options.duration / (2 * options.round_count.max(1)) as u32;
    look_up(length)?;
    let mut rounds = Rounds::default();
    for _ in 0..options.round_count.max(1) {
        let without = look_up(length)?;
        let (begin, count_before, feed_before) = (Instant::now(), writer.count(), feed_cpu());
        writer.set(WRITING);
        let with = look_up(length)?;
        writer.set(PAUSED);
        catch_up(&mut admin, &slot)?;
        let count = (writer.count() - count_before).max(1) as f64;
        rounds.rates.push(count / begin.elapsed().as_secs_f64());
        if let (Some(before), Some(after)) = (feed_before, feed_cpu()) {
            let used = after.saturating_sub(before);
            rounds.feed.push(used.as_secs_f64() * 1e6 / count);
        }
        rounds.added.push(100.0 * (with / without - 1.0));
        rounds.with.push(with);
        rounds.without.push(without);
    }
    Ok(rounds)
}

/// Waits until the walsender has sent what was written.
fn catch_up(admin: &mut Connection, slot: &str) -> Result<()> {
    let begin = Instant::now();
    let sql = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), sent_lsn)::bigint \
               from pg_stat_replication \
               join pg_replication_slots on active_pid = pid where slot_name = $1";
    loop {
        let answer = admin.query(sql, &[Value::from(slot)])?;
        match answer.rows.first().as_deref() {
            Some([Value::Int(behind)]) if *behind <= BEHIND_MAX => return Ok(()),
            _ if begin.elapsed() > CATCH_UP_TIMEOUT => {
                return Err("the walsender does not catch up".into());
            }
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A writer that is told when to write.
#[derive(Default)]
struct BulkWriter {
    mode: AtomicU8,
    row_count: AtomicU64,
}

impl BulkWriter {
    // Relaxed throughout: nothing else is read after them.
    fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.row_count.load(Ordering::Relaxed)
    }

    fn run(&self, server: &FeedServer) -> Result<()> {
        let mut connection = server.connect()?;
        connection.batch_execute("set synchronous_commit = off")?;
        let mut first = 1;
        loop {
            match self.mode.load(Ordering::Relaxed) {
                ENDED => return Ok(()),
                PAUSED => thread::sleep(Duration::from_millis(1)),
                _ => {
                    let last = first + UPDATE_ROW_COUNT - 1;
                    let range = [first, last].map(|key| Value::Int(key.cast_signed()));
                    connection.execute(UPDATE, &range)?;
                    self.row_count
                        .fetch_add(UPDATE_ROW_COUNT, Ordering::Relaxed);
                    first = if last >= ROW_COUNT { 1 } else { last + 1 };
                }
            }
        }
    }
}
