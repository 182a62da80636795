//! The time of an I/O thread: read once per batch of events, and written as a header once a second.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::http_date;

/// The common beginning of replies, rendered once a second.
pub(crate) struct Stamp {
    /// The status line of a 200, and the common headers.
    pub(crate) ok: Vec<u8>,
    /// The common headers: `Date`, and `Server` if it is wanted.
    pub(crate) common: Vec<u8>,
    /// The number of digits of the last body length that was filled in afterwards.
    pub(crate) length_size: Cell<usize>,
}

pub(crate) struct Clock {
    base: Instant,
    now: Instant,
    /// Milliseconds from `base` to `now`, rounded down.
    tick: u64,
    /// When the date has to be rendered again.
    next_date: Instant,
    stamp: Stamp,
    server_line: String,
}

/// The tick at which `timeout` has passed since another tick.
pub(crate) fn after(since: u64, timeout: Duration) -> u64 {
    since.saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
}

impl Clock {
    pub(crate) fn new(server_name: Option<&str>) -> Self {
        let now = Instant::now();
        let mut clock = Self {
            base: now,
            now,
            tick: 0,
            next_date: now,
            stamp: Stamp {
                ok: Vec::new(),
                common: Vec::new(),
                length_size: Cell::new(1),
            },
            server_line: server_name.map_or(String::new(), |name| format!("Server: {name}\r\n")),
        };
        clock.update_date();
        clock
    }

    /// Reads the time.
    pub(crate) fn update(&mut self) {
        self.now = Instant::now();
        self.tick = self.now.duration_since(self.base).as_millis() as u64;
        if self.now >= self.next_date {
            self.update_date();
        }
    }

    fn update_date(&mut self) {
        // A clock before 1970 is wrong in any case.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.next_date =
            self.now + Duration::from_secs(1) - Duration::from_nanos(since.subsec_nanos().into());
        self.stamp.common.clear();
        let date = http_date::format(since.as_secs());
        for part in [
            b"Date: ".as_slice(),
            &date,
            b"\r\n",
            self.server_line.as_bytes(),
        ] {
            self.stamp.common.extend_from_slice(part);
        }
        self.stamp.ok.clear();
        self.stamp.ok.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        self.stamp.ok.extend_from_slice(&self.stamp.common);
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The time as milliseconds since the thread began, rounded down.
    pub(crate) fn tick(&self) -> u64 {
        self.tick
    }

    /// A time as milliseconds since the thread began, rounded up, so that nothing is due too early.
    pub(crate) fn tick_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.base);
        u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_not_early() {
        let clock = Clock::new(None);
        assert_eq!(clock.tick_of(clock.base), 0);
        assert_eq!(clock.tick_of(clock.base + Duration::from_micros(1)), 1);
        assert_eq!(clock.tick_of(clock.base + Duration::from_millis(7)), 7);
    }
}
