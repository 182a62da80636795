//! Arrays in both formats. Arrays of several dimensions are nested; lower bounds are left out.

use lookaside_value::Value;

use super::reader::Reader;
use super::table::Scalar;
use super::{binary, numeric, text};
use crate::types::field_error::FieldError;

/// `MAXDIM` of the server.
pub(super) const DIMENSION_COUNT_MAX: usize = 6;

/// Ten bytes of `numeric` can be 131,072 digits. An array of them may come to as much text.
const NUMERIC_TEXT_SIZE_MAX: usize = 64 << 20;

pub(super) fn decode_binary(
    scalar: Scalar,
    element_oid: u32,
    field: &[u8],
) -> Result<Value, FieldError> {
    if scalar == Scalar::Other {
        return Ok(Value::Bytes(field.into()));
    }
    let mut reader = Reader::new(field);
    let Ok(dimension_count) = usize::try_from(reader.i32()?) else {
        return Err(FieldError::at(0, "has a negative count of dimensions"));
    };
    if dimension_count > DIMENSION_COUNT_MAX {
        return Err(FieldError::at(0, "has more dimensions than an array can"));
    }
    let _has_nulls = reader.i32()?;
    let oid_at = reader.at();
    if reader.u32()? != element_oid {
        return Err(FieldError::at(oid_at, "has elements of another type"));
    }
    let mut lengths = [0; DIMENSION_COUNT_MAX];
    let mut element_count = usize::from(dimension_count > 0);
    for length in &mut lengths[..dimension_count] {
        let length_at = reader.at();
        *length = usize::try_from(reader.i32()?)
            .map_err(|_| FieldError::at(length_at, "has a negative length"))?;
        let _lower_bound = reader.i32()?;
        element_count = element_count.saturating_mul(*length);
    }
    // Each element has a length of four bytes at least, so that what is made of a field is never
    // much more than the field.
    if element_count > reader.left() / 4 {
        return Err(FieldError::at(field.len(), "ends early"));
    }
    let mut elements = Elements {
        scalar,
        reader,
        numeric_text_size: 0,
    };
    let value = if element_count == 0 {
        Value::from(Vec::<Value>::new())
    } else {
        elements.nested(&lengths[..dimension_count])?
    };
    elements.reader.end()?;
    Ok(value)
}

struct Elements<'a> {
    scalar: Scalar,
    reader: Reader<'a>,
    numeric_text_size: usize,
}

impl Elements<'_> {
    fn nested(&mut self, lengths: &[usize]) -> Result<Value, FieldError> {
        let (&length, inner) = lengths.split_first().expect("an array has a dimension");
        let mut values = Vec::with_capacity(length);
        for _ in 0..length {
            values.push(if inner.is_empty() {
                self.element()?
            } else {
                self.nested(inner)?
            });
        }
        Ok(Value::from(values))
    }

    fn element(&mut self) -> Result<Value, FieldError> {
        let at = self.reader.at();
        let size = self.reader.i32()?;
        if size == -1 {
            return Ok(Value::Null);
        }
        let size = usize::try_from(size).map_err(|_| FieldError::at(at, "has a negative size"))?;
        let at = self.reader.at();
        let field = self.reader.take(size)?;
        if self.scalar == Scalar::Numeric {
            self.numeric_text_size += numeric::text_size(field);
            if self.numeric_text_size > NUMERIC_TEXT_SIZE_MAX {
                return Err(FieldError::at(
                    at,
                    "is an array of more than 64 MiB of digits",
                ));
            }
        }
        binary::decode(self.scalar, field).map_err(|error| error.within(at))
    }
}

/// `{1,NULL,"a, b"}`, maybe with its bounds before it: `[0:1]={1,2}`.
pub(super) fn decode_text(scalar: Scalar, field: &[u8]) -> Result<Value, FieldError> {
    let begin = match field.first() {
        Some(b'[') => match field.iter().position(|&byte| byte == b'=') {
            Some(at) => at + 1,
            None => return Err(FieldError::at(field.len(), "ends early")),
        },
        _ => 0,
    };
    let mut literal = Literal { field, at: begin };
    let value = literal.array(scalar, 1)?;
    if literal.at < field.len() {
        return Err(FieldError::at(literal.at, "has bytes left over"));
    }
    Ok(value)
}

struct Literal<'a> {
    field: &'a [u8],
    at: usize,
}

