//! Dates and times.
//!
//! A `date` is not a moment, and a `time` is a span of up to 838 hours: both are text, as the server
//! writes it. So is a `datetime` that is not a moment, which the servers keep if their `sql_mode` lets
//! them: `0000-00-00 00:00:00`, or the 31st of February.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use jiff::civil::DateTime;
use lookaside_value::{Text, Time, Value};

use crate::types::field_error::FieldError;

/// `TIME_MAX_HOUR` of the servers.
const HOUR_MAX: u64 = 838;

/// A `datetime` as its parts, each one in its range; together they may be no moment.
#[derive(Clone, Copy, Default)]
struct Parts {
    year: u16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    micros: u32,
}

impl Parts {
    /// 0, 4, 7 or 11 bytes: what is left out is zero.
    fn parse(field: &[u8]) -> Result<Self, FieldError> {
        let mut parts = Self::default();
        if !matches!(field.len(), 0 | 4 | 7 | 11) {
            return Err(FieldError::at(field.len(), "has the wrong size"));
        }
        if let [y0, y1, month, day, ..] = *field {
            (parts.year, parts.month, parts.day) = (u16::from_le_bytes([y0, y1]), month, day);
        }
        if let [_, _, _, _, hour, minute, second, ..] = *field {
            (parts.hour, parts.minute, parts.second) = (hour, minute, second);
        }
        if let [.., m0, m1, m2, m3] = *field
            && field.len() == 11
        {
            parts.micros = u32::from_le_bytes([m0, m1, m2, m3]);
        }
        parts.check()
    }

    fn check(self) -> Result<Self, FieldError> {
        for (offset, is_right) in [
            (0, self.year <= 9999),
            (2, self.month <= 12),
            (3, self.day <= 31),
            (4, self.hour <= 23),
            (5, self.minute <= 59),
            (6, self.second <= 59),
            (7, self.micros <= 999_999),
        ] {
            if !is_right {
                return Err(FieldError::at(offset, "is out of range"));
            }
        }
        Ok(self)
    }

    /// The time, if there was one.
    fn time(self) -> Option<Time> {
        let civil = DateTime::new(
            i16::try_from(self.year).ok()?,
            self.month as i8,
            self.day as i8,
            self.hour as i8,
            self.minute as i8,
            self.second as i8,
            i32::try_from(self.micros).ok()? * 1000,
        );
        civil.ok().map(Time::from_civil)
    }

    fn write_date(self, out: &mut String) {
        let Self {
            year, month, day, ..
        } = self;
        write!(out, "{year:04}-{month:02}-{day:02}").expect("a string takes text");
    }
}

/// Appends a clock with as many digits of its fraction as the column has.
fn write_clock(hour: u64, minute: u8, second: u8, micros: u32, decimals: u8, out: &mut String) {
    write!(out, "{hour:02}:{minute:02}:{second:02}").expect("a string takes text");
    let digit_count = match decimals {
        0..=6 => usize::from(decimals),
        _ if micros == 0 => 0,
        _ => 6,
    };
    if digit_count > 0 {
        let digits = format!("{micros:06}");
        out.push('.');
        out.push_str(&digits[..digit_count]);
    }
}

pub(super) fn decode_date(field: &[u8]) -> Result<Value, FieldError> {
    let parts = Parts::parse(field)?;
    let mut out = String::with_capacity(10);
    parts.write_date(&mut out);
    Ok(text(&out))
}

pub(super) fn decode_datetime(decimals: u8, field: &[u8]) -> Result<Value, FieldError> {
    let parts = Parts::parse(field)?;
    if let Some(time) = parts.time() {
        return Ok(Value::Time(time));
    }
    let mut out = String::with_capacity(26);
    parts.write_date(&mut out);
    out.push(' ');
    write_clock(
        parts.hour.into(),
        parts.minute,
        parts.second,
        parts.micros,
        decimals,
        &mut out,
    );
    Ok(text(&out))
}

