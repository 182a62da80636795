//! Dates, times of day, timestamps and intervals.
//!
//! The server counts days and microseconds from 2000-01-01; what no type of ours holds is written
//! as the server itself writes it with `DateStyle = ISO` and `IntervalStyle = postgres`.

use std::fmt::Write as _;

use jiff::civil::DateTime;
use lookaside_value::{Text, Time, Value};

use super::reader::Reader;
use crate::types::field_error::{FieldError, fixed};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// 2000-01-01, counted in days from 0000-03-01 of the proleptic Gregorian calendar.
const DAYS_TO_2000: i64 = 730_425;
/// 4714-11-24 BC and 294277-01-01: what the server's timestamps lie between (`timestamp.h`).
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// Time zones are less than 16 hours off (`MAX_TZDISP_HOUR`).
const ZONE_SECONDS_MAX: u32 = 16 * 3600 - 1;

/// A day of the calendar; the year 0 is 1 BC.
#[derive(Clone, Copy)]
struct Day {
    year: i64,
    month: i64,
    day: i64,
}

impl Day {
    fn from_2000(days: i64) -> Self {
        // Eras of 400 years that begin in March, so that a leap day is the last of its year.
        let days = days + DAYS_TO_2000;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
        }
    }

    fn days_from_2000(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - DAYS_TO_2000
    }

    fn write(self, out: &mut String) {
        let year = if self.year > 0 {
            self.year
        } else {
            1 - self.year
        };
        write!(out, "{year:04}-{:02}-{:02}", self.month, self.day).expect("a string takes text");
    }

    fn write_era(self, out: &mut String) {
        out.push_str(if self.year > 0 { "" } else { " BC" });
    }
}

/// Appends `HH:MM:SS` with as much of a fraction as there is.
fn write_clock(micros: u64, out: &mut String) {
    let seconds = micros / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{hour:02}:{minute:02}:{second:02}").expect("a string takes text");
    let fraction = micros % 1_000_000;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// Appends `+HH`, with minutes and seconds where there are some, of a zone so far east of UTC.
fn write_zone(seconds_east: i32, out: &mut String) {
    out.push(if seconds_east < 0 { '-' } else { '+' });
    let seconds = seconds_east.unsigned_abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{hours:02}").expect("a string takes text");
    if minutes != 0 || seconds != 0 {
        write!(out, ":{minutes:02}").expect("a string takes text");
    }
    if seconds != 0 {
        write!(out, ":{seconds:02}").expect("a string takes text");
    }
}

fn infinite(negative: bool) -> Value {
    Value::Text(Text::from_static(if negative {
        "-infinity"
    } else {
        "infinity"
    }))
}

pub(super) fn decode_date(field: &[u8]) -> Result<Value, FieldError> {
    let days = fixed(field).map(i32::from_be_bytes)?;
    if days == i32::MAX || days == i32::MIN {
        return Ok(infinite(days < 0));
    }
    let day = Day::from_2000(i64::from(days));
    let mut out = String::with_capacity(16);
    day.write(&mut out);
    day.write_era(&mut out);
    Ok(Value::from(out))
}

/// A time of day, 24:00:00 included.
fn day_micros(micros: i64) -> Result<u64, FieldError> {
    match u64::try_from(micros) {
        Ok(clock) if micros <= MICROS_PER_DAY => Ok(clock),
        _ => Err(FieldError::at(0, "is out of range")),
    }
}

pub(super) fn decode_time(field: &[u8]) -> Result<Value, FieldError> {
    let micros = day_micros(fixed(field).map(i64::from_be_bytes)?)?;
    let mut out = String::with_capacity(16);
    write_clock(micros, &mut out);
    Ok(Value::from(out))
}

pub(super) fn decode_timetz(field: &[u8]) -> Result<Value, FieldError> {
    let mut reader = Reader::new(field);
    let micros = reader.i64()?;
    let seconds_west = reader.i32()?;
    reader.end()?;
    let micros = day_micros(micros)?;
    if seconds_west.unsigned_abs() > ZONE_SECONDS_MAX {
        return Err(FieldError::at(8, "has a zone that is out of range"));
    }
    let mut out = String::with_capacity(24);
    write_clock(micros, &mut out);
    write_zone(-seconds_west, &mut out);
    Ok(Value::from(out))
}

/// Whether a timestamp counts from UTC or from wherever its clock hangs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    Utc,
    Wall,
}

