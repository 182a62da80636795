//! `numeric`: base 10,000 digits to decimal text, exactly.

use lookaside_value::{Decimal, Value};

use super::reader::Reader;
use crate::types::field_error::FieldError;

const DIGIT_SIZE: usize = 4;
const SIGN_POSITIVE: u16 = 0x0000;
const SIGN_NEGATIVE: u16 = 0x4000;
const SIGN_NAN: u16 = 0xc000;
const SIGN_INFINITY: u16 = 0xd000;
const SIGN_NEGATIVE_INFINITY: u16 = 0xf000;
/// `NUMERIC_DSCALE_MASK` of the server's `numeric.c`.
const SCALE_MAX: u16 = 0x3fff;

/// `1e131071` is ten bytes on the wire and 131,072 digits of text: this is what one number can
/// come to, sign, point and a zero before the point included.
#[cfg(test)]
pub(super) const TEXT_SIZE_MAX: usize =
    (i16::MAX as usize + 1) * DIGIT_SIZE + SCALE_MAX as usize + 3;

/// A number's parts, checked.
struct Numeric<'a> {
    sign: u16,
    /// The power of 10,000 that the first digit counts.
    weight: i16,
    /// Digits after the point.
    scale: u16,
    /// Pairs of bytes, each 0 to 9999.
    digits: &'a [u8],
}

impl<'a> Numeric<'a> {
    fn parse(field: &'a [u8]) -> Result<Self, FieldError> {
        let mut reader = Reader::new(field);
        // Unsigned: the largest number has 36,864 digits.
        let digit_count = usize::from(reader.u16()?);
        let weight = reader.i16()?;
        let sign = reader.u16()?;
        let scale = reader.u16()?;
        if scale > SCALE_MAX {
            return Err(FieldError::at(6, "has a scale that is out of range"));
        }
        let digits_at = reader.at();
        let digits = reader.take(digit_count * 2)?;
        reader.end()?;
        if let Some(index) = digits.chunks_exact(2).position(|pair| digit(pair) > 9999) {
            return Err(FieldError::at(
                digits_at + 2 * index,
                "has a digit beyond 9999",
            ));
        }
        Ok(Self {
            sign,
            weight,
            scale,
            digits,
        })
    }

    /// How many base 10,000 digits stand before the point; at least one, which may be a zero.
    fn whole_count(&self) -> usize {
        usize::try_from(i32::from(self.weight) + 1).map_or(1, |count| count.max(1))
    }

    /// As much text as the number can take.
    fn text_size(&self) -> usize {
        self.whole_count() * DIGIT_SIZE + usize::from(self.scale) + 2
    }

    /// The digit that counts this power of 10,000.
    fn digit_at(&self, power: i32) -> u16 {
        let index = usize::try_from(i32::from(self.weight) - power).unwrap_or(usize::MAX);
        self.digits.chunks_exact(2).nth(index).map_or(0, digit)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.sign == SIGN_NEGATIVE {
            out.push(b'-');
        }
        // Leading zeros go when the text becomes canonical.
        for power in (0..self.whole_count()).rev() {
            let power = i32::try_from(power).expect("a weight has 16 bits");
            push_digit(self.digit_at(power), DIGIT_SIZE, out);
        }
        if self.scale > 0 {
            out.push(b'.');
        }
        let (mut left, mut power) = (usize::from(self.scale), -1);
        while left > 0 {
            let size = left.min(DIGIT_SIZE);
            push_digit(self.digit_at(power), size, out);
            left -= size;
            power -= 1;
        }
    }
}

fn digit(pair: &[u8]) -> u16 {
    u16::from_be_bytes([pair[0], pair[1]])
}

/// The first `size` of a digit's four decimal ones.
fn push_digit(digit: u16, size: usize, out: &mut Vec<u8>) {
    let places = [digit / 1000, digit / 100 % 10, digit / 10 % 10, digit % 10];
    out.extend(places[..size].iter().map(|&place| b'0' + place as u8));
}

