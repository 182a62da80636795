//! SQLite's comparison rules.
//!
//! A column has an affinity, a parameter has none. When both are compared, the column's affinity is
//! applied to the parameter: a numeric one turns text that looks like a number into that number, a
//! text one turns numbers into text. After that, numbers compare by value whatever their type, text
//! and blobs by their bytes, and values of different classes are never equal.
//!
//! How a text becomes a number and how a real number is written is left to SQLite
//! ([`super::conversion`]), except for plain integers.

use super::conversion;
use super::operand::Scratch;
use crate::bind::SqlValue;
use crate::index::Key;

/// How a column converts the values it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Affinity {
    /// INTEGER, NUMERIC and REAL, which differ only in what they store: a comparison rounds no
    /// integer to a real number.
    Numeric,
    Text,
    /// BLOB, or none.
    Blob,
}

impl Affinity {
    /// The affinity of a declared type: the rules of <https://sqlite.org/datatype3.html#determination_of_column_affinity>,
    /// and those of STRICT tables, where ANY converts nothing.
    pub(super) fn of_declared_type(declared: &str, is_strict: bool) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
        if is_strict && declared == "ANY" {
            Self::Blob
        } else if has(&["INT"]) {
            Self::Numeric
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Self::Text
        } else if has(&["BLOB"]) || declared.is_empty() {
            Self::Blob
        } else {
            Self::Numeric
        }
    }
}

/// A parameter after the column's affinity was applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Converted<'a> {
    Key(Key<'a>),
    /// NULL, which compares with nothing.
    Null,
    /// SQLite refuses the operand.
    Refused,
}

/// Applies the affinity of a column to a value that has none.
pub(super) fn convert<'a>(
    value: SqlValue<'a>,
    affinity: Affinity,
    scratch: &'a mut Scratch,
) -> Converted<'a> {
    if let Some(converted) = convert_plain(value, affinity) {
        return converted;
    }
    match (value, affinity) {
        (SqlValue::Int(int), _) => {
            let text = scratch.text();
            text.push_str(itoa::Buffer::new().format(int));
            Converted::Key(Key::Text(text.as_bytes()))
        }
        (SqlValue::Text(text), _) => match conversion::number_of(text) {
            Some(SqlValue::Int(int)) => Converted::Key(Key::Int(int)),
            Some(SqlValue::Float(float)) => Converted::Key(Key::of_real(float)),
            Some(_) => Converted::Key(Key::Text(text.as_bytes())),
            None => Converted::Refused,
        },
        (SqlValue::Float(float), _) => {
            let text = scratch.text();
            match conversion::write_real(float, text) {
                Some(()) => Converted::Key(Key::Text(text.as_bytes())),
                None => Converted::Refused,
            }
        }
        (SqlValue::Null | SqlValue::Blob(_), _) => unreachable!("they are not converted"),
    }
}

/// As [`convert`], or `None` if the result needs a buffer or SQLite.
#[inline]
pub(super) fn convert_plain<'a>(value: SqlValue<'a>, affinity: Affinity) -> Option<Converted<'a>> {
    Some(match (value, affinity) {
        (SqlValue::Int(_) | SqlValue::Float(_), Affinity::Text) => return None,
        (SqlValue::Null, _) => Converted::Null,
        (SqlValue::Blob(bytes), _) => Converted::Key(Key::Blob(bytes)),
        (SqlValue::Int(int), _) => Converted::Key(Key::Int(int)),
        (SqlValue::Float(float), _) => Converted::Key(Key::of_real(float)),
        (SqlValue::Text(text), Affinity::Text | Affinity::Blob) => {
            Converted::Key(Key::Text(text.as_bytes()))
        }
        (SqlValue::Text(text), Affinity::Numeric) => Converted::Key(plain_number_of(text)?),
    })
}

