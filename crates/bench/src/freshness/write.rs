//! Writers at a fixed rate: each updates keys that no other one does, a row a transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use lookaside_value::Value;

use super::Result;
use super::server::FeedServer;

/// The update of all writers.
pub(super) const UPDATE: &str = "update lookaside_bench_freshness.registers set version = version + 1 \
                                 where id = $1";

/// Writers that are behind catch up on at most this much.
const DEBT_MAX: Duration = Duration::from_millis(200);

/// Which commits are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct WritePlan {
    /// Commits per second, of all writers.
    pub(super) rate: f64,
    pub(super) writer_count: u64,
}

/// Starts the writers. `keys` are drawn in advance, and a writer has those whose remainder is its number.
/// `committed` is called with the key when its commit was acknowledged. Each returns the number of its
/// commits.
pub(super) fn start<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    server: &'env FeedServer,
    plan: WritePlan,
    keys: &'env [i64],
    stop: &'env AtomicBool,
    committed: &'env (impl Fn(i64, Instant) + Sync),
) -> Vec<ScopedJoinHandle<'scope, Result<u64>>> {
    (0..plan.writer_count)
        .map(|number| {
            scope.spawn(move || {
                let is_own = |key: &&i64| key.unsigned_abs() % plan.writer_count == number;
                let own: Vec<i64> = keys.iter().filter(is_own).copied().collect();
                write(server, plan, number, &own, stop, committed)
            })
        })
        .collect()
}

/// Waits for the writers, and adds up their commits.
pub(super) fn join(writers: Vec<ScopedJoinHandle<'_, Result<u64>>>) -> Result<u64> {
    let counts = writers
        .into_iter()
        .map(|it| it.join().expect("a writer does not panic"));
    let counts: Vec<u64> = counts.collect::<Result<_>>()?;
    Ok(counts.into_iter().sum())
}

fn write(
    server: &FeedServer,
    plan: WritePlan,
    number: u64,
    keys: &[i64],
    stop: &AtomicBool,
    committed: &impl Fn(i64, Instant),
) -> Result<u64> {
    let mut connection = server.connect()?;
    let interval = Duration::from_secs_f64(plan.writer_count as f64 / plan.rate);
    // The writers take turns.
    let mut due = Instant::now() + interval.mul_f64(number as f64 / plan.writer_count as f64);
    let mut keys = keys.iter().cycle();
    let mut count = 0;
    // Relaxed: nothing else is read after it.
    while !stop.load(Ordering::Relaxed) {
        let Some(key) = keys.next() else {
            return Ok(count);
        };
        wait_until(due);
        connection.execute(UPDATE, &[Value::Int(*key)])?;
        let now = Instant::now();
        committed(*key, now);
        count += 1;
        due = (due + interval).max(now.checked_sub(DEBT_MAX).unwrap_or(now));
    }
    Ok(count)
}

/// Sleeps until a moment, which may have passed.
pub(super) fn wait_until(due: Instant) {
    let wait = due.saturating_duration_since(Instant::now());
    if !wait.is_zero() {
        thread::sleep(wait);
    }
}
