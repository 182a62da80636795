//! A worker thread of a run: reads a block, transforms one, and writes the next ones.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lookaside_pipeline::Worker as PipelineWorker;
use lookaside_value::{Batch, NameTable};
use memchr::memchr_iter;

use super::Transform;
use super::encoding::Encoding;
use super::job::{Output, RunJob};
use super::shared::Shared;
use crate::format::Decoder;
use crate::progress::Counts;
use crate::source::{Block, Skip, Skipped};
use crate::{Chunk, Error};

/// A thread's pipeline worker and its state; all of its memory is reused for each block.
pub(super) struct Worker<T> {
    pub(super) hand: PipelineWorker<RunJob>,
    /// The block that it reads into next.
    pub(super) block: Block,
    pub(super) maker: Maker<T>,
    pub(super) encoding: Encoding,
}

/// Decodes the records of a block and transforms them.
pub(super) struct Maker<T> {
    pub(super) decoder: Box<dyn Decoder>,
    pub(super) transform: T,
    /// The names that each batch starts from.
    pub(super) names: Arc<NameTable>,
    pub(super) batch: Batch,
}

impl<T: Transform> Worker<T> {
    /// Works until the run is over. An error or a panic ends the run for all threads.
    pub(super) fn work(&mut self, shared: &Shared) {
        // After a panic, this worker is not used again, nor is the shared state.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work_blocks(shared))) {
            shared.end(Some(Error::panicked(panic_message(&*panic))));
        }
    }

    fn work_blocks(&mut self, shared: &Shared) {
        let Self {
            hand,
            block,
            maker,
            encoding,
        } = self;
        // After reading a block, the same thread takes one, usually the same block. So a thread
        // always finds a block, and none is left when all threads have ended.
        while shared.read(block) {
            hand.step(|jobs| {
                for job in jobs {
                    maker.make(job, encoding, shared);
                    *block = mem::take(&mut job.block);
                }
            });
            shared.write(encoding);
        }
    }
}

impl<T: Transform> Maker<T> {
    /// Produces the output of a block.
    fn make(&mut self, job: &mut RunJob, encoding: &mut Encoding, shared: &Shared) {
        let RunJob {
            number,
            block,
            output,
        } = job;
        output.source.clone_from(&block.source);
        output.mark = block.mark;
        output.receipt = block.receipt.take();
        if !block.messages.is_empty() {
            return self.make_messages(*number, block, output, encoding, shared);
        }
        self.begin(block, output, shared);
        let chunk = block.chunk();
        self.decoder
            .decode(&chunk, &mut self.batch, &mut output.rejects);
        assert_eq!(
            output.counts.events_in, 0,
            "an output was emptied before it is used again"
        );
        output.counts.bytes_in = chunk.bytes.len() as u64;
        output.counts.events_in = self.batch.len() as u64 + output.rejects.count();
        match shared.admit(*number, output.counts.events_in) {
            None => {
                output.rejects = shared.spares.no_rejects();
                output.counts = Counts::default();
                output.mark = None;
                output.receipt = None;
                return;
            }
            Some(count) if count < output.counts.events_in => {
                assert!(
                    shared.limit.is_some(),
                    "only a limit admits a part of a block"
                );
                self.decode_first(count, block, output, shared);
            }
            Some(_) => {}
        }

        if !self.transform(output, shared) {
            return;
        }
        if !output.report.rejected.is_empty() {
            self.reject(&chunk, output, shared);
        }
        if shared.output_format.is_ready() {
            output.error = encoding.encode(&mut self.batch, None, output).err();
        } else {
            let empty = Batch::new(self.names.clone());
            output.batch = Some(mem::replace(&mut self.batch, empty));
        }
    }

    /// Splits and transforms the batch; returns whether it was not abandoned.
    pub(super) fn transform(&mut self, output: &mut Output, shared: &Shared) -> bool {
        if let Some(split) = &shared.split {
            let empty_count = split.apply(&mut self.batch, &mut output.rejects);
            output.counts.events_dropped += empty_count;
        }
        self.transform
            .transform(&mut self.batch, &mut output.report);
        output.counts.events_dropped += mem::take(&mut output.report.dropped_count);
        !output.report.is_abandoned
    }

    /// Clears the batch and records what the reader skipped before the block.
    fn begin(&mut self, block: &Block, output: &mut Output, shared: &Shared) {
        self.batch.clear();
        let Some(skipped) = &block.skipped else {
            return;
        };
        let Skipped { line, excerpt, .. } = skipped;
        match &skipped.cause {
            Skip::TooLong => {
                let size_max = shared.input_format.line_size_max();
                output.rejects.push_too_long(*line, size_max, excerpt);
            }
            Skip::Crowded => {
                let reason = "a long line, while other connections hold long lines too";
                output.rejects.push(*line, reason, excerpt);
            }
            Skip::Broken(reason) => output.rejects.push(*line, reason.clone(), excerpt),
        }
    }

    /// Removes the records that the transform rejected, and adds their lines to the rejected ones.
    fn reject(&mut self, chunk: &Chunk<'_>, output: &mut Output, shared: &Shared) {
        let Output {
            report, rejects, ..
        } = output;
        let framing = shared.input_format.framing();
        let (mut rest, mut line) = (chunk.bytes, chunk.first_line);
        for (rejected, reason) in report.take_rejected(&mut self.batch) {
            while let Some(size) = framing.first(rest, true) {
                let (record, behind) = rest.split_at(size);
                rest = behind;
                let first_line = line;
                line += memchr_iter(b'\n', record).count() as u64;
                if first_line == rejected {
                    let record = record.strip_suffix(b"\n").unwrap_or(record);
                    let record = record.strip_suffix(b"\r").unwrap_or(record);
                    rejects.push(rejected, reason, record);
                    break;
                }
            }
        }
    }

    /// Decodes the block again up to its first `count` events, when the limit of the run is within
    /// the block. Record by record, because only decoding shows which of them are events.
    fn decode_first(&mut self, count: u64, block: &Block, output: &mut Output, shared: &Shared) {
        output.rejects = shared.spares.no_rejects();
        self.begin(block, output, shared);
        let framing = shared.input_format.framing();
        let chunk = block.chunk();
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
        output.mark = block
            .end
            .map(|end| end.before(rest.bytes.len(), rest.first_line));
        debug_assert_eq!(
            self.batch.len() as u64 + output.rejects.count(),
            count,
            "the decoded events equal the admitted count"
        );
        output.counts.events_in = count;
        output.counts.bytes_in = (chunk.bytes.len() - rest.bytes.len()) as u64;
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