/// 0, 8 or 12 bytes: sign, days, hours, minutes, seconds, microseconds.
pub(super) fn decode_time(decimals: u8, field: &[u8]) -> Result<Value, FieldError> {
    let (sign, days, [hour, minute, second], micros) = match *field {
        [] => (0, 0, [0; 3], 0),
        [sign, d0, d1, d2, d3, hour, minute, second] => {
            let days = u32::from_le_bytes([d0, d1, d2, d3]);
            (sign, days, [hour, minute, second], 0)
        }
        [sign, d0, d1, d2, d3, hour, minute, second, m0, m1, m2, m3] => {
            let days = u32::from_le_bytes([d0, d1, d2, d3]);
            let micros = u32::from_le_bytes([m0, m1, m2, m3]);
            (sign, days, [hour, minute, second], micros)
        }
        _ => return Err(FieldError::at(field.len(), "has the wrong size")),
    };
    let hours = u64::from(days) * 24 + u64::from(hour);
    for (offset, is_right) in [
        (0, sign <= 1),
        (1, hours <= HOUR_MAX),
        (5, hour <= 23),
        (6, minute <= 59),
        (7, second <= 59),
        (8, micros <= 999_999),
    ] {
        if !is_right {
            return Err(FieldError::at(offset, "is out of range"));
        }
    }
    let mut out = String::with_capacity(17);
    out.push_str(if sign == 1 { "-" } else { "" });
    write_clock(hours, minute, second, micros, decimals, &mut out);
    Ok(text(&out))
}

/// `YYYY-MM-DD`
pub(super) fn decode_date_text(field: &str) -> Result<Value, FieldError> {
    match parse_date(field) {
        Some(_) => Ok(text(field)),
        None => Err(FieldError::at(0, "is not of this type")),
    }
}

/// `[-]HH:MM:SS[.ffffff]`, with up to three digits of hours.
pub(super) fn decode_time_text(field: &str) -> Result<Value, FieldError> {
    let clock = field.strip_prefix('-').unwrap_or(field);
    match parse_clock(clock, 2..=3) {
        Some([hour, minute, second, _]) if hour <= 838 && minute <= 59 && second <= 59 => {
            Ok(text(field))
        }
        _ => Err(FieldError::at(0, "is not of this type")),
    }
}

/// `YYYY-MM-DD HH:MM:SS[.ffffff]`
pub(super) fn decode_datetime_text(field: &str) -> Result<Value, FieldError> {
    match parse_datetime(field) {
        Some(parts) => Ok(parts.time().map_or_else(|| text(field), Value::Time)),
        None => Err(FieldError::at(0, "is not of this type")),
    }
}

fn parse_datetime(field: &str) -> Option<Parts> {
    let (date, clock) = field.split_once(' ')?;
    let [year, month, day] = parse_date(date)?;
    let [hour, minute, second, micros] = parse_clock(clock, 2..=2)?;
    let parts = Parts {
        year: year.try_into().ok()?,
        month: month.try_into().ok()?,
        day: day.try_into().ok()?,
        hour: hour.try_into().ok()?,
        minute: minute.try_into().ok()?,
        second: second.try_into().ok()?,
        micros,
    };
    parts.check().ok()
}

fn parse_date(date: &str) -> Option<[u32; 3]> {
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4..=4)?;
    let month = digits(parts.next()?, 2..=2)?;
    let day = digits(parts.next()?, 2..=2)?;
    let is_right = parts.next().is_none() && month <= 12 && day <= 31;
    is_right.then_some([year, month, day])
}

/// Hours, minutes, seconds and microseconds.
fn parse_clock(clock: &str, hour_size: RangeInclusive<usize>) -> Option<[u32; 4]> {
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, hour_size)?;
    let minute = digits(parts.next()?, 2..=2)?;
    let second = digits(parts.next()?, 2..=2)?;
    let scale = 6_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let micros = digits(fraction, 1..=6)? * 10_u32.pow(scale);
    parts
        .next()
        .is_none()
        .then_some([hour, minute, second, micros])
}

/// Text as it stands.
fn text(text: &str) -> Value {
    Value::Text(Text::from(text))
}