impl Literal<'_> {
    fn peek(&self) -> Result<u8, FieldError> {
        let byte = self.field.get(self.at).copied();
        byte.ok_or(FieldError::at(self.at, "ends early"))
    }

    /// The array whose opening brace is here, `depth` of them with it.
    fn array(&mut self, scalar: Scalar, depth: usize) -> Result<Value, FieldError> {
        if self.peek()? != b'{' {
            return Err(FieldError::at(self.at, "is not an array"));
        }
        if depth > DIMENSION_COUNT_MAX {
            return Err(FieldError::at(
                self.at,
                "has more dimensions than an array can",
            ));
        }
        self.at += 1;
        let mut values = Vec::new();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(Value::from(values));
        }
        loop {
            values.push(match self.peek()? {
                b'{' => self.array(scalar, depth + 1)?,
                b'"' => self.quoted(scalar)?,
                _ => self.plain(scalar)?,
            });
            let end = self.peek()?;
            let end_at = self.at;
            self.at += 1;
            match end {
                b',' => {}
                b'}' => return Ok(Value::from(values)),
                _ => {
                    return Err(FieldError::at(
                        end_at,
                        "has neither a comma nor a brace here",
                    ));
                }
            }
        }
    }

    fn quoted(&mut self, scalar: Scalar) -> Result<Value, FieldError> {
        let begin = self.at;
        self.at += 1;
        let mut element = Vec::new();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    let decoded = text::decode(scalar, &element);
                    // Escapes move the bytes, so that the element's begin is what can be named.
                    return decoded
                        .map_err(|_| FieldError::at(begin, "is not an element of this type"));
                }
                b'\\' => {
                    self.at += 1;
                    element.push(self.peek()?);
                }
                byte => element.push(byte),
            }
            self.at += 1;
        }
    }

    fn plain(&mut self, scalar: Scalar) -> Result<Value, FieldError> {
        let begin = self.at;
        while !matches!(self.peek()?, b',' | b'}') {
            self.at += 1;
        }
        match &self.field[begin..self.at] {
            b"NULL" => Ok(Value::Null),
            b"" => Err(FieldError::at(begin, "has an empty element")),
            element => text::decode(scalar, element).map_err(|error| error.within(begin)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        for (field, expected) in [
            ("{}", "[]"),
            ("{1,NULL,-3}", "[1,null,-3]"),
            ("{{1,2},{3,4}}", "[[1,2],[3,4]]"),
            ("[0:1]={1,2}", "[1,2]"),
            ("[1:1][-2:-1]={{1,2}}", "[[1,2]]"),
        ] {
            let mut out = String::new();
            let value = decode_text(Scalar::Int4, field.as_bytes()).unwrap();
            value.write_json(&mut out);
            assert_eq!(out, expected);
        }
        let texts = decode_text(Scalar::Text, br#"{a b,"NULL","","a\"b\\,{}",NULL}"#).unwrap();
        let mut out = String::new();
        texts.write_json(&mut out);
        assert_eq!(out, r#"["a b","NULL","","a\"b\\,{}",null]"#);
    }

    #[test]
    fn other_literals_are_errors() {
        for (field, offset) in [
            ("", 0),
            ("1", 0),
            ("{", 1),
            ("{1", 2),
            ("{1,", 3),
            ("{1,}", 3),
            ("{1}x", 3),
            ("{x}", 1),
            ("{\"x\"}", 1),
            ("{\"1\"2}", 4),
            ("[0:1]", 5),
            ("{{{{{{{1}}}}}}}", 6),
        ] {
            let error = decode_text(Scalar::Int4, field.as_bytes()).unwrap_err();
            assert_eq!(error.offset, offset, "{field}");
        }
    }

    fn header(lengths: &[i32], oid: u32) -> Vec<u8> {
        let mut field = i32::try_from(lengths.len()).unwrap().to_be_bytes().to_vec();
        field.extend([0; 4]);
        field.extend(oid.to_be_bytes());
        for length in lengths {
            field.extend(length.to_be_bytes());
            field.extend(1_i32.to_be_bytes());
        }
        field
    }

    #[test]
    fn headers_that_promise_too_much_are_errors() {
        let int4 = |field: &[u8]| decode_binary(Scalar::Int4, 23, field);
        for (lengths, oid, offset) in [
            (&[1 << 30][..], 23, 20),
            (&[1 << 20, 1 << 20, 1 << 20, 1 << 20], 23, 44),
            (&[-1], 23, 12),
            (&[1], 25, 8),
            (&[1; 7], 23, 0),
        ] {
            let field = header(lengths, oid);
            assert_eq!(int4(&field).unwrap_err().offset, offset, "{lengths:?}");
        }
        assert_eq!(
            int4(&header(&[i32::MAX, 0], 23)),
            Ok(Value::from(Vec::<Value>::new()))
        );
        assert_eq!(int4(&header(&[], 23)), Ok(Value::from(Vec::<Value>::new())));
    }

    #[test]
    fn an_array_of_long_numerics_ends_at_its_limit() {
        // 1e131068, in ten bytes.
        let number = [0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1];
        let field = |count: i32| {
            let mut field = header(&[count], 1700);
            for _ in 0..count {
                field.extend(10_i32.to_be_bytes());
                field.extend(number);
            }
            field
        };
        assert!(decode_binary(Scalar::Numeric, 1700, &field(10)).is_ok());
        let error = decode_binary(Scalar::Numeric, 1700, &field(600)).unwrap_err();
        assert_eq!(error.offset, 20 + 511 * 14 + 4);
    }
}
