//! Functions that select a part of a value, or decide whether it is kept.

use lookaside_value::Value;

/// An element of an array; if the value is not an array or has no such element, it is unchanged.
pub(crate) fn nth(value: Value, index: usize) -> Value {
    match &value {
        Value::Array(elements) => match elements.get(index) {
            Some(element) => element.clone(),
            None => value,
        },
        _ => value,
    }
}

/// The member at a path of names; if a name is missing, the value is unchanged.
pub(crate) fn member(value: Value, path: &[Box<str>]) -> Value {
    let mut at = &value;
    for name in path {
        match at {
            Value::Object(object) => match object.member(name) {
                Some(member) => at = member,
                None => return value,
            },
            _ => return value,
        }
    }
    at.clone()
}

/// Text with this prefix is kept, everything else is ignored.
pub(crate) fn starts_with(value: Value, prefix: &str) -> Value {
    match &value {
        Value::Text(text) if text.starts_with(prefix) => value,
        _ => Value::Ignore,
    }
}

/// The constant, unless the value is ignored.
pub(crate) fn map_to(value: Value, constant: &Value) -> Value {
    match value {
        Value::Ignore => Value::Ignore,
        _ => constant.clone(),
    }
}

/// The number zero and empty text, arrays and objects become ignored.
pub(crate) fn skip_empty(value: Value) -> Value {
    let empty = match &value {
        Value::Null => false,
        Value::Int(int) => *int == 0,
        Value::Float(float) => *float == 0.0,
        Value::Decimal(decimal) => decimal
            .as_str()
            .bytes()
            .all(|byte| matches!(byte, b'0' | b'.')),
        other => other.is_empty(),
    };
    if empty { Value::Ignore } else { value }
}

/// Replaces an ignored value by the constant.
pub(crate) fn on_fail(value: Value, constant: &Value) -> Value {
    match value {
        Value::Ignore => constant.clone(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::Object;

    use super::*;

    fn object(members: &[(&str, Value)]) -> Value {
        let members = members
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()));
        Value::from(members.collect::<Object>())
    }

    fn path(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn elements() {
        let array = Value::from(vec![Value::Int(80), Value::from("x")]);
        assert_eq!(nth(array.clone(), 0), Value::Int(80));
        assert_eq!(nth(array.clone(), 1), Value::from("x"));
        assert_eq!(nth(array.clone(), 2), array);
        assert_eq!(nth(Value::from("x"), 0), Value::from("x"));
    }

    #[test]
    fn members() {
        let inner = object(&[("b", Value::Int(1))]);
        let outer = object(&[("a", inner.clone()), ("b", Value::Int(2))]);
        assert_eq!(member(outer.clone(), &path(&["a", "b"])), Value::Int(1));
        assert_eq!(member(outer.clone(), &path(&["a"])), inner);
        assert_eq!(
            member(outer.clone(), &path(&["zz", "b"])),
            outer,
            "a missing name ends the way"
        );
        assert_eq!(member(outer.clone(), &path(&["b", "b"])), outer);
        assert_eq!(member(Value::Int(3), &path(&["b"])), Value::Int(3));
    }

    #[test]
    fn guards() {
        assert_eq!(starts_with("https".into(), "http"), Value::from("https"));
        assert_eq!(starts_with("ftp".into(), "http"), Value::Ignore);
        assert_eq!(starts_with(Value::Int(1), ""), Value::Ignore);
        assert_eq!(map_to("x".into(), &Value::Bool(true)), Value::Bool(true));
        assert_eq!(map_to(Value::Null, &Value::Int(1)), Value::Int(1));
        assert_eq!(map_to(Value::Ignore, &Value::Int(1)), Value::Ignore);
        assert_eq!(on_fail(Value::Ignore, &"v".into()), Value::from("v"));
        assert_eq!(on_fail("x".into(), &"v".into()), Value::from("x"));
        assert_eq!(on_fail(Value::Null, &"v".into()), Value::Null);
    }

    #[test]
    fn emptiness() {
        let decimal = |text: &str| Value::Decimal(text.parse().unwrap());
        for empty in [
            Value::from(""),
            Value::Int(0),
            Value::Float(0.0),
            Value::Float(-0.0),
            decimal("0.00"),
            Value::from(Vec::<Value>::new()),
            object(&[]),
        ] {
            assert_eq!(skip_empty(empty.clone()), Value::Ignore, "{empty:?}");
        }
        for kept in [
            Value::from(" "),
            Value::Int(-1),
            Value::Float(f64::NAN),
            decimal("0.01"),
            Value::Bool(false),
            Value::Null,
            Value::from(vec![Value::Null]),
        ] {
            assert_eq!(skip_empty(kept.clone()), kept);
        }
    }
}