pub(super) fn decode(field: &[u8]) -> Result<Value, FieldError> {
    let numeric = Numeric::parse(field)?;
    let decimal = |text: &str| {
        let decimal: Decimal = text.parse().expect("digits and a point are a decimal");
        Ok(Value::Decimal(decimal))
    };
    match numeric.sign {
        SIGN_POSITIVE | SIGN_NEGATIVE => {
            let mut text = Vec::with_capacity(numeric.text_size());
            numeric.write(&mut text);
            decimal(str::from_utf8(&text).expect("digits are ASCII"))
        }
        SIGN_NAN => decimal("NaN"),
        SIGN_INFINITY => decimal("Infinity"),
        SIGN_NEGATIVE_INFINITY => decimal("-Infinity"),
        _ => Err(FieldError::at(4, "has an unknown sign")),
    }
}

/// How much text a number comes to, 0 for one that does not decode.
pub(super) fn text_size(field: &[u8]) -> usize {
    Numeric::parse(field).map_or(0, |numeric| numeric.text_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(weight: i16, sign: u16, scale: u16, digits: &[u16]) -> Vec<u8> {
        let mut field = Vec::new();
        field.extend(u16::try_from(digits.len()).unwrap().to_be_bytes());
        field.extend(weight.to_be_bytes());
        field.extend(sign.to_be_bytes());
        field.extend(scale.to_be_bytes());
        field.extend(digits.iter().flat_map(|digit| digit.to_be_bytes()));
        field
    }

    #[test]
    fn numbers() {
        for (weight, sign, scale, digits, expected) in [
            (0, 0, 0, &[][..], "0"),
            (0, 0, 3, &[], "0.000"),
            (0, 0, 0, &[42], "42"),
            (0, SIGN_NEGATIVE, 2, &[12, 5000], "-12.50"),
            (1, 0, 0, &[1], "10000"),
            (1, 0, 0, &[1, 2], "10002"),
            (-1, 0, 4, &[1], "0.0001"),
            (-2, 0, 8, &[1], "0.00000001"),
            (-2, 0, 5, &[9000], "0.00009"),
            (2, 0, 1, &[1, 0, 9999, 9000], "100009999.9"),
            (-1, 0, 0, &[5000], "0"),
            (0, SIGN_NAN, 0, &[], "NaN"),
            (0, SIGN_INFINITY, 0, &[], "Infinity"),
            (0, SIGN_NEGATIVE_INFINITY, 0, &[], "-Infinity"),
        ] {
            let value = decode(&field(weight, sign, scale, digits)).unwrap();
            assert_eq!(
                value,
                Value::Decimal(expected.parse().unwrap()),
                "{expected}"
            );
        }
    }

    #[test]
    fn the_largest_number_is_exact() {
        let field = field(i16::MAX, 0, SCALE_MAX, &[1]);
        let value = decode(&field).unwrap().to_text();
        assert_eq!(value.len(), 131_069 + 1 + 16_383);
        assert!(text_size(&field) <= TEXT_SIZE_MAX);
    }

    /// More digits than a signed count could represent.
    #[test]
    fn the_longest_number_is_exact() {
        let field = field(i16::MAX, 0, SCALE_MAX, &[9999; 32_768 + 4096]);
        let expected = format!("{}.{}", "9".repeat(131_072), "9".repeat(16_383));
        assert_eq!(decode(&field).unwrap().to_text(), expected.as_str());
    }

    #[test]
    fn other_fields_are_errors() {
        for (field, offset) in [
            (vec![], 0),
            (vec![0, 1, 0, 0, 0, 0, 0, 0], 8),
            (vec![0xff, 0xff, 0, 0, 0, 0, 0, 0], 8),
            (field(0, 1, 0, &[1]), 4),
            (field(0, 0, 0x4000, &[1]), 6),
            (field(0, 0, 0, &[1, 10_000]), 10),
            ([field(0, 0, 0, &[1]), vec![0]].concat(), 10),
        ] {
            assert_eq!(decode(&field).unwrap_err().offset, offset, "{field:?}");
        }
    }
}
