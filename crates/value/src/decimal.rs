//! Exact decimal numbers of any length, stored as their canonical text.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// An exact decimal number, or `NaN`, `Infinity`, `-Infinity` as PostgreSQL's `numeric` has them.
///
/// It is passed on, compared and printed; there is no arithmetic. The text is canonical: no plus
/// sign, no leading zeros, no exponent; trailing zeros of the fraction stay, because the scale of a
/// `numeric(10,2)` is part of the database's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal(Arc<str>);

/// Text that is not a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecimalError;

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a decimal number")
    }
}

impl Error for DecimalError {}

impl Decimal {
    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a number: not `NaN`, `Infinity` or `-Infinity`.
    pub fn is_finite(&self) -> bool {
        self.0.bytes().any(|byte| byte.is_ascii_digit())
    }
}

impl From<u128> for Decimal {
    fn from(number: u128) -> Self {
        Self(number.to_string().into())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    /// Accepts an optional sign, digits with an optional point, `NaN` and the two infinities.
    /// Exponents are refused: `1e1000000000` is eleven bytes of text and a gigabyte of digits.
    fn from_str(text: &str) -> Result<Self, DecimalError> {
        if matches!(text, "NaN" | "Infinity" | "-Infinity") {
            return Ok(Self(text.into()));
        }
        let (negative, digits) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = match digits.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (digits, None),
        };
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let digit_count = whole.len() + fraction.map_or(0, str::len);
        if digit_count == 0 || !all_digits(whole) || !fraction.is_none_or(all_digits) {
            return Err(DecimalError);
        }
        let whole = whole.trim_start_matches('0');
        let zero = whole.is_empty() && fraction.is_none_or(|f| f.bytes().all(|byte| byte == b'0'));
        let mut canonical = String::with_capacity(text.len() + 1);
        if negative && !zero {
            canonical.push('-');
        }
        canonical.push_str(if whole.is_empty() { "0" } else { whole });
        if let Some(fraction) = fraction.filter(|fraction| !fraction.is_empty()) {
            canonical.push('.');
            canonical.push_str(fraction);
        }
        Ok(Self(canonical.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_canonical() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("+007", "7"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-12.3400", "-12.3400"),
            ("NaN", "NaN"),
            ("-Infinity", "-Infinity"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
        ] {
            assert_eq!(
                text.parse::<Decimal>().map(|d| d.to_string()),
                Ok(expected.to_string())
            );
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "-", ".", "1e5", "0x1", " 1", "1 ", "1.2.3", "nan", "٣"] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError), "{text:?}");
        }
    }
}
