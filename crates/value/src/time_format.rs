//! Times from text and numbers, and text from times, by formats as of strftime.
//!
//! A format is checked when it is made, by writing a sample and reading it back, so that reading and
//! writing fail only because of a value.

use std::error::Error;
use std::fmt;

use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::time::{latest_year, offset_minutes};
use crate::{Text, Time, Value};

/// A format that is not usable; displays the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeFormatError(String);

impl fmt::Display for TimeFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TimeFormatError {}

/// Reads times from text and numbers: in one format, or by default in the usual forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeReader {
    format: Option<Text>,
}

impl TimeReader {
    /// A reader of the given format, with the directives of [`jiff::fmt::strtime`].
    ///
    /// # Errors
    /// When a directive is unknown or cannot be read, or the format lacks a day.
    pub fn new(format: &str) -> Result<Self, TimeFormatError> {
        let sample = sample();
        let written = write(format, &sample)?;
        let fields = BrokenDownTime::parse(format, &written)
            .map_err(|error| TimeFormatError(error.to_string()))?;
        if fields.iana_time_zone().is_some() {
            let reason = "%Q cannot be read; read an offset with %z, or give a zone";
            return Err(TimeFormatError(reason.into()));
        }
        let time = time_of(fields, || sample.date());
        let reason = "it has no complete date, such as %Y-%m-%d, %d/%b or %s";
        time.ok_or_else(|| TimeFormatError(reason.into()))?;
        Ok(Self {
            format: Some(format.into()),
        })
    }

    /// The time that a value is or names. One without an offset is in `zone`; one without a year is
    /// in the latest year in which it is at most a day after `today`.
    pub fn read(
        &self,
        value: &Value,
        zone: &TimeZone,
        today: impl FnOnce() -> Date,
    ) -> Option<Time> {
        let text = match value {
            Value::Time(time) => return Some(time.or_zone(zone)),
            // Six digits are what a float of today has after its point.
            Value::Float(float) => &format!("{float:.6}"),
            Value::Int(_) => &value.to_string(),
            _ => value.as_str()?,
        };
        match &self.format {
            Some(format) => {
                let fields = BrokenDownTime::parse(&**format, text).ok()?;
                let time = time_of(fields, today)?;
                match time.is_instant() {
                    true => Some(Time::in_zone(timestamp(time, zone)?, zone)),
                    false => Some(time.or_zone(zone)),
                }
            }
            None => guess(text, zone, today),
        }
    }
}

/// Writes times as text in one format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeWriter {
    format: Text,
}

impl TimeWriter {
    /// A writer of the given format, with the directives of [`jiff::fmt::strtime`].
    ///
    /// # Errors
    /// When a directive is unknown.
    pub fn new(format: &str) -> Result<Self, TimeFormatError> {
        write(format, &sample())?;
        Ok(Self {
            format: format.into(),
        })
    }

    /// The text of a time as `zone` shows it; a time without an offset is in `default_zone`. `None`
    /// for the last day of the calendar, which has not begun everywhere.
    pub fn write(&self, time: Time, zone: &TimeZone, default_zone: &TimeZone) -> Option<Text> {
        let time = timestamp(time, default_zone)?.to_zoned(zone.clone());
        write(&self.format, &time).ok().map(Text::from)
    }
}

/// A time zone by its name, such as `Europe/Berlin`, or an offset such as `+08:00`, of whole minutes
/// and at most 18 hours.
pub fn parse_zone(text: &str) -> Option<TimeZone> {
    // An offset is not a name of a zone, but a time can be written with both.
    let offset = format!("2000-01-01T00:00{text}[{text}]");
    let zone = TimeZone::get(text).ok().or_else(|| {
        let zoned = offset.parse::<Zoned>().ok()?;
        Some(zoned.time_zone().clone())
    })?;
    // Times would be without an offset that they cannot have.
    let fixed = zone.to_fixed_offset().ok();
    let is_kept = fixed.is_none_or(|offset| offset_minutes(offset).is_some());
    is_kept.then_some(zone)
}

