//! Values as JSON text.

use crate::Value;
use crate::value::{write_hex, write_ip};

impl Value {
    /// Appends the value as JSON.
    ///
    /// Floats keep their point (`600.0`); `NaN` and the infinities become `null`; decimals, times,
    /// addresses, networks, UUIDs and bytes (`0x…`) are strings, because JSON numbers lose digits in
    /// most readers; null and ignored values are `null`.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Self::Null | Self::Ignore => out.push_str("null"),
            Self::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
            Self::Int(int) => out.push_str(itoa::Buffer::new().format(*int)),
            Self::Float(float) if float.is_finite() => {
                out.push_str(ryu::Buffer::new().format_finite(*float));
            }
            Self::Float(_) => out.push_str("null"),
            Self::Text(text) => write_json_text(text, out),
            Self::Symbol(text) => write_json_text(text, out),
            Self::Object(object) => {
                out.push('{');
                for (index, (name, value)) in object.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_json_text(name, out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
            Self::Array(array) => {
                out.push('[');
                for (index, value) in array.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    value.write_json(out);
                }
                out.push(']');
            }
            plain => {
                // None of these texts holds a character that JSON escapes.
                out.push('"');
                match plain {
                    Self::Decimal(decimal) => out.push_str(decimal.as_str()),
                    Self::Time(time) => time.write(out),
                    Self::Ip(ip) => write_ip(*ip, out),
                    Self::Bytes(bytes) => write_hex(bytes, out),
                    other => other.write_raw(out),
                }
                out.push('"');
            }
        }
    }
}

/// Appends text as a JSON string with its quotes.
pub fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    loop {
        at = match find_escape(bytes, at) {
            None => break,
            Some(at) => at,
        };
        // Escaped characters are ASCII, so both cuts are character boundaries.
        out.push_str(&text[copied..at]);
        write_escape(bytes[at], out);
        at += 1;
        copied = at;
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

/// The first byte from `from` on that JSON requires to be escaped: a control character, `"` or `\`.
///
/// Eight bytes a step: log text is almost free of escapes, and this loop sees every byte of output.
fn find_escape(bytes: &[u8], from: usize) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_bytes = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let mut chunks = bytes[from..].chunks_exact(8);
    for (index, chunk) in chunks.by_ref().enumerate() {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        let control = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
        let quote = zero_bytes(word ^ (LOW * u64::from(b'"')));
        let backslash = zero_bytes(word ^ (LOW * u64::from(b'\\')));
        let found = control | quote | backslash;
        if found != 0 {
            // A borrow can mark bytes above the first match, never below it.
            return Some(from + index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let rest = chunks.remainder();
    let offset = bytes.len() - rest.len();
    rest.iter()
        .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
        .map(|index| offset + index)
}

fn write_escape(byte: u8, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        0x08 => out.push_str("\\b"),
        0x0c => out.push_str("\\f"),
        _ => {
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)] as char);
            out.push(HEX[usize::from(byte & 15)] as char);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Object, Text};

    fn json(value: impl Into<Value>) -> String {
        let mut out = String::new();
        value.into().write_json(&mut out);
        out
    }

    #[test]
    fn values_as_json() {
        for (value, expected) in [
            (Value::Null, "null"),
            (Value::Ignore, "null"),
            (Value::Bool(true), "true"),
            (Value::Int(i64::MIN), "-9223372036854775808"),
            (Value::Float(600.0), "600.0"),
            (Value::Float(0.1), "0.1"),
            (Value::Float(f64::NAN), "null"),
            (Value::Float(f64::NEG_INFINITY), "null"),
            (Value::Decimal("12.50".parse().unwrap()), "\"12.50\""),
            (Value::Ip("10.0.0.1".parse().unwrap()), "\"10.0.0.1\""),
            (Value::Ip("::1".parse().unwrap()), "\"::1\""),
            (Value::Net("10.0.0.0/8".parse().unwrap()), "\"10.0.0.0/8\""),
            (Value::from(vec![0_u8, 255]), "\"0x00ff\""),
            (
                Value::from(vec![Value::Int(1), Value::from("a")]),
                "[1,\"a\"]",
            ),
        ] {
            assert_eq!(json(value), expected);
        }
        let object: Object = [("b", Value::Int(2)), ("a", Value::Null)]
            .into_iter()
            .map(|(name, value)| (Text::from(name), value))
            .collect();
        assert_eq!(json(object), "{\"a\":null,\"b\":2}");
    }

    #[test]
    fn each_byte_is_escaped_at_each_place() {
        for code in 0..=0x7f_u8 {
            for before in 0..20 {
                for after in [0, 1, 9] {
                    let text = format!(
                        "{}{}{}",
                        "é".repeat(before),
                        code as char,
                        "x".repeat(after)
                    );
                    let expected = match code {
                        b'"' => "\\\"".into(),
                        b'\\' => "\\\\".into(),
                        b'\n' => "\\n".into(),
                        b'\r' => "\\r".into(),
                        b'\t' => "\\t".into(),
                        0x08 => "\\b".into(),
                        0x0c => "\\f".into(),
                        0..0x20 => format!("\\u{code:04x}"),
                        _ => (code as char).to_string(),
                    };
                    let expected =
                        format!("\"{}{expected}{}\"", "é".repeat(before), "x".repeat(after));
                    assert_eq!(json(text.as_str()), expected, "code {code}");
                }
            }
        }
    }
}
