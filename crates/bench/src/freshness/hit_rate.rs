//! What do a feed and a lifetime without one bring: hits, queries of the database, and staleness?
//!
//! Reads by a Zipf distribution, while rows are updated. Three engines in turn: a feed and a long lifetime;
//! a short lifetime without a feed; and the lifetime without a feed that causes as many queries as the
//! first. The staleness of a read is the time since the acknowledgement of the oldest commit of its row that
//! its answer does not show, and 0 if it shows all that were acknowledged before it began.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_knowledge::Session;
use lookaside_load::workload::{KeyArguments, KeyLaw};
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, Text, Value};

use super::Result;
use super::report::Report;
use super::samples::{Percentiles, Samples};
use super::server::{Engine, EngineOptions, FeedServer, LOOKUP, version};
use super::write::{self, WritePlan, wait_until};

/// The interval of batches of reads.
const TICK: Duration = Duration::from_millis(1);

/// Keys drawn in advance; then their order repeats.
const DRAWN_COUNT: usize = 1 << 20;

/// The lifetime with a feed.
const FEED_TTL: Duration = Duration::from_secs(1800);

/// The short lifetime without a feed.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// Lifetimes that are tried for as many queries.
const TTL_MAX_SECONDS: f64 = 3600.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct HitRateOptions {
    /// Of each engine.
    pub(super) duration: Duration,
    /// The longest time for which an engine is read before that.
    pub(super) warm_up_max: Duration,
    pub(super) reads_per_second: f64,
    pub(super) writes: WritePlan,
    pub(super) row_count: u64,
    pub(super) update_keys: KeyLaw,
}

/// What was measured with an engine.
struct Figures {
    reads_per_second: f64,
    commits_per_second: f64,
    queries_per_second: f64,
    hit_percent: f64,
    stale_percent: f64,
    staleness_ms: Percentiles,
}

pub(super) fn run(server: &FeedServer, options: HitRateOptions) -> Result<Report> {
    server.fill("registers", options.row_count)?;
    let mut report = Report::new("hit-rate", &server.note);
    report.parameter("reads", format!("{}/s, zipf", options.reads_per_second));
    let law = match options.update_keys {
        KeyLaw::Zipf => "zipf",
        KeyLaw::Uniform => "uniform",
        KeyLaw::Hotset => "hotset",
    };
    report.parameter("updates", format!("{}/s, {law}", options.writes.rate));
    report.parameter("writers", options.writes.writer_count);
    report.parameter("rows", options.row_count);
    report.parameter("seconds", options.duration.as_secs_f64());
    report.parameter(
        "warm-up",
        format!("{} s", options.warm_up_max.as_secs_f64()),
    );

    let workload = Workload::new(server, options);
    // Until each row was updated once, fewer answers than later are invalid.
    let steady = Duration::from_secs_f64(options.row_count as f64 / options.writes.rate);
    let feed = workload.measure(true, FEED_TTL, steady)?;
    let equal = equal_ttl(options, feed.queries_per_second);
    add(&mut report, "feed, ttl 30 min", &feed);
    let short = workload.measure(false, SHORT_TTL, SHORT_TTL)?;
    add(&mut report, "no feed, ttl 1 s", &short);
    let name = format!("no feed, ttl {:.1} s", equal.as_secs_f64());
    let equal_figures = workload.measure(false, equal, equal)?;
    add(&mut report, &name, &equal_figures);
    if steady > options.warm_up_max {
        report.note(format!(
            "not steady: the feed was read for less than it takes to update all rows, so fewer answers were \
             invalid; use --warm-up {:.0}",
            steady.as_secs_f64() * 1.2
        ));
    }
    if equal > options.warm_up_max {
        report.note(format!(
            "not steady: {name} was read for less than its lifetime before it was measured, so few answers \
             expired, and none was older; use --warm-up {:.0}",
            equal.as_secs_f64() * 1.2
        ));
    }
    Ok(report)
}

