//! Conversion of times to numbers and back.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use lookaside_value::{Time, Value};

use crate::ast::TimeUnit;

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
        Value::Time(time) => {
            let nanos = time.unix_nanos().unwrap_or_else(|| {
                time.unix_nanos_at(offset_of_wall_clock(time, zone).seconds().into())
            });
            count(nanos, unit)
        }
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
    let Ok(timestamp) = Timestamp::from_nanosecond(nanos) else {
        return value;
    };
    let offset = zone.to_offset(timestamp);
    let time = Time::from_civil(offset.to_datetime(timestamp));
    let whole_minutes = offset.seconds() % 60 == 0;
    // Offsets with seconds were used until 1972; for them, only the wall clock can be kept.
    let minutes = i16::try_from(offset.seconds() / 60)
        .ok()
        .filter(|_| whole_minutes);
    Value::Time(
        minutes
            .and_then(|minutes| time.with_offset_minutes(minutes).ok())
            .unwrap_or(time),
    )
}

/// The offset of a zone at a wall-clock time. Of an ambiguous time, the first is taken; a skipped
/// time is read with the offset before the change.
fn offset_of_wall_clock(time: Time, zone: &TimeZone) -> Offset {
    match zone.to_ambiguous_timestamp(time.civil()).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
    }
}

fn count(nanos: i128, unit: TimeUnit) -> Value {
    let count = nanos.div_euclid(nanos_of(unit));
    Value::Int(i64::try_from(count).expect("10,000 years of microseconds fit 64 bits"))
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
