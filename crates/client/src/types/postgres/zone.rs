//! Times with a zone for types that keep none: of a text the server would drop it without a word,
//! and find the rows of another hour.

use std::borrow::Cow;

use jiff::SignedDuration;
use lookaside_value::{Time, Value};

use super::error::Misfit;
use super::table::Scalar;
use super::time;

/// The value for a type that keeps no zone: a time with an offset becomes its clock in UTC, and a text
/// with a zone that is not read here is refused.
pub(super) fn without_zone(value: &Value) -> Result<Value, Misfit> {
    let time = match value {
        Value::Time(time) => *time,
        other => {
            let text = other.as_str().ok_or(Misfit::Other)?;
            match read(text)? {
                Some(time) => time,
                None => return Ok(other.clone()),
            }
        }
    };
    Ok(Value::Time(time.to_utc()))
}

/// The value for an array or a range of such a type (`scalar`): each time in its text, or in it, is
/// taken as [`without_zone`] takes one.
pub(super) fn without_zones<'v>(
    scalar: Scalar,
    value: &'v Value,
) -> Result<Cow<'v, Value>, Misfit> {
    Ok(match value {
        Value::Time(_) => Cow::Owned(without_zone(value)?),
        Value::Array(values) => {
            let values = values.iter().map(|value| {
                let value = without_zones(scalar, value)?;
                Ok(value.into_owned())
            });
            Cow::Owned(Value::from(values.collect::<Result<Vec<_>, Misfit>>()?))
        }
        other => match other.as_str() {
            Some(text) => match rewritten(scalar, text)? {
                Some(text) => Cow::Owned(Value::from(text)),
                None => Cow::Borrowed(value),
            },
            None => Cow::Borrowed(value),
        },
    })
}

/// The literal of an array or a range with its times in UTC, if one of them has an offset. The marks
/// of a literal are not part of a time, so what stands between two of them is a time or none.
fn rewritten(scalar: Scalar, literal: &str) -> Result<Option<String>, Misfit> {
    const MARKS: &[char] = &['{', '}', '[', ']', '(', ')', '"', '\\', ',', '='];
    let write = match scalar {
        Scalar::Date => time::write_date,
        Scalar::Time => time::write_time_of_day,
        _ => time::write_time,
    };
    let mut out = String::with_capacity(literal.len());
    let mut is_changed = false;
    for part in literal.split_inclusive(MARKS) {
        let (text, mark) = match part.strip_suffix(MARKS) {
            Some(text) => part.split_at(text.len()),
            None => (part, ""),
        };
        match read(text)? {
            Some(time) => {
                write(time.to_utc(), &mut out);
                is_changed = true;
            }
            None => out.push_str(text),
        }
        out.push_str(mark);
    }
    Ok(is_changed.then_some(out))
}

/// The time in a text with an offset; `None` for a text without a zone.
fn read(text: &str) -> Result<Option<Time>, Misfit> {
    match text.parse::<Time>() {
        Ok(time) => match time.offset_minutes() {
            None => Ok(None),
            // The server makes the first second of the next minute of it, also without an offset.
            Some(minutes) if has_leap_second(text) => {
                let next = time.civil().checked_add(SignedDuration::from_secs(1));
                let next = next.map_err(|_| Misfit::OutOfRange)?;
                let next = Time::from_civil(next).with_offset_minutes(minutes);
                next.map(Some).map_err(|_| Misfit::OutOfRange)
            }
            Some(_) => Ok(Some(time)),
        },
        Err(_) if names_zone(text) => Err(Misfit::Zone),
        Err(_) => Ok(None),
    }
}

/// Whether the seconds of a text that is a time are 60: no other part of one can follow a minute.
fn has_leap_second(text: &str) -> bool {
    text.match_indices(":60").any(|(at, _)| {
        let before = text[..at].trim_end_matches(|letter: char| letter.is_ascii_digit());
        before.len() < at && before.ends_with(':')
    })
}