fn add(report: &mut Report, name: &str, figures: &Figures) {
    let mut line = |what: &str, unit: &'static str, value: f64| {
        report.figure(format!("{name}: {what}"), unit, value, &[]);
    };
    line("reads", "/s", figures.reads_per_second);
    line("updates", "/s", figures.commits_per_second);
    line("hits", "%", figures.hit_percent);
    line("queries", "/s", figures.queries_per_second);
    line("stale answers", "%", figures.stale_percent);
    let staleness = figures.staleness_ms;
    report.figure(format!("{name}: staleness"), "ms", staleness, &[]);
}

/// The lifetime with which reads of all keys cause so many queries: a key that is read `r` times a second
/// causes one each `ttl + 1/r`.
fn equal_ttl(options: HitRateOptions, queries_per_second: f64) -> Duration {
    let total: f64 = (1..=options.row_count).map(|rank| 1.0 / rank as f64).sum();
    let queries = |ttl: f64| -> f64 {
        let of_key = |rank: u64| {
            let reads = options.reads_per_second / (rank as f64 * total);
            reads / (1.0 + reads * ttl)
        };
        (1..=options.row_count).map(of_key).sum()
    };
    let (mut low, mut high) = (0.001, TTL_MAX_SECONDS);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match queries(middle) > queries_per_second {
            true => low = middle,
            false => high = middle,
        }
    }
    Duration::from_secs_f64(high)
}

/// What all engines are read and written with.
struct Workload<'a> {
    server: &'a FeedServer,
    options: HitRateOptions,
    read_keys: Vec<i64>,
    write_keys: Vec<i64>,
    commits: Commits,
}

/// When each version of each key was acknowledged.
struct Commits {
    start: Instant,
    /// By the key, from 1 on; nanoseconds since the start, for the versions from 1 on.
    acknowledged: Vec<Mutex<Vec<u64>>>,
}

