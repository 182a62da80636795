//! The time of an I/O thread: read once per batch of events, and written as a header once a second.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What every reply begins with, made once a second.
pub(crate) struct Stamp {
    /// Status line of a 200 and the common headers.
    pub(crate) ok: Vec<u8>,
    /// The common headers: `Date`, and `Server` if it is wanted.
    pub(crate) common: Vec<u8>,
}

pub(crate) struct Clock {
    base: Instant,
    now: Instant,
    /// When the date is another one.
    next_date: Instant,
    stamp: Stamp,
    server_line: String,
}

impl Clock {
    pub(crate) fn new(server_name: Option<&str>) -> Self {
        let now = Instant::now();
        let mut clock = Self {
            base: now,
            now,
            next_date: now,
            stamp: Stamp {
                ok: Vec::new(),
                common: Vec::new(),
            },
            server_line: server_name.map_or(String::new(), |name| format!("Server: {name}\r\n")),
        };
        clock.update_date();
        clock
    }

    /// Reads the time.
    pub(crate) fn update(&mut self) {
        self.now = Instant::now();
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
        let date = http_date(since.as_secs());
        for part in ["Date: ", &date, "\r\n", &self.server_line] {
            self.stamp.common.extend_from_slice(part.as_bytes());
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
        self.now.duration_since(self.base).as_millis() as u64
    }

    /// A time as milliseconds since the thread began, rounded up: nothing is due too early.
    pub(crate) fn tick_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.base);
        u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// A date as HTTP writes it (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let days = seconds / 86_400;
    // Years that begin in March have their leap day at the end: eras of 400 years are all equal.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = (month_index + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(seconds), date);
        }
    }

    #[test]
    fn ticks_are_not_early() {
        let clock = Clock::new(None);
        assert_eq!(clock.tick_of(clock.base), 0);
        assert_eq!(clock.tick_of(clock.base + Duration::from_micros(1)), 1);
        assert_eq!(clock.tick_of(clock.base + Duration::from_millis(7)), 7);
    }
}
