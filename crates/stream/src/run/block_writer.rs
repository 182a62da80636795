//! The last stage of the ring: finished blocks are written in the order of the input.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use lookaside_pipeline::LastWorker;

use super::encoding::dead_letter_of;
use super::job::{Output, RunJob};
use super::results::in_output;
use super::routes::OutputNames;
use super::warning::WarningCallback;
use crate::mark::Mark;
use crate::message::{Partition, RefusedMessage};
use crate::progress::Counts;
use crate::sink::{Settled, Written};
use crate::{Checkpoint, End, Error, Progress, Rejects, Result, Sink, Strictness};

/// The state of the writing thread: the single worker of the ring's last stage, and the sinks.
pub(super) struct BlockWriter {
    pub(super) hand: LastWorker<RunJob>,
    pub(super) sinks: Sinks,
    pub(super) totals: Totals,
}

/// The sinks of a run.
pub(super) struct Sinks {
    /// The default output, then the named ones.
    pub(super) outputs: Vec<Sink>,
    pub(super) output_names: OutputNames,
    pub(super) rejects: Option<Sink>,
    /// The paths of the files that are read.
    pub(super) inputs: Vec<PathBuf>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// The blocks of the run, if their bytes are written to sinks of messages.
    pub(super) blocks: Option<Arc<Partition>>,
    /// The marks of these blocks that are not delivered as far as known, each with the number of
    /// the next block.
    pub(super) marks: VecDeque<(u64, Mark)>,
    /// Whether an output is rotated.
    pub(super) rotates: bool,
    /// Whether the checkpoint has the position of all that was written.
    pub(super) is_stored: bool,
    pub(super) strictness: Strictness,
    pub(super) progress: Progress,
    pub(super) warning: WarningCallback,
}

/// The totals of everything that was written.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    pub(super) rejects: Rejects,
    pub(super) failures: Rejects,
    /// Rejects that their own sink refused.
    pub(super) rejects_refused: u64,
    /// The records that were written to each output.
    pub(super) events_out: Vec<u64>,
    /// How many blocks those are of, which is the number of the next one.
    pub(super) block_count: u64,
}

impl Sinks {
    /// Writes the output of a block. What sinks of bytes have written is delivered.
    pub(super) fn write(
        &mut self,
        number: u64,
        output: &Output,
        totals: &mut Totals,
    ) -> Result<Written> {
        if let Some(receipt) = &output.receipt {
            let results = output.encoded.iter().map(|encoded| &encoded.messages);
            for messages in results.chain([&output.dead_letters]) {
                for message in messages.iter() {
                    receipt.add(message.segment(), 1);
                }
            }
        }
        if self.rotates {
            self.rotate_due(Some(output))?;
        }
        self.is_stored = false;
        for (sink, encoded) in self.outputs.iter_mut().zip(&output.encoded) {
            sink.write(&encoded.bytes)?;
        }
        if let Some(rejects) = &mut self.rejects {
            rejects.write(&output.reject_bytes)?;
        }
        if self.wait(totals, |sinks| sinks.outputs[0].wait_ready())? == Written::GivenUp {
            return Ok(Written::GivenUp);
        }
        let results = output.encoded.iter().map(|encoded| &encoded.messages);
        let results = self.outputs.iter_mut().zip(results);
        let dead_letters = self
            .rejects
            .as_mut()
            .map(|sink| (sink, &output.dead_letters));
        for (sink, messages) in results.chain(dead_letters) {
            let Some(receipt) = &output.receipt else {
                continue;
            };
            if sink.write_messages(messages, receipt)? == Written::GivenUp {
                return Ok(Written::GivenUp);
            }
        }
        // Output that is written after the reader has closed it is not counted.
        if self.is_closed() {
            return Ok(Written::Taken);
        }
        if let Some(receipt) = &output.receipt {
            receipt.release();
            if let Some(mark) = &output.mark
                && self.outputs[0].end_block(mark, receipt)? == Written::GivenUp
            {
                return Ok(Written::GivenUp);
            }
        }
        self.is_stored = output.mark.is_some();
        if let Some(mark) = output.mark {
            match self.blocks {
                Some(_) => self.marks.push_back((number + 1, mark)),
                None => self.store(mark)?,
            }
        }
        self.store_mark()?;
        Ok(Written::Taken)
    }

