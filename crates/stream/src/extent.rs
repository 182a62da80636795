//! Whether a stream ends.

/// Whether a stream has an end of its own.
///
/// It decides what "whole" means for a file: everything, or every batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// It ends by itself, as a file does: output files appear when they are whole.
    Finite,
    /// It ends when it is stopped: output files grow by whole batches.
    Endless,
}