pub(super) fn decode_timestamp(zone: Zone, field: &[u8]) -> Result<Value, FieldError> {
    Ok(timestamp(zone, fixed(field).map(i64::from_be_bytes)?))
}

/// The value of so many microseconds since 2000.
fn timestamp(zone: Zone, micros: i64) -> Value {
    if micros == i64::MAX || micros == i64::MIN {
        return infinite(micros < 0);
    }
    match time(zone, micros) {
        Some(time) => Value::Time(time),
        None => {
            let mut out = String::with_capacity(40);
            write_timestamp(zone, micros, &mut out);
            Value::from(out)
        }
    }
}

/// The time so many microseconds after 2000-01-01, unless its year is before 1 or has more than
/// four digits. Those are text as the server writes it, which all of its types read again.
fn time(zone: Zone, micros: i64) -> Option<Time> {
    let day = Day::from_2000(micros.div_euclid(MICROS_PER_DAY));
    let clock = micros.rem_euclid(MICROS_PER_DAY);
    let seconds = clock / MICROS_PER_SECOND;
    let is_common = (1..=9999).contains(&day.year);
    let civil = DateTime::new(
        is_common.then_some(day.year as i16)?,
        day.month as i8,
        day.day as i8,
        (seconds / 3600) as i8,
        (seconds / 60 % 60) as i8,
        (seconds % 60) as i8,
        (clock % MICROS_PER_SECOND * 1000) as i32,
    );
    let civil = civil.ok()?;
    Some(match zone {
        Zone::Wall => Time::from_civil(civil),
        Zone::Utc => Time::from_utc(civil),
    })
}

/// Appends a timestamp as the server writes it in the zone UTC.
pub(super) fn write_timestamp(zone: Zone, micros: i64, out: &mut String) {
    let day = Day::from_2000(micros.div_euclid(MICROS_PER_DAY));
    day.write(out);
    out.push(' ');
    write_clock(micros.rem_euclid(MICROS_PER_DAY).unsigned_abs(), out);
    if zone == Zone::Utc {
        out.push_str("+00");
    }
    day.write_era(out);
}

/// The server's text `YYYY-MM-DD HH:MM:SS[.ffffff][+HH[:MM[:SS]]][ BC]`. Text in another form (the
/// session has another `DateStyle`) and the infinities stay text.
pub(super) fn decode_timestamp_text(zone: Zone, text: &str) -> Value {
    match parse_timestamp(zone, text) {
        Some(micros) => timestamp(zone, micros),
        None => Value::from(text),
    }
}

fn parse_timestamp(zone: Zone, text: &str) -> Option<i64> {
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (date, clock) = text.split_once(' ')?;
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4..=6)?;
    let month = digits(parts.next()?, 2..=2)?;
    let day = digits(parts.next()?, 2..=2)?;
    let year = if before_christ { 1 - year } else { year };
    let right = parts.next().is_none() && (1..=12).contains(&month);
    let days = right.then(|| Day { year, month, day }.days_from_2000())?;
    // A day that its month does not have is one of the next month.
    (Day::from_2000(days).day == day).then_some(())?;
    let (clock, seconds_east) = match clock.find(['+', '-']) {
        Some(at) if zone == Zone::Utc => (&clock[..at], parse_zone(&clock[at..])?),
        None if zone == Zone::Wall => (clock, 0),
        _ => return None,
    };
    let micros = days.checked_mul(MICROS_PER_DAY)? + parse_clock(clock)?;
    micros.checked_sub(seconds_east * MICROS_PER_SECOND)
}

