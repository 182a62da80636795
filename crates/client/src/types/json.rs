//! JSON text as values and back, every number exactly.

use std::fmt;

use lookaside_value::{Object, Text, Value, write_json_text};

/// Objects and arrays inside of each other beyond this stay text: freeing them recurses.
const DEPTH_MAX: usize = 64;

/// Bytes on the heap for each byte of a field, at most. The least text of which a value takes most is
/// an object of one member, `{"":…}`: five bytes for its counters and a node of the map, 592 bytes.
#[cfg(test)]
pub(super) const HEAP_PER_BYTE_MAX: usize = 128;

/// The value of a `json` or `jsonb` text.
///
/// Integers are integers, or decimals beyond 64 bits; other numbers are floats if a float has that
/// number's digits, else decimals; one with an exponent that no float holds is its own text. Of two
/// members with one name the later stays. What is nested deeper than 64, or has no UTF-8 form (half
/// of a surrogate pair, which `json` admits), stays text as a whole. So does a document that is
/// `null`, which is told from the NULL of SQL that way.
pub(super) fn decode(text: &str) -> Value {
    let mut parser = Parser {
        text,
        bytes: text.as_bytes(),
        at: 0,
    };
    match parser.document() {
        Some(Value::Null) => Value::from("null"),
        Some(value) => value,
        None => Value::from(text),
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Option<Value> {
        let value = self.value(0)?;
        self.blanks();
        (self.at == self.bytes.len()).then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        match *self.bytes.get(self.at)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Value::Text),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut object = Object::new();
        self.members(depth, b'}', |parser| {
            parser.blanks();
            let name = parser.string()?;
            parser.blanks();
            parser.byte(b':')?;
            object.insert(name, parser.value(depth + 1)?);
            Some(())
        })?;
        Some(Value::from(object))
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        let mut array = Vec::new();
        self.members(depth, b']', |parser| {
            array.push(parser.value(depth + 1)?);
            Some(())
        })?;
        Some(Value::from(array))
    }

    /// What stands between an opening character and `end`, parted by commas.
    fn members(
        &mut self,
        depth: usize,
        end: u8,
        mut member: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        if depth >= DEPTH_MAX {
            return None;
        }
        self.at += 1;
        self.blanks();
        if self.byte(end).is_some() {
            return Some(());
        }
        loop {
            member(self)?;
            self.blanks();
            if self.byte(b',').is_none() {
                return self.byte(end);
            }
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        found.then_some(value)
    }

    fn number(&mut self) -> Option<Value> {
        let begin = self.at;
        let _ = self.byte(b'-');
        let digit_at = self.at;
        let whole_count = self.digits();
        if whole_count == 0 || (whole_count > 1 && self.bytes[digit_at] == b'0') {
            return None;
        }
        let mut integer = true;
        if self.byte(b'.').is_some() {
            integer = false;
            (self.digits() > 0).then_some(())?;
        }
        let mantissa = &self.text[begin..self.at];
        if self.byte(b'e').or_else(|| self.byte(b'E')).is_some() {
            integer = false;
            let _ = self.byte(b'-').or_else(|| self.byte(b'+'));
            (self.digits() > 0).then_some(())?;
        }
        let text = &self.text[begin..self.at];
        Some(if integer {
            match text.parse() {
                Ok(int) => Value::Int(int),
                Err(_) => exact(text),
            }
        } else {
            fraction(text, mantissa)
        })
    }

    fn digits(&mut self) -> usize {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn string(&mut self) -> Option<Text> {
        self.byte(b'"')?;
        let begin = self.at;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    let text = Text::from(&self.text[begin..self.at]);
                    self.at += 1;
                    return Some(text);
                }
                b'\\' => return self.escaped_string(begin),
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    /// A string that begins at `begin` and has its first escape here.
    fn escaped_string(&mut self, begin: usize) -> Option<Text> {
        let mut out = self.text[begin..self.at].to_owned();
        let mut copied = self.at;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    out.push_str(&self.text[copied..self.at]);
                    self.at += 1;
                    return Some(Text::from(out));
                }
                b'\\' => {
                    out.push_str(&self.text[copied..self.at]);
                    self.at += 1;
                    out.push(self.escape()?);
                    copied = self.at;
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return None,
        })
    }

    fn code_point(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        self.byte(b'\\')?;
        self.byte(b'u')?;
        let second = self.hex4()?;
        let pair = (0xdc00..0xe000).contains(&second);
        pair.then(|| char::from_u32(0x1_0000 + (first - 0xd800) * 0x400 + (second - 0xdc00)))?
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |number, &digit| {
            Some(number * 16 + char::from(digit).to_digit(16)?)
        })
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }
}