/// A time whose parts all differ, and need two digits.
fn sample() -> Zoned {
    let clock = DateTime::constant(2026, 11, 28, 22, 57, 36, 123_456_789);
    let zoned = clock.to_zoned(TimeZone::UTC);
    zoned.expect("it exists in UTC")
}

fn write(format: &str, time: &Zoned) -> Result<String, TimeFormatError> {
    strtime::format(format, time).map_err(|error| TimeFormatError(error.to_string()))
}

fn timestamp(time: Time, zone: &TimeZone) -> Option<Timestamp> {
    Timestamp::from_nanosecond(time.unix_nanos_in(zone)).ok()
}

/// The time with its offset, if it has one; an instant if it is a count since 1970.
fn time_of(mut fields: BrokenDownTime, today: impl FnOnce() -> Date) -> Option<Time> {
    if let Some(timestamp) = fields.timestamp() {
        let clock = TimeZone::UTC.to_datetime(timestamp);
        let nanos = fields.subsec_nanosecond().unwrap_or(0);
        let clock = clock.with().subsec_nanosecond(nanos).build().ok()?;
        return Some(Time::from_utc(clock));
    }
    let time = match fields.to_datetime() {
        Ok(clock) => Time::from_civil(clock),
        Err(_) if fields.year().is_none() && fields.iso_week_year().is_none() => {
            latest_year(today(), |year| {
                fields.set_year(Some(year)).ok()?;
                fields.to_datetime().ok().map(Time::from_civil)
            })?
        }
        Err(_) => return None,
    };
    let Some(offset) = fields.offset() else {
        return Some(time);
    };
    time.with_offset_minutes(offset_minutes(offset)?).ok()
}

/// The time of a text in one of the usual forms.
fn guess(text: &str, zone: &TimeZone, today: impl FnOnce() -> Date) -> Option<Time> {
    let text = text.trim_ascii();
    if let Some(nanos) = unix_nanos(text) {
        let timestamp = Timestamp::from_nanosecond(nanos).ok()?;
        return Some(Time::in_zone(timestamp, zone));
    }
    let time = match Time::parse_access_log(text) {
        Ok(time) => time,
        // Only a time that begins with the name of a month can lack its year.
        Err(_) if text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Time::parse_latest(text, today()).ok()?
        }
        Err(_) => return None,
    };
    Some(time.or_zone(zone))
}