fn parse_clock(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let mut part = || digits(parts.next()?, 2..=2);
    let seconds = part()? * 3600 + part()? * 60 + part()?;
    let scale = 10_i64.pow(6_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?);
    let whole = parts.next().is_none() && seconds <= 86_400;
    whole.then_some(seconds * MICROS_PER_SECOND + digits(fraction, 1..=6)? * scale)
}

fn parse_zone(text: &str) -> Option<i64> {
    let mut seconds = 0;
    for (index, part) in text[1..].split(':').enumerate() {
        let unit = *[3600, 60, 1].get(index)?;
        seconds += digits(part, 2..=2)? * unit;
    }
    Some(if text.starts_with('-') {
        -seconds
    } else {
        seconds
    })
}

fn digits(text: &str, size: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let all = text.bytes().all(|byte| byte.is_ascii_digit());
    (all && size.contains(&text.len())).then(|| text.parse().ok())?
}

pub(super) fn decode_interval(field: &[u8]) -> Result<Value, FieldError> {
    let mut reader = Reader::new(field);
    let micros = reader.i64()?;
    let days = reader.i32()?;
    let months = reader.i32()?;
    reader.end()?;
    Ok(match (micros, days, months) {
        // Infinite intervals came with 17; before it, this one could not be stored.
        (i64::MAX, i32::MAX, i32::MAX) => infinite(false),
        (i64::MIN, i32::MIN, i32::MIN) => infinite(true),
        _ => Value::from(interval_text(micros, days, months)),
    })
}

/// As `EncodeInterval` of the server: a sign is written after a negative part.
fn interval_text(micros: i64, days: i32, months: i32) -> String {
    let mut out = String::with_capacity(32);
    let mut after_negative = false;
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count == 0 {
            continue;
        }
        out.push_str(if out.is_empty() { "" } else { " " });
        out.push_str(if after_negative && count > 0 { "+" } else { "" });
        let plural = if count == 1 { "" } else { "s" };
        write!(out, "{count} {unit}{plural}").expect("a string takes text");
        after_negative = count < 0;
    }
    if out.is_empty() || micros != 0 {
        out.push_str(if out.is_empty() { "" } else { " " });
        out.push_str(match (micros < 0, after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        });
        write_clock(micros.unsigned_abs(), &mut out);
    }
    out
}

/// A time as the server counts it, or why it does not fit.
pub(super) enum Micros {
    /// Microseconds since 2000-01-01.
    Count(i64),
    /// The time lies before the server's calendar.
    OutOfRange,
    /// The time has no offset, so it is an instant only in the session's time zone.
    NoOffset,
}

/// A time as a parameter. A timestamp without zone gets the UTC date and clock time of a time with
/// an offset, else the clock time unchanged.
pub(super) fn encode_time(zone: Zone, time: Time) -> Micros {
    let offset_seconds = match (zone, time.offset_minutes()) {
        (Zone::Wall, None) => 0,
        (_, Some(minutes)) => i64::from(minutes) * 60,
        (Zone::Utc, None) => return Micros::NoOffset,
    };
    /// From 1970 to 2000.
    const EPOCH_NANOS: i128 = 946_684_800 * 1_000_000_000;
    let nanos = time.unix_nanos_at(offset_seconds) - EPOCH_NANOS;
    // The server rounds what is finer than it holds to the nearest, and so does this.
    let micros = (nanos + 500).div_euclid(1000);
    match i64::try_from(micros) {
        Ok(micros) if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros) => Micros::Count(micros),
        _ => Micros::OutOfRange,
    }
}

/// Appends the day alone.
pub(super) fn write_date(time: Time, out: &mut String) {
    let day = day_of(time);
    day.write(out);
    day.write_era(out);
}

/// Appends the time of day alone, with its offset if it has one.
pub(super) fn write_time_of_day(time: Time, out: &mut String) {
    write_civil_clock(time, out);
    if let Some(minutes) = time.offset_minutes() {
        write_zone(i32::from(minutes) * 60, out);
    }
}