/// Text that is compared with a numeric column: an integer becomes one, text that no number begins
/// like stays text, the rest needs a closer look (` 1`, `1.0`, `1e3`, `10.0.0.1`, …).
fn plain_number_of(text: &str) -> Option<Key<'_>> {
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'0'..=b'9' | b'+' | b'-' | b'.' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ') => {
            text.parse().ok().map(Key::Int)
        }
        _ => Some(Key::Text(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: SqlValue<'_>, affinity: Affinity, expected: Converted<'_>) {
        let mut scratch = Scratch::new();
        let converted = convert(value, affinity, &mut scratch);
        assert_eq!(converted, expected, "{value:?} {affinity:?}");
    }

    #[test]
    fn parameters_take_the_affinity_of_the_column() {
        let int = |int| Converted::Key(Key::Int(int));
        fn text(text: &str) -> Converted<'_> {
            Converted::Key(Key::Text(text.as_bytes()))
        }
        let numeric = Affinity::Numeric;
        check(SqlValue::Int(7), numeric, int(7));
        check(SqlValue::Text("7"), numeric, int(7));
        check(SqlValue::Text("-7"), numeric, int(-7));
        check(SqlValue::Text("0"), numeric, int(0));
        check(SqlValue::Text("x7"), numeric, text("x7"));
        check(SqlValue::Text(""), numeric, text(""));
        for (number, expected) in [
            ("-0", 0),
            ("07", 7),
            ("+07", 7),
            ("0000000000000000000000000000007", 7),
            (" 7", 7),
            ("7\t\n\u{b}\u{c}\r ", 7),
            ("+7", 7),
            ("7.0", 7),
            ("7.", 7),
            ("70e-1", 7),
            ("0.7E+1", 7),
            ("7\0", 7),
            ("7\0x", 7),
            ("1e3", 1000),
            ("-9007199254740992", -(1 << 53)),
            ("0009007199254740991", (1 << 53) - 1),
            ("9007199254740993.0", 1 << 53),
        ] {
            check(SqlValue::Text(number), numeric, int(expected));
        }
        for word in [
            "-", "0x10", "+ 7", "7 7", "1.2.3.4", "7e", "7e+", ".", "1_000", "\u{a0}7",
        ] {
            check(SqlValue::Text(word), numeric, text(word));
        }
        for (number, expected) in [
            (".5", 0.5),
            ("-1.5e-1", -0.15),
            ("9223372036854775808", 9_223_372_036_854_775_808.0),
            ("1e999", f64::INFINITY),
            ("-1e999", f64::NEG_INFINITY),
        ] {
            let expected = Converted::Key(Key::Real(expected.to_bits()));
            check(SqlValue::Text(number), numeric, expected);
        }
        check(SqlValue::Float(-0.0), numeric, int(0));
        let infinity = Converted::Key(Key::Real(f64::INFINITY.to_bits()));
        check(SqlValue::Float(f64::INFINITY), numeric, infinity);
        check(
            SqlValue::Float(1e18),
            numeric,
            int(1_000_000_000_000_000_000),
        );
        for (integer, expected) in [
            ("9007199254740993", (1 << 53) + 1),
            (" 9007199254740993", (1 << 53) + 1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("+9223372036854775807 ", i64::MAX),
            ("+9223372036854775807", i64::MAX),
            ("-0009223372036854775808", i64::MIN),
        ] {
            check(SqlValue::Text(integer), numeric, int(expected));
        }
        for (float, written) in [
            (7.0, "7.0"),
            (-0.0, "0.0"),
            (0.1, "0.1"),
            (49.47, "49.47"),
            (1e15, "1000000000000000.0"),
            (1e17, "1.0e+17"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (f64::INFINITY, "Inf"),
        ] {
            check(SqlValue::Float(float), Affinity::Text, text(written));
        }
        check(SqlValue::Int(-7), Affinity::Text, text("-7"));
        check(SqlValue::Text("7"), Affinity::Blob, text("7"));
        check(SqlValue::Int(7), Affinity::Blob, int(7));
        check(SqlValue::Null, Affinity::Blob, Converted::Null);
        let half = Converted::Key(Key::Real(0.5_f64.to_bits()));
        check(SqlValue::Float(0.5), Affinity::Blob, half);
    }

    #[test]
    fn declared_types() {
        for (declared, expected) in [
            ("INTEGER", Affinity::Numeric),
            ("bigint", Affinity::Numeric),
            ("CHARINT", Affinity::Numeric),
            ("VARCHAR(255)", Affinity::Text),
            ("text", Affinity::Text),
            ("blobtext", Affinity::Text),
            ("BLOB", Affinity::Blob),
            ("real blob", Affinity::Blob),
            ("", Affinity::Blob),
            ("DOUBLE PRECISION", Affinity::Numeric),
            ("FLOATING POINT", Affinity::Numeric),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("ANY", Affinity::Numeric),
            ("STRING", Affinity::Numeric),
        ] {
            assert_eq!(
                Affinity::of_declared_type(declared, false),
                expected,
                "{declared}"
            );
        }
        assert_eq!(Affinity::of_declared_type("ANY", true), Affinity::Blob);
    }
}
