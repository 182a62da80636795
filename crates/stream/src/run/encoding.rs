//! Encoding of blocks: of results for each output, and of rejects.

use lookaside_value::Batch;

use super::job::Output;
use super::results::{ResultEncoding, Results, message_of};
use super::routes::{OutputNames, Routes};
use crate::compression::Compressor;
use crate::message::{Messages, MetaNames, OnNull};
use crate::{Error, Result, Sink};

/// The header of a dead letter with the reason.
const REASON_HEADER: &str = "lookaside-reason";

/// The header of a dead letter with the partition or the file that it was read from.
const SOURCE_HEADER: &str = "lookaside-source";

/// The header of a dead letter with its position in the partition, or its line in the file.
const POSITION_HEADER: &str = "lookaside-position";

/// How a worker encodes the results and the rejects of blocks.
pub(super) struct Encoding {
    /// For each output of the run; the first one is the default.
    pub(super) results: Vec<ResultEncoding>,
    pub(super) output_names: OutputNames,
    pub(super) rejects: RejectEncoding,
    pub(super) meta: MetaNames,
    pub(super) on_null: OnNull,
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

impl RejectEncoding {
    pub(super) fn new(sink: Option<&Sink>) -> Result<Self> {
        Ok(match sink {
            None => Self::None,
            Some(sink) if sink.takes_messages() => Self::Messages,
            Some(sink) => Self::Bytes(sink.compression().compressor().map_err(Error::compress)?),
        })
    }
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
        let metas = self.meta.take_all(batch);
        let routes = match self.meta.has_output() {
            true => self.output_names.route(batch, &metas, output),
            false => Routes::Default,
        };
        let results = Results {
            batch,
            metas: &metas,
            routes: &routes,
            input,
            on_null: self.on_null,
        };
        for (index, encoding) in self.results.iter_mut().enumerate() {
            if index == 0 || !routes.are_none(index) {
                encoding.encode(&results, index, output)?;
            }
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