/// A number with a point or an exponent.
fn fraction(text: &str, mantissa: &str) -> Value {
    let float: f64 = text.parse().expect("JSON's numbers are Rust's too");
    let shortest = if float.is_finite() {
        Digits::of(&format!("{float:e}"))
    } else {
        None
    };
    if shortest.is_some() && shortest == Digits::of(text) {
        Value::Float(float)
    } else if text.len() == mantissa.len() {
        exact(text)
    } else {
        Value::from(text)
    }
}

fn exact(text: &str) -> Value {
    Value::Decimal(text.parse().expect("digits and a point are a decimal"))
}

/// A number as its digits without zeros around them, and the power of ten of the last one.
#[derive(PartialEq)]
struct Digits {
    digits: String,
    power: i64,
}

impl Digits {
    fn of(number: &str) -> Option<Self> {
        let number = number.trim_start_matches('-');
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, point) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{point}");
        let trimmed = digits.trim_end_matches('0');
        // An exponent beyond 64 bits is one of no float, unless the number is zero all the same.
        let power: i64 = exponent.parse().ok()?;
        let trailing_count = digits.len() - trimmed.len();
        let significant = trimmed.trim_start_matches('0');
        Some(Self {
            digits: significant.to_owned(),
            power: if significant.is_empty() {
                0
            } else {
                power
                    .checked_sub(point.len() as i64)?
                    .checked_add(trailing_count as i64)?
            },
        })
    }
}

/// Appends the value as JSON; decimals are numbers, as they were when they came.
///
/// # Errors
/// When it holds a number that JSON has not: `NaN` or an infinity.
pub(super) fn write_json(value: &Value, out: &mut String) -> Result<(), fmt::Error> {
    let has_number = |text: &str| text.ends_with(|last: char| last.is_ascii_digit());
    match value {
        Value::Float(float) if !float.is_finite() => return Err(fmt::Error),
        Value::Decimal(decimal) if has_number(decimal.as_str()) => out.push_str(decimal.as_str()),
        Value::Decimal(_) => return Err(fmt::Error),
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write_json(value, out)?;
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (index, (name, value)) in object.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write_json_text(name, out);
                out.push(':');
                write_json(value, out)?;
            }
            out.push('}');
        }
        plain => plain.write_json(out),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Value {
        Value::Decimal(text.parse().unwrap())
    }

    #[test]
    fn numbers_are_exact() {
        for (text, expected) in [
            ("0", Value::Int(0)),
            ("-0", Value::Int(0)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("9223372036854775808", decimal("9223372036854775808")),
            ("1.5", Value::Float(1.5)),
            ("-0.0", Value::Float(-0.0)),
            ("0.10", Value::Float(0.1)),
            ("1e2", Value::Float(100.0)),
            ("1E+2", Value::Float(100.0)),
            ("5e-324", Value::Float(5e-324)),
            ("0.1234567890123456789", decimal("0.1234567890123456789")),
            ("9007199254740993.0", decimal("9007199254740993.0")),
            ("1e400", Value::from("1e400")),
            ("1e-400", Value::from("1e-400")),
            (
                "1e99999999999999999999",
                Value::from("1e99999999999999999999"),
            ),
            ("1.7976931348623157e308", Value::Float(f64::MAX)),
        ] {
            assert_eq!(decode(text), expected, "{text}");
        }
    }

    #[test]
    fn a_null_of_json_is_not_one_of_sql() {
        for text in ["null", " null\n"] {
            assert_eq!(decode(text), Value::from("null"));
        }
        assert_eq!(decode("[null]"), Value::from(vec![Value::Null]));
    }

    #[test]
    fn trees() {
        let text =
            r#" { "b" : [1, null, true , {}], "a":"\u00e4\n\ud83d\ude00\\", "a2":[], "b":2 } "#;
        let mut out = String::new();
        decode(text).write_json(&mut out);
        assert_eq!(out, r#"{"a":"ä\n😀\\","a2":[],"b":2}"#);
    }

    #[test]
    fn what_is_no_tree_of_ours_stays_text() {
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        for text in [
            r#""\ud800""#,
            r#""\ud800\u0041""#,
            r#"{"a":1"#,
            r#"{"a" 1}"#,
            "[1,]",
            "01",
            "1.",
            ".5",
            "1e",
            "tru",
            "nul",
            "",
            "\"\n\"",
            "1 2",
            r#""\u12"#,
            r#""\x""#,
            &deep,
        ] {
            assert_eq!(decode(text), Value::from(text), "{text}");
        }
        let shallow = format!("{}{}", "[".repeat(64), "]".repeat(64));
        assert!(matches!(decode(&shallow), Value::Array(_)));
    }
}
