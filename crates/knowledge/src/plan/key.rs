//! SQLite's comparison rules, as far as they are certain.
//!
//! A column has an affinity, a parameter has none. When both are compared, the column's affinity is
//! applied to the parameter: a numeric one turns text that looks like a number into that number, a
//! text one turns numbers into text. After that, numbers compare by value whatever their type, text
//! and blobs by their bytes, and values of different classes are never equal.
//!
//! Whether a text looks like a number, how a real number is written and what happens at the edge of
//! 64 bits partly depends on which index SQLite happens to use. Such a parameter is
//! [`Converted::Doubtful`], and SQLite answers.

use rusqlite::types::ValueRef;

use super::operand::Scratch;
use crate::bind::SqlValue;
use crate::index::Key;

/// How a column converts the values it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Affinity {
    /// INTEGER and NUMERIC, which differ only in casts.
    Numeric,
    Real,
    Text,
    /// BLOB, or none.
    Blob,
}

impl Affinity {
    /// The affinity of a declared type: the rules of <https://sqlite.org/datatype3.html#determination_of_column_affinity>,
    /// and those of STRICT tables, where ANY converts nothing.
    pub(crate) fn of_declared_type(declared: &str, is_strict: bool) -> Self {
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
        } else if has(&["REAL", "FLOA", "DOUB"]) {
            Self::Real
        } else {
            Self::Numeric
        }
    }

    /// How a column stores a text; `None` if SQLite must tell.
    #[inline]
    pub(crate) fn stored(self, text: &[u8]) -> Option<ValueRef<'_>> {
        match self {
            Self::Text | Self::Blob => Some(ValueRef::Text(text)),
            Self::Numeric | Self::Real => match text.first() {
                Some(b'0'..=b'9' | b'+' | b'-') => {
                    let number = plain_number(text)?;
                    Some(match (self, number) {
                        (Self::Real, Number::Int(int)) => ValueRef::Real(int as f64),
                        // SQLite stores whole numbers as integers, and adds the point when it reads a
                        // REAL, so that there is no negative zero.
                        (Self::Real, Number::Real(real)) => ValueRef::Real(real + 0.0),
                        (_, Number::Int(int)) => ValueRef::Integer(int),
                        (_, Number::Real(real)) => match real_key(real) {
                            Key::Int(int) => ValueRef::Integer(int),
                            _ => ValueRef::Real(real),
                        },
                    })
                }
                Some(b'.' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ') => None,
                _ => Some(ValueRef::Text(text)),
            },
        }
    }
}

impl<'a> Key<'a> {
    /// The key that equals a stored value; `None` for NULL, which equals nothing.
    #[inline]
    pub(super) fn of(value: ValueRef<'a>) -> Option<Self> {
        Some(match value {
            ValueRef::Null => return None,
            ValueRef::Integer(int) => Self::Int(int),
            ValueRef::Real(float) => real_key(float),
            ValueRef::Text(bytes) => Self::Text(bytes),
            ValueRef::Blob(bytes) => Self::Blob(bytes),
        })
    }
}

/// A number in decimal digits.
enum Number {
    Int(i64),
    Real(f64),
}

/// The most digits of a decimal number that every conversion reads as the same real number.
const EXACT_DIGIT_COUNT_MAX: usize = 15;

/// A whole number of 64 bits, or a decimal number of few digits.
#[inline]
fn plain_number(text: &[u8]) -> Option<Number> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    match digits.split_once('.') {
        None if all_digits(digits) => text.parse().ok().map(Number::Int),
        Some((whole, fraction)) if all_digits(whole) && all_digits(fraction) => {
            let is_exact = whole.len() + fraction.len() <= EXACT_DIGIT_COUNT_MAX;
            is_exact
                .then(|| text.parse().ok())
                .flatten()
                .map(Number::Real)
        }
        _ => None,
    }
}

/// A parameter after the column's affinity was applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Converted<'a> {
    Key(Key<'a>),
    /// NULL, which compares with nothing.
    Null,
    /// The result depends on SQLite's internals; SQLite answers.
    Doubtful,
}

/// Integers up to this value are exact as real numbers, and whole real numbers below are exact as
/// integers.
const EXACT_MAX: u64 = 1 << 53;

/// The number of decimal digits that always fit in an `i64`.
const DIGIT_COUNT_MAX: usize = 18;

