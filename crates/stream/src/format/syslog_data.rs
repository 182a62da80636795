//! The structured data of RFC 5424: `[id name="value" …][id …]`.

use lookaside_value::{Object, Text, Value};
use memchr::memchr3;

use super::lines::Reason;

/// RFC 5424, 6.3.2: the longest name of an element or a parameter.
const NAME_SIZE_MAX: usize = 32;

/// Parses `-` or elements to an object of objects, and returns the rest.
///
/// A parameter may occur several times in its element (6.3.3) and then becomes an array; an element
/// may not (6.3.2).
pub(crate) fn structured_data(text: &str) -> Result<(Object, &str), Reason> {
    let mut elements = Object::new();
    if let Some(rest) = text.strip_prefix('-') {
        return Ok((elements, rest));
    }
    if !text.starts_with('[') {
        return Err("missing structured data in the header".into());
    }
    let mut rest = text;
    while let Some(inside) = rest.strip_prefix('[') {
        let id;
        (id, rest) = name(inside)?;
        let mut params = Object::new();
        while let Some(param) = rest.strip_prefix(' ') {
            let param_name;
            (param_name, rest) = name(param)?;
            rest = rest
                .strip_prefix("=\"")
                .ok_or("missing `=\"` in the structured data")?;
            let value;
            (value, rest) = param_value(rest)?;
            add(&mut params, param_name, value);
        }
        rest = rest
            .strip_prefix(']')
            .ok_or("missing `]` after an element of the structured data")?;
        if elements.insert(id.into(), params.into()).is_some() {
            return Err(format!("two elements `{id}` in the structured data").into());
        }
    }
    Ok((elements, rest))
}

fn name(text: &str) -> Result<(&str, &str), Reason> {
    let ends = |byte: u8| byte <= b' ' || byte >= 0x7f || matches!(byte, b'=' | b']' | b'"');
    let size = text.bytes().position(ends).unwrap_or(text.len());
    if (1..=NAME_SIZE_MAX).contains(&size) {
        Ok(text.split_at(size))
    } else {
        Err(format!("a name in the structured data has {size} bytes").into())
    }
}

/// The value up to its closing quote; `\"`, `\\` and `\]` are escapes, any other backslash is
/// literal (6.3.3).
fn param_value(text: &str) -> Result<(Text, &str), Reason> {
    let bytes = text.as_bytes();
    let mut value = String::new();
    let mut copied = 0;
    let mut at = 0;
    loop {
        let Some(found) = memchr3(b'"', b'\\', b']', &bytes[at..]) else {
            return Err("a value in the structured data has no closing quote".into());
        };
        at += found;
        match bytes[at] {
            b'"' if copied == 0 => return Ok((text[..at].into(), &text[at + 1..])),
            b'"' => {
                value.push_str(&text[copied..at]);
                return Ok((value.into(), &text[at + 1..]));
            }
            b'\\' if matches!(bytes.get(at + 1), Some(b'"' | b'\\' | b']')) => {
                value.push_str(&text[copied..at]);
                copied = at + 1;
                at += 2;
            }
            b'\\' => at += 1,
            _ => return Err("a `]` without backslash in a value of the structured data".into()),
        }
    }
}

fn add(params: &mut Object, name: &str, value: Text) {
    let value = match params.member(name) {
        None => Value::Text(value),
        Some(Value::Array(values)) => {
            let mut values = values.to_vec();
            values.push(value.into());
            Value::from(values)
        }
        Some(first) => Value::from(vec![first.clone(), value.into()]),
    };
    params.insert(name.into(), value);
}
