//! How many lookups that require fresh answers are answered from memory, and what do they cost the server?

use std::time::{Duration, Instant};

use lookaside_knowledge::Contract;
use lookaside_load::measure::cpu_time;
use lookaside_value::Value;

use super::Result;
use super::report::{Aim, Report};
use super::server::{EngineOptions, FeedServer};
use super::statements::TransactionCount;
use super::write::wait_until;

/// The interval of batches: at 100,000 reads a second, 100 reads are due each time.
const TICK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct DemandOptions {
    pub(super) duration: Duration,
    pub(super) within: Duration,
    pub(super) reads_per_second: f64,
    pub(super) row_count: u64,
}

pub(super) fn run(server: &FeedServer, options: DemandOptions) -> Result<Report> {
    server.fill("registers", options.row_count)?;
    let engine = server.engine(EngineOptions {
        has_feed: true,
        ttl: Duration::from_secs(1800),
        key_count: options.row_count,
    })?;
    let mut session = engine.warm_session(options.row_count)?;
    session.set_freshness(Contract::within(options.within).into());
    let mut report = Report::new("demand", &server.note);

    let transactions = TransactionCount::begin(server, &engine)?;
    let feed_before = engine.feed()?.probe_count;
    let queries_before = engine.knowledge.snapshot().counts.queries;
    let (begin, cpu_before) = (Instant::now(), cpu_time());
    let (mut due, mut read_count) = (begin, 0_u64);
    let last_key = options.row_count.cast_signed();
    while read_count == 0 || begin.elapsed() < options.duration {
        let due_count = (begin.elapsed().as_secs_f64() * options.reads_per_second) as u64 + 1;
        while read_count < due_count {
            let key = [Value::Int(read_count.cast_signed() % last_key + 1)];
            std::hint::black_box(session.first(&engine.statement, &key)?);
            read_count += 1;
        }
        due += TICK;
        wait_until(due);
    }
    let (elapsed, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu_before);
    let queries = engine.knowledge.snapshot().counts.queries - queries_before;
    let probes = engine.feed()?.probe_count - feed_before;
    let per_second = |count: u64| count as f64 / elapsed;

    report.parameter("within", format!("{} ms", options.within.as_millis()));
    report.parameter("reads", format!("{}/s", options.reads_per_second));
    report.parameter("rows", options.row_count);
    report.parameter("seconds", options.duration.as_secs_f64());
    report.figure("reads", "/s", per_second(read_count), &[]);
    let share = 100.0 * (1.0 - queries as f64 / read_count as f64);
    report.figure("from memory", "%", share, &[Aim::AtLeast("value", 99.0)]);
    let statements = per_second(probes + queries);
    report.figure(
        "statements",
        "/s",
        statements,
        &[Aim::AtMost("value", 50.0)],
    );
    report.figure("of them, by the feed", "/s", per_second(probes), &[]);
    report.figure("of them, by lookups", "/s", per_second(queries), &[]);
    let counted = transactions.per_second(&engine)?;
    report.figure("transactions of the database", "/s", counted, &[]);
    let share = 100.0 * cpu.as_secs_f64() / elapsed;
    report.figure("CPU of this process", "% of a core", share, &[]);
    report.note(
        "statements are those that the feed and the engine count; transactions are those of \
         pg_stat_database, over two seconds more, in which nothing is read",
    );
    Ok(report)
}