/// Nanoseconds since 1970 of a count whose number of digits tells its unit. Other numbers are
/// rather dates such as 20260131 or no times at all.
fn unix_nanos(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let unit: i128 = match whole.len() {
        // From March 1973 to November 2286; the other units from September 2001 on.
        9 | 10 => 1_000_000_000,
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => return None,
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = !text.ends_with('.') && are_digits(whole) && are_digits(fraction);
    has_digits.then_some(())?;
    // Nine digits are enough for nanoseconds.
    let fraction = &fraction[..fraction.len().min(9)];
    let scale = 10_i128.pow(fraction.len() as u32);
    let part = match fraction {
        "" => 0,
        digits => digits.parse::<i128>().ok()? * unit / scale,
    };
    Some(whole.parse::<i128>().ok()? * unit + part)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const TODAY: Date = Date::constant(2026, 1, 2);

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn read(reader: &TimeReader, value: impl Into<Value>) -> Option<String> {
        let time = reader.read(&value.into(), &berlin(), || TODAY);
        time.map(|time| format!("{time:?}"))
    }

    #[test]
    fn usual_forms_are_guessed() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05+00:00"),
            (" 2026-01-02 03:04:05.5 ", "2026-01-02 03:04:05.5+01:00"),
            ("2026-07-02 03:04:05", "2026-07-02 03:04:05+02:00"),
            ("10/Oct/2000:13:55:36 -0700", "2000-10-10 13:55:36-07:00"),
            ("Dec 31 23:59:59", "2025-12-31 23:59:59+01:00"),
            ("Jan  2 03:04:05", "2026-01-02 03:04:05+01:00"),
            ("Fri, 2 Jan 2026 03:04:05 GMT", "2026-01-02 03:04:05+00:00"),
            ("100000000", "1973-03-03 10:46:40+01:00"),
            ("1767225600", "2026-01-01 01:00:00+01:00"),
            ("1767225600.25", "2026-01-01 01:00:00.25+01:00"),
            ("1767225600123", "2026-01-01 01:00:00.123+01:00"),
            ("1767225600123456", "2026-01-01 01:00:00.123456+01:00"),
            ("1767225600123456789", "2026-01-01 01:00:00.123456789+01:00"),
        ] {
            let found = read(&TimeReader::default(), text);
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "x",
            "1",
            "20260131",
            "202601310800",
            "20260131080000",
            "-1767225600",
            "1767225600.",
            "1767225600.x",
            "17672256e0",
            "2026-13-01 00:00:00",
            "Jan 32 00:00:00",
            "May",
        ] {
            assert_eq!(read(&TimeReader::default(), text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_counts_since_1970() {
        let reader = TimeReader::default();
        for (value, expected) in [
            (Value::Int(1_767_225_600), "2026-01-01 01:00:00+01:00"),
            (
                Value::Float(1_767_225_600.25),
                "2026-01-01 01:00:00.25+01:00",
            ),
        ] {
            assert_eq!(read(&reader, value).as_deref(), Some(expected));
        }
        for value in [
            Value::Int(-1),
            Value::Int(i64::MIN),
            Value::Float(f64::NAN),
            Value::Float(f64::MAX),
            Value::Null,
            Value::Bool(true),
        ] {
            assert_eq!(read(&reader, value.clone()), None, "{value:?}");
        }
        let time: Time = "2026-01-01 08:00:00".parse().unwrap();
        let same = reader.read(&Value::Time(time), &berlin(), || TODAY);
        assert_eq!(same, Some(time.or_zone(&berlin())));
        assert_eq!(same.and_then(Time::offset_minutes), Some(60));
    }

    #[test]
    fn formats_are_read() {
        for (format, text, expected) in [
            (
                "%d/%b/%Y:%H:%M:%S %z",
                "10/Oct/2000:13:55:36 -0700",
                Some("2000-10-10 13:55:36-07:00"),
            ),
            (
                "%d.%m.%Y %H:%M",
                "02.07.2026 03:04",
                Some("2026-07-02 03:04:00+02:00"),
            ),
            (
                "%Y%m%d%H%M%S%3f",
                "20260102030405250",
                Some("2026-01-02 03:04:05.25+01:00"),
            ),
            ("%F", "2026-01-02", Some("2026-01-02 00:00:00+01:00")),
            (
                "%b %d %H:%M:%S",
                "Dec 31 23:59:59",
                Some("2025-12-31 23:59:59+01:00"),
            ),
            ("%G-W%V-%u", "2026-W01-5", Some("2026-01-02 00:00:00+01:00")),
            ("%s", "0", Some("1970-01-01 01:00:00+01:00")),
            (
                "%s.%f",
                "1767225600.25",
                Some("2026-01-01 01:00:00.25+01:00"),
            ),
            (
                "%m/%d/%y %I:%M %p",
                "1/2/26 3:04 pm",
                Some("2026-01-02 15:04:00+01:00"),
            ),
            ("%F", "2026-01-02 ", None),
            ("%F", "2026-02-30", None),
            ("%F", "", None),
            ("%F %:z", "2026-01-02 +01:00:30", None),
            ("%a %F", "Mon 2026-01-02", None),
        ] {
            let reader = TimeReader::new(format).unwrap();
            assert_eq!(read(&reader, text).as_deref(), expected, "{format} {text}");
        }
        let reader = TimeReader::new("%Y%m%d").unwrap();
        let found = read(&reader, Value::Int(20_260_102));
        assert_eq!(found.as_deref(), Some("2026-01-02 00:00:00+01:00"));
    }

    #[test]
    fn formats_are_checked_when_they_are_made() {
        for format in ["", "x", "%", "%E", "%Y", "%H:%M", "%F %H %Q", "%F %Z", "%c"] {
            let error = TimeReader::new(format).unwrap_err();
            assert!(!error.to_string().is_empty(), "{format}");
        }
        for format in ["%", "%E", "%F %+"] {
            TimeWriter::new(format).unwrap_err();
        }
    }

    #[test]
    fn times_are_written_in_a_zone() {
        for (time, format, expected) in [
            (
                "2026-01-02 03:04:05",
                "%F %T %z",
                Some("2026-01-02 04:04:05 +0100"),
            ),
            (
                "2026-07-02T03:04:05.5-01:00",
                "%F %T%.f %Z",
                Some("2026-07-02 06:04:05.5 CEST"),
            ),
            ("2026-01-02 03:04:05", "", Some("")),
            ("1800-01-02 03:04:05", "%y", Some("00")),
            ("9999-12-31 23:59:59", "%F", None),
        ] {
            let writer = TimeWriter::new(format).unwrap();
            let text = writer.write(time.parse().unwrap(), &berlin(), &TimeZone::UTC);
            assert_eq!(text.as_deref(), expected, "{time} {format}");
        }
    }

    #[test]
    fn zones_have_names_or_offsets() {
        for (text, seconds) in [
            ("UTC", Some(0)),
            ("+08:00", Some(8 * 3600)),
            ("-03:30", Some(-12_600)),
            ("+18:00", Some(18 * 3600)),
            ("+18:01", None),
            ("-25:59", None),
            ("+01:00:30", None),
            ("Mars/Olympus", None),
            ("", None),
            ("8]x[", None),
        ] {
            let zone = parse_zone(text);
            let offset = zone.map(|zone| zone.to_offset(Timestamp::UNIX_EPOCH).seconds());
            assert_eq!(offset, seconds, "{text}");
        }
    }

    /// Reads a time by guess and in a format that is itself part of the text, and writes it.
    fn read_and_write(text: &str) {
        let (format, text) = text.split_once('\n').unwrap_or(("%Y-%m-%d %H:%M", text));
        let reader = TimeReader::new(format).unwrap_or_default();
        for zone in [berlin(), TimeZone::fixed(jiff::tz::Offset::MAX)] {
            for reader in [&reader, &TimeReader::default()] {
                let time = reader.read(&Value::from(text), &zone, || TODAY);
                if let (Some(time), Ok(writer)) = (time, TimeWriter::new(format)) {
                    writer.write(time, &zone, &TimeZone::UTC);
                }
            }
        }
    }

    #[test]
    fn no_text_and_no_format_panics() {
        const PIECES: [&str; 40] = [
            "%",
            "Y",
            "m",
            "d",
            "H",
            "M",
            "S",
            "b",
            "j",
            "U",
            "W",
            "V",
            "G",
            "g",
            "u",
            "w",
            "C",
            "y",
            "z",
            ":",
            "s",
            ".",
            "f",
            "9",
            "I",
            "p",
            "e",
            "-",
            "_",
            "20",
            "\n",
            " ",
            "Feb",
            "29",
            "2026",
            "é",
            "+",
            "1767225600",
            "T",
            "00:00",
        ];
        const COUNT: u64 = 100_000;
        for seed in 0..COUNT {
            // splitmix64
            let mut state = seed;
            let mut below = |bound: usize| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((mixed ^ (mixed >> 31)) % bound as u64) as usize
            };
            let count = below(24);
            let data: String = (0..count).map(|_| PIECES[below(PIECES.len())]).collect();
            let run = catch_unwind(|| read_and_write(&data));
            assert!(run.is_ok(), "seed {seed}: {data:?}");
        }
    }
}
