//! The functions of the language: values in, values out, no state, no failure.
//!
//! A function gets its input by value and returns it unchanged if it does not support the type;
//! this is the rule of the language, and avoids a copy. A [`Function`] is a step of a pipe in a
//! bound model.

mod address;
mod calc;
mod clock;
mod convert;
mod dictionary;
mod encoding;
mod escape;
mod location;
mod predicate;
mod select;
mod time;

use jiff::tz::TimeZone;
use lookaside_value::{TimeReader, TimeWriter, Value};

use crate::ast::{CalendarUnit, Charset, PathPart, TimeUnit, UrlPart};

pub use self::address::Intranet;
pub(crate) use self::address::access_direct;
pub(crate) use self::calc::Number;
pub(crate) use self::clock::Clock;
pub(crate) use self::convert::Conversion;
pub(crate) use self::dictionary::Dictionary;
pub(crate) use self::predicate::{Predicate, lower_case};
pub(crate) use self::time::since;

/// A function with its arguments, ready to run.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    /// `nth(i)`
    Nth(usize),
    /// `get(a/b)`
    Member(Box<[Box<str>]>),
    /// `starts_with('p')`
    StartsWith(Box<str>),
    /// `map_to(v)`
    MapTo(Value),
    /// `on_fail('v')`
    OnFail(Value),
    /// `skip_empty`
    SkipEmpty,
    /// `base64_encode`
    Base64Encode,
    /// `base64_decode(Encoding)`
    Base64Decode(Charset),
    /// `html_escape`
    HtmlEscape,
    /// `html_unescape`
    HtmlUnescape,
    /// `json_escape`
    JsonEscape,
    /// `json_unescape`
    JsonUnescape,
    /// `str_escape`
    StrEscape,
    /// `to_json`
    ToJson,
    /// `to_str`
    ToStr,
    /// `Time::to_ts` and similar: by the time's own offset, or else in this zone
    ToTimestamp(TimeUnit, TimeZone),
    /// `Time::to_ts_zone(h, unit)`: at this many minutes east of UTC, whatever the offset of the
    /// time
    ToTimestampAt(TimeUnit, i16),
    /// `Time::from_ts` and similar
    FromTimestamp(TimeUnit, TimeZone),
    /// `Time::parse('format', zone)`; without arguments by guess
    ParseTime(TimeReader, TimeZone),
    /// `Time::format('format', zone)`, and the zone of times without an offset
    FormatTime(TimeWriter, TimeZone, TimeZone),
    /// `Time::truncate(unit)`
    TruncateTime(CalendarUnit),
    /// `path(name|path)`
    Path(PathPart),
    /// `url(domain|host|uri|path|params)`
    Url(UrlPart),
    /// `ip4_to_int`
    Ip4ToInt,
    /// `ip_to_biguint`
    IpToBiguint,
    /// `intranet_ip`
    IntranetIp,
}

impl Function {
    /// Whether the result for a value that is not a time, or not the text of one, is ignored.
    #[inline]
    pub(crate) fn reads_times(&self) -> bool {
        matches!(
            self,
            Self::ParseTime(..) | Self::FormatTime(..) | Self::TruncateTime(_)
        )
    }

    /// The result, or `None` if the function drops the field.
    pub(crate) fn apply(
        &self,
        value: Value,
        intranet: &Intranet,
        clock: &mut Clock<'_>,
    ) -> Option<Value> {
        Some(match self {
            Self::Nth(index) => select::nth(value, *index),
            Self::Member(path) => select::member(value, path),
            Self::StartsWith(prefix) => select::starts_with(value, prefix),
            Self::MapTo(constant) => select::map_to(value, constant),
            Self::OnFail(constant) => select::on_fail(value, constant),
            Self::SkipEmpty => select::skip_empty(value),
            Self::Base64Encode => encoding::base64_encode(value),
            Self::Base64Decode(charset) => encoding::base64_decode(value, *charset),
            Self::HtmlEscape => escape::html_escape(value),
            Self::HtmlUnescape => escape::html_unescape(value),
            Self::JsonEscape => escape::json_escape(value),
            Self::JsonUnescape => escape::json_unescape(value),
            Self::StrEscape => escape::str_escape(value),
            Self::ToJson => escape::to_json(value),
            Self::ToStr => escape::to_str(value),
            Self::ToTimestamp(unit, zone) => time::to_timestamp(value, *unit, zone),
            Self::ToTimestampAt(unit, minutes) => time::to_timestamp_at(value, *unit, *minutes),
            Self::FromTimestamp(unit, zone) => time::from_timestamp(value, *unit, zone),
            Self::ParseTime(reader, zone) => time::parse(&value, reader, zone, clock),
            Self::FormatTime(writer, zone, own) => time::format(&value, writer, zone, own),
            Self::TruncateTime(unit) => time::truncate(&value, *unit),
            Self::Path(part) => location::path(value, *part),
            Self::Url(part) => location::url(value, *part),
            Self::Ip4ToInt => return address::ip4_to_int(value),
            Self::IpToBiguint => address::ip_to_biguint(&value),
            Self::IntranetIp => address::intranet_ip(&value, intranet),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use lookaside_value::{Decimal, Object, Time};
    use regex::Regex;

    use super::*;
    use crate::ast::{CalcFunction, CalcOperator};

    /// Prefers problematic values: ends of ranges, unusual text, nesting.
    struct Random(u64);

    impl Random {
        /// splitmix64
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) % bound as u64) as usize
        }

        fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
            choices[self.below(choices.len())].clone()
        }

