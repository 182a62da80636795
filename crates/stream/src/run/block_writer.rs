//! The last stage of the ring: finished blocks are written in the order of the input.

use std::path::PathBuf;

use lookaside_pipeline::LastWorker;

use super::job::{Output, RunJob};
use crate::progress::Counts;
use crate::{Checkpoint, End, Rejects, Result, Sink};

/// The state of the writing thread: the single worker of the ring's last stage, and the sinks.
pub(super) struct BlockWriter {
    pub(super) hand: LastWorker<RunJob>,
    pub(super) sinks: Sinks,
    pub(super) totals: Totals,
}

/// The sinks of a run.
pub(super) struct Sinks {
    pub(super) output: Sink,
    pub(super) rejects: Option<Sink>,
    pub(super) checkpoint: Option<Checkpoint>,
}

/// The totals of everything that was written.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    pub(super) rejects: Rejects,
    pub(super) failures: Rejects,
    /// How many blocks those are of, which is the number of the next one.
    pub(super) block_count: u64,
}

impl Sinks {
    pub(super) fn write(&mut self, output: &Output) -> Result<()> {
        self.output.write(&output.bytes)?;
        if let Some(rejects) = &mut self.rejects {
            rejects.write(&output.reject_bytes)?;
        }
        // Output that is written after the reader has closed it is not counted.
        match (&mut self.checkpoint, output.mark) {
            (Some(checkpoint), Some(mark)) if !self.output.is_closed() => checkpoint.store(mark),
            _ => Ok(()),
        }
    }

    /// Makes the outputs final that may appear for this `end`. A stopped run is incomplete: the
    /// partial content of a file that appears when complete is kept next to it, under the returned
    /// names.
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
    pub(super) fn add(&mut self, output: &mut Output) {
        self.counts.events_in += output.counts.events_in;
        self.counts.events_out += output.counts.events_out;
        self.counts.bytes_in += output.counts.bytes_in;
        self.counts.bytes_out += output.counts.bytes_out;
        self.rejects.append(&mut output.rejects, &output.source);
        self.failures
            .append(&mut output.report.failures, &output.source);
    }
}
