//! The dictionary of `lookup_nocase`.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use lookaside_value::{Object, Value};

/// Values by name, ignoring surrounding blanks and letter case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary {
    values: HashMap<Box<str>, Value, RandomState>,
}

impl Dictionary {
    /// A dictionary of an object's members. If names differ only in case, the lower-case one is
    /// found.
    pub(crate) fn new(object: &Object) -> Self {
        let mut values = HashMap::with_capacity_and_hasher(object.len(), RandomState::default());
        for (name, value) in object {
            let lower = name.to_lowercase();
            let exact = *name == *lower;
            let entry = values.entry(lower.into_boxed_str());
            if exact {
                entry.insert_entry(value.clone());
            } else {
                entry.or_insert_with(|| value.clone());
            }
        }
        Self { values }
    }

    /// The value of a key; `None` for a key that is not text.
    pub(crate) fn value(&self, key: &Value) -> Option<&Value> {
        let Value::Text(key) = key else {
            return None;
        };
        let key = key.trim();
        let lower = |letter: u8| !letter.is_ascii() || letter.is_ascii_uppercase();
        if key.bytes().any(lower) {
            self.values.get(key.to_lowercase().as_str())
        } else {
            self.values.get(key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let members = [
            ("error", 1_i64),
            ("OK", 2),
            ("Ok", 3),
            ("Ärger", 4),
            ("ERROR", 5),
        ];
        let members = members.map(|(name, value)| (name.into(), Value::Int(value)));
        let dictionary = Dictionary::new(&members.into_iter().collect());
        for (key, expected) in [
            (Value::from("error"), Some(1)),
            (Value::from(" ERROR "), Some(1)),
            (Value::from("ok"), Some(2)),
            (Value::from("ÄRGER"), Some(4)),
            (Value::from("warn"), None),
            (Value::Int(1), None),
            (Value::Null, None),
        ] {
            let expected = expected.map(Value::Int);
            assert_eq!(dictionary.value(&key), expected.as_ref(), "{key:?}");
        }
    }
}
