//! Encoding of records.

use std::mem;

use lookaside_value::{Batch, Name, Value};

use super::job::Output;
use crate::compression::Compressor;
use crate::format::{Encoder, reject_record};
use crate::message::{Messages, MetaNames, OnNull};
use crate::{Error, Result};

/// The header of a dead letter with the reason.
const REASON_HEADER: &str = "lookaside-reason";

/// The header of a dead letter with the partition or the file that it was read from.
const SOURCE_HEADER: &str = "lookaside-source";

/// The header of a dead letter with its position in the partition, or its line in the file.
const POSITION_HEADER: &str = "lookaside-position";

/// The encoder and compressors of a worker.
pub(super) struct Encoding {
    pub(super) encoder: Box<dyn Encoder>,
    pub(super) results: Results,
    pub(super) rejects: RejectEncoding,
    pub(super) meta: MetaNames,
    pub(super) on_null: OnNull,
}

/// How results are encoded.
pub(super) enum Results {
    /// As bytes, compressed as the sink requires.
    Bytes(Compressor),
    /// As messages, whose keys are the values of a field.
    Messages {
        key_field: Option<String>,
        payload: String,
        text: String,
    },
}

/// How rejects are encoded.
pub(super) enum RejectEncoding {
    /// Not at all.
    None,
    /// As bytes, compressed as their sink requires.
    Bytes(Compressor),
    /// As messages.
    Messages,
}

impl Encoding {
    /// Encodes the records of a batch and the rejects for their sinks; `input` has the messages that
    /// they come from, if they do not come from bytes.
    pub(super) fn encode(
        &mut self,
        batch: &mut Batch,
        input: Option<&Messages>,
        output: &mut Output,
    ) -> Result<()> {
        match self.results {
            Results::Bytes(_) => {
                self.meta.remove(batch);
                self.encode_bytes(batch, output)?;
            }
            Results::Messages { .. } => self.encode_messages(batch, input, output),
        }
        match &mut self.rejects {
            RejectEncoding::None => {}
            RejectEncoding::Bytes(compressor) => {
                output.reject_bytes.extend_from_slice(output.rejects.raw());
                output.rejects.clear_raw();
                compressor
                    .compress(&mut output.reject_bytes)
                    .map_err(Error::compress)?;
            }
            RejectEncoding::Messages => make_dead_letters(input, output),
        }
        if let Some(input) = input {
            output.rejects.locate(|line| {
                let message = message_of(input, line);
                (message.partition().name().clone(), message.read_position())
            });
        }
        Ok(())
    }

    fn encode_bytes(&mut self, batch: &Batch, output: &mut Output) -> Result<()> {
        let Results::Bytes(compressor) = &mut self.results else {
            panic!("the sink takes bytes");
        };
        let rejects_before = output.rejects.count();
        let mut text = String::from_utf8(mem::take(&mut output.bytes))
            .expect("an output has no bytes before it is encoded");
        self.encoder.encode(batch, &mut text, &mut output.rejects);
        output.counts.bytes_out = text.len() as u64;
        output.counts.events_out = batch.len() as u64 - (output.rejects.count() - rejects_before);

        output.bytes = text.into_bytes();
        compressor
            .compress(&mut output.bytes)
            .map_err(Error::compress)
    }

    fn encode_messages(
        &mut self,
        batch: &mut Batch,
        input: Option<&Messages>,
        output: &mut Output,
    ) {
        let Results::Messages {
            key_field,
            payload,
            text,
        } = &mut self.results
        else {
            panic!("the sink takes messages");
        };
        let key_name = key_field.as_deref();
        let key_name = key_name.and_then(|field| batch.names().name(field));
        // Null payloads have no records; they keep their places between those that do.
        let mut nulls = (1..)
            .zip(input.into_iter().flat_map(Messages::iter))
            .filter(|(_, message)| self.on_null == OnNull::Forward && is_null(message))
            .peekable();
        payload.clear();
        self.encoder.begin(batch, payload);
        assert!(payload.is_empty(), "messages have no text before the first");
        let messages = &mut output.messages;
        let (names, records) = batch.split_mut();
        for record in records {
            while let Some((_, null)) = nulls.next_if(|(line, _)| *line < record.line) {
                push_null(messages, &null);
            }
            let source = input.map(|input| message_of(input, record.line));
            let meta = self.meta.take(record);
            payload.clear();
            if let Err(reason) = self.encoder.encode_record(record, names, payload) {
                reject_record(record, names, reason, &mut output.rejects);
                continue;
            }
            let field = key_name.and_then(|name: Name| record.value(name));
            let set = meta.key.as_ref().or(field);
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
            if let Some(Some(topic)) = meta.topic.map(|topic| text_of(&topic, text)) {
                messages.set_topic(&topic);
            }
            if let Some(milliseconds) = meta.timestamp_ms {
                messages.set_timestamp(milliseconds);
            }
            for (name, value) in &meta.headers {
                messages.push_header(name, bytes_of(value, text));
            }
        }
        for (_, null) in nulls {
            push_null(messages, &null);
        }
        output.counts.events_out = messages.len() as u64;
        output.counts.bytes_out = messages.payload_size() as u64;
    }
}

/// Forwards a null payload.
fn push_null(messages: &mut Messages, null: &crate::Message<'_>) {
    messages.push_result(null.segment(), None, null.key());
    messages.set_position(null.position());
}

/// Whether a message deletes a key, and is not rejected.
fn is_null(message: &crate::Message<'_>) -> bool {
    message.payload().is_none() && message.problem().is_none()
}

/// The message that the records with this line come from.
fn message_of(input: &Messages, line: u64) -> crate::Message<'_> {
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

/// Makes messages of the rejects: the original bytes, key and headers, with the reason and the
/// position as further headers. A message of several events is one dead letter.
fn make_dead_letters(input: Option<&Messages>, output: &mut Output) {
    let mut rejects = output.rejects.take_each();
    if input.is_some() {
        rejects.sort_by_key(|reject| reject.line);
        rejects.dedup_by_key(|reject| reject.line);
    }
    let letters = &mut output.dead_letters;
    for reject in rejects {
        let (source, position) = match input {
            Some(input) => {
                let message = message_of(input, reject.line);
                letters.push_result(message.segment(), message.payload(), message.key());
                letters.set_position(message.position());
                if let Some(milliseconds) = message.timestamp_ms() {
                    letters.set_timestamp(milliseconds);
                }
                for header in message.headers() {
                    letters.push_header(header.name, header.value);
                }
                (message.partition().name(), message.read_position())
            }
            None => {
                letters.push_result(0, Some(&reject.bytes), None);
                (&output.source, reject.line)
            }
        };
        letters.push_header(REASON_HEADER, Some(reject.reason.as_bytes()));
        letters.push_header(SOURCE_HEADER, Some(source.as_bytes()));
        letters.push_header(POSITION_HEADER, Some(position.to_string().as_bytes()));
    }
}

/// Makes a dead letter of a message that a broker refused.
pub(super) fn dead_letter_of(refused: &crate::RefusedMessage) -> Messages {
    let mut letter = Messages::new();
    letter.push_result(
        refused.segment,
        refused.payload.as_deref(),
        refused.key.as_deref(),
    );
    let source = refused.receipt.partition(refused.segment).name();
    letter.push_header(REASON_HEADER, Some(refused.reason.as_bytes()));
    letter.push_header(SOURCE_HEADER, Some(source.as_bytes()));
    letter
}
