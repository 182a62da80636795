//! The work of a worker on a block of messages.

use super::Transform;
use super::encoding::Encoding;
use super::job::Output;
use super::shared::Shared;
use super::worker::Maker;
use crate::message::{MessageFraming, Messages};
use crate::progress::Counts;
use crate::source::Block;

impl<T: Transform> Maker<T> {
    /// Produces the output of a block of messages. The records of a message have its number in the
    /// block as line, counted from 1.
    pub(super) fn make_messages(
        &mut self,
        number: u64,
        block: &Block,
        output: &mut Output,
        encoding: &mut Encoding,
        shared: &Shared,
    ) {
        let messages = &block.messages;
        let mut counts = self.decode_messages(messages, u64::MAX, output, shared);
        match shared.admit(number, counts.events_in) {
            None => {
                // The receipt is dropped, so the messages are read again by a later run.
                output.rejects = shared.spares.no_rejects();
                output.receipt = None;
                return;
            }
            Some(admitted) if admitted < counts.events_in => {
                output.rejects = shared.spares.no_rejects();
                counts = self.decode_messages(messages, admitted, output, shared);
            }
            Some(_) => {}
        }
        output.counts = counts;

        if !self.transform(output, shared) {
            return;
        }
        self.reject_messages(messages, output);
        output.error = encoding
            .encode(&mut self.batch, Some(messages), output)
            .err();
    }

    /// Decodes messages until they have `limit` events; the others are not acknowledged.
    fn decode_messages(
        &mut self,
        messages: &Messages,
        limit: u64,
        output: &mut Output,
        shared: &Shared,
    ) -> Counts {
        self.batch.clear();
        self.decoder.begin(&mut self.batch);
        let mut counts = Counts::default();
        let mut null_count = 0;
        for (line, message) in (1..).zip(messages.iter()) {
            if counts.events_in >= limit {
                let receipt = output.receipt.as_ref();
                let receipt = receipt.expect("messages have a receipt");
                for message in messages.iter().skip(line as usize - 1).rev() {
                    receipt.shorten(message.segment(), message.read_position());
                }
                break;
            }
            match (message.problem(), message.payload()) {
                (Some(reason), payload) => {
                    let payload = payload.unwrap_or_default();
                    output.rejects.push(line, reason.to_owned(), payload);
                }
                (None, None) => null_count += 1,
                // Not the same as null, and not an event in most formats.
                (None, Some(payload))
                    if shared.framing == MessageFraming::Message
                        && payload.iter().all(|byte| matches!(byte, b'\n' | b'\r')) =>
                {
                    output.rejects.push(line, "the payload is empty", payload);
                }
                (None, Some(payload)) => {
                    counts.bytes_in += payload.len() as u64;
                    let Self { decoder, batch, .. } = self;
                    shared.framing.split(payload, |event| {
                        decoder.decode_record(event, line, batch, &mut output.rejects);
                    });
                }
            }
            counts.events_in = self.batch.len() as u64 + output.rejects.count() + null_count;
        }
        shared.meta.fill(&mut self.batch, messages);
        counts
    }

    /// Removes the records that the transform rejected, and adds their messages to the rejected
    /// ones.
    fn reject_messages(&mut self, messages: &Messages, output: &mut Output) {
        let Output {
            report, rejects, ..
        } = output;
        for (line, reason) in report.take_rejected(&mut self.batch) {
            let message = messages.get(line as usize - 1);
            rejects.push(line, reason, message.payload().unwrap_or_default());
        }
    }
}
