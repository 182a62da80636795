//! What a run did.

use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Rejects;

/// What a run did, from its first byte to its end.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Records that were read, the rejected ones among them.
    pub events_in: u64,
    /// Records that were written.
    pub events_out: u64,
    /// Lines that are not records, and records that could not be written.
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

/// What the losses of a sink's connections led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconnects {
    /// How often a connection was opened again.
    pub count: u64,
    /// Whole lines that were sent again, of which the peer may have had some or all.
    pub replayed_lines: u64,
    /// Their bytes.
    pub replayed_bytes: u64,
    /// Bytes that were sent and not sent again, and may not have arrived: at most so many. Those
    /// that the buffers of both ends cannot have held are not among them.
    pub lost_bytes_max: u64,
}

impl Reconnects {
    /// Adds those of another sink.
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.replayed_lines += other.replayed_lines;
        self.replayed_bytes += other.replayed_bytes;
        self.lost_bytes_max += other.lost_bytes_max;
    }
}

/// User and system time of the process so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Both are in range: the clock counts up from the start of the process.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}
