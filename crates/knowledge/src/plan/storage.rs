//! How SQLite stores text in columns of declared types.

use rusqlite::types::ValueRef;

use super::conversion;
use super::key::Affinity;
use crate::bind::SqlValue;
use crate::index::Key;

/// How a column stores text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// As it is.
    Text,
    /// As an integer if it is one, as a real number if it is one, otherwise as it is.
    Numeric,
    /// As a real number if it is a number, otherwise as it is.
    Real,
}

impl Storage {
    /// The storage of a declared type in a table that is not strict.
    pub(crate) fn of_declared_type(declared: &str) -> Self {
        match Affinity::of_declared_type(declared, false) {
            Affinity::Text | Affinity::Blob => Self::Text,
            Affinity::Numeric => {
                let declared = declared.to_ascii_uppercase();
                let is_real = ["REAL", "FLOA", "DOUB"]
                    .iter()
                    .any(|it| declared.contains(it));
                match is_real && !declared.contains("INT") {
                    true => Self::Real,
                    false => Self::Numeric,
                }
            }
        }
    }

    /// A text as the column stores it; `None` if SQLite refuses it.
    #[inline]
    pub(crate) fn stored(self, text: &[u8]) -> Option<ValueRef<'_>> {
        if self == Self::Text {
            return Some(ValueRef::Text(text));
        }
        let number = match plain_number(text) {
            Some(number) => number,
            None => other_number(text)?,
        };
        Some(match (self, number) {
            (_, Number::None) => ValueRef::Text(text),
            (Self::Real, Number::Int(int)) => ValueRef::Real(int as f64),
            // SQLite stores whole numbers as integers, and makes them real again when it reads them, so
            // zero is never negative.
            (Self::Real, Number::Real(real)) => ValueRef::Real(real + 0.0),
            (_, Number::Int(int)) => ValueRef::Integer(int),
            (_, Number::Real(real)) => match Key::of_real(real) {
                // The least integer may be a rounded one.
                Key::Int(int) if int > i64::MIN => ValueRef::Integer(int),
                _ => ValueRef::Real(real),
            },
        })
    }
}

/// The number that a text is, if it is one.
enum Number {
    Int(i64),
    Real(f64),
    None,
}

/// The most digits of a decimal number that every conversion reads as the same real number.
const EXACT_DIGIT_COUNT_MAX: usize = 15;

/// A whole number of 64 bits, a decimal number of few digits, or text that begins as no number does.
#[inline]
fn plain_number(text: &[u8]) -> Option<Number> {
    match text.first() {
        Some(b'0'..=b'9' | b'+' | b'-') => {}
        Some(b'.' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ') => return None,
        _ => return Some(Number::None),
    }
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    match digits.split_once('.') {
        None if all_digits(digits) => text.parse().ok().map(Number::Int),
        Some((whole, fraction)) if all_digits(whole) && all_digits(fraction) => {
            let is_exact = whole.len() + fraction.len() <= EXACT_DIGIT_COUNT_MAX;
            let real = is_exact.then(|| text.parse().ok()).flatten();
            real.map(Number::Real)
        }
        _ => None,
    }
}

/// As SQLite converts it.
#[cold]
fn other_number(text: &[u8]) -> Option<Number> {
    let text = std::str::from_utf8(text).ok()?;
    Some(match conversion::number_of(text)? {
        SqlValue::Int(int) => Number::Int(int),
        SqlValue::Float(real) => Number::Real(real),
        _ => Number::None,
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use rusqlite::types::Value;

    use super::*;

    /// Texts of few characters, many of which are numbers or almost.
    fn text(random: &mut fastrand::Rng) -> String {
        let digits = |random: &mut fastrand::Rng, count: usize| -> String {
            (0..count).map(|_| random.digit(10)).collect()
        };
        let odd = [
            "",
            " ",
            "-",
            "+",
            ".",
            "e5",
            "E-3",
            "0x1",
            "\t",
            "é",
            "1e400",
            "inf",
            "nan",
            "-0.0",
            "_",
            "-9223372036854775808.0",
            "-9223372036854775809",
            "-9223372036854775808",
            "9223372036854775808",
        ];
        let count = random.usize(..20);
        match random.u8(..6) {
            0 => digits(random, count),
            1 => format!("-{}", digits(random, count)),
            2 => {
                let (whole, fraction) = (random.usize(..12), random.usize(..12));
                format!("{}.{}", digits(random, whole), digits(random, fraction))
            }
            3 => random.choice(odd).unwrap().to_owned(),
            4 => format!("{}{}", digits(random, 2), random.choice(odd).unwrap()),
            _ => format!("{}{}", random.choice(odd).unwrap(), digits(random, 3)),
        }
    }

    #[test]
    fn texts_are_stored_as_sqlite_stores_them() {
        let declared = [
            "integer",
            "real",
            "numeric",
            "text",
            "",
            "double int",
            "floating point",
        ];
        let connection = Connection::open_in_memory().unwrap();
        let columns: Vec<String> = (0..)
            .zip(declared)
            .map(|it| format!("c{} {}", it.0, it.1))
            .collect();
        connection
            .execute_batch(&format!("create table t ({})", columns.join(", ")))
            .unwrap();
        let places = vec!["?1"; declared.len()].join(", ");
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let text = text(&mut random);
            let sql = format!("insert into t values ({places}) returning *");
            let mut statement = connection.prepare_cached(&sql).unwrap();
            let stored = |row: &rusqlite::Row<'_>| {
                (0..declared.len())
                    .map(|index| row.get(index))
                    .collect::<rusqlite::Result<Vec<Value>>>()
            };
            // The values that `returning` shows are not yet those of a REAL column.
            statement.query_row([&text], |_| Ok(())).unwrap();
            let sql = "select * from t where rowid = last_insert_rowid()";
            let mut statement = connection.prepare_cached(sql).unwrap();
            let expected = statement.query_row([], stored).unwrap();
            for (declared, expected) in declared.into_iter().zip(expected) {
                let found = Storage::of_declared_type(declared)
                    .stored(text.as_bytes())
                    .unwrap();
                let found = Value::try_from(found).unwrap();
                // A negative zero equals zero.
                let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
                assert_eq!(found, expected, "{text:?} as {declared}, seed {seed}");
            }
        }
    }
}
