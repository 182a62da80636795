//! Date and time of day as logs and databases write them.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// A wall-clock time with the offset from UTC that it was written with, if any; or an instant.
///
/// The wall clock is what is shown; the offset decides which instant it is. An instant, which was
/// written with no wall clock (a database's `timestamptz`), is shown as RFC 3339 in UTC. Nanosecond
/// precision, years -9999 to 9999.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    civil: DateTime,
    /// Minutes east of UTC, `NO_OFFSET` or `INSTANT`.
    offset_minutes: i16,
}

/// Outside of the valid offsets (−18 to +18 hours), as is [`INSTANT`].
const NO_OFFSET: i16 = i16::MIN;
const INSTANT: i16 = i16::MAX;
const OFFSET_MINUTES_MAX: i16 = 18 * 60;

/// Text that is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeError;

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a date and time")
    }
}

impl Error for TimeError {}

impl Time {
    /// A wall-clock time with an unknown offset.
    pub fn from_civil(civil: DateTime) -> Self {
        Self {
            civil,
            offset_minutes: NO_OFFSET,
        }
    }

    /// An instant, given as its wall clock in UTC. It is not equal to the same wall clock with the
    /// offset 0, which is displayed differently.
    pub fn from_utc(civil: DateTime) -> Self {
        Self {
            civil,
            offset_minutes: INSTANT,
        }
    }

    /// The same wall-clock time, `minutes` east of UTC.
    ///
    /// # Errors
    /// When the offset is beyond 18 hours, or the instant in UTC is outside of the years -9999 to
    /// 9999.
    pub fn with_offset_minutes(self, minutes: i16) -> Result<Self, TimeError> {
        // A fast path: every event has a time, and nearly none is in the first or last year of the
        // calendar.
        let is_far = self.civil.year().unsigned_abs() >= 9999;
        if !is_offset(minutes) || (is_far && clock_in_utc(self.civil, minutes).is_none()) {
            return Err(TimeError);
        }
        Ok(Self {
            offset_minutes: minutes,
            ..self
        })
    }

    /// A point in time as the wall clock of `zone` shows it, with the offset that applies then.
    pub fn in_zone(timestamp: Timestamp, zone: &TimeZone) -> Self {
        let offset = zone.to_offset(timestamp);
        Self::from_civil(offset.to_datetime(timestamp)).with_offset(offset)
    }

    /// The time with the offset of `zone`, unless its own offset is known. Of a wall-clock time that
    /// occurs twice, the first is meant; a skipped one has the offset before the change.
    #[must_use]
    pub fn or_zone(self, zone: &TimeZone) -> Self {
        match self.offset_minutes {
            NO_OFFSET => self.with_offset(offset_of_wall_clock(self.civil, zone)),
            _ => self,
        }
    }

    /// Keeps the wall clock alone if the offset cannot be represented: those with seconds, which
    /// were used until 1972.
    fn with_offset(self, offset: Offset) -> Self {
        let time =
            offset_minutes(offset).and_then(|minutes| self.with_offset_minutes(minutes).ok());
        time.unwrap_or(self)
    }

    /// The same offset with another wall-clock time.
    ///
    /// # Errors
    /// When the instant in UTC is outside of the years -9999 to 9999.
    pub fn with_civil(self, civil: DateTime) -> Result<Self, TimeError> {
        match self.offset_minutes {
            NO_OFFSET | INSTANT => Ok(Self { civil, ..self }),
            minutes => Self::from_civil(civil).with_offset_minutes(minutes),
        }
    }

    /// The wall-clock time.
    pub fn civil(self) -> DateTime {
        self.civil
    }

    /// Minutes east of UTC, if the offset is known; 0 for an instant.
    pub fn offset_minutes(self) -> Option<i16> {
        match self.offset_minutes {
            NO_OFFSET => None,
            INSTANT => Some(0),
            minutes => Some(minutes),
        }
    }

    /// Whether it is an instant, which has no wall clock.
    pub fn is_instant(self) -> bool {
        self.offset_minutes == INSTANT
    }

    /// The time for a column that stores no offset: the wall clock in UTC if the offset is known,
    /// else the wall clock unchanged.
    #[must_use]
    pub fn to_utc(self) -> Self {
        let minutes = self.offset_minutes().unwrap_or(0);
        let clock = clock_in_utc(self.civil, minutes);
        Self::from_civil(clock.expect("no offset is taken that leads beyond the calendar"))
    }