/// Appends the whole time, with its offset if it has one.
pub(super) fn write_time(time: Time, out: &mut String) {
    let day = day_of(time);
    day.write(out);
    out.push(' ');
    write_time_of_day(time, out);
    day.write_era(out);
}

fn day_of(time: Time) -> Day {
    let civil = time.civil();
    Day {
        year: i64::from(civil.year()),
        month: i64::from(civil.month()),
        day: i64::from(civil.day()),
    }
}

fn write_civil_clock(time: Time, out: &mut String) {
    let civil = time.civil();
    let (hour, minute, second) = (civil.hour(), civil.minute(), civil.second());
    write!(out, "{hour:02}:{minute:02}:{second:02}").expect("a string takes text");
    let nanos = civil.subsec_nanosecond();
    if nanos != 0 {
        // The server rounds the digits that it does not hold.
        let digits = format!("{nanos:09}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0001-01-01 00:00:00
    const YEAR_1: i64 = -63_082_281_600_000_000;

    #[test]
    fn days_and_back() {
        for days in (-2_500_000..110_000_000).step_by(97) {
            let day = Day::from_2000(days);
            assert_eq!(day.days_from_2000(), days);
            assert!((1..=12).contains(&day.month) && (1..=31).contains(&day.day));
        }
    }

    #[test]
    fn timestamps_in_both_formats() {
        for (micros, expected) in [
            (0, "2000-01-01 00:00:00"),
            (-1, "1999-12-31 23:59:59.999999"),
            (252_455_529_600_000_000, "9999-12-31 00:00:00"),
            (252_455_616_000_000_000, "10000-01-01 00:00:00"),
            (-63_145_440_000_000_000, "0002-01-01 00:00:00 BC"),
            (YEAR_1, "0001-01-01 00:00:00"),
            (YEAR_1 - 1, "0001-12-31 23:59:59.999999 BC"),
            (TIMESTAMP_MIN, "4714-11-24 00:00:00 BC"),
            (TIMESTAMP_END - 1, "294276-12-31 23:59:59.999999"),
            (i64::MAX, "infinity"),
            (i64::MIN, "-infinity"),
        ] {
            let value = timestamp(Zone::Wall, micros);
            assert_eq!(
                value,
                decode_timestamp_text(Zone::Wall, expected),
                "{expected}"
            );
            let four_digits = (YEAR_1..252_455_616_000_000_000).contains(&micros);
            assert_eq!(matches!(value, Value::Time(_)), four_digits, "{expected}");
            if !four_digits {
                assert_eq!(value, Value::from(expected));
            }
        }
        let text = "2026-01-01 05:30:00.5+05:30";
        let utc: Time = "2026-01-01 00:00:00.5Z".parse().unwrap();
        let instant = Value::Time(Time::from_utc(utc.civil()));
        assert_eq!(decode_timestamp_text(Zone::Utc, text), instant);
    }

    #[test]
    fn other_text_stays_text() {
        for text in [
            "01/02/2026 00:00:00",
            "2026-01-01",
            "2026-13-01 00:00:00",
            "2026-02-29 00:00:00",
            "2026-01-01 00:00",
            "2026-01-01 00:00:00+01",
            "2026-01-01 00:00:00.1234567",
            "999999-01-01 00:00:00",
            "Thu Jan 01 00:00:00 2026",
            "",
        ] {
            assert_eq!(decode_timestamp_text(Zone::Wall, text), Value::from(text));
        }
    }

    #[test]
    fn intervals() {
        for (micros, days, months, expected) in [
            (0, 0, 0, "00:00:00"),
            (1, 0, 0, "00:00:00.000001"),
            (-1_500_000, 0, 0, "-00:00:01.5"),
            (0, 1, 14, "1 year 2 mons 1 day"),
            (3_600_000_000, 2, -1, "-1 mons +2 days 01:00:00"),
            (3_600_000_000, -2, 1, "1 mon -2 days +01:00:00"),
            (360_000_000_000, 0, 0, "100:00:00"),
        ] {
            assert_eq!(interval_text(micros, days, months), expected);
        }
    }
}