/// Whether a text has something after its clock that the server takes for a zone: an offset, or a
/// word that is not a part of a date.
fn names_zone(text: &str) -> bool {
    const WORDS: [&str; 27] = [
        "am", "pm", "bc", "ad", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep",
        "oct", "nov", "dec", "sun", "mon", "tue", "wed", "thu", "fri", "sat", "st", "nd", "rd",
        "th",
    ];
    let is_clock = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    let bytes = text.as_bytes();
    // `08:00`, or `T0800`.
    let clock = bytes.iter().position(|byte| *byte == b':').or_else(|| {
        let is_start = |at: &usize| {
            matches!(bytes[*at], b'T' | b't')
                && *at > 0
                && bytes[at - 1].is_ascii_digit()
                && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
        };
        (0..bytes.len()).find(is_start).map(|at| at + 1)
    });
    let Some(clock) = clock else {
        return false;
    };
    let size = bytes[clock..]
        .iter()
        .take_while(|byte| is_clock(byte))
        .count();
    // The clock is ASCII, so this is the boundary of a character.
    let rest = text[clock + size..].trim_start();
    if rest.starts_with(['+', '-']) {
        return true;
    }
    let mut words = rest.split(|letter: char| !letter.is_alphabetic());
    words.any(|word| {
        let word = word.to_ascii_lowercase();
        // Months and days of the week may be written out.
        let is_known =
            |known: &&str| word == *known || (known.len() == 3 && word.starts_with(known));
        !word.is_empty() && !WORDS.iter().any(is_known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scalar: Scalar, literal: &str, expected: &str) {
        let value = Value::from(literal);
        let value = without_zones(scalar, &value).map(Cow::into_owned);
        assert_eq!(value, Ok(Value::from(expected)), "{literal}");
    }

    #[test]
    fn issue_12_times_in_literals_become_utc() {
        use Scalar::{Date, Time, Timestamp};
        check(
            Timestamp,
            "{2026-01-31T08:00:00+01:00,\"2026-01-31 08:00:00Z\",NULL,2026-01-31 08:00}",
            "{2026-01-31 07:00:00,\"2026-01-31 08:00:00\",NULL,2026-01-31 08:00}",
        );
        check(
            Timestamp,
            "[2026-01-01T00:30:00.5+01:00,)",
            "[2025-12-31 23:30:00.5,)",
        );
        check(
            Timestamp,
            r#"{"[\"2026-01-01 00:00:00+01\",infinity)"}"#,
            r#"{"[\"2025-12-31 23:00:00\",infinity)"}"#,
        );
        check(
            Timestamp,
            "[0:1]={now,2026-01-01}",
            "[0:1]={now,2026-01-01}",
        );
        check(Date, "[2026-01-31T23:30:00-01:00,]", "[2026-02-01,]");
        check(Time, "{08:00,2026-01-31 08:00:00+01}", "{08:00,07:00:00}");
        for literal in ["{2026-01-02 03:04:05 PST}", "[08:00+01,09:00)"] {
            let value = Value::from(literal);
            assert_eq!(
                without_zones(Timestamp, &value),
                Err(Misfit::Zone),
                "{literal}"
            );
        }
    }

    #[test]
    fn issue_12_a_leap_second_is_the_next_minute_as_for_the_server() {
        for (text, expected) in [
            ("2016-12-31T23:59:60Z", "2017-01-01 00:00:00"),
            ("2017-01-01T00:59:60.5+01:00", "2017-01-01 00:00:00.5"),
            ("31/Dec/2016:23:59:60 +0000", "2017-01-01 00:00:00"),
            ("2016-12-31T23:59:59Z", "2016-12-31 23:59:59"),
        ] {
            let time = without_zone(&Value::from(text)).unwrap();
            assert_eq!(time, Value::Time(expected.parse().unwrap()), "{text}");
        }
        let last = without_zone(&Value::from("9999-12-31T23:59:60Z"));
        assert_eq!(last, Err(Misfit::OutOfRange));
        // Beyond the calendar in UTC.
        let beyond = without_zone(&Value::from("9999-12-31T23:59:59-01:00"));
        assert_eq!(beyond, Err(Misfit::Zone));
    }
}