        fn text(&mut self) -> String {
            const WORDS: [&str; 26] = [
                "",
                "a",
                "/",
                "\\",
                "\"",
                "'",
                "&",
                "&lt;",
                "&#x110000;",
                "\u{0}",
                "é",
                "\u{1f600}",
                "%",
                "http://",
                "h:99999",
                "[::1]",
                "10.0.0.1",
                "::ffff:1.2.3.4",
                "=",
                "SGVsbG8=",
                "-1e400",
                "9223372036854775808",
                "\\ud800",
                "2026-01-01 08:00:00",
                "İ",
                "nan",
            ];
            (0..self.below(5)).map(|_| self.pick(&WORDS)).collect()
        }

        fn int(&mut self) -> i64 {
            let near = self.below(7) as i64 - 3;
            let far = self.pick(&[
                0,
                i64::MIN,
                i64::MAX,
                1 << 53,
                253_402_207_200,
                -377_705_023_201,
            ]);
            far.wrapping_add(near)
        }

        fn float(&mut self) -> f64 {
            const FLOATS: [f64; 8] = [
                0.0,
                -0.0,
                0.5,
                f64::NAN,
                f64::INFINITY,
                f64::MIN,
                5e-324,
                9.3e18,
            ];
            self.pick(&FLOATS)
        }

        fn time(&mut self) -> Time {
            const TIMES: [&str; 5] = [
                "0000-01-01 00:00:00",
                "9999-12-31 23:59:59.999999999",
                "2026-03-29 02:30:00",
                "1969-12-31 23:59:59 -18:00",
                "2026-10-25 02:30:00 +18:00",
            ];
            self.pick(&TIMES).parse().unwrap()
        }

        fn value(&mut self, depth: usize) -> Value {
            match self.below(if depth == 0 { 13 } else { 15 }) {
                0 => Value::Null,
                1 => Value::Ignore,
                2 => Value::Bool(self.below(2) == 0),
                3 => Value::Int(self.int()),
                4 => Value::Float(self.float()),
                5 => Value::Decimal(Decimal::from(u128::MAX >> self.below(128))),
                6 | 7 => Value::from(self.text()),
                8 => Value::Symbol(self.text().into()),
                9 => Value::Time(self.time()),
                10 => Value::Ip(
                    self.pick(&["10.0.0.1", "::", "::ffff:8.8.8.8"])
                        .parse()
                        .unwrap(),
                ),
                11 => Value::Net(self.pick(&["0.0.0.0/0", "::1/128"]).parse().unwrap()),
                12 => Value::from(self.text().into_bytes()),
                13 => {
                    let members = (0..self.below(4))
                        .map(|_| (self.text().into(), self.value(depth - 1)))
                        .collect::<Object>();
                    Value::from(members)
                }
                _ => (0..self.below(4))
                    .map(|_| self.value(depth - 1))
                    .collect::<Vec<_>>()
                    .into(),
            }
        }

        fn zone(&mut self) -> TimeZone {
            let turned = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
            let far = jiff::tz::Offset::MAX.to_time_zone();
            self.pick(&[TimeZone::UTC, turned, far])
        }

        fn time_function(&mut self) -> Function {
            const FORMATS: [&str; 4] = ["%Y-%m-%d %H:%M:%S", "%b %d", "%s", "%a %j %Y %z"];
            const UNITS: [CalendarUnit; 6] = [
                CalendarUnit::Second,
                CalendarUnit::Minute,
                CalendarUnit::Hour,
                CalendarUnit::Day,
                CalendarUnit::Week,
                CalendarUnit::Month,
            ];
            let format = self.pick(&FORMATS);
            match self.below(4) {
                0 => Function::ParseTime(TimeReader::default(), self.zone()),
                1 => Function::ParseTime(TimeReader::new(format).unwrap(), self.zone()),
                2 => {
                    let writer = TimeWriter::new(format).unwrap();
                    Function::FormatTime(writer, self.zone(), self.zone())
                }
                _ => Function::TruncateTime(self.pick(&UNITS)),
            }
        }

