//! How long does it take from a commit until all caches have the new value?
//!
//! One thread commits a sample, reads the row on another connection until that shows it, and then goes
//! around the caches until each of them has it. No thread has to be woken for that, and nothing polls
//! between two samples, so the measure leaves the cores to the server, its walsender and the feed.

use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_knowledge::{Extent, Freshness, Session};
use lookaside_value::Value;
use tokio::runtime::Runtime;

use super::Result;
use super::report::{Aim, Report, millis};
use super::samples::Samples;
use super::serve::ServedBodies;
use super::server::{Engine, EngineOptions, FeedServer, PLAIN, version};
use super::write::{self, UPDATE, WritePlan, wait_until};
use crate::target::current_thread;

/// The keys that samples change in turn; the writers leave them alone.
const SAMPLE_KEY_COUNT: i64 = 16;

/// Rows of the table, which the writers change in turn.
const ROW_COUNT: u64 = 10_000;

/// The pause between two looks at the caches: with the kernel's own slack, some 70 us.
const POLL_PAUSE: Duration = Duration::from_micros(15);

/// A change that is not shown within this time is a failure.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The time for which the writers run before the first sample.
const WARM_UP: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyOptions<'a> {
    pub(super) duration: Duration,
    pub(super) writes: WritePlan,
    pub(super) session_count: u16,
    pub(super) samples_per_second: f64,
    pub(super) serve: Option<&'a Path>,
}

/// The times of all samples, in milliseconds.
#[derive(Default)]
struct Times {
    visible: Samples,
    sessions: Samples,
    shared: Samples,
    bodies: Samples,
    caches: Samples,
    total: Samples,
    /// Caches that had the old value when they were looked at for the first time.
    old_count: u64,
    look_count: u64,
    /// Samples that the first read on another connection did not show.
    invisible_count: u64,
}

pub(super) fn run(server: &FeedServer, options: LatencyOptions<'_>) -> Result<Report> {
    server.fill("registers", ROW_COUNT)?;
    let engine_options = EngineOptions {
        has_feed: true,
        ttl: Duration::from_secs(1800),
        key_count: ROW_COUNT,
    };
    let engine = server.engine(engine_options)?;
    let mut report = Report::new("latency", &server.note);
    let mut sampler = Sampler::new(server, &engine, engine_options, options)?;
    let keys: Vec<i64> = (SAMPLE_KEY_COUNT + 1..=ROW_COUNT.cast_signed()).collect();
    let stop = AtomicBool::new(false);
    let ignore = |_, _| {};
    let mut times = Times::default();
    let (commits, elapsed) = thread::scope(|scope| -> Result<(u64, Duration)> {
        let plan = WritePlan {
            rate: (options.writes.rate - options.samples_per_second).max(1.0),
            ..options.writes
        };
        let begin = Instant::now();
        let writers = write::start(scope, server, plan, &keys, &stop, &ignore);
        thread::sleep(WARM_UP.min(options.duration));
        let sampled = sampler.run(options, &mut times);
        // Relaxed: a writer may make one more.
        stop.store(true, Ordering::Relaxed);
        let commits = write::join(writers)? + sampled?;
        Ok((commits, begin.elapsed()))
    })?;
    let feed = engine.feed()?;
    report.parameter("rate", format!("{}/s", options.writes.rate));
    report.parameter("writers", options.writes.writer_count);
    report.parameter("sessions", options.session_count);
    report.parameter("samples", format!("{}/s", options.samples_per_second));
    report.parameter("seconds", options.duration.as_secs_f64());
    let rate = commits as f64 / elapsed.as_secs_f64();
    report.figure("commits", "/s", rate, &[]);
    report.figure("commit to visible", "ms", times.visible.percentiles(), &[]);
    let aims = [Aim::AtMost("p50", 1.0), Aim::AtMost("p99", 5.0)];
    report.figure(
        "visible to sessions",
        "ms",
        times.sessions.percentiles(),
        &[],
    );
    report.figure(
        "visible to shared cache",
        "ms",
        times.shared.percentiles(),
        &[],
    );
    if options.serve.is_some() {
        report.figure("visible to bodies", "ms", times.bodies.percentiles(), &[]);
    } else {
        report.note("encoded bodies are left out: name the program by --serve");
    }
    report.figure("visible to all", "ms", times.caches.percentiles(), &aims);
    let aims = [Aim::AtMost("p99", 10.0)];
    report.figure("commit to all", "ms", times.total.percentiles(), &aims);
    let share = 100.0 * times.old_count as f64 / times.look_count.max(1) as f64;
    report.figure("old at the first look", "%", share, &[]);
    let wait = millis(feed.gate_wait_total) / feed.gate_wait_count.max(1) as f64;
    report.figure("mean wait for the gate", "ms", wait, &[]);
    if times.invisible_count > 0 {
        report.note(format!(
            "{} commits were not shown by the first read after they were acknowledged",
            times.invisible_count
        ));
    }
    report.note(
        "visible is the sending of the first read on another connection that shows the change; commit to \
         visible ends with its return, a round trip later",
    );
    Ok(report)
}

/// Commits samples, and waits until the caches have them.
struct Sampler<'a> {
    engine: &'a Engine,
    runtime: Runtime,
    sessions: Vec<Session>,
    writer: Connection,
    plain: Connection,
    bodies: Option<ServedBodies>,
    versions: [i64; SAMPLE_KEY_COUNT as usize],
}