    /// Nanoseconds since 1970-01-01 00:00 UTC, if the wall clock is `offset_seconds` east of UTC.
    pub fn unix_nanos_at(self, offset_seconds: i64) -> i128 {
        let civil = self.civil;
        let days = days_since_1970(civil.year(), civil.month(), civil.day());
        let second = i64::from(civil.hour()) * 3600
            + i64::from(civil.minute()) * 60
            + i64::from(civil.second());
        let seconds = i128::from(days * 86_400 + second) - i128::from(offset_seconds);
        seconds * 1_000_000_000 + i128::from(civil.subsec_nanosecond())
    }

    /// Nanoseconds since 1970-01-01 00:00 UTC, if the offset is known.
    pub fn unix_nanos(self) -> Option<i128> {
        let minutes = self.offset_minutes()?;
        Some(self.unix_nanos_at(i64::from(minutes) * 60))
    }

    /// Nanoseconds since 1970-01-01 00:00 UTC, by its own offset or else in `zone`, as
    /// [`Self::or_zone`] says.
    pub fn unix_nanos_in(self, zone: &TimeZone) -> i128 {
        self.unix_nanos().unwrap_or_else(|| {
            let offset = offset_of_wall_clock(self.civil, zone);
            self.unix_nanos_at(offset.seconds().into())
        })
    }

    /// Parses every form that [`FromStr`] accepts, and `Mon D H:M:S`, which has no year and gets
    /// `year`.
    ///
    /// # Errors
    /// When the text is in none of these forms or names a day that does not exist.
    pub fn parse_with_year(text: &str, year: i16) -> Result<Self, TimeError> {
        Scanner::new(text).time(Some(year)).ok_or(TimeError)
    }

    /// As [`Self::parse_with_year`], in the latest year in which the time is at most a day after
    /// `today`.
    ///
    /// So a log of December that is read in January gets the previous year, and a time from a
    /// sender whose clock or zone is ahead does not. The 29th of February gets the last leap year.
    ///
    /// # Errors
    /// When the text has another form, or the day exists in none of these years.
    pub fn parse_latest(text: &str, today: Date) -> Result<Self, TimeError> {
        latest_year(today, |year| Self::parse_with_year(text, year).ok()).ok_or(TimeError)
    }

    /// Parses the time of an access log, `10/Oct/2000:13:55:36 -0700`, without its brackets.
    ///
    /// # Errors
    /// When the text has another form or names a day that does not exist.
    pub fn parse_access_log(text: &str) -> Result<Self, TimeError> {
        parse_fixed_access_log(text.as_bytes()).map_or_else(|| text.parse(), Ok)
    }

    /// Appends `YYYY-MM-DD HH:MM:SS`, with as many digits of a fraction as it has; an instant as
    /// `YYYY-MM-DDTHH:MM:SSZ`.
    pub fn write(self, out: &mut String) {
        let civil = self.civil;
        if civil.year() < 0 {
            out.push_str("-00");
        }
        let year = civil.year().unsigned_abs();
        // One buffer and one copy, as almost every event has a time.
        let mut text = *b"0000-00-00 00:00:00";
        let mut put = |at: usize, number: u8| {
            text[at] = b'0' + number / 10;
            text[at + 1] = b'0' + number % 10;
        };
        put(0, (year / 100) as u8);
        put(2, (year % 100) as u8);
        put(5, civil.month().unsigned_abs());
        put(8, civil.day().unsigned_abs());
        put(11, civil.hour().unsigned_abs());
        put(14, civil.minute().unsigned_abs());
        put(17, civil.second().unsigned_abs());
        if self.is_instant() {
            text[10] = b'T';
        }
        out.push_str(str::from_utf8(&text).expect("digits and signs"));
        let nanos = civil.subsec_nanosecond();
        if nanos != 0 {
            let fraction = format!("{nanos:09}");
            out.push('.');
            out.push_str(fraction.trim_end_matches('0'));
        }
        if self.is_instant() {
            out.push('Z');
        }
    }

