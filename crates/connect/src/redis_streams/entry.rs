//! Entries of a stream, and the replies that contain them.

use std::fmt;

use redis::Value;

/// The id of an entry: a time in milliseconds and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryId {
    pub(super) milliseconds: u64,
    number: u64,
}

/// An entry.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    /// The names and values of the fields, alternating; `None` for a pending entry that is no longer in
    /// its stream.
    pub(super) fields: Option<Vec<Value>>,
}

impl EntryId {
    /// Before all entries.
    pub(super) const ZERO: Self = Self {
        milliseconds: 0,
        number: 0,
    };

    fn parse(value: &Value) -> Option<Self> {
        let text = str::from_utf8(bytes(value)?).ok()?;
        let (milliseconds, number) = text.split_once('-')?;
        Some(Self {
            milliseconds: milliseconds.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.milliseconds, self.number)
    }
}

/// The bytes of a string.
pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// A list of entries; `None` if the value is something else.
fn entries(value: Value) -> Option<Vec<Entry>> {
    let Value::Array(values) = value else {
        return None;
    };
    // Before Redis 7, claiming an entry that is no longer in its stream returns null in its place.
    let values = values.into_iter().filter(|value| *value != Value::Nil);
    let entries = values.map(|value| {
        let Value::Array(parts) = value else {
            return None;
        };
        let [id, fields] = <[Value; 2]>::try_from(parts).ok()?;
        Some(Entry {
            id: EntryId::parse(&id)?,
            fields: match fields {
                Value::Nil => None,
                Value::Array(fields) => Some(fields),
                _ => return None,
            },
        })
    });
    entries.collect()
}

/// The reply of `XREADGROUP`: the entries of each stream.
pub(super) fn read_reply(value: Value) -> Option<Vec<(Vec<u8>, Vec<Entry>)>> {
    let streams = match value {
        Value::Nil => return Some(Vec::new()),
        Value::Array(streams) => streams,
        _ => return None,
    };
    let streams = streams.into_iter().map(|stream| {
        let Value::Array(parts) = stream else {
            return None;
        };
        let [key, found] = <[Value; 2]>::try_from(parts).ok()?;
        Some((bytes(&key)?.to_vec(), entries(found)?))
    });
    streams.collect()
}

/// The reply of `XAUTOCLAIM`: where to continue, and the entries.
pub(super) fn claim_reply(value: Value) -> Option<(EntryId, Vec<Entry>)> {
    let Value::Array(parts) = value else {
        return None;
    };
    let mut parts = parts.into_iter();
    let next = EntryId::parse(&parts.next()?)?;
    // After them are the ids of entries that are no longer in the stream, and not pending either.
    Some((next, entries(parts.next()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn replies_are_read() {
        let fields = vec![text("payload"), text("{}")];
        let list = Value::Array(vec![
            Value::Array(vec![text("1-2"), Value::Array(fields.clone())]),
            Value::Nil,
            Value::Array(vec![text("3-0"), Value::Nil]),
        ]);
        let id = |milliseconds, number| EntryId {
            milliseconds,
            number,
        };
        let expected = || {
            let fields = Some(fields.clone());
            vec![
                Entry {
                    id: id(1, 2),
                    fields,
                },
                Entry {
                    id: id(3, 0),
                    fields: None,
                },
            ]
        };
        let read = Value::Array(vec![Value::Array(vec![text("s"), list.clone()])]);
        assert_eq!(read_reply(read), Some(vec![(b"s".to_vec(), expected())]));
        let claim = Value::Array(vec![text("0-0"), list, Value::Array(vec![])]);
        assert_eq!(claim_reply(claim), Some((EntryId::ZERO, expected())));
        assert_eq!(read_reply(Value::Nil), Some(vec![]));
        assert_eq!(id(7, 8).to_string(), "7-8");
    }

    #[test]
    fn other_replies_are_not_taken_for_one() {
        for value in [
            Value::Okay,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Array(vec![text("s")])]),
            Value::Array(vec![Value::Array(vec![
                text("s"),
                Value::Array(vec![Value::Int(1)]),
            ])]),
        ] {
            assert_eq!(read_reply(value.clone()), None, "{value:?}");
            assert_eq!(claim_reply(value.clone()), None, "{value:?}");
        }
        assert_eq!(claim_reply(Value::Nil), None);
    }
}