        fn function(&mut self) -> Function {
            const UNITS: [TimeUnit; 3] = [
                TimeUnit::Second,
                TimeUnit::Millisecond,
                TimeUnit::Microsecond,
            ];
            const URL_PARTS: [UrlPart; 5] = [
                UrlPart::Domain,
                UrlPart::Host,
                UrlPart::Uri,
                UrlPart::Path,
                UrlPart::Params,
            ];
            let charsets = [
                Charset::Utf8,
                Charset::Imap,
                Charset::Standard(encoding_rs::UTF_16LE),
                Charset::Standard(encoding_rs::ISO_2022_JP),
                Charset::Standard(encoding_rs::GB18030),
            ];
            match self.below(26) {
                0 => Function::Nth(self.pick(&[0, 1, usize::MAX])),
                1 => Function::Member((0..self.below(3)).map(|_| self.text().into()).collect()),
                2 => Function::StartsWith(self.text().into()),
                3 => Function::MapTo(self.value(1)),
                4 => Function::OnFail(self.value(1)),
                5 => Function::SkipEmpty,
                6 => Function::Base64Encode,
                7 => Function::Base64Decode(self.pick(&charsets)),
                8 => Function::HtmlEscape,
                9 => Function::HtmlUnescape,
                10 => Function::JsonEscape,
                11 => Function::JsonUnescape,
                12 => Function::StrEscape,
                13 => Function::ToJson,
                14 => Function::ToStr,
                15 => Function::ToTimestamp(self.pick(&UNITS), self.zone()),
                16 => {
                    Function::ToTimestampAt(self.pick(&UNITS), self.pick(&[i16::MIN, 0, i16::MAX]))
                }
                17 => Function::FromTimestamp(self.pick(&UNITS), self.zone()),
                18 => Function::Path(self.pick(&[PathPart::Name, PathPart::Path])),
                19 => Function::Url(self.pick(&URL_PARTS)),
                20 => Function::Ip4ToInt,
                21 => Function::IpToBiguint,
                22..25 => self.time_function(),
                _ => Function::IntranetIp,
            }
        }

        fn predicate(&mut self) -> Predicate {
            match self.below(13) {
                0 => Predicate::Equal(self.value(1)),
                1 => Predicate::NotEqual(self.value(1)),
                2 => Predicate::Between(self.value(1), self.value(1)),
                3 => Predicate::StartsWith(self.text().into()),
                4 => Predicate::EndsWith(self.text().into()),
                5 => Predicate::Contains(self.text().into()),
                6 => Predicate::EqualsIgnoreCase([lower_case(&self.text())].into()),
                7 => Predicate::Regex(Regex::new("(a|é)+$").unwrap()),
                8 => Predicate::Empty,
                9 => Predicate::Greater(self.float()),
                10 => Predicate::Less(self.float()),
                11 => Predicate::Near(self.float()),
                _ => Predicate::InRange(self.float(), self.float()),
            }
        }
    }

    /// Runs every kind of function once on values generated from the seed.
    fn step(seed: u64) {
        let mut random = Random(seed);
        let intranet = Intranet::default();
        let value = random.value(3);
        let now = || jiff::civil::DateTime::constant(2024, 2, 29, 23, 59, 59, 0);
        let mut clock = Clock::new(&now);
        let other = random.value(0);
        since(&value, Some(&other), TimeUnit::Microsecond, &random.zone());
        let function = random.function();
        if let Some(result) = function.apply(value.clone(), &intranet, &mut clock) {
            let mut text = String::new();
            result.write_raw(&mut text);
            result.write_json(&mut text);
        }
        let predicate = random.predicate();
        if let Predicate::NotEqual(other) = &predicate {
            let same_type = other.type_of() == value.type_of();
            assert!(
                same_type || !predicate.holds(&value),
                "another type is never a match"
            );
        }
        predicate.holds(&value);
        for conversion in [
            Conversion::Text,
            Conversion::Bool,
            Conversion::Int,
            Conversion::Float,
            Conversion::Ip,
        ] {
            let converted = conversion.apply(value.clone());
            let is_text = matches!(value, Value::Text(_));
            assert!(is_text || conversion == Conversion::Text || converted == value);
        }
        let numbers = [
            Value::Int(random.int()),
            Value::Float(random.float()),
            value.clone(),
        ];
        let [left, right] = [random.pick(&numbers), random.pick(&numbers)];
        if let (Some(left), Some(right)) = (Number::from_value(&left), Number::from_value(&right)) {
            use {CalcFunction as F, CalcOperator as O};
            for operator in [O::Add, O::Subtract, O::Multiply, O::Divide, O::Modulo] {
                check_finite(operator.apply(left, right));
            }
            for function in [F::Abs, F::Round, F::Floor, F::Ceil] {
                check_finite(function.apply(left));
            }
            check_finite(left.negate());
        }
        let object: Object = [(random.text().into(), value.clone())]
            .into_iter()
            .collect();
        Dictionary::new(&object).value(&value);
        access_direct(Some(&value), Some(&left), &intranet);
    }

    fn check_finite(number: Option<Number>) {
        assert!(!matches!(number, Some(Number::Float(float)) if !float.is_finite()));
    }

    #[test]
    fn nothing_panics_whatever_the_value() {
        for seed in 0..100_000 {
            let run = catch_unwind(AssertUnwindSafe(|| step(seed)));
            assert!(run.is_ok(), "seed {seed}");
        }
    }
}