fn digits(text: &str, size: RangeInclusive<usize>) -> Option<u32> {
    let all = text.bytes().all(|byte| byte.is_ascii_digit());
    (all && size.contains(&text.len())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Value {
        Value::Time(text.parse().unwrap())
    }

    #[test]
    fn datetimes_in_both_formats() {
        for (decimals, field, shown, expected) in [
            (
                0,
                &[0xea, 7, 1, 2, 3, 4, 5][..],
                "2026-01-02 03:04:05",
                time("2026-01-02 03:04:05"),
            ),
            (
                0,
                &[0xea, 7, 1, 2],
                "2026-01-02 00:00:00",
                time("2026-01-02 00:00:00"),
            ),
            (
                6,
                &[0xea, 7, 1, 2, 3, 4, 5, 1, 0, 0, 0],
                "2026-01-02 03:04:05.000001",
                time("2026-01-02 03:04:05.000001"),
            ),
            (0, &[], "0000-00-00 00:00:00", text("0000-00-00 00:00:00")),
            (
                2,
                &[],
                "0000-00-00 00:00:00.00",
                text("0000-00-00 00:00:00.00"),
            ),
            (
                3,
                &[0xea, 7, 1, 0, 1, 2, 3, 0x20, 0xa1, 7, 0],
                "2026-01-00 01:02:03.500",
                text("2026-01-00 01:02:03.500"),
            ),
            (
                0,
                &[0xea, 7, 2, 31],
                "2026-02-31 00:00:00",
                text("2026-02-31 00:00:00"),
            ),
        ] {
            assert_eq!(
                decode_datetime(decimals, field),
                Ok(expected.clone()),
                "{shown}"
            );
            assert_eq!(decode_datetime_text(shown), Ok(expected), "{shown}");
        }
    }

    #[test]
    fn dates_and_spans() {
        assert_eq!(decode_date(&[]), Ok(text("0000-00-00")));
        assert_eq!(decode_date(&[0x0f, 0x27, 12, 31]), Ok(text("9999-12-31")));
        for (decimals, field, shown) in [
            (0, &[1, 34, 0, 0, 0, 22, 59, 59][..], "-838:59:59"),
            (0, &[], "00:00:00"),
            (2, &[], "00:00:00.00"),
            (1, &[0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0xa1, 7, 0], "00:00:01.5"),
            (
                39,
                &[0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0xa1, 7, 0],
                "00:00:01.500000",
            ),
            (39, &[0, 0, 0, 0, 0, 0, 0, 1], "00:00:01"),
        ] {
            assert_eq!(decode_time(decimals, field), Ok(text(shown)));
            assert_eq!(decode_time_text(shown), Ok(text(shown)));
        }
    }

    #[test]
    fn what_no_server_writes() {
        for field in [
            &[0xea][..],
            &[0xea, 7, 13, 1],
            &[0xea, 7, 1, 32],
            &[0x10, 0x27, 1, 1],
            &[0xea, 7, 1, 1, 24, 0, 0],
            &[0xea, 7, 1, 1, 0, 60, 0],
            &[0xea, 7, 1, 1, 0, 0, 60],
            &[0xea, 7, 1, 1, 0, 0, 0, 0x40, 0x42, 0x0f, 0],
        ] {
            assert!(decode_datetime(0, field).is_err(), "{field:?}");
        }
        for field in [
            &[2, 0, 0, 0, 0, 0, 0, 0][..],
            &[0, 35, 0, 0, 0, 0, 0, 0],
            &[0, 255, 255, 255, 255, 0, 0, 0],
            &[0, 0, 0, 0, 0, 24, 0, 0],
            &[0, 0, 0],
        ] {
            assert!(decode_time(0, field).is_err(), "{field:?}");
        }
        for field in [
            "",
            "2026-01-02",
            "2026-1-2 03:04:05",
            "2026-13-02 03:04:05",
            "2026-01-02T03:04:05",
            "2026-01-02 03:04",
            "2026-01-02 03:04:05.",
            "2026-01-02 03:04:05.1234567",
            "2026-01-02 24:04:05",
        ] {
            assert!(decode_datetime_text(field).is_err(), "{field}");
        }
        for field in ["839:00:00", "0:00:00", "--01:00:00", "01:60:00", "01:00"] {
            assert!(decode_time_text(field).is_err(), "{field}");
        }
    }
}
