//! The pauses between attempts of a connection that is re-established.

use std::time::{Duration, Instant};

use crate::jitter::jitter;
use crate::timer::{Sleep, sleep_until};

/// The pause before a reconnect, and the longest one after failures, each of which doubles it. A
/// random part of up to half is subtracted, so that not all clients reconnect at once.
const PAUSE_MIN: Duration = Duration::from_millis(100);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The next pause.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    /// The number of consecutive failures.
    failure_count: u32,
}

impl BackOff {
    /// After this, the next pause is short.
    pub(super) fn reset(&mut self) {
        self.failure_count = 0;
    }

    /// Ends at the time of the next attempt.
    pub(super) fn pause(&mut self) -> Sleep {
        // Thirty doublings exceed the maximum.
        let pause = PAUSE_MIN.saturating_mul(1 << self.failure_count.min(30));
        let pause = pause.min(PAUSE_MAX);
        let part = f64::from(jitter()) / f64::from(u32::MAX);
        self.failure_count = self.failure_count.saturating_add(1);
        sleep_until(Instant::now() + pause.mul_f64(1.0 - part / 2.0))
    }
}
