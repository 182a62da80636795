//! The way out: what the ring has finished leaves in the order of the input.

use std::path::PathBuf;

use lookaside_pipeline::{LastWorker, Step};

use super::job::{Counts, Job, Output};
use super::shared::Shared;
use super::worker::Encoding;
use super::{End, Strictness};
use crate::{Checkpoint, Error, OutputFormat, Rejects, Result, Sink};

/// What the thread holds that writes: the last stage of the ring, which is one, and the sinks.
pub(super) struct Exit {
    pub(super) hand: LastWorker<Job>,
    pub(super) sinks: Sinks,
    pub(super) totals: Totals,
}

/// Where a run writes to.
pub(super) struct Sinks {
    pub(super) output: Sink,
    pub(super) rejects: Option<Sink>,
    pub(super) checkpoint: Option<Checkpoint>,
}

/// Everything that left in order.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    pub(super) rejects: Rejects,
    pub(super) failures: Rejects,
}

impl Exit {
    /// Writes what has reached the front of the ring, until that is missing or the run is over.
    pub(super) fn write_front(&mut self, encoding: &mut Encoding, shared: &Shared) {
        let Self {
            hand,
            sinks,
            totals,
        } = self;
        while !shared.is_over() {
            let step = hand.step(|jobs| {
                for job in jobs {
                    deliver(job.output, sinks, totals, encoding, shared);
                }
            });
            if !matches!(step, Step::Handled(_)) {
                break;
            }
        }
    }
}

/// Writes an output and adds it up. One that cannot be written, or was given up, ends the run.
fn deliver(
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
        .and_then(|()| sinks.write(&output));
    // After the reader closed the output, it is not known how much of this batch it took.
    if written.is_err() || sinks.output.is_closed() {
        output.counts.events_out = 0;
        output.counts.bytes_out = 0;
    }
    shared.progress.add(&output);
    totals.add(&mut output);
    shared.spares.give(output);
    match written {
        Ok(()) if sinks.output.is_closed() => shared.end(None),
        Ok(()) => {}
        Err(error) => shared.end(Some(error)),
    }
}

/// Encodes what had to wait for its turn.
fn encode_late(
    output: &mut Output,
    encoding: &mut Encoding,
    sinks: &mut Sinks,
    format: &OutputFormat,
) -> Result<()> {
    match (output.error.take(), output.batch.take()) {
        (Some(error), _) => Err(error),
        (None, Some(batch)) => {
            let was_ready = format.is_ready();
            encoding.encode(&batch, output)?;
            // Its first record decided the columns.
            if !was_ready && format.is_ready() {
                sinks.output.set_header(&format.prologue());
            }
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

/// Fails where a strict run does not go on.
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

impl Sinks {
    fn write(&mut self, output: &Output) -> Result<()> {
        self.output.write(&output.bytes)?;
        if let Some(rejects) = &mut self.rejects {
            rejects.write(&output.reject_bytes)?;
        }
        // What is written after the reader closed the output does not count as written.
        match (&mut self.checkpoint, output.mark) {
            (Some(checkpoint), Some(mark)) if !self.output.is_closed() => checkpoint.store(mark),
            _ => Ok(()),
        }
    }

    /// Makes final what may appear at that end. A stopped run is not whole: what it wrote of a file
    /// that appears when whole is kept beside it, under the names that come back.
    pub(super) fn finish(self, end: End) -> Result<Vec<PathBuf>> {
        let mut parts = Vec::new();
        for sink in [Some(self.output), self.rejects].into_iter().flatten() {
            if end == End::Stopped && sink.appears_whole() {
                parts.extend(sink.keep_part()?);
            } else {
                sink.finish()?;
            }
        }
        Ok(parts)
    }
}

impl Totals {
    fn add(&mut self, output: &mut Output) {
        self.counts.events_in += output.counts.events_in;
        self.counts.events_out += output.counts.events_out;
        self.counts.bytes_in += output.counts.bytes_in;
        self.counts.bytes_out += output.counts.bytes_out;
        self.rejects.append(&mut output.rejects, &output.source);
        self.failures
            .append(&mut output.report.failures, &output.source);
    }
}
