//! A worker: reads the next block, decodes, transforms, encodes, and leaves the output in order.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use lookaside_value::Batch;
use memchr::memchr_iter;

use super::Transform;
use super::gate::{Gate, Output};
use crate::format::{Decoder, Encoder};
use crate::sink::Compressor;
use crate::source::{Block, BlockRead, Reader, Skip, Skipped};
use crate::{Chunk, Error, InputFormat, OutputFormat, Result};

/// What all workers share.
pub(super) struct Shared {
    pub(super) entry: Mutex<Entry>,
    pub(super) gate: Gate,
    pub(super) input_format: InputFormat,
    pub(super) output_format: OutputFormat,
}

/// The way in. Its lock is the turn to read and is held while the source is read: nobody else has
/// anything to do with the source in the meantime, and the order of the turns is the order of the
/// input.
pub(super) struct Entry {
    pub(super) reader: Reader,
    /// The number of the next block.
    pub(super) number: u64,
    pub(super) state: EntryState,
    /// Why the source could not be read to its end. It is told when all before it has left.
    pub(super) error: Option<Error>,
}

/// Whether the source has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    Open,
    End,
    Stopped,
}

/// The parts of one worker; all of its memory is used again for each block.
pub(super) struct Worker<T> {
    pub(super) decoder: Box<dyn Decoder>,
    pub(super) transform: T,
    pub(super) encoder: Box<dyn Encoder>,
    pub(super) compressor: Compressor,
    pub(super) reject_compressor: Option<Compressor>,
    pub(super) batch: Batch,
    pub(super) block: Block,
}

impl<T: Transform> Worker<T> {
    /// Works until the run is over. An error or a panic ends the run for all workers.
    pub(super) fn work(mut self, shared: &Shared) {
        // The worker is dropped after a panic, and nobody goes on with what it shares: the gate
        // ends the run, which every other worker sees at its next step.
        match catch_unwind(AssertUnwindSafe(|| self.work_blocks(shared))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.gate.fail(error),
            Err(panic) => shared.gate.fail(Error::panicked(panic_message(&*panic))),
        }
    }

    fn work_blocks(&mut self, shared: &Shared) -> Result<()> {
        let mut output = shared.gate.new_output();
        while let Some(number) = shared.read(&mut self.block) {
            if !self.fill(&mut output, number, shared)? {
                break;
            }
            match shared.gate.leave(number, output) {
                Some(empty) => output = empty,
                None => break,
            }
        }
        Ok(())
    }

    /// Makes the output of a block; false when the run is over.
    fn fill(&mut self, output: &mut Output, number: u64, shared: &Shared) -> Result<bool> {
        output.source.clone_from(&self.block.source);
        self.begin(output, shared);
        let chunk = self.block.chunk();
        self.decoder
            .decode(&chunk, &mut self.batch, &mut output.rejects);
        output.counts.bytes_in = chunk.bytes.len() as u64;
        output.counts.events_in = self.batch.len() as u64 + output.rejects.count();
        match shared.gate.admit(number, output.counts.events_in) {
            None => return Ok(false),
            Some(count) if count < output.counts.events_in => {
                self.decode_first(count, output, shared);
            }
            Some(_) => {}
        }

        self.transform
            .transform(&mut self.batch, &mut output.report);

        if !shared.output_format.is_ready() && !shared.gate.await_turn(number) {
            return Ok(false);
        }
        let rejects_before = output.rejects.count();
        let mut text = String::from_utf8(std::mem::take(&mut output.bytes))
            .expect("an output comes empty from the gate");
        self.encoder
            .encode(&self.batch, &mut text, &mut output.rejects);
        output.counts.bytes_out = text.len() as u64;
        output.counts.events_out =
            self.batch.len() as u64 - (output.rejects.count() - rejects_before);

        output.bytes = text.into_bytes();
        self.compressor
            .compress(&mut output.bytes)
            .map_err(Error::compress)?;
        if let Some(compressor) = &mut self.reject_compressor {
            output.reject_bytes.extend_from_slice(output.rejects.raw());
            output.rejects.clear_raw();
            compressor
                .compress(&mut output.reject_bytes)
                .map_err(Error::compress)?;
        }
        Ok(true)
    }

    /// Empties the batch and takes note of what the reader skipped before the block.
    fn begin(&mut self, output: &mut Output, shared: &Shared) {
        self.batch.clear();
        let Some(skipped) = &self.block.skipped else {
            return;
        };
        let Skipped { line, excerpt, .. } = skipped;
        match skipped.cause {
            Skip::TooLong => {
                let size_max = shared.input_format.line_size_max();
                output.rejects.push_too_long(*line, size_max, excerpt);
            }
            Skip::Crowded => {
                let reason = "a long line, while other connections hold long lines too";
                output.rejects.push(*line, reason, excerpt);
            }
        }
    }

    /// Decodes the block again up to its first `count` events: where a run's limit lies within it.
    /// Record by record, because only decoding tells which of them are events.
    fn decode_first(&mut self, count: u64, output: &mut Output, shared: &Shared) {
        output.rejects = shared.gate.new_output().rejects;
        self.begin(output, shared);
        let framing = shared.input_format.framing();
        let chunk = self.block.chunk();
        let mut rest = chunk;
        while self.batch.len() as u64 + output.rejects.count() < count {
            let size = framing.first(rest.bytes, true);
            let size = size.expect("the block has more events than are asked for");
            let (bytes, behind) = rest.bytes.split_at(size);
            let record = Chunk { bytes, ..rest };
            self.decoder
                .decode(&record, &mut self.batch, &mut output.rejects);
            rest.bytes = behind;
            rest.first_line += memchr_iter(b'\n', bytes).count() as u64;
        }
        output.counts.events_in = count;
        output.counts.bytes_in = (chunk.bytes.len() - rest.bytes.len()) as u64;
    }
}

impl Shared {
    /// Takes a turn to read: fills the block and says its number, or that there are no more.
    fn read(&self, block: &mut Block) -> Option<u64> {
        // After a panic in a reader the gate has ended the run, and `Reader::read` sees that.
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        if entry.state != EntryState::Open {
            return None;
        }
        match entry.reader.read(block) {
            Ok(BlockRead::Filled) => {
                let number = entry.number;
                entry.number += 1;
                return Some(number);
            }
            Ok(BlockRead::End) => entry.state = EntryState::End,
            Ok(BlockRead::Stopped) => entry.state = EntryState::Stopped,
            Err(error) => {
                entry.state = EntryState::End;
                entry.error = Some(error);
            }
        }
        None
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
