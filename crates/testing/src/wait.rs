//! Waiting for what happens by itself, with a deadline that only a hang reaches.

use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

/// How long a condition is waited for. Tests pass on a machine with a load average of 20, where a
/// process may start in seconds.
pub const WAIT_MAX: Duration = Duration::from_secs(120);

/// How often a condition is polled: often enough for a test of many conditions, and seldom enough
/// for one that costs a query.
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until a condition holds; `what` names it.
///
/// # Panics
///
/// After [`WAIT_MAX`], with what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Waits until there is a value, and returns it; `what` names it.
///
/// # Panics
///
/// As [`wait_until`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        let elapsed = begun.elapsed();
        assert!(elapsed < WAIT_MAX, "{}", in_vain(what, elapsed));
        // sleep: the interval between two polls
        thread::sleep(INTERVAL);
    }
}

/// [`wait_until`] in a task of a Tokio runtime with time.
///
/// # Panics
///
/// As [`wait_until`].
#[track_caller]
pub fn wait_until_async(
    what: &str,
    mut holds: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    wait_for_async(what, async move || holds().await.then_some(()))
}

/// [`wait_for`] in a task of a Tokio runtime with time.
///
/// # Panics
///
/// As [`wait_until`]. A poll that does not end is dropped then.
#[track_caller]
pub fn wait_for_async<T>(
    what: &str,
    mut poll: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let begun = Instant::now();
        loop {
            let polled = tokio::time::timeout(WAIT_MAX, poll()).await;
            if let Ok(Some(value)) = polled {
                return value;
            }
            let elapsed = begun.elapsed();
            assert!(
                elapsed < WAIT_MAX,
                "{}, at {caller}",
                in_vain(what, elapsed)
            );
            // sleep: the interval between two polls
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

fn in_vain(what: &str, elapsed: Duration) -> String {
    format!("waited for {} s in vain: {what}", elapsed.as_secs())
}