/// Applies the affinity of a column to a value that has none.
pub(super) fn convert<'a>(
    value: SqlValue<'a>,
    affinity: Affinity,
    scratch: &'a mut Scratch,
) -> Converted<'a> {
    match (value, affinity) {
        (SqlValue::Int(int), Affinity::Text) => {
            let text = scratch.text();
            text.push_str(itoa::Buffer::new().format(int));
            Converted::Key(Key::Text(text.as_bytes()))
        }
        _ => convert_plain(value, affinity).expect("only integers become text"),
    }
}

/// As [`convert`], or `None` if the result needs a buffer.
#[inline]
pub(super) fn convert_plain<'a>(value: SqlValue<'a>, affinity: Affinity) -> Option<Converted<'a>> {
    Some(match (value, affinity) {
        (SqlValue::Int(_), Affinity::Text) => return None,
        (SqlValue::Null, _) => Converted::Null,
        (SqlValue::Blob(bytes), _) => Converted::Key(Key::Blob(bytes)),
        (SqlValue::Float(_), Affinity::Text) => Converted::Doubtful,
        // An index on the column would round the integer before it compares, a scan would not.
        (SqlValue::Int(int), Affinity::Real) if int.unsigned_abs() > EXACT_MAX => {
            Converted::Doubtful
        }
        (SqlValue::Int(int), _) => Converted::Key(Key::Int(int)),
        (SqlValue::Float(float), _) if float.abs() >= EXACT_MAX as f64 => Converted::Doubtful,
        (SqlValue::Float(float), _) => Converted::Key(real_key(float)),
        (SqlValue::Text(text), Affinity::Text | Affinity::Blob) => {
            Converted::Key(Key::Text(text.as_bytes()))
        }
        (SqlValue::Text(text), Affinity::Numeric) => numeric_text(text),
        (SqlValue::Text(text), Affinity::Real) => match numeric_text(text) {
            Converted::Key(Key::Int(int)) if int.unsigned_abs() > EXACT_MAX => Converted::Doubtful,
            converted => converted,
        },
    })
}

/// Text that is compared with a numeric column: a plain integer becomes one, text that no number
/// begins like stays text, the rest is doubtful (` 1`, `1.0`, `01`, `1e3`, `10.0.0.1`, …).
fn numeric_text(text: &str) -> Converted<'_> {
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'0'..=b'9' | b'+' | b'-' | b'.' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ') => {
            let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
            let is_plain = digits.len() <= DIGIT_COUNT_MAX
                && digits.iter().all(u8::is_ascii_digit)
                && (bytes == b"0" || digits.first().is_some_and(|first| *first != b'0'));
            match text.parse() {
                Ok(int) if is_plain => Converted::Key(Key::Int(int)),
                _ => Converted::Doubtful,
            }
        }
        _ => Converted::Key(Key::Text(bytes)),
    }
}

/// The key of a real number: whole ones equal integers.
pub(super) fn real_key<'a>(float: f64) -> Key<'a> {
    const INT_END: f64 = 9_223_372_036_854_775_808.0;
    if float.fract() == 0.0 && (-INT_END..INT_END).contains(&float) {
        // In range and whole, so the cast is exact; it makes -0.0 the same as 0.
        Key::Int(float as i64)
    } else {
        Key::Real(float.to_bits())
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
        for numeric in [Affinity::Numeric, Affinity::Real] {
            check(SqlValue::Int(7), numeric, int(7));
            check(SqlValue::Text("7"), numeric, int(7));
            check(SqlValue::Text("-7"), numeric, int(-7));
            check(SqlValue::Text("0"), numeric, int(0));
            check(SqlValue::Text("x7"), numeric, text("x7"));
            check(SqlValue::Text(""), numeric, text(""));
            for doubtful in [
                "-0", "07", " 7", "7 ", "+7", "7.0", "7e0", ".7", "-", "1.2.3.4",
            ] {
                check(SqlValue::Text(doubtful), numeric, Converted::Doubtful);
            }
            check(
                SqlValue::Text("9223372036854775807"),
                numeric,
                Converted::Doubtful,
            );
            check(SqlValue::Float(-0.0), numeric, int(0));
            check(SqlValue::Float(f64::INFINITY), numeric, Converted::Doubtful);
        }
        let huge = (1 << 53) + 1;
        check(SqlValue::Int(huge), Affinity::Numeric, int(huge));
        check(SqlValue::Int(huge), Affinity::Real, Converted::Doubtful);
        check(SqlValue::Int(i64::MIN), Affinity::Real, Converted::Doubtful);
        check(SqlValue::Int(-7), Affinity::Text, text("-7"));
        check(SqlValue::Float(7.0), Affinity::Text, Converted::Doubtful);
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
            ("DOUBLE PRECISION", Affinity::Real),
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
