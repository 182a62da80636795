//! Whether a stream ends.

/// Whether a stream ends by itself.
///
/// It decides whether an output file appears when complete, or grows by complete batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// It ends by itself, as a file does: output files appear when they are complete.
    Finite,
    /// It ends when it is stopped: output files grow by complete batches.
    Endless,
}