    /// Appends the time as RFC 3339 with its offset, `2026-03-01T10:15:02+01:00`; a time of unknown
    /// offset as [`Self::write`] does.
    pub fn write_rfc3339(self, out: &mut String) {
        let start = out.len();
        self.write(out);
        let Some(minutes) = self.offset_minutes().filter(|_| !self.is_instant()) else {
            return;
        };
        if let Some(blank) = out[start..].find(' ') {
            out.replace_range(start + blank..=start + blank, "T");
        }
        if minutes == 0 {
            out.push('Z');
        } else {
            let sign = if minutes < 0 { '-' } else { '+' };
            let minutes = minutes.unsigned_abs();
            write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
                .expect("a string takes any text");
        }
    }
}

/// Whether a time can have this offset.
fn is_offset(minutes: i16) -> bool {
    (-OFFSET_MINUTES_MAX..=OFFSET_MINUTES_MAX).contains(&minutes)
}

/// The minutes of an offset that a time can have.
pub(crate) fn offset_minutes(offset: Offset) -> Option<i16> {
    let minutes = i16::try_from(offset.seconds() / 60).ok()?;
    (offset.seconds() % 60 == 0 && is_offset(minutes)).then_some(minutes)
}

/// What `in_year` gives for the latest year in which it is at most a day after `today`.
pub(crate) fn latest_year(
    today: Date,
    mut in_year: impl FnMut(i16) -> Option<Time>,
) -> Option<Time> {
    /// Two leap years are at most eight years apart (1896 and 1904).
    const YEARS_BACK_MAX: i16 = 8;
    let limit = today.tomorrow().unwrap_or(today);
    (0..=YEARS_BACK_MAX).find_map(|years| {
        let time = in_year(limit.year() - years)?;
        (time.civil().date() <= limit).then_some(time)
    })
}

fn offset_of_wall_clock(civil: DateTime, zone: &TimeZone) -> Offset {
    match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
    }
}

/// The wall clock in UTC when the local one shows `civil`, unless it is beyond the calendar.
fn clock_in_utc(civil: DateTime, offset_minutes: i16) -> Option<DateTime> {
    match offset_minutes {
        0 => Some(civil),
        minutes => civil
            .checked_sub(SignedDuration::from_mins(i64::from(minutes)))
            .ok(),
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar (eras of 400 years from March on).
fn days_since_1970(year: i16, month: i8, day: i8) -> i64 {
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match self.offset_minutes() {
            None => Ok(()),
            Some(_) if self.is_instant() => Ok(()),
            Some(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(
                    f,
                    "{sign}{:02}:{:02}",
                    minutes.abs() / 60,
                    minutes.abs() % 60
                )
            }
        }
    }
}

impl FromStr for Time {
    type Err = TimeError;

    /// Accepts RFC 3339, RFC 2822, `Y-M-D H:M:S[.frac][Z|±h:m]` (also with `/`), `D/Mon/Y:H:M:S
    /// [±hm]` and `Mon D Y H:M:S`.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        Scanner::new(text).time(None).ok_or(TimeError)
    }
}

/// Parses the usual access-log form at its fixed positions: one pass without searching.
fn parse_fixed_access_log(text: &[u8]) -> Option<Time> {
    let text: &[u8; 26] = text.try_into().ok()?;
    let two = |at: usize| -> Option<i8> {
        let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| (tens * 10 + ones) as i8)
    };
    let separators = [
        (2, b'/'),
        (6, b'/'),
        (11, b':'),
        (14, b':'),
        (17, b':'),
        (20, b' '),
    ];
    if separators.iter().any(|&(at, byte)| text[at] != byte) {
        return None;
    }
    let month = month_number(&text[3..6])?;
    let year = i16::from(two(7)?) * 100 + i16::from(two(9)?);
    let (hour, minute, second) = (two(12)?, two(15)?, two(18)?);
    let civil = DateTime::new(year, month, two(0)?, hour, minute, second, 0).ok()?;
    let minutes = i16::from(two(22)?) * 60 + i16::from(two(24)?);
    let minutes = match text[21] {
        b'+' => minutes,
        b'-' => -minutes,
        _ => return None,
    };
    Time::from_civil(civil).with_offset_minutes(minutes).ok()
}

