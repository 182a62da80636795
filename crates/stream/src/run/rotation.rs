//! Rotation of the output files of a run, and what a checkpoint records of them.

use std::time::SystemTime;

use super::block_writer::Sinks;
use super::job::Output;
use crate::file_identity::FileIdentity;
use crate::mark::Mark;
use crate::sink::{RecordEnds, Recorded};
use crate::source::OutputPositions;
use crate::{Checkpoint, OutputFormat, Result, Sink};

impl Sinks {
    /// Cuts the outputs back to the checkpoint, or to their last complete record, and stores `first`,
    /// the position before the first event, if the checkpoint has none. The checkpoint has no
    /// positions of named outputs.
    pub(super) fn begin<'a>(
        &mut self,
        first: Option<Mark>,
        formats: impl Iterator<Item = &'a OutputFormat>,
    ) -> Result<()> {
        let Self {
            outputs,
            rejects,
            checkpoint,
            warning,
            ..
        } = self;
        let warn = |text: &str| warning.warn(text);
        let positions = checkpoint.as_ref().map(|it| it.outputs());
        let OutputPositions {
            output: written,
            rejects: rejected,
            is_ended,
        } = positions.unwrap_or_default();
        let recorded = |position| {
            let checkpoint = checkpoint.as_ref()?;
            Some(Recorded {
                name: checkpoint.name(),
                position,
                is_ended,
            })
        };
        for (index, (output, format)) in outputs.iter_mut().zip(formats).enumerate() {
            let recorded = (index == 0).then(|| recorded(written)).flatten();
            output.begin(recorded, format.record_ends(), &warn)?;
        }
        if let Some(rejects) = rejects {
            // A rejected record is written as it is.
            rejects.begin(recorded(rejected), RecordEnds::Lines, &warn)?;
        }
        let mark = checkpoint.as_ref().and_then(|it| it.mark()).or(first);
        match mark {
            // From here on, a rename of the input does not lose events, whatever ends this run.
            Some(mark) => self.store(mark),
            None => Ok(()),
        }
    }

    /// Stores a mark with the positions that the outputs have now, while the run goes on.
    ///
    /// If results are messages, their marks are stored later than the results are written, and
    /// rejects of theirs may have been written meanwhile. With the position of that time, the next
    /// run repeats these, but cuts none off.
    pub(super) fn store(&mut self, mark: Mark) -> Result<()> {
        self.store_as(mark, false)
    }

    /// Stores the mark again when nothing more is written, if everything that was written belongs to
    /// it.
    pub(super) fn store_end(&mut self) -> Result<()> {
        if !self.is_stored || !self.marks.is_empty() {
            return Ok(());
        }
        let mark = self.checkpoint.as_ref().and_then(Checkpoint::mark);
        mark.map_or(Ok(()), |mark| self.store_as(mark, true))
    }

    fn store_as(&mut self, mark: Mark, is_ended: bool) -> Result<()> {
        let Some(checkpoint) = &mut self.checkpoint else {
            return Ok(());
        };
        let outputs = OutputPositions {
            output: self.outputs[0].position(),
            rejects: self.rejects.as_ref().and_then(Sink::position),
            is_ended,
        };
        checkpoint.store(mark, outputs)
    }

    /// Rotates the files that are due before `next` is written, if it is given.
    pub(super) fn rotate_due(&mut self, next: Option<&Output>) -> Result<()> {
        // What was written after the checkpoint could not be found in a renamed file. The next
        // block with a mark makes up for it.
        if self.checkpoint.is_some() && !self.is_stored && self.blocks.is_none() {
            return Ok(());
        }
        let now = SystemTime::now();
        for index in 0..self.outputs.len() {
            let size = next.map_or(0, |next| next.encoded[index].bytes.len());
            if self.outputs[index].is_rotation_due(size, now) {
                self.outputs[index].rotate(now)?;
                self.end_rotation()?;
                self.warn_of(self.outputs[index].remove_old(&|file| self.is_in_use(file)));
            }
        }
        let size = next.map_or(0, |next| next.reject_bytes.len());
        if let Some(rejects) = &mut self.rejects
            && rejects.is_rotation_due(size, now)
        {
            rejects.rotate(now)?;
            self.end_rotation()?;
            let rejects = self.rejects.as_ref();
            self.warn_of(rejects.and_then(|it| it.remove_old(&|file| self.is_in_use(file))));
        }
        Ok(())
    }

    /// Stores the checkpoint with the next file, before that is written to.
    fn end_rotation(&mut self) -> Result<()> {
        let mark = self.checkpoint.as_ref().and_then(|it| it.mark());
        mark.map_or(Ok(()), |mark| self.store(mark))
    }

    /// Whether the run reads or writes this file.
    fn is_in_use(&self, file: &FileIdentity) -> bool {
        let mut inputs = self.inputs.iter();
        inputs.any(|path| FileIdentity::of_path(path).as_ref() == Some(file))
            || self
                .outputs
                .iter()
                .chain(&self.rejects)
                .any(|sink| sink.writes_to(file))
    }

    fn warn_of(&self, warning: Option<String>) {
        if let Some(warning) = warning {
            self.warning.warn(&warning);
        }
    }

    /// When a file is to be rotated even if nothing is written.
    pub(super) fn next_rotation(&self) -> Option<SystemTime> {
        let sinks = self.outputs.iter().chain(&self.rejects);
        sinks.filter_map(Sink::next_rotation).min()
    }
}
