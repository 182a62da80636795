//! The conditions of `match` cases.

use std::cmp::Ordering;

use lookaside_value::{Time, Value};
use regex::Regex;

/// The tolerance of `eq(n)`, for rounding errors of calculations.
const EQUAL_WITHIN: f64 = 1e-10;

/// One condition on one value.
#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    /// Equal to a value of the same type.
    Equal(Value),
    /// Of the same type as a value, and not equal to it.
    NotEqual(Value),
    /// Between two values of the same type, inclusive.
    Between(Value, Value),
    /// Text with this prefix.
    StartsWith(Box<str>),
    /// Text with this suffix.
    EndsWith(Box<str>),
    /// Text that contains this.
    Contains(Box<str>),
    /// Text equal to one of these, ignoring letter case; the words are lower-case.
    EqualsIgnoreCase(Box<[Box<str>]>),
    /// Text in which the expression matches.
    Regex(Regex),
    /// Empty text.
    Empty,
    /// A number greater than this.
    Greater(f64),
    /// A number less than this.
    Less(f64),
    /// A number equal to this within a small tolerance.
    Near(f64),
    /// A number in a range, inclusive.
    InRange(f64, f64),
}

impl Predicate {
    /// Whether the predicate holds for the value; it never does for a value of another type.
    #[inline]
    pub(crate) fn holds(&self, value: &Value) -> bool {
        match self {
            Self::Equal(other) => same(value, other) == Some(true),
            Self::NotEqual(other) => same(value, other) == Some(false),
            Self::Between(low, high) => {
                compare(value, low).is_some_and(Ordering::is_ge)
                    && compare(value, high).is_some_and(Ordering::is_le)
            }
            Self::Greater(bound) => number(value).is_some_and(|number| number > *bound),
            Self::Less(bound) => number(value).is_some_and(|number| number < *bound),
            Self::Near(other) => {
                number(value).is_some_and(|number| (number - other).abs() < EQUAL_WITHIN)
            }
            Self::InRange(low, high) => {
                number(value).is_some_and(|number| (*low..=*high).contains(&number))
            }
            on_text => match value {
                Value::Text(text) => on_text.holds_for_text(text),
                _ => false,
            },
        }
    }

    fn holds_for_text(&self, text: &str) -> bool {
        match self {
            Self::StartsWith(prefix) => text.starts_with(&**prefix),
            Self::EndsWith(suffix) => text.ends_with(&**suffix),
            Self::Contains(part) => text.contains(&**part),
            Self::EqualsIgnoreCase(words) => words.iter().any(|word| equals_lower_case(text, word)),
            Self::Regex(regex) => regex.is_match(text),
            Self::Empty => text.is_empty(),
            _ => false,
        }
    }
}

/// Whether two values of one type are equal; `None` for two types.
#[inline]
fn same(value: &Value, other: &Value) -> Option<bool> {
    match (value, other) {
        (Value::Text(a), Value::Text(b)) => Some(a.as_str() == b.as_str()),
        (Value::Int(a), Value::Int(b)) => Some(a == b),
        (Value::Float(a), Value::Float(b)) => Some(a == b),
        (Value::Time(a), Value::Time(b)) => Some(compare_times(*a, *b).is_eq()),
        _ if value.type_of() == other.type_of() => Some(value == other),
        _ => None,
    }
}

fn compare(value: &Value, other: &Value) -> Option<Ordering> {
    match (value, other) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Ip(a), Value::Ip(b)) if a.is_ipv4() == b.is_ipv4() => Some(a.cmp(b)),
        (Value::Time(a), Value::Time(b)) => Some(compare_times(*a, *b)),
        (Value::Text(a), Value::Text(b)) => Some(a.as_str().cmp(b.as_str())),
        _ => None,
    }
}

/// Two times with offsets are compared as instants. Otherwise the wall clocks are compared, because
/// a literal without an offset in a model is wall-clock time.
fn compare_times(a: Time, b: Time) -> Ordering {
    match (a.unix_nanos(), b.unix_nanos()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.civil().cmp(&b.civil()),
    }
}

/// An integer, a float, or text that is a number.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(int) => Some(*int as f64),
        Value::Float(float) => Some(*float),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A word in the form that [`Predicate::EqualsIgnoreCase`] requires.
pub(crate) fn lower_case(word: &str) -> Box<str> {
    word.chars().flat_map(char::to_lowercase).collect()
}

