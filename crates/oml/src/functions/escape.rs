//! Escaping text for HTML, JSON and source code, and back.

use lookaside_value::{Text, Value, write_json_text};

/// Replaces text by the result of `change`; other types, and text for which it returns `None`, are
/// unchanged.
fn map_text(value: Value, change: impl FnOnce(&str) -> Option<String>) -> Value {
    match &value {
        Value::Text(text) => match change(text) {
            Some(changed) => Value::Text(Text::from(changed)),
            None => value,
        },
        _ => value,
    }
}

/// `& < > " ' /` become character references, so the text is safe in elements and attributes.
pub(crate) fn html_escape(value: Value) -> Value {
    map_text(value, |text| {
        Some(html_escape::encode_safe(text).into_owned())
    })
}

/// Character references become the characters that they represent.
pub(crate) fn html_unescape(value: Value) -> Value {
    map_text(value, |text| {
        Some(html_escape::decode_html_entities(text).into_owned())
    })
}

/// The text escaped as the content of a JSON string.
pub(crate) fn json_escape(value: Value) -> Value {
    map_text(value, |text| {
        let mut out = String::with_capacity(text.len() + 2);
        write_json_text(text, &mut out);
        out.pop();
        out.remove(0);
        Some(out)
    })
}

/// Reverses [`json_escape`]; text that is not valid content of a JSON string is unchanged.
pub(crate) fn json_unescape(value: Value) -> Value {
    map_text(value, |text| {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        quoted.push_str(text);
        quoted.push('"');
        serde_json::from_str(&quoted).ok()
    })
}

/// The text escaped as the content of a Rust string literal, ASCII only.
pub(crate) fn str_escape(value: Value) -> Value {
    map_text(value, |text| Some(text.escape_default().to_string()))
}

/// The value as JSON text; an ignored value stays ignored, so that a later `on_fail` sees it.
pub(crate) fn to_json(value: Value) -> Value {
    if matches!(value, Value::Ignore) {
        return value;
    }
    let mut out = String::new();
    value.write_json(&mut out);
    Value::Text(Text::from(out))
}

/// The raw text of any value; an ignored value stays ignored, so that a later `on_fail` sees it.
pub(crate) fn to_str(value: Value) -> Value {
    match value {
        Value::Ignore | Value::Text(_) => value,
        other => Value::Text(other.to_text()),
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::Object;

    use super::*;

    fn check(function: fn(Value) -> Value, input: impl Into<Value>, expected: impl Into<Value>) {
        let input = input.into();
        assert_eq!(function(input.clone()), expected.into(), "{input:?}");
    }

    #[test]
    fn html() {
        check(html_escape, "<b>x</b>", "&lt;b&gt;x&lt;&#x2F;b&gt;");
        check(
            html_escape,
            "a & \"b\" 'c'",
            "a &amp; &quot;b&quot; &#x27;c&#x27;",
        );
        check(html_escape, 7_i64, 7_i64);
        check(html_unescape, "&lt;b&gt;&#x2F;&#47;&eacute;", "<b>//é");
        check(
            html_unescape,
            "&nosuch; & &#xFFFFFFFF;",
            "&nosuch; & &#xFFFFFFFF;",
        );
    }

    #[test]
    fn json() {
        check(json_escape, "a\"b\\c\n\u{1}é", "a\\\"b\\\\c\\n\\u0001é");
        check(json_escape, "", "");
        check(
            json_unescape,
            "a\\\"b\\\\c\\n\\u0001\\u00e9",
            "a\"b\\c\n\u{1}é",
        );
        check(json_unescape, "\\ud83d\\ude00", "😀");
        for refused in ["\\", "a\"b", "\\x41", "\\ud83d", "raw\nline", "\", \""] {
            check(json_unescape, refused, refused);
        }
        check(json_unescape, Value::Ignore, Value::Ignore);
    }

    #[test]
    fn source() {
        check(str_escape, "a\t'\"\\\né", "a\\t\\'\\\"\\\\\\n\\u{e9}");
        check(str_escape, true, true);
    }

    #[test]
    fn whole_values() {
        let object: Object = [("k".into(), Value::from(600.0))].into_iter().collect();
        check(to_json, object, "{\"k\":600.0}");
        check(to_json, "é\"", "\"é\\\"\"");
        check(to_json, Value::Null, "null");
        check(to_json, Value::Ignore, Value::Ignore);
        check(to_str, 7_i64, "7");
        check(to_str, 600.0, "600");
        check(to_str, "x", "x");
        check(to_str, Value::Null, "");
        check(to_str, Value::Ignore, Value::Ignore);
        check(to_str, vec![Value::Int(1), Value::Int(2)], "[1, 2]");
    }
}
