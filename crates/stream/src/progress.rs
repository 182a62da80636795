//! The progress of a run, for observers.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::latency::{Histogram, Latencies};

/// The progress of a run; clones refer to the same run.
///
/// The run updates it once per block, not once per event.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Inner>);

/// `Relaxed` throughout: the numbers do not order other accesses and need not be consistent with
/// each other.
#[derive(Debug, Default)]
struct Inner {
    file_bytes: AtomicU64,
    events_in: AtomicU64,
    events_out: AtomicU64,
    events_dropped: AtomicU64,
    rejects: AtomicU64,
    failures: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    truncations: AtomicU64,
    bytes_unread: AtomicU64,
    datagrams_lost: AtomicU64,
    latencies: Histogram,
    /// The records that were written to each output; set when a run begins.
    output_events: OnceLock<Box<[AtomicU64]>>,
}

/// Sums of a run so far, as they will be in the [`Summary`](crate::Summary).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records that were read, including rejected ones.
    pub events_in: u64,
    /// Records that were written, counted for each output.
    pub events_out: u64,
    /// Records that are not written, as the transform removed them or assigned them to no output.
    pub events_dropped: u64,
    /// Lines that are not records, and records that could not be written.
    pub rejects: u64,
    /// Failures that the transform reported, such as failed lookups.
    pub failures: u64,
    /// Bytes of the records read, after decompression.
    pub bytes_in: u64,
    /// Bytes of the records written, before compression.
    pub bytes_out: u64,
    /// How often the followed file was truncated, replaced or missing, or rotated files were removed
    /// unread.
    pub truncations: u64,
    /// Bytes that were truncated before they were read.
    pub bytes_unread: u64,
    /// UDP datagrams that the system discarded because they were not read in time.
    pub datagrams_lost: u64,
}

/// Sums of a block or a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) events_in: u64,
    pub(crate) events_out: u64,
    pub(crate) events_dropped: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Progress {
    /// Creates a progress of zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes read from the source's files, before decompression, to be compared with
    /// [`Source::size`](crate::Source::size).
    pub fn file_bytes(&self) -> u64 {
        self.0.file_bytes.load(Ordering::Relaxed)
    }

    /// The sums so far.
    pub fn figures(&self) -> Figures {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Figures {
            events_in: load(&self.0.events_in),
            events_out: load(&self.0.events_out),
            events_dropped: load(&self.0.events_dropped),
            rejects: load(&self.0.rejects),
            failures: load(&self.0.failures),
            bytes_in: load(&self.0.bytes_in),
            bytes_out: load(&self.0.bytes_out),
            truncations: load(&self.0.truncations),
            bytes_unread: load(&self.0.bytes_unread),
            datagrams_lost: load(&self.0.datagrams_lost),
        }
    }

    /// How long the batches that were delivered so far took since they were read.
    pub fn latencies(&self) -> Latencies {
        self.0.latencies.counts()
    }

    /// The records that were written so far to each output of the run, the default one first; empty
    /// before the run begins.
    pub fn output_events(&self) -> Vec<u64> {
        let counts = self.0.output_events.get().into_iter().flatten();
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Sets the number of outputs. A progress of several runs keeps the number of the first one.
    pub(crate) fn begin(&self, output_count: usize) {
        let zeros = || (0..output_count).map(|_| AtomicU64::default()).collect();
        self.0.output_events.get_or_init(zeros);
    }

    /// Adds records that were written to the output with this index.
    pub(crate) fn add_output(&self, index: usize, count: u64) {
        let counts = self.0.output_events.get();
        if let Some(sum) = counts.and_then(|counts| counts.get(index)) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts a batch that was delivered.
    pub(crate) fn record_latency(&self, time: Duration) {
        self.0.latencies.record(time);
    }

    /// Counts that a followed file was truncated or is missing, with the number of bytes that are
    /// known to have existed and were never read.
    pub(crate) fn add_truncation(&self, bytes_unread: u64) {
        self.0.truncations.fetch_add(1, Ordering::Relaxed);
        self.0
            .bytes_unread
            .fetch_add(bytes_unread, Ordering::Relaxed);
    }

    pub(crate) fn add_lost_datagrams(&self, count: u64) {
        self.0.datagrams_lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds a block that was written.
    pub(crate) fn add(&self, counts: Counts, reject_count: u64, failure_count: u64) {
        let add = |number: &AtomicU64, count| number.fetch_add(count, Ordering::Relaxed);
        add(&self.0.events_in, counts.events_in);
        add(&self.0.events_out, counts.events_out);
        add(&self.0.events_dropped, counts.events_dropped);
        add(&self.0.rejects, reject_count);
        add(&self.0.failures, failure_count);
        add(&self.0.bytes_in, counts.bytes_in);
        add(&self.0.bytes_out, counts.bytes_out);
    }

    /// Counts a result that was written to the output with this index, and then refused by its
    /// broker, as a reject.
    pub(crate) fn refuse(&self, index: usize) {
        let counts = self.0.output_events.get();
        if let Some(sum) = counts.and_then(|counts| counts.get(index)) {
            sum.fetch_sub(1, Ordering::Relaxed);
        }
        self.0.events_out.fetch_sub(1, Ordering::Relaxed);
        self.0.rejects.fetch_add(1, Ordering::Relaxed);
    }

    /// A file whose bytes are counted as they are read.
    pub(crate) fn counting<R: Read>(&self, inner: R) -> Counting<R> {
        Counting {
            inner,
            progress: self.clone(),
        }
    }
}

pub(crate) struct Counting<R> {
    inner: R,
    progress: Progress,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = self.inner.read(room)?;
        let sum = &self.progress.0.file_bytes;
        sum.fetch_add(size as u64, Ordering::Relaxed);
        Ok(size)
    }
}
