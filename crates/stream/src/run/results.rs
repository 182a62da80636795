//! Encoding of results for one output.

use std::mem;

use lookaside_value::{Batch, Name, NameTable, Record, Value};

use super::job::{Encoded, Output};
use super::routes::Routes;
use crate::compression::Compressor;
use crate::format::{Encoder, reject_record};
use crate::message::{Message, Messages, MetaValue, OnNull, RecordMeta, ResultMeta, timestamp_ms};
use crate::{Error, OutputFormat, Rejects, Result, Sink};

/// How a worker encodes results for one output.
pub(super) struct ResultEncoding {
    /// The name of the output in the reasons of rejects; `None` for the default one.
    name: Option<Box<str>>,
    encoder: Box<dyn Encoder>,
    kind: Kind,
}

/// What the sink takes.
enum Kind {
    /// Bytes, compressed as it requires.
    Bytes(Compressor),
    /// Messages, with this metadata.
    Messages {
        meta: ResultMeta,
        payload: String,
        text: String,
    },
}

/// A batch whose records are encoded for several outputs.
pub(super) struct Results<'a> {
    pub(super) batch: &'a Batch,
    /// One for each record; empty if no metadata is used.
    pub(super) metas: &'a [RecordMeta<'a>],
    pub(super) routes: &'a Routes,
    /// The messages that the records come from, if they do not come from bytes.
    pub(super) input: Option<&'a Messages>,
    pub(super) on_null: OnNull,
}

impl Results<'_> {
    /// The first record for the output with this index.
    fn first(&self, index: usize) -> Option<&Record> {
        let records = self.batch.records().iter().enumerate();
        let mut routed = records.filter(|(at, _)| self.routes.contains(*at, index));
        routed.next().map(|(_, record)| record)
    }
}

/// The metadata of results that the model does not set, for the names of a batch.
struct Defaults<'a> {
    key: Option<DefaultValue>,
    topic: Option<DefaultValue>,
    timestamp: Option<DefaultValue>,
    headers: Vec<(&'a str, DefaultValue)>,
}

/// A value of metadata.
enum DefaultValue {
    /// That of a field; `None` if no record of the batch has it.
    Field(Option<Name>),
    Constant(Value),
}

impl<'a> Defaults<'a> {
    fn new(meta: &'a ResultMeta, batch: &Batch) -> Self {
        let value = |value: &MetaValue| match value {
            MetaValue::Field(field) => DefaultValue::Field(batch.names().name(field)),
            MetaValue::Constant(text) => DefaultValue::Constant(Value::from(&**text)),
        };
        let headers = meta.headers.iter();
        Self {
            key: meta.key.as_ref().map(value),
            topic: meta.topic.as_ref().map(value),
            timestamp: meta.timestamp.as_ref().map(value),
            headers: headers.map(|(name, it)| (&**name, value(it))).collect(),
        }
    }
}

impl DefaultValue {
    fn of<'a>(&'a self, record: &'a Record) -> Option<&'a Value> {
        match self {
            Self::Field(name) => record.value((*name)?),
            Self::Constant(value) => Some(value),
        }
    }
}

/// The value of metadata for a record, if there is one.
fn value_of<'a>(value: &'a Option<DefaultValue>, record: &'a Record) -> Option<&'a Value> {
    value.as_ref()?.of(record)
}

impl ResultEncoding {
    pub(super) fn new(
        name: Option<&str>,
        format: &OutputFormat,
        names: &NameTable,
        sink: &Sink,
    ) -> Result<Self> {
        let kind = match sink.result_meta() {
            Some(meta) => Kind::Messages {
                meta: meta.clone(),
                payload: String::new(),
                text: String::new(),
            },
            None => Kind::Bytes(sink.compression().compressor().map_err(Error::compress)?),
        };
        Ok(Self {
            name: name.map(Into::into),
            encoder: format.encoder(names),
            kind,
        })
    }

    /// Encodes the results for the output with this index, and counts them.
    pub(super) fn encode(
        &mut self,
        results: &Results<'_>,
        index: usize,
        output: &mut Output,
    ) -> Result<()> {
        let Output {
            encoded,
            rejects,
            counts,
            ..
        } = output;
        let Encoded {
            bytes,
            messages,
            count,
        } = &mut encoded[index];
        match &mut self.kind {
            Kind::Bytes(compressor) => {
                let mut text = String::from_utf8(mem::take(bytes))
                    .expect("an output has no bytes before it is encoded");
                let name = self.name.as_deref();
                *count = encode_text(
                    &mut *self.encoder,
                    results,
                    (index, name),
                    &mut text,
                    rejects,
                );
                counts.events_out += *count;
                counts.bytes_out += text.len() as u64;
                *bytes = text.into_bytes();
                compressor.compress(bytes).map_err(Error::compress)
            }
            Kind::Messages { .. } => {
                self.encode_messages(results, index, messages, rejects);
                *count = messages.len() as u64;
                counts.events_out += *count;
                counts.bytes_out += messages.payload_size() as u64;
                Ok(())
            }
        }
    }

