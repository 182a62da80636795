//! Work on numbered items, on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The most threads: more would wait for the memory.
const THREAD_COUNT_MAX: usize = 16;

/// Calls `work` with each number below `count`, and with the state of a thread; returns the results in the
/// order of the numbers, or an error.
pub(crate) fn map<S: Default, T: Send, E: Send>(
    count: usize,
    work: impl Fn(&mut S, usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let available = thread::available_parallelism().map_or(1, NonZero::get);
    let thread_count = available.min(THREAD_COUNT_MAX).min(count);
    // Relaxed: each number is taken once, and the results are passed by joining the threads. Work after a
    // failure is only needless.
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || {
        let (mut state, mut results) = (S::default(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || has_failed.load(Ordering::Relaxed) {
                return Ok(results);
            }
            match work(&mut state, number) {
                Ok(result) => results.push((number, result)),
                Err(error) => {
                    has_failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let parts = thread::scope(|scope| {
        let threads: Vec<_> = (1..thread_count)
            .filter_map(|_| {
                let named = thread::Builder::new().name("lookaside-load".into());
                // If none can be started, the others do the work.
                named.spawn_scoped(scope, run).ok()
            })
            .collect();
        let own = run();
        let joined = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let parts = joined.chain([own]);
        parts.collect::<Result<Vec<_>, E>>()
    })?;
    let mut results: Vec<(usize, T)> = parts.into_iter().flatten().collect();
    results.sort_unstable_by_key(|(number, _)| *number);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