impl Commits {
    fn new(key_count: u64) -> Self {
        Self {
            start: Instant::now(),
            acknowledged: (0..=key_count).map(|_| Mutex::default()).collect(),
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// The next version of a key was acknowledged. A key has one writer.
    fn add(&self, key: i64, at: Instant) {
        let list = &self.acknowledged[key as usize];
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(self.nanos(at));
    }

    /// How stale a version was at `read`, in milliseconds: the version after it is the oldest one that it
    /// does not show.
    fn staleness_ms(&self, key: i64, version: i64, read: Instant) -> f64 {
        let list = &self.acknowledged[key as usize];
        let list = list.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.nanos(read);
        match list.get(version as usize) {
            Some(next) if *next < read => (read - next) as f64 / 1e6,
            _ => 0.0,
        }
    }
}

impl<'a> Workload<'a> {
    fn new(server: &'a FeedServer, options: HitRateOptions) -> Self {
        let keys = |keys| KeyArguments {
            rows: options.row_count,
            keys,
        };
        let mut write_keys = keys(options.update_keys).draw(DRAWN_COUNT);
        // The same seed drew both.
        write_keys.rotate_left(DRAWN_COUNT / 3);
        Self {
            server,
            options,
            read_keys: keys(KeyLaw::Zipf).draw(DRAWN_COUNT),
            write_keys,
            commits: Commits::new(options.row_count),
        }
    }

    /// With an engine that is in the same state after `steady` as later.
    fn measure(&self, has_feed: bool, ttl: Duration, steady: Duration) -> Result<Figures> {
        let engine = self.server.engine(EngineOptions {
            has_feed,
            ttl,
            key_count: self.options.row_count,
        })?;
        let mut session = engine.warm_session(self.options.row_count)?;
        let stop = AtomicBool::new(false);
        let committed = |key, at| self.commits.add(key, at);
        thread::scope(|scope| {
            let plan = self.options.writes;
            let begin = Instant::now();
            let keys = &self.write_keys;
            let writers = write::start(scope, self.server, plan, keys, &stop, &committed);
            let read = self.read(&engine, &mut session, steady);
            // Relaxed: a writer may make one more.
            stop.store(true, Ordering::Relaxed);
            let commits = write::join(writers)?;
            let mut figures = read?;
            figures.commits_per_second = commits as f64 / begin.elapsed().as_secs_f64();
            Ok(figures)
        })
    }

    fn read(&self, engine: &Engine, session: &mut Session, steady: Duration) -> Result<Figures> {
        // Answers that were cached together expire together, so the time to live has to pass.
        let warm_up = (steady.mul_f64(1.2)).min(self.options.warm_up_max);
        let mut reader = Reader {
            workload: self,
            statement: Lookup::prepare(session, LOOKUP, &[Text::from("id")])?,
            params: ParamBatch::new(1),
            answers: Answers::new(),
            next: 0,
        };
        reader.read_for(session, warm_up)?;
        let before = engine.knowledge.snapshot().counts.queries;
        let begin = Instant::now();
        let samples = reader.read_for(session, self.options.duration)?;
        let elapsed = begin.elapsed().as_secs_f64();
        let queries = (engine.knowledge.snapshot().counts.queries - before) as f64;
        let (count, stale_count) = (samples.count as f64, samples.stale_count as f64);
        Ok(Figures {
            reads_per_second: count / elapsed,
            commits_per_second: 0.0,
            queries_per_second: queries / elapsed,
            hit_percent: 100.0 * (1.0 - queries / count),
            stale_percent: 100.0 * stale_count / count,
            staleness_ms: samples.staleness_ms.percentiles(),
        })
    }
}

/// Reads at a fixed rate, in batches: what is not cached of a batch is queried at once.
struct Reader<'a> {
    workload: &'a Workload<'a>,
    statement: lookaside_value::StatementId,
    params: ParamBatch,
    answers: Answers,
    /// The next of the drawn keys.
    next: usize,
}

#[derive(Default)]
struct ReadSamples {
    count: u64,
    stale_count: u64,
    staleness_ms: Samples,
}

impl Reader<'_> {
    fn read_for(&mut self, session: &mut Session, duration: Duration) -> Result<ReadSamples> {
        let workload = self.workload;
        let mut samples = ReadSamples::default();
        let begin = Instant::now();
        let mut due = begin;
        while samples.count == 0 || begin.elapsed() < duration {
            let rate = workload.options.reads_per_second;
            let due_count = (begin.elapsed().as_secs_f64() * rate) as u64 + 1;
            let keys: Vec<i64> = (samples.count..due_count)
                .map(|_| self.next_key())
                .collect();
            self.params.reset(1);
            keys.iter()
                .for_each(|key| self.params.push([Value::Int(*key)]));
            let read = Instant::now();
            session.answer(
                BatchQuery::first(self.statement),
                &self.params,
                &mut self.answers,
            );
            for (index, key) in keys.iter().enumerate() {
                let found = version(self.answers.row(index).map_err(Clone::clone)?)?;
                let staleness = workload.commits.staleness_ms(*key, found, read);
                samples.stale_count += u64::from(staleness > 0.0);
                samples.staleness_ms.add(staleness);
            }
            samples.count += keys.len() as u64;
            due += TICK;
            wait_until(due);
        }
        Ok(samples)
    }

    fn next_key(&mut self) -> i64 {
        let key = self.workload.read_keys[self.next % DRAWN_COUNT];
        self.next += 1;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_stale_as_the_oldest_commit_that_it_misses() {
        let commits = Commits::new(2);
        let at = |ms| commits.start + Duration::from_millis(ms);
        commits.add(2, at(10));
        commits.add(2, at(30));
        for (version, read, expected) in [
            (0, 5, 0.0),
            (0, 15, 5.0),
            (0, 40, 30.0),
            (1, 29, 0.0),
            (1, 40, 10.0),
            (2, 90, 0.0),
        ] {
            let staleness = commits.staleness_ms(2, version, at(read));
            assert!(
                (staleness - expected).abs() < 1e-6,
                "{version} at {read}: {staleness}"
            );
        }
        assert_eq!(commits.staleness_ms(1, 0, at(50)), 0.0);
    }

    #[test]
    fn a_lifetime_is_found_for_a_number_of_queries() {
        let options = HitRateOptions {
            duration: Duration::ZERO,
            warm_up_max: Duration::ZERO,
            reads_per_second: 1000.0,
            writes: WritePlan {
                rate: 1.0,
                writer_count: 1,
            },
            row_count: 1,
            update_keys: KeyLaw::Uniform,
        };
        // A single key, read a thousand times a second: once each second and a millisecond.
        let ttl = equal_ttl(options, 1.0).as_secs_f64();
        assert!((ttl - 0.999).abs() < 1e-3, "{ttl}");
    }
}