    fn encode_messages(
        &mut self,
        results: &Results<'_>,
        index: usize,
        messages: &mut Messages,
        rejects: &mut Rejects,
    ) {
        let Kind::Messages {
            meta: result_meta,
            payload,
            text,
        } = &mut self.kind
        else {
            panic!("the sink takes messages");
        };
        let Results { batch, input, .. } = *results;
        let defaults = Defaults::new(result_meta, batch);
        // Null payloads have no records; they keep their places between those that do.
        let forwards = results.on_null == OnNull::Forward && index == 0;
        let mut nulls = (1..)
            .zip(input.into_iter().flat_map(Messages::iter))
            .filter(|(_, message)| forwards && is_null(message))
            .peekable();
        payload.clear();
        self.encoder.begin(batch, results.first(index), payload);
        assert!(payload.is_empty(), "messages have no text before the first");
        let no_meta = RecordMeta::default();
        for (at, record) in batch.records().iter().enumerate() {
            while let Some((_, null)) = nulls.next_if(|(line, _)| *line < record.line) {
                push_null(messages, &null);
            }
            if !results.routes.contains(at, index) {
                continue;
            }
            let source = input.map(|input| message_of(input, record.line));
            let meta = results.metas.get(at).unwrap_or(&no_meta);
            payload.clear();
            if let Err(reason) = self.encoder.encode_record(record, batch.names(), payload) {
                let reason = in_output(self.name.as_deref(), reason);
                reject_record(record, batch.names(), reason, rejects);
                continue;
            }
            let set_time = meta.timestamp.as_ref();
            let set_time = set_time.or(value_of(&defaults.timestamp, record));
            let time = match set_time {
                None | Some(Value::Null | Value::Ignore) => None,
                Some(value) => match timestamp_ms(value) {
                    Some(milliseconds) => Some(milliseconds),
                    None => {
                        let reason = "the timestamp is neither a time nor a number of milliseconds";
                        reject_record(record, batch.names(), reason.to_owned(), rejects);
                        continue;
                    }
                },
            };
            let set = meta.key.as_ref().or(value_of(&defaults.key, record));
            let key = match set {
                Some(value) => bytes_of(value, text),
                None => source.and_then(|message| message.key()),
            };
            let payload = payload.strip_suffix('\n').unwrap_or(payload);
            let segment = source.map_or(0, |message| message.segment());
            messages.push_result(segment, Some(payload.as_bytes()), key);
            if let Some(message) = source {
                messages.set_position(message.position());
            }
            let topic = meta.topic.as_ref().or(value_of(&defaults.topic, record));
            if let Some(topic) = topic.and_then(|topic| text_of(topic, text)) {
                messages.set_topic(&topic);
            }
            if let Some(milliseconds) = time {
                messages.set_timestamp(milliseconds);
            }
            for (name, value) in &meta.headers {
                messages.push_header(name, bytes_of(value, text));
            }
            for (name, value) in &defaults.headers {
                let is_set = meta.headers.iter().any(|(set, _)| set == name);
                if let (false, Some(value)) = (is_set, value.of(record)) {
                    messages.push_header(name, bytes_of(value, text));
                }
            }
        }
        for (_, null) in nulls {
            push_null(messages, &null);
        }
    }
}

/// Appends the results for an output as lines; returns how many there are.
fn encode_text(
    encoder: &mut dyn Encoder,
    results: &Results<'_>,
    (index, name): (usize, Option<&str>),
    text: &mut String,
    rejects: &mut Rejects,
) -> u64 {
    let batch = results.batch;
    let rejects_before = rejects.count();
    let mut count = batch.len() as u64;
    match results.routes {
        Routes::Default => encoder.encode(batch, text, rejects),
        Routes::Each(_) => {
            encoder.begin(batch, results.first(index), text);
            for (at, record) in batch.records().iter().enumerate() {
                if !results.routes.contains(at, index) {
                    count -= 1;
                } else if let Err(reason) = encoder.encode_record(record, batch.names(), text) {
                    let reason = in_output(name, reason);
                    reject_record(record, batch.names(), reason, rejects);
                }
            }
        }
    }
    count - (rejects.count() - rejects_before)
}

/// The reason why an output does not accept a record, with the name of the output.
pub(super) fn in_output(name: Option<&str>, reason: String) -> String {
    match name {
        Some(name) => format!("output `{name}`: {reason}"),
        None => reason,
    }
}

/// Forwards a null payload.
fn push_null(messages: &mut Messages, null: &Message<'_>) {
    messages.push_result(null.segment(), None, null.key());
    messages.set_position(null.position());
}

/// Whether a message deletes a key, and is not rejected.
fn is_null(message: &Message<'_>) -> bool {
    message.payload().is_none() && message.problem().is_none()
}

/// The message that the records with this line come from.
pub(super) fn message_of(input: &Messages, line: u64) -> Message<'_> {
    let index = line.checked_sub(1);
    input.get(index.expect("a record has the number of its message as line") as usize)
}

/// The bytes of a value as a key or a header: bytes as they are, anything else as text.
fn bytes_of<'a>(value: &'a Value, text: &'a mut String) -> Option<&'a [u8]> {
    match value {
        Value::Null | Value::Ignore => None,
        Value::Bytes(bytes) => Some(bytes),
        value => {
            text.clear();
            value.write_raw(text);
            Some(text.as_bytes())
        }
    }
}

fn text_of(value: &Value, text: &mut String) -> Option<String> {
    if matches!(value, Value::Null | Value::Ignore) {
        return None;
    }
    text.clear();
    value.write_raw(text);
    Some(text.clone()).filter(|text| !text.is_empty())
}
