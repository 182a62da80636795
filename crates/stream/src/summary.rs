//! Summaries of runs.

use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Rejects;

/// The summary of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Records that were read, including rejected ones.
    pub events_in: u64,
    /// Records that were written, counted for each output.
    pub events_out: u64,
    /// Records that are not written, as the transform removed them or assigned them to no output.
    pub events_dropped: u64,
    /// The records that were written to each named output, in the order of their names in the flow.
    pub named_events_out: Vec<u64>,
    /// Lines that are not records, and records that could not be written.
    pub rejects: Rejects,
    /// Rejects that are not written, since the broker of their sink refused them, for example
    /// because a message is too large with its reason.
    pub rejects_refused: u64,
    /// Failures that the transform reported, such as failed lookups.
    pub failures: Rejects,
    /// Bytes of the lines read, including rejected ones, after decompression; without lines that
    /// exceeded the size limit.
    pub bytes_in: u64,
    /// Bytes of the records written, before compression; without those of rejected lines.
    pub bytes_out: u64,
    /// Connections of the sinks that were lost and reopened, and the consequences.
    pub reconnects: Reconnects,
    /// How often the followed file was truncated, replaced or missing, or rotated files were removed
    /// unread.
    pub truncations: u64,
    /// Bytes that a followed file is known to have had, and that were truncated before they were
    /// read.
    pub bytes_unread: u64,
    /// UDP datagrams that the system discarded because they were not read in time.
    pub datagrams_lost: u64,
    /// Wall-clock time.
    pub elapsed: Duration,
    /// User and system time of the whole process during the run.
    pub cpu: Duration,
    /// Why the run ended.
    pub end: End,
    /// Whether the run ended before its sinks had delivered all that was written to them.
    pub is_undelivered: bool,
    /// Files with the partial output of a stopped run, in place of those that did not appear.
    pub parts: Vec<PathBuf>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The source was read to its end.
    #[default]
    Whole,
    /// The event limit was reached.
    Limit,
    /// It was stopped; an output file that appears when complete did not appear, and its partial
    /// content is in [`Summary::parts`].
    Stopped,
    /// It failed; the error with this summary has the reason.
    Failed,
    /// The reader of standard output is gone.
    BrokenPipe,
}

/// The consequences of lost connections of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconnects {
    /// How often a connection was reopened.
    pub count: u64,
    /// Complete lines that were sent again, of which the peer may have received some or all before.
    pub replayed_lines: u64,
    /// The size of these lines in bytes.
    pub replayed_bytes: u64,
    /// The maximal number of bytes that were not sent again and may have been lost. Bytes that the
    /// buffers of both ends cannot have held are not counted.
    pub lost_bytes_max: u64,
}

impl Reconnects {
    /// Adds the numbers of another sink.
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
