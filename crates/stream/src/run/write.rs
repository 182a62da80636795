//! Writing of the blocks at the front of the ring.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use lookaside_pipeline::Step;

use super::Strictness;
use super::block_writer::{BlockWriter, Sinks, Totals};
use super::encoding::Encoding;
use super::job::Output;
use super::shared::Shared;
use crate::sink::Written;
use crate::{Error, OutputFormat, Result};

impl Shared {
    /// Records that a block passed the transform, and writes the blocks that are now at the front,
    /// unless another thread does.
    ///
    /// No thread waits to write: the one that increments the number from zero writes, and continues
    /// until no block passed meanwhile.
    pub(super) fn write(&self, encoding: &mut Encoding) {
        // AcqRel, here and below: the writing thread sees the blocks of the threads that it counts.
        if self.passed.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        // Waits at most until the previous thread has released the lock.
        let mut block_writer = self
            .block_writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut seen = 1;
        while seen > 0 {
            block_writer.write_front(encoding, self);
            seen = self.passed.fetch_sub(seen, Ordering::AcqRel) - seen;
        }
    }
}

impl BlockWriter {
    /// Writes finished blocks from the front of the ring, until the next is not finished or the run
    /// is over.
    fn write_front(&mut self, encoding: &mut Encoding, shared: &Shared) {
        let Self {
            hand,
            sinks,
            totals,
        } = self;
        while !shared.is_over() {
            let step = hand.step(|jobs| {
                for job in jobs {
                    assert_eq!(job.number, totals.block_count, "blocks leave in order");
                    totals.block_count += 1;
                    deliver(job.number, job.output, sinks, totals, encoding, shared);
                }
            });
            if !matches!(step, Step::Handled(_)) {
                break;
            }
        }
    }
}

/// Writes an output and adds it to the totals. If it cannot be written, or was abandoned, the run
/// ends.
fn deliver(
    number: u64,
    mut output: Output,
    sinks: &mut Sinks,
    totals: &mut Totals,
    encoding: &mut Encoding,
    shared: &Shared,
) {
    if output.report.is_abandoned {
        return shared.abandon();
    }
    let written = encode_late(&mut output, encoding, sinks, &shared.output_format)
        .and_then(|()| check(&output, shared.strictness))
        .and_then(|()| sinks.write(number, &output, totals));
    if let Ok(Written::GivenUp) = written {
        return shared.abandon();
    }
    let written = written.map(|_| ());
    // After the reader closed the output, it is not known how much of this batch it took.
    if written.is_err() || sinks.is_closed() {
        output.counts.events_out = 0;
        output.counts.bytes_out = 0;
        output
            .encoded
            .iter_mut()
            .for_each(|encoded| encoded.count = 0);
    }
    shared
        .progress
        .add(output.counts, output.rejects.count(), output.report.count());
    for (index, encoded) in output.encoded.iter().enumerate() {
        shared.progress.add_output(index, encoded.count);
    }
    // Otherwise, it is delivered when its receipt says so.
    if let (None, Some(begun)) = (&output.receipt, output.begun) {
        shared.progress.record_latency(begun.elapsed());
    }
    totals.add(&mut output);
    shared.spares.give(output);
    let written = written.and_then(|()| sinks.process_refused(totals));
    match written {
        Ok(()) if sinks.is_closed() => shared.end(None),
        Ok(()) => {}
        Err(error) => shared.end(Some(error)),
    }
}

/// Encodes records that had to be encoded in order.
fn encode_late(
    output: &mut Output,
    encoding: &mut Encoding,
    sinks: &mut Sinks,
    format: &OutputFormat,
) -> Result<()> {
    match (output.error.take(), output.batch.take()) {
        (Some(error), _) => Err(error),
        (None, Some(mut batch)) => {
            let was_ready = format.is_ready();
            encoding.encode(&mut batch, None, output)?;
            // Its first record determined the columns.
            if !was_ready && format.is_ready() {
                sinks.outputs[0].set_header(&format.header())?;
            }
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

/// Fails if a strict run must end.
fn check(output: &Output, strictness: Strictness) -> Result<()> {
    let Output {
        source,
        rejects,
        report,
        ..
    } = output;
    if strictness == Strictness::Strict && rejects.count() + report.count() > 0 {
        return Err(Error::strict(source, rejects, &report.failures));
    }
    Ok(())
}
