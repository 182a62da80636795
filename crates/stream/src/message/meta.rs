//! The metadata of messages as fields of records: `@meta/key`, `@meta/headers/NAME` and others.

use std::sync::Arc;

use jiff::Timestamp;
use lookaside_value::{Batch, Name, NameTable, Record, Time, Value};

use super::{Message, Messages};

/// What the names of all metadata begin with.
const PREFIX: &str = "@meta/";

/// The metadata that a run uses: only fields that its names contain are filled in and read, so that
/// a model that mentions none costs nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetaNames(Arc<[(Name, Meta)]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Meta {
    Key,
    Topic,
    Partition,
    Offset,
    Timestamp,
    /// The outputs that a record is written to; only set.
    Output,
    Header(Box<str>),
}

/// The metadata that a record sets: its outputs, and those of the message that is written.
#[derive(Debug, Default)]
pub(crate) struct RecordMeta<'a> {
    pub(crate) output: Option<Value>,
    pub(crate) key: Option<Value>,
    pub(crate) topic: Option<Value>,
    pub(crate) timestamp: Option<Value>,
    pub(crate) headers: Vec<(&'a str, Value)>,
}

impl Meta {
    /// The metadata of a name that begins with the prefix.
    fn of(text: &str) -> Option<Self> {
        Some(match text.strip_prefix(PREFIX)? {
            "key" => Self::Key,
            "topic" => Self::Topic,
            "partition" => Self::Partition,
            "offset" => Self::Offset,
            "timestamp" => Self::Timestamp,
            "output" => Self::Output,
            rest => Self::Header(rest.strip_prefix("headers/")?.into()),
        })
    }

    /// Its value for a message that was read.
    fn value(&self, message: &Message<'_>) -> Option<Value> {
        Some(match self {
            Self::Key => text_or_bytes(message.key()?),
            Self::Topic => Value::from(&**message.partition().topic()),
            Self::Partition => Value::Int(message.partition().number().into()),
            Self::Offset => Value::Int(i64::try_from(message.position()?).ok()?),
            Self::Timestamp => {
                let instant = Timestamp::from_millisecond(message.timestamp_ms()?).ok()?;
                let civil = instant.to_zoned(jiff::tz::TimeZone::UTC).datetime();
                Value::Time(Time::from_utc(civil))
            }
            Self::Header(name) => {
                let mut headers = message.headers();
                let header = headers.find(|header| *header.name == **name)?;
                text_or_bytes(header.value?)
            }
            Self::Output => return None,
        })
    }
}

impl MetaNames {
    /// The metadata among the names.
    pub(crate) fn of(names: &NameTable) -> Self {
        let used = names
            .iter()
            .filter_map(|(name, text)| Some((name, Meta::of(text)?)));
        Self(used.collect())
    }

    /// Appends the metadata of each record's message; the line of a record is the number of its
    /// message, counted from 1.
    pub(crate) fn fill(&self, batch: &mut Batch, messages: &Messages) {
        if self.0.is_empty() {
            return;
        }
        for record in batch.records_mut() {
            let message = messages.get(record.line as usize - 1);
            for (name, meta) in &*self.0 {
                if let Some(value) = meta.value(&message) {
                    record.push(*name, value);
                }
            }
        }
    }

    /// Removes the metadata from a record, which outputs do not show.
    fn take(&self, record: &mut Record) -> RecordMeta<'_> {
        let mut taken = RecordMeta::default();
        for (name, meta) in &*self.0 {
            let Some(value) = record.take(*name) else {
                continue;
            };
            // The first field of a name is its value.
            while record.take(*name).is_some() {}
            if matches!(value, Value::Ignore) {
                continue;
            }
            match meta {
                Meta::Output => taken.output = Some(value),
                Meta::Key => taken.key = Some(value),
                Meta::Topic => taken.topic = Some(value),
                Meta::Timestamp => taken.timestamp = Some(value),
                Meta::Header(name) => taken.headers.push((name, value)),
                // The broker determines both.
                Meta::Partition | Meta::Offset => {}
            }
        }
        taken
    }

    /// Moves the metadata out of all records, one element for each; empty if no metadata is used.
    pub(crate) fn take_all(&self, batch: &mut Batch) -> Vec<RecordMeta<'_>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let records = batch.records_mut().iter_mut();
        records.map(|record| self.take(record)).collect()
    }

    /// Whether records may set the outputs that they are written to.
    pub(crate) fn has_output(&self) -> bool {
        self.0.iter().any(|(_, meta)| *meta == Meta::Output)
    }
}

fn text_or_bytes(bytes: &[u8]) -> Value {
    match str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => Value::Bytes(bytes.into()),
    }
}

/// The milliseconds since 1970 of a number, a time, or a text as in RFC 3339; a time without an offset
/// is taken as UTC.
pub(crate) fn timestamp_ms(value: &Value) -> Option<i64> {
    match value {
        Value::Int(milliseconds) => Some(*milliseconds),
        Value::Time(time) => {
            let nanoseconds = time.to_utc().unix_nanos_at(0);
            i64::try_from(nanoseconds.div_euclid(1_000_000)).ok()
        }
        Value::Text(text) => {
            let instant = text.parse::<Timestamp>().ok()?;
            Some(instant.as_millisecond())
        }
        _ => None,
    }
}