    /// Whether the reader of standard output is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.outputs.iter().any(Sink::is_closed)
    }

    /// Stores the mark of the last block before which everything is delivered.
    pub(super) fn store_mark(&mut self) -> Result<()> {
        let delivered = self
            .blocks
            .as_ref()
            .and_then(|blocks| blocks.acknowledged());
        let mut last = None;
        while let Some((_, mark)) = (self.marks)
            .pop_front_if(|(next, _)| delivered.is_some_and(|delivered| *next <= delivered))
        {
            last = Some(mark);
        }
        match last {
            Some(mark) => self.store(mark),
            None => Ok(()),
        }
    }

    /// Writes the messages that the sinks' brokers refused to the rejects, and counts them.
    pub(super) fn process_refused(&mut self, totals: &mut Totals) -> Result<()> {
        let outputs = self.outputs.iter_mut().enumerate();
        for (index, mut refused) in outputs
            .flat_map(|(index, sink)| sink.take_refused().into_iter().map(move |it| (index, it)))
        {
            refused.reason = in_output(self.output_names.named(index), refused.reason);
            totals.refuse(index, &refused, &self.progress, self.strictness)?;
            match &mut self.rejects {
                Some(rejects) if rejects.takes_messages() => {
                    // The letter takes the place of the message on its receipt.
                    let letter = dead_letter_of(&refused);
                    if rejects.write_messages(&letter, &refused.receipt)? == Written::GivenUp {
                        return Ok(());
                    }
                    continue;
                }
                Some(rejects) => {
                    let mut bytes = refused.payload.clone().unwrap_or_default();
                    bytes.push(b'\n');
                    let compressed = rejects
                        .compression()
                        .compressor()
                        .and_then(|mut compressor| compressor.compress(&mut bytes));
                    compressed.map_err(Error::compress)?;
                    rejects.write(&bytes)?;
                }
                None => {}
            }
            refused.receipt.deliver(refused.segment, 1);
        }
        for refused in self.rejects.iter_mut().flat_map(Sink::take_refused) {
            totals.rejects_refused += 1;
            refused.receipt.deliver(refused.segment, 1);
        }
        Ok(())
    }

    /// Waits until everything that was written is delivered or among the rejects.
    pub(super) fn flush(&mut self, totals: &mut Totals) -> Result<Written> {
        // Dead letters of refused messages are written after the outputs are flushed.
        for index in 0..self.outputs.len() {
            if self.wait(totals, |sinks| sinks.outputs[index].flush())? == Written::GivenUp {
                return Ok(Written::GivenUp);
            }
        }
        let flush_rejects = |sinks: &mut Self| match &mut sinks.rejects {
            Some(rejects) => rejects.flush(),
            None => Ok(Settled::Yes),
        };
        if self.wait(totals, flush_rejects)? == Written::GivenUp {
            return Ok(Written::GivenUp);
        }
        self.store_mark()?;
        Ok(Written::Taken)
    }

    /// Waits for a sink, which may wait until what other sinks have refused is among the rejects.
    fn wait(
        &mut self,
        totals: &mut Totals,
        mut wait: impl FnMut(&mut Self) -> Result<Settled>,
    ) -> Result<Written> {
        loop {
            let settled = wait(self)?;
            self.process_refused(totals)?;
            match settled {
                Settled::Yes => return Ok(Written::Taken),
                Settled::NotYet => {}
                Settled::GivenUp => return Ok(Written::GivenUp),
            }
        }
    }

    /// Makes the outputs final that may appear for this `end`. A stopped run is incomplete: the
    /// partial content of a file that appears when complete is kept next to it, under the returned
    /// names.
    pub(super) fn finish(mut self, end: End) -> Result<Vec<PathBuf>> {
        let is_part = |sink: &Sink| end == End::Stopped && sink.appears_whole();
        for sink in self.outputs.iter_mut().chain(&mut self.rejects) {
            if !is_part(sink) {
                sink.complete()?;
            }
        }
        self.store_end()?;
        let mut parts = Vec::new();
        for sink in self.outputs.into_iter().chain(self.rejects) {
            if is_part(&sink) {
                parts.extend(sink.keep_part()?);
            } else {
                sink.finish()?;
            }
        }
        Ok(parts)
    }
}

impl Totals {
    /// Counts a result that the broker of the output with this index refused as a reject.
    ///
    /// # Errors
    /// In a strict run.
    fn refuse(
        &mut self,
        index: usize,
        refused: &RefusedMessage,
        progress: &Progress,
        strictness: Strictness,
    ) -> Result<()> {
        self.counts.events_out -= 1;
        self.events_out[index] -= 1;
        progress.refuse(index);
        let source = refused.receipt.partition(refused.segment).name();
        let mut rejects = Rejects::new();
        let bytes = refused.payload.as_deref().unwrap_or_default();
        rejects.push(0, refused.reason.clone(), bytes);
        let error = (strictness == Strictness::Strict)
            .then(|| Error::strict(source, &rejects, &Rejects::new()));
        self.rejects.append(&mut rejects, source);
        error.map_or(Ok(()), Err)
    }

    pub(super) fn add(&mut self, output: &mut Output) {
        self.counts.events_in += output.counts.events_in;
        self.counts.events_out += output.counts.events_out;
        self.counts.events_dropped += output.counts.events_dropped;
        for (sum, encoded) in self.events_out.iter_mut().zip(&output.encoded) {
            *sum += encoded.count;
        }
        self.counts.bytes_in += output.counts.bytes_in;
        self.counts.bytes_out += output.counts.bytes_out;
        self.rejects.append(&mut output.rejects, &output.source);
        self.failures
            .append(&mut output.report.failures, &output.source);
    }
}