fn month_number(name: &[u8]) -> Option<i8> {
    const MONTHS: [&[u8; 3]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let index = MONTHS
        .iter()
        .position(|month| name.eq_ignore_ascii_case(&month[..]))?;
    Some(index as i8 + 1)
}

/// Reads the parts of a time from left to right.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.trim_ascii().as_bytes(),
        }
    }

    fn time(mut self, year: Option<i16>) -> Option<Time> {
        let (year, month, day) = match self.rest.first()? {
            b'0'..=b'9' => self.numeric_date()?,
            _ => self.named_date(year)?,
        };
        let (hour, minute, second, nanos) = self.clock()?;
        let civil = DateTime::new(year, month, day, hour, minute, second, nanos).ok()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return None;
        }
        match offset {
            None => Some(Time::from_civil(civil)),
            Some(minutes) => Time::from_civil(civil).with_offset_minutes(minutes).ok(),
        }
    }

    /// `2026-01-31`, `2026/01/31`, `31/Jan/2026` or `31 Jan 2026`, and the separator before the
    /// clock.
    fn numeric_date(&mut self) -> Option<(i16, i8, i8)> {
        let (first, digit_count) = self.digits(4)?;
        let separator = self.any(b"-/ ")?;
        let date = if digit_count == 4 && separator != b' ' {
            let month = self.number(2)?;
            self.byte(separator)?;
            (first as i16, month, self.number(2)?)
        } else {
            let month = month_number(self.word()?)?;
            self.byte(separator)?;
            let (year, digit_count) = self.digits(4)?;
            (digit_count == 4).then_some(())?;
            (year as i16, month, i8::try_from(first).ok()?)
        };
        self.any(b"T t:")?;
        self.blanks();
        Some(date)
    }

    /// `Fri, 31 Jan 2026` (RFC 2822), `Jan 31 2026`, or `Jan 31` with the year of the caller.
    fn named_date(&mut self, year: Option<i16>) -> Option<(i16, i8, i8)> {
        let word = self.word()?;
        if self.rest.first() == Some(&b',') {
            self.rest = &self.rest[1..];
            self.blanks();
            let day = self.number(2)?;
            self.byte(b' ')?;
            let month = month_number(self.word()?)?;
            self.byte(b' ')?;
            let (year, digit_count) = self.digits(4)?;
            (digit_count == 4).then_some(())?;
            self.byte(b' ')?;
            return Some((year as i16, month, day));
        }
        let month = month_number(word)?;
        self.byte(b' ')?;
        self.blanks();
        let day = self.number(2)?;
        self.byte(b' ')?;
        self.blanks();
        // A year has four digits, an hour at most two before its colon.
        if self.rest.get(4) == Some(&b' ') {
            let (year, digit_count) = self.digits(4)?;
            (digit_count == 4).then_some(())?;
            self.blanks();
            return Some((year as i16, month, day));
        }
        Some((year?, month, day))
    }

    /// `H:M[:S[.frac]]`; a leap second is the last second of its minute.
    fn clock(&mut self) -> Option<(i8, i8, i8, i32)> {
        let hour = self.number(2)?;
        self.byte(b':')?;
        let minute = self.number(2)?;
        if self.byte(b':').is_none() {
            return Some((hour, minute, 0, 0));
        }
        let second = match self.number(2)? {
            60 => 59,
            second => second,
        };
        let mut nanos = 0;
        if self.any(b".,").is_some() {
            let mut digit_count = 0_u32;
            while let Some(digit) = self.rest.first().filter(|byte| byte.is_ascii_digit()) {
                if digit_count < 9 {
                    nanos = nanos * 10 + i32::from(digit - b'0');
                    digit_count += 1;
                }
                self.rest = &self.rest[1..];
            }
            (digit_count > 0).then_some(())?;
            nanos *= 10_i32.pow(9 - digit_count);
        }
        Some((hour, minute, second, nanos))
    }

    /// `Z`, `GMT`, `UTC`, `+02:00`, `+0200`, `+02`, or nothing (`Some(None)`).
    fn offset(&mut self) -> Option<Option<i16>> {
        self.blanks();
        if self.rest.is_empty() {
            return Some(None);
        }
        let utc = [&b"z"[..], b"gmt", b"utc", b"ut"];
        if utc.iter().any(|name| self.rest.eq_ignore_ascii_case(name)) {
            self.rest = &[];
            return Some(Some(0));
        }
        let sign = if self.any(b"+-")? == b'-' { -1 } else { 1 };
        let hours = i16::from(self.exactly_two()?);
        let _ = self.byte(b':');
        let minutes = if self.rest.is_empty() {
            0
        } else {
            i16::from(self.exactly_two()?)
        };
        (minutes < 60).then_some(Some(sign * (hours * 60 + minutes)))
    }

    fn exactly_two(&mut self) -> Option<i8> {
        let (number, digit_count) = self.digits(2)?;
        (digit_count == 2).then_some(number as i8)
    }

    fn number(&mut self, digit_count_max: usize) -> Option<i8> {
        self.digits(digit_count_max).map(|(number, _)| number as i8)
    }

    /// One to `digit_count_max` digits, at most four, and how many they were.
    fn digits(&mut self, digit_count_max: usize) -> Option<(u16, usize)> {
        let digit_count = self
            .rest
            .iter()
            .take(digit_count_max)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (digits, rest) = self.rest.split_at(digit_count);
        self.rest = rest;
        let number = digits
            .iter()
            .fold(0_u16, |number, digit| number * 10 + u16::from(digit - b'0'));
        (digit_count > 0).then_some((number, digit_count))
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        let length = self
            .rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        (length > 0).then_some(word)
    }

    fn byte(&mut self, byte: u8) -> Option<u8> {
        self.any(&[byte])
    }

    fn any(&mut self, bytes: &[u8]) -> Option<u8> {
        let byte = *self.rest.first().filter(|byte| bytes.contains(byte))?;
        self.rest = &self.rest[1..];
        Some(byte)
    }

    fn blanks(&mut self) {
        while self.byte(b' ').is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_year_is_not_in_the_future() {
        let latest = |text, today| {
            let time = Time::parse_latest(text, today).ok();
            time.map(|time| time.to_string())
        };
        let today = Date::constant(2026, 1, 2);
        for (text, expected) in [
            ("Jan  2 23:59:59", "2026-01-02 23:59:59"),
            ("Jan  3 23:59:59", "2026-01-03 23:59:59"),
            ("Jan  4 00:00:00", "2025-01-04 00:00:00"),
            ("Dec 31 23:59:59", "2025-12-31 23:59:59"),
            ("Feb 29 12:00:00", "2024-02-29 12:00:00"),
        ] {
            assert_eq!(latest(text, today).as_deref(), Some(expected), "{text}");
        }
        let eve = Date::constant(2025, 12, 31);
        let time = latest("Jan  1 00:00:01", eve);
        assert_eq!(time.as_deref(), Some("2026-01-01 00:00:01"));
        assert_eq!(latest("Feb 30 12:00:00", today), None);
    }

    #[test]
    fn forms_of_time() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05+00:00"),
            ("2026-01-02T08:00:00+09:00", "2026-01-02 08:00:00+09:00"),
            ("2026-01-02 03:04:05.120", "2026-01-02 03:04:05.12"),
            ("2026-1-2 3:4:5", "2026-01-02 03:04:05"),
            ("2026/01/02 03:04:05 -0330", "2026-01-02 03:04:05-03:30"),
            ("2026-01-02 03:04", "2026-01-02 03:04:00"),
            (
                "2026-01-02 03:04:05.123456789123",
                "2026-01-02 03:04:05.123456789",
            ),
            ("2016-12-31T23:59:60Z", "2016-12-31 23:59:59+00:00"),
            ("10/Oct/2000:13:55:36 -0700", "2000-10-10 13:55:36-07:00"),
            ("10/Oct/2000:13:55:36", "2000-10-10 13:55:36"),
            ("Fri, 02 Jan 2026 03:04:05 GMT", "2026-01-02 03:04:05+00:00"),
            (
                "Fri, 2 Jan 2026 03:04:05 +0100",
                "2026-01-02 03:04:05+01:00",
            ),
            ("Jan  2 2026 03:04:05", "2026-01-02 03:04:05"),
        ] {
            let time = text.parse::<Time>().map(|time| format!("{time:?}"));
            assert_eq!(time.as_deref(), Ok(expected), "{text}");
        }
        let time = Time::parse_with_year("Oct  9 22:14:15", 2026).unwrap();
        assert_eq!(time.to_string(), "2026-10-09 22:14:15");
    }

    #[test]
    fn years_outside_of_four_digits_are_written_as_rfc_3339_would() {
        let civil = jiff::civil::date(-44, 3, 15).at(12, 0, 0, 5_000_000);
        assert_eq!(
            Time::from_civil(civil).to_string(),
            "-000044-03-15 12:00:00.005"
        );
    }

    #[test]
    fn issue_12_an_instant_is_shown_in_utc() {
        let civil = "2026-01-02 03:04:05.25".parse::<Time>().unwrap().civil();
        let instant = Time::from_utc(civil);
        assert_eq!(instant.to_string(), "2026-01-02T03:04:05.25Z");
        assert_eq!(format!("{instant:?}"), "2026-01-02T03:04:05.25Z");
        assert_eq!(instant.offset_minutes(), Some(0));
        let read: Time = instant.to_string().parse().unwrap();
        assert_eq!(read.unix_nanos(), instant.unix_nanos());
        assert_ne!(read, instant);
    }

    #[test]
    fn issue_12_a_clock_in_utc() {
        for (text, utc, rfc3339) in [
            (
                "2026-01-31 08:00:00",
                "2026-01-31 08:00:00",
                "2026-01-31 08:00:00",
            ),
            (
                "2026-01-31 08:00:00Z",
                "2026-01-31 08:00:00",
                "2026-01-31T08:00:00Z",
            ),
            (
                "2026-03-01T00:30:00.5+01:00",
                "2026-02-28 23:30:00.5",
                "2026-03-01T00:30:00.5+01:00",
            ),
            (
                "2025-12-31T20:00:00-05:30",
                "2026-01-01 01:30:00",
                "2025-12-31T20:00:00-05:30",
            ),
            (
                "9999-12-31T23:59:59+18:00",
                "9999-12-31 05:59:59",
                "9999-12-31T23:59:59+18:00",
            ),
            (
                "9999-12-31T05:59:59.9-18:00",
                "9999-12-31 23:59:59.9",
                "9999-12-31T05:59:59.9-18:00",
            ),
        ] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.to_utc().to_string(), utc, "{text}");
            assert_eq!(time.to_utc().offset_minutes(), None, "{text}");
            let mut written = String::from("> ");
            time.write_rfc3339(&mut written);
            assert_eq!(written, format!("> {rfc3339}"), "{text}");
        }
        let instant = Time::from_utc("2026-01-31 08:00:00".parse::<Time>().unwrap().civil());
        assert_eq!(instant.to_utc().to_string(), "2026-01-31 08:00:00");
        let mut written = String::new();
        instant.write_rfc3339(&mut written);
        assert_eq!(written, "2026-01-31T08:00:00Z");
    }

    #[test]
    fn issue_12_no_offset_leads_beyond_the_calendar() {
        let first = Time::from_civil(DateTime::MIN);
        assert_eq!(first.with_offset_minutes(1), Err(TimeError));
        let utc = first.with_offset_minutes(-1).map(Time::to_utc);
        assert!(utc.is_ok_and(|utc| utc.civil() > DateTime::MIN));
        let last = Time::from_civil(DateTime::MAX);
        assert_eq!(last.with_offset_minutes(-1), Err(TimeError));
        assert_eq!(last.with_offset_minutes(0).map(Time::to_utc), Ok(last));
        assert_eq!(
            Time::parse_access_log("31/Dec/9999:23:59:59 -0001"),
            Err(TimeError)
        );
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "2026",
            "2026-13-01 00:00:00",
            "2026-02-29 00:00:00",
            "2026-01-02",
            "2026-01-02 25:00:00",
            "2026-01-02 03:60:00",
            "2026-01-02 03:04:61",
            "2026-01-02 03:04:99",
            "2026-01-02 03:04:05 +19:00",
            "2026-01-02 03:04:05x",
            "2026-01-02 03:04:05.",
            "Oct  9 22:14:15",
            "10/Foo/2000:13:55:36 -0700",
            "99/Oct/2000:13:55:36 -0700",
            "2026-01-02T03:04:05+1",
            // Beyond the calendar in UTC.
            "9999-12-31T23:59:59-18:00",
            "31/Dec/9999:23:59:59 -0001",
        ] {
            assert_eq!(text.parse::<Time>(), Err(TimeError), "{text}");
        }
    }

    #[test]
    fn the_access_log_form_parses_alike_both_ways() {
        for text in [
            "10/Oct/2000:13:55:36 -0700",
            "29/feb/2024:00:00:00 +0530",
            "31/Dec/1999:23:59:59 +0000",
        ] {
            assert_eq!(
                parse_fixed_access_log(text.as_bytes()),
                text.parse().ok(),
                "{text}"
            );
            assert!(text.parse::<Time>().is_ok());
        }
        for text in [
            "30/Feb/2024:00:00:00 +0530",
            "10/Oct/2000:13:55:36 ~0700",
            "x",
        ] {
            assert_eq!(Time::parse_access_log(text), Err(TimeError), "{text}");
        }
    }

    #[test]
    fn instants_agree_with_the_calendar_library() {
        for text in [
            "1970-01-01 00:00:00",
            "2026-01-01 08:00:00.5",
            "0001-03-01 00:00:00",
            "2000-02-29 23:59:59",
            "1969-12-31 23:59:59.999999999",
            "9999-12-29 23:59:59",
        ] {
            let time: Time = text.parse().unwrap();
            for hours in [-12_i8, 0, 8, 14] {
                let zoned = time
                    .civil()
                    .to_zoned(jiff::tz::offset(hours).to_time_zone())
                    .unwrap();
                let nanos = time.unix_nanos_at(i64::from(hours) * 3600);
                assert_eq!(
                    nanos,
                    zoned.timestamp().as_nanosecond(),
                    "{text} at {hours}"
                );
            }
        }
        let time: Time = "2026-01-01 08:00:00 +08:00".parse().unwrap();
        assert_eq!(time.unix_nanos(), Some(1_767_225_600_000_000_000));
    }

    #[test]
    fn a_leap_second_is_the_last_of_its_minute() {
        let time: Time = "2016-12-31T23:59:60.5Z".parse().unwrap();
        assert_eq!(time.to_string(), "2016-12-31 23:59:59.5");
    }

    #[test]
    fn no_offset_overflows() {
        let time: Time = "9999-12-31 23:59:59".parse().unwrap();
        let far = time.unix_nanos_at(i64::MIN);
        assert_eq!(far - time.unix_nanos_at(0), 1_000_000_000_i128 << 63);
    }

    /// Every form that is accepted, and every part that a form can have.
    const FORMS: [&str; 12] = [
        "2026-01-02 03:04:05",
        "2026-01-02T03:04:05.123456789Z",
        "2026/01/02 03:04:05,5 +08:00",
        "10/Oct/2000:13:55:36 -0700",
        "Fri, 02 Jan 2026 03:04:05 GMT",
        "2 Jan 2026 03:04:05 +0100",
        "Jan  2 2026 03:04:05",
        "Oct  9 22:14:15",
        "2026-01-02 03:04",
        "2016-12-31T23:59:60Z",
        "0000-01-01 00:00:00 -18:00",
        "9999-12-31 23:59:59 +18:00",
    ];

    const MUTATION_COUNT: u64 = 100_000;

    /// splitmix64
    fn next(state: &mut u64) -> usize {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize
    }

    fn mutate(seed: u64) -> String {
        const LETTERS: &[u8] = b"0123456789-/:., +TZzJFx\0\xff";
        let mut state = seed;
        let mut text = FORMS[next(&mut state) % FORMS.len()].as_bytes().to_vec();
        for _ in 0..=next(&mut state) % 3 {
            let at = next(&mut state) % (text.len() + 1);
            let letter = LETTERS[next(&mut state) % LETTERS.len()];
            match next(&mut state) % 4 {
                0 => text.insert(at, letter),
                1 => text.truncate(at),
                _ if at == text.len() => text.push(letter),
                2 => drop(text.remove(at)),
                _ => text[at] = letter,
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// What parses can be written, and what is written parses as the same time.
    #[test]
    fn no_mutation_panics_and_what_parses_is_written_back() {
        let mut parsed_count = 0;
        for seed in 0..MUTATION_COUNT {
            let text = mutate(seed);
            let run = std::panic::catch_unwind(|| {
                let _ = Time::parse_access_log(&text);
                let _ = text.parse::<Time>();
                let Ok(time) = Time::parse_with_year(&text, 2026) else {
                    return 0;
                };
                let _ = (time.unix_nanos(), time.unix_nanos_at(i64::MAX));
                let again = format!("{time:?}").parse::<Time>();
                assert_eq!(again, Ok(time), "{text:?} is {time:?}");
                1
            });
            assert!(run.is_ok(), "seed {seed}: {text:?}");
            parsed_count += run.unwrap_or_default();
        }
        assert!(
            parsed_count > MUTATION_COUNT / 10,
            "{parsed_count} were times"
        );
    }
}