impl<'a> Sampler<'a> {
    fn new(
        server: &FeedServer,
        engine: &'a Engine,
        engine_options: EngineOptions,
        options: LatencyOptions<'_>,
    ) -> Result<Self> {
        let sessions = (0..options.session_count)
            .map(|_| engine.warm_session(SAMPLE_KEY_COUNT.unsigned_abs()));
        let bodies = options.serve.map(|program| {
            ServedBodies::start(program, &server.knowdb(engine_options), SAMPLE_KEY_COUNT)
        });
        Ok(Self {
            engine,
            runtime: current_thread()?,
            sessions: sessions.collect::<Result<_>>()?,
            writer: server.connect()?,
            plain: server.connect()?,
            bodies: bodies.transpose()?,
            versions: [0; SAMPLE_KEY_COUNT as usize],
        })
    }

    /// Takes samples at their rate; returns their number.
    fn run(&mut self, options: LatencyOptions<'_>, times: &mut Times) -> Result<u64> {
        let interval = Duration::from_secs_f64(1.0 / options.samples_per_second);
        let begin = Instant::now();
        let (mut due, mut count) = (begin, 0);
        while count == 0 || begin.elapsed() < options.duration {
            wait_until(due);
            self.sample(count, times)?;
            count += 1;
            due = (due + interval).max(Instant::now());
        }
        Ok(count)
    }

    fn sample(&mut self, number: u64, times: &mut Times) -> Result<()> {
        let index = (number % SAMPLE_KEY_COUNT.unsigned_abs()) as usize;
        let key = [Value::Int(index as i64 + 1)];
        self.versions[index] += 1;
        let expected = self.versions[index];
        self.writer.execute(UPDATE, &key)?;
        let committed = Instant::now();
        // The program that serves is looked at by another thread meanwhile.
        if let Some(bodies) = &self.bodies {
            bodies.expect(index as i64 + 1, expected)?;
        }
        let (visible, seen) = self.wait_until_visible(&key, expected, times)?;
        let (shared, sessions) = self.wait_for_caches(&key, expected, number, times)?;
        let bodies = match &self.bodies {
            Some(bodies) => Some(bodies.shown()?),
            None => None,
        };
        let all = shared.max(sessions).max(bodies.unwrap_or(shared));
        let since = |from: Instant, to: Instant| millis(to.saturating_duration_since(from));
        times.visible.add(since(committed, seen));
        times.sessions.add(since(visible, sessions));
        times.shared.add(since(visible, shared));
        if let Some(bodies) = bodies {
            times.bodies.add(since(visible, bodies));
        }
        times.caches.add(since(visible, all));
        times.total.add(since(committed, all));
        Ok(())
    }

    /// Reads past the caches; returns when the read was sent that showed the change, and when it returned.
    fn wait_until_visible(
        &mut self,
        key: &[Value],
        expected: i64,
        times: &mut Times,
    ) -> Result<(Instant, Instant)> {
        let begin = Instant::now();
        let mut sent = begin;
        loop {
            let answer = self.plain.query(PLAIN, key)?;
            let seen = Instant::now();
            if version(answer.rows.first().as_deref())? >= expected {
                return Ok((sent, seen));
            }
            times.invisible_count += u64::from(sent == begin);
            if begin.elapsed() > TIMEOUT {
                return Err("a commit does not become visible".into());
            }
            sent = seen;
        }
    }

    /// Goes around the caches until each has the change; returns when the shared cache had it, and when the
    /// last session had it. What looks first queries the database, in turn the shared cache and a session.
    fn wait_for_caches(
        &mut self,
        key: &[Value],
        expected: i64,
        number: u64,
        times: &mut Times,
    ) -> Result<(Instant, Instant)> {
        let begin = Instant::now();
        let mut waiting: Vec<usize> = (0..self.sessions.len()).collect();
        let (mut shared, mut sessions) = (None, None);
        let mut is_shared_first = number.is_multiple_of(2);
        times.look_count += waiting.len() as u64 + 1;
        let mut is_first_look = true;
        loop {
            if is_shared_first && shared.is_none() {
                let found = self.shared(key)?;
                shared = (found >= expected).then(Instant::now);
                times.old_count += u64::from(is_first_look && shared.is_none());
            }
            is_shared_first = true;
            let mut old = Vec::new();
            for index in waiting.drain(..) {
                let found = self.sessions[index].first(&self.engine.statement, key)?;
                if version(found)? < expected {
                    old.push(index);
                }
            }
            waiting = old;
            if waiting.is_empty() {
                sessions.get_or_insert_with(Instant::now);
            }
            if is_first_look {
                times.old_count += waiting.len() as u64;
                if shared.is_none() && !number.is_multiple_of(2) {
                    let found = self.shared(key)?;
                    shared = (found >= expected).then(Instant::now);
                    times.old_count += u64::from(shared.is_none());
                }
                is_first_look = false;
            }
            if let (Some(shared), Some(sessions)) = (shared, sessions) {
                return Ok((shared, sessions));
            }
            if begin.elapsed() > TIMEOUT {
                return Err("a change does not reach the caches".into());
            }
            thread::sleep(POLL_PAUSE);
        }
    }

    /// The version in the shared cache, without that of a session.
    fn shared(&self, key: &[Value]) -> Result<i64> {
        let (knowledge, statement) = (&self.engine.knowledge, &self.engine.statement);
        let mut asking =
            pin!(knowledge.answer_async(statement, key, Extent::First, Freshness::default()));
        // A hit is ready at once, without the runtime.
        let polled = asking
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let (rows, _) = match polled {
            Poll::Ready(answer) => answer?,
            Poll::Pending => self.runtime.block_on(asking)?,
        };
        version(rows.first().as_deref())
    }
}
