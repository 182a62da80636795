//! Workers that look keys up one after another, as tasks or as threads, and how long they do.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Barrier;

use crate::arguments::Arguments;
use crate::measure::{Latencies, Measure, Seen, Stopwatch};
use crate::server::Server;

/// Keys that are looked up for the hash before the clock starts.
const CHECKED_COUNT: usize = 1000;
/// How long a run warms up, in parts of its length.
const WARM_UP_PART: f64 = 0.1;
/// Cached answers are there at once, so that a task would keep its thread to the end: after so many
/// it lets the others have it. Yielding costs less than a nanosecond an operation then.
const YIELD_EVERY: usize = 256;

#[derive(Clone, Copy)]
pub enum Length {
    Seconds(f64),
    /// Of all workers together.
    Operations(usize),
}

/// How long and how closely a run is looked at.
#[derive(Clone, Copy)]
pub struct Pace {
    pub length: Length,
    /// One of so many operations is timed: each, unless the clock costs as much as the operation, or
    /// so many are one flight.
    pub timed_every: usize,
    pub server: Option<Server>,
}

impl Pace {
    pub const OPTIONS: [&str; 2] = ["--seconds", "--server-pid"];

    pub fn read(arguments: &Arguments) -> Result<Self> {
        Ok(Self {
            length: Length::Seconds(arguments.number("--seconds")?.unwrap_or(5.0)),
            timed_every: 1,
            server: arguments.number("--server-pid")?.map(|pid| Server { pid }),
        })
    }

    /// The same for a tenth of the time.
    pub fn warm_up(self) -> Self {
        let length = match self.length {
            Length::Seconds(seconds) => Length::Seconds(seconds * WARM_UP_PART),
            operations => operations,
        };
        Self { length, ..self }
    }

    /// Of a run that starts now.
    fn deadline(self) -> Option<Instant> {
        match self.length {
            Length::Seconds(seconds) => Some(Instant::now() + Duration::from_secs_f64(seconds)),
            Length::Operations(_) => None,
        }
    }
}

/// A worker that waits for its answers in a task.
pub trait Look: Send + 'static {
    /// Looks `key` up and shows the answer.
    fn look(&mut self, key: i64, seen: &mut Seen) -> impl Future<Output = Result<()>> + Send;
}

/// A worker that waits for its answers in a thread.
pub trait LookBlocking: Send {
    fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()>;
}

/// The hash of the answers to the first keys.
pub async fn check(looker: &mut impl Look, keys: &[i64]) -> Result<u64> {
    let mut seen = Seen::hash();
    for &key in keys.iter().take(CHECKED_COUNT) {
        looker.look(key, &mut seen).await?;
    }
    Ok(seen.hashed())
}

pub fn check_blocking(looker: &mut impl LookBlocking, keys: &[i64]) -> Result<u64> {
    let mut seen = Seen::hash();
    for &key in keys.iter().take(CHECKED_COUNT) {
        looker.look(key, &mut seen)?;
    }
    Ok(seen.hashed())
}

/// Each looker in a task of its own.
pub async fn run<L: Look>(lookers: &mut Vec<L>, keys: &Arc<[i64]>, pace: Pace) -> Result<Measure> {
    let count = lookers.len();
    let barrier = Arc::new(Barrier::new(count + 1));
    let deadline = pace.deadline();
    let tasks: Vec<_> = lookers
        .drain(..)
        .enumerate()
        .map(|(index, mut looker)| {
            let (keys, barrier) = (keys.clone(), barrier.clone());
            tokio::spawn(async move {
                let mut seen = Seen::Nothing;
                barrier.wait().await;
                let mut shift = Shift::start(index, count, &keys, pace, deadline);
                while let Some(turn) = shift.next() {
                    looker.look(turn.key, &mut seen).await?;
                    shift.done(turn);
                    if shift.op_count.is_multiple_of(YIELD_EVERY) {
                        tokio::task::yield_now().await;
                    }
                }
                anyhow::Ok((looker, shift.latencies, shift.op_count))
            })
        })
        .collect();
    // The latest moment at which no worker has begun.
    let stopwatch = Stopwatch::start(pace.server);
    barrier.wait().await;
    let (mut latencies, mut op_count) = (Latencies::default(), 0);
    for task in tasks {
        let (looker, own, count) = task.await.context("a task panicked")??;
        lookers.push(looker);
        latencies.append(own);
        op_count += count as u64;
    }
    Ok(stopwatch.stop(op_count, latencies))
}

/// Each looker in a thread of its own, the first one in the caller's if it is alone.
pub fn run_blocking<L: LookBlocking>(
    lookers: &mut [L],
    keys: &[i64],
    pace: Pace,
) -> Result<Measure> {
    let count = lookers.len();
    let (mut latencies, mut op_count) = (Latencies::default(), 0);
    let deadline = pace.deadline();
    let work = |index, looker: &mut L| {
        let mut seen = Seen::Nothing;
        let mut shift = Shift::start(index, count, keys, pace, deadline);
        while let Some(turn) = shift.next() {
            looker.look(turn.key, &mut seen)?;
            shift.done(turn);
        }
        anyhow::Ok((shift.latencies, shift.op_count))
    };
    let stopwatch = Stopwatch::start(pace.server);
    if let [looker] = lookers {
        let (latencies, op_count) = work(0, looker)?;
        return Ok(stopwatch.stop(op_count as u64, latencies));
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = lookers
            .iter_mut()
            .enumerate()
            .map(|(index, looker)| scope.spawn(move || work(index, looker)))
            .collect();
        for thread in threads {
            let (own, count) = thread.join().expect("a thread ends")?;
            latencies.append(own);
            op_count += count as u64;
        }
        anyhow::Ok(())
    })?;
    Ok(stopwatch.stop(op_count, latencies))
}

/// The part of one worker: each `step`th key from its own on, as the original deals them.
struct Shift<'a> {
    keys: &'a [i64],
    next: usize,
    step: usize,
    op_count: usize,
    op_count_max: usize,
    deadline: Option<Instant>,
    timed_every: usize,
    latencies: Latencies,
}

struct Turn {
    key: i64,
    started: Option<Instant>,
}

impl<'a> Shift<'a> {
    fn start(
        index: usize,
        count: usize,
        keys: &'a [i64],
        pace: Pace,
        deadline: Option<Instant>,
    ) -> Self {
        assert!(keys.len() >= count, "each worker has a key");
        let op_count_max = match pace.length {
            Length::Operations(all) => (all + count - 1 - index) / count,
            Length::Seconds(_) => usize::MAX,
        };
        Self {
            keys,
            next: index,
            step: count,
            op_count: 0,
            op_count_max,
            deadline,
            timed_every: pace.timed_every,
            latencies: Latencies::default(),
        }
    }

    fn next(&mut self) -> Option<Turn> {
        if self.op_count == self.op_count_max {
            return None;
        }
        // The first of a group looks whether there is time for it, the last one is timed.
        let in_group = self.op_count % self.timed_every;
        if in_group == 0
            && self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return None;
        }
        let started = (in_group + 1 == self.timed_every).then(Instant::now);
        let key = self.keys[self.next];
        self.next += self.step;
        if self.next >= self.keys.len() {
            self.next -= self.keys.len();
        }
        Some(Turn { key, started })
    }

    fn done(&mut self, turn: Turn) {
        self.op_count += 1;
        if let Some(started) = turn.started {
            self.latencies.add(started.elapsed());
        }
    }
}