fn equals_lower_case(text: &str, word: &str) -> bool {
    if text.is_ascii() {
        return text.eq_ignore_ascii_case(word);
    }
    text.chars().flat_map(char::to_lowercase).eq(word.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(predicate: &Predicate, value: impl Into<Value>, expected: bool) {
        let value = value.into();
        assert_eq!(predicate.holds(&value), expected, "{predicate:?} {value:?}");
    }

    fn time(text: &str) -> Value {
        Value::Time(text.parse::<Time>().unwrap())
    }

    fn ip(text: &str) -> Value {
        Value::Ip(text.parse().unwrap())
    }

    #[test]
    fn equality_needs_one_type() {
        let is = Predicate::Equal(Value::Int(41));
        let is_not = Predicate::NotEqual(Value::Int(41));
        check(&is, 41_i64, true);
        check(&is, 42_i64, false);
        check(&is, "41", false);
        check(&is, 41.0, false);
        check(&is_not, 41_i64, false);
        check(&is_not, 42_i64, true);
        check(&is_not, "42", false);
        check(&Predicate::Equal(Value::Symbol("a".into())), "a", false);
        check(&Predicate::Equal(Value::Float(0.0)), -0.0, true);
        check(
            &Predicate::Equal(time("2026-01-01 08:00:00")),
            time("2026-01-01 08:00:00Z"),
            true,
        );
        check(&Predicate::Equal(Value::Bool(true)), true, true);
    }

    #[test]
    fn ranges_include_their_bounds() {
        let ints = Predicate::Between(Value::Int(1), Value::Int(3));
        for (int, inside) in [(0_i64, false), (1, true), (3, true), (4, false)] {
            check(&ints, int, inside);
        }
        check(&ints, 2.0, false);
        check(&ints, "2", false);
        check(
            &Predicate::Between(Value::Float(0.5), Value::Float(1.5)),
            1.5,
            true,
        );
        check(
            &Predicate::Between(Value::Float(0.5), Value::Float(1.5)),
            f64::NAN,
            false,
        );
        let ips = Predicate::Between(ip("10.0.0.0"), ip("10.0.0.255"));
        check(&ips, ip("10.0.0.77"), true);
        check(&ips, ip("10.0.1.0"), false);
        check(&ips, ip("::a00:4d"), false);
        let text = Predicate::Between("b".into(), "d".into());
        check(&text, "cat", true);
        check(&text, "dog", false);
        let times = Predicate::Between(time("2026-01-01 00:00:00"), time("2026-01-02 00:00:00"));
        check(&times, time("2026-01-01 12:00:00"), true);
        check(&times, time("2026-01-02 00:00:01"), false);
    }

    #[test]
    fn issue_12_times_with_offsets_are_instants() {
        let is = Predicate::Equal(time("2026-01-31T08:00:00+01:00"));
        check(&is, time("2026-01-31T07:00:00Z"), true);
        check(&is, time("2026-01-31T08:00:00Z"), false);
        check(&is, time("2026-01-31 08:00:00"), true);
        let (low, high) = (time("2026-01-31T00:00:00Z"), time("2026-01-31T01:00:00Z"));
        let hour = Predicate::Between(low, high);
        check(&hour, time("2026-01-31T01:30:00+01:00"), true);
        check(&hour, time("2026-01-31T00:30:00+01:00"), false);
        check(&hour, time("2026-01-31 00:30:00"), true);
    }

    #[test]
    fn text_functions() {
        check(&Predicate::StartsWith("ab".into()), "abc", true);
        check(&Predicate::StartsWith("ab".into()), "Abc", false);
        check(&Predicate::StartsWith("1".into()), 12_i64, false);
        check(&Predicate::EndsWith("bc".into()), "abc", true);
        check(&Predicate::EndsWith("ab".into()), "abc", false);
        check(&Predicate::Contains("b".into()), "abc", true);
        check(&Predicate::Contains("B".into()), "abc", false);
        check(&Predicate::Regex(Regex::new("b+$").unwrap()), "abb", true);
        check(&Predicate::Regex(Regex::new("b+$").unwrap()), "abc", false);
        check(&Predicate::Empty, "", true);
        check(&Predicate::Empty, " ", false);
        check(&Predicate::Empty, Value::Null, false);
        let any = |words: &[&str]| {
            Predicate::EqualsIgnoreCase(words.iter().map(|word| lower_case(word)).collect())
        };
        check(&any(&["Error"]), "ERROR", true);
        check(&any(&["Error"]), "ERRORS", false);
        check(&any(&["a", "ÄRGER"]), "ärger", true);
        check(&any(&["a", "ärger"]), "ÄRGER", true);
        check(&any(&["a", "b"]), "c", false);
        check(&any(&["k"]), "\u{212a}", true);
    }

    #[test]
    fn number_functions_take_numeric_text() {
        for value in [
            Value::Int(5),
            Value::Float(5.0),
            Value::from("5"),
            Value::from(" 5.0 "),
        ] {
            check(&Predicate::Greater(4.0), value.clone(), true);
            check(&Predicate::Greater(5.0), value.clone(), false);
            check(&Predicate::Less(6.0), value.clone(), true);
            check(&Predicate::Less(5.0), value.clone(), false);
            check(&Predicate::Near(5.0), value.clone(), true);
            check(&Predicate::Near(5.1), value.clone(), false);
            check(&Predicate::InRange(5.0, 6.0), value.clone(), true);
            check(&Predicate::InRange(5.5, 6.0), value, false);
        }
        check(&Predicate::Near(0.3), 0.1 + 0.2, true);
        check(&Predicate::Greater(0.0), "five", false);
        check(&Predicate::Greater(0.0), true, false);
        check(&Predicate::Less(1.0), f64::NAN, false);
    }
}
