//! What a run did.

use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Reconnects, Rejects};

/// What a run did, from its first byte to its end.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Records that were read, the rejected ones among them.
    pub events_in: u64,
    /// Records that were written.
    pub events_out: u64,
    /// Lines that are no records, and records that could not be written.
    pub rejects: Rejects,
    /// What the transform reported: failed lookups.
    pub failures: Rejects,
    /// Bytes of the lines read, the rejected ones among them, after decompression; without lines that
    /// were longer than a line may be.
    pub bytes_in: u64,
    /// Bytes of the records written, before compression; without those of rejected lines.
    pub bytes_out: u64,
    /// Connections of the sinks that were lost and opened again, and what that led to.
    pub reconnects: Reconnects,
    /// How often the followed file was truncated, replaced or missing, or rotated files were removed
    /// unread.
    pub truncations: u64,
    /// Bytes that a followed file was seen to have, and that were cut off before they were read.
    pub bytes_unread: u64,
    /// Wall-clock time.
    pub elapsed: Duration,
    /// User and system time of the whole process during the run.
    pub cpu: Duration,
    /// Why the run ended.
    pub end: End,
    /// Files of a stopped run that hold what it wrote, in place of those that did not appear.
    pub parts: Vec<PathBuf>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The source was read to its end.
    #[default]
    Whole,
    /// So many events were read as were asked for.
    Limit,
    /// It was asked to stop; an output file that was to appear when whole did not appear, and what
    /// was written of it is in [`Summary::parts`].
    Stopped,
    /// It failed; the error with this summary says how.
    Failed,
    /// The reader of standard output went away.
    BrokenPipe,
}

/// User and system time of the process so far.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Both are in range: the clock counts up from the start of the process.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}
