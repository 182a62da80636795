//! Functions on times: conversion to numbers and text, and back; truncation and differences.

use jiff::Timestamp;
use jiff::ToSpan;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use lookaside_value::{Time, TimeReader, TimeWriter, Value};

use super::Clock;
use crate::ast::{CalendarUnit, TimeUnit};

fn nanos_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
    }
}

/// A time as a count since 1970 UTC, by its own offset or else in `zone`. Other types are
/// unchanged.
pub(crate) fn to_timestamp(value: Value, unit: TimeUnit, zone: &TimeZone) -> Value {
    match value {
        Value::Time(time) => count(time.unix_nanos_in(zone), unit),
        other => other,
    }
}

/// A time as a count since 1970 UTC, with its wall clock taken at this offset whatever its own
/// offset. Other types are unchanged.
pub(crate) fn to_timestamp_at(value: Value, unit: TimeUnit, offset_minutes: i16) -> Value {
    match value {
        Value::Time(time) => count(time.unix_nanos_at(i64::from(offset_minutes) * 60), unit),
        other => other,
    }
}

/// A count since 1970 UTC as wall-clock time in `zone`, with its offset; numbers beyond the
/// calendar and other types are unchanged.
pub(crate) fn from_timestamp(value: Value, unit: TimeUnit, zone: &TimeZone) -> Value {
    let Value::Int(number) = value else {
        return value;
    };
    let nanos = i128::from(number) * nanos_of(unit);
    match Timestamp::from_nanosecond(nanos) {
        Ok(timestamp) => Value::Time(Time::in_zone(timestamp, zone)),
        Err(_) => value,
    }
}

/// The time that a text or number names, or an ignored value.
pub(crate) fn parse(
    value: &Value,
    reader: &TimeReader,
    zone: &TimeZone,
    clock: &mut Clock<'_>,
) -> Value {
    let time = reader.read(value, zone, || clock.now().date());
    time.map_or(Value::Ignore, Value::Time)
}

/// The text of a time in `zone`, or an ignored value. A time without an offset is in `own_zone`.
pub(crate) fn format(
    value: &Value,
    writer: &TimeWriter,
    zone: &TimeZone,
    own_zone: &TimeZone,
) -> Value {
    match value {
        Value::Time(time) => {
            let text = writer.write(*time, zone, own_zone);
            text.map_or(Value::Ignore, Value::Text)
        }
        _ => Value::Ignore,
    }
}

/// The begin of the unit that a time is in, by its own wall clock, or an ignored value.
pub(crate) fn truncate(value: &Value, unit: CalendarUnit) -> Value {
    let Value::Time(time) = value else {
        return Value::Ignore;
    };
    let begin = begin_of(time.civil(), unit).and_then(|civil| time.with_civil(civil).ok());
    begin.map_or(Value::Ignore, Value::Time)
}

fn begin_of(civil: DateTime, unit: CalendarUnit) -> Option<DateTime> {
    let date = civil.date();
    let (hour, minute, second) = (civil.hour(), civil.minute(), civil.second());
    Some(match unit {
        CalendarUnit::Second => date.at(hour, minute, second, 0),
        CalendarUnit::Minute => date.at(hour, minute, 0, 0),
        CalendarUnit::Hour => date.at(hour, 0, 0, 0),
        CalendarUnit::Day => date.at(0, 0, 0, 0),
        CalendarUnit::Week => {
            let days = i64::from(date.weekday().to_monday_zero_offset());
            date.checked_sub(days.days()).ok()?.at(0, 0, 0, 0)
        }
        CalendarUnit::Month => date.first_of_month().at(0, 0, 0, 0),
    })
}

/// The whole units from `start` to `end`, rounded towards 0, or an ignored value. Times without an
/// offset are in `zone`.
pub(crate) fn since(end: &Value, start: Option<&Value>, unit: TimeUnit, zone: &TimeZone) -> Value {
    let (Value::Time(end), Some(Value::Time(start))) = (end, start) else {
        return Value::Ignore;
    };
    let nanos = end.unix_nanos_in(zone) - start.unix_nanos_in(zone);
    Value::Int(in_64_bits(nanos / nanos_of(unit)))
}

fn count(nanos: i128, unit: TimeUnit) -> Value {
    Value::Int(in_64_bits(nanos.div_euclid(nanos_of(unit))))
}

fn in_64_bits(count: i128) -> i64 {
    i64::try_from(count).expect("20,000 years of microseconds fit 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(hours: i8) -> TimeZone {
        jiff::tz::offset(hours).to_time_zone()
    }

    fn time(text: &str) -> Value {
        Value::Time(text.parse().unwrap())
    }

    #[test]
    fn to_numbers() {
        use TimeUnit::{Microsecond as Micros, Millisecond as Millis, Second as Seconds};
        let naive = time("2026-01-01 08:00:00");
        for (hours, unit, expected) in [
            (8, Seconds, 1_767_225_600),
            (0, Seconds, 1_767_254_400),
            (0, Millis, 1_767_254_400_000),
            (-5, Micros, 1_767_272_400_000_000),
        ] {
            let expected = Value::Int(expected);
            assert_eq!(to_timestamp(naive.clone(), unit, &zone(hours)), expected);
            assert_eq!(
                to_timestamp_at(naive.clone(), unit, i16::from(hours) * 60),
                expected
            );
        }
        let zoned = time("2026-01-01 08:00:00 +08:00");
        let (own, read) = (Value::Int(1_767_225_600), Value::Int(1_767_254_400));
        assert_eq!(to_timestamp(zoned.clone(), Seconds, &zone(0)), own);
        assert_eq!(to_timestamp_at(zoned, Seconds, 0), read);
        assert_eq!(
            to_timestamp(time("1969-12-31 23:59:59.9"), Seconds, &TimeZone::UTC),
            Value::Int(-1)
        );
        assert_eq!(
            to_timestamp("x".into(), Seconds, &TimeZone::UTC),
            Value::from("x")
        );
    }

    #[test]
    fn clocks_that_were_turned() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let seconds = |text| to_timestamp(time(text), TimeUnit::Second, &zone);
        assert_eq!(seconds("2026-07-01 02:00:00"), Value::Int(1_782_864_000));
        assert_eq!(seconds("2026-03-29 02:30:00"), Value::Int(1_774_747_800));
        assert_eq!(seconds("2026-10-25 02:30:00"), Value::Int(1_792_888_200));
    }

    #[test]
    fn from_numbers() {
        let check = |number: i64, unit, hours, expected: &str| {
            let made = from_timestamp(Value::Int(number), unit, &zone(hours));
            assert_eq!(
                format!("{made:?}"),
                format!("{:?}", time(expected)),
                "{number}"
            );
        };
        check(
            1_767_225_600,
            TimeUnit::Second,
            8,
            "2026-01-01 08:00:00 +08:00",
        );
        check(
            1_767_225_600_250,
            TimeUnit::Millisecond,
            0,
            "2026-01-01 00:00:00.25 +00:00",
        );
        check(
            -1,
            TimeUnit::Microsecond,
            -5,
            "1969-12-31 18:59:59.999999 -05:00",
        );
        let beyond = Value::Int(i64::MAX);
        assert_eq!(
            from_timestamp(beyond.clone(), TimeUnit::Millisecond, &zone(0)),
            beyond
        );
        assert_eq!(
            from_timestamp("1".into(), TimeUnit::Millisecond, &zone(0)),
            Value::from("1")
        );
    }
}
