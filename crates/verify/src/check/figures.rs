//! What is counted and measured by contract, layer and fault.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::fault::FaultKind;
use crate::history::{Contract, Layer};

/// A combination of contract, layer and fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The contract of the reads.
    pub contract: Contract,
    /// The layer that was asked.
    pub layer: Layer,
    /// The fault of the phase in which the reads began; `None` for quiet phases.
    pub fault: Option<FaultKind>,
}

impl Cell {
    /// All combinations, in the order of contracts, layers and faults; each layer also without a fault.
    pub fn product(contracts: &[Contract], layers: &[Layer], faults: &[FaultKind]) -> Vec<Self> {
        let mut cells = Vec::new();
        for &contract in contracts {
            for &layer in layers {
                let faults = faults.iter().map(|fault| Some(*fault));
                cells.extend([None].into_iter().chain(faults).map(|fault| Self {
                    contract,
                    layer,
                    fault,
                }));
            }
        }
        cells
    }
}

/// The figures of a cell.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Reads that got an answer.
    pub read_count: u64,
    /// Reads that began shortly after an acknowledged change of the same key
    /// ([`CheckOptions::recent`](super::CheckOptions::recent)).
    pub recent_count: u64,
    /// Reads that were answered without asking the database.
    pub memory_count: u64,
    /// Reads that got an error.
    pub failed_count: u64,
    /// Violations by these reads.
    pub violation_count: u64,
    /// How long the answers had been outdated.
    pub staleness: Staleness,
}

impl Figures {
    /// Adds the figures of another cell.
    pub fn add(&mut self, other: &Self) {
        self.read_count += other.read_count;
        self.recent_count += other.recent_count;
        self.memory_count += other.memory_count;
        self.failed_count += other.failed_count;
        self.violation_count += other.violation_count;
        self.staleness.stale_count += other.staleness.stale_count;
        let added = self.staleness.nanos.add(&other.staleness.nanos);
        added.expect("all histograms have the same bounds");
    }
}

/// How long answers had been outdated when their reads began: the time since the acknowledgement of
/// the first write that the answer did not show, or 0. An answer violates `within(d)` exactly if its
/// staleness is above `d`.
#[derive(Clone, Debug)]
pub struct Staleness {
    nanos: Histogram<u64>,
    stale_count: u64,
}

/// Percentiles are within 1 %, in 42 KB a cell. A staleness above a day is counted as a day.
const DIGITS: u8 = 2;
const NANOS_MAX: u64 = 86_400 * 1_000_000_000;

impl Default for Staleness {
    fn default() -> Self {
        let nanos = Histogram::new_with_max(NANOS_MAX, DIGITS)
            .expect("hdrhistogram takes 0 to 5 digits, and a maximum above 1");
        Self {
            nanos,
            stale_count: 0,
        }
    }
}

impl Staleness {
    pub(super) fn add(&mut self, staleness: Duration) {
        let nanos = u64::try_from(staleness.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.saturating_record(nanos);
        self.stale_count += u64::from(nanos > 0);
    }

    /// Answers that were outdated at all.
    pub fn stale_count(&self) -> u64 {
        self.stale_count
    }

    /// The staleness that a share of the answers does not exceed, from 0 to 1; 0 without answers.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.nanos.value_at_quantile(share))
    }

    /// The largest staleness; 0 without answers.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.nanos.max())
    }
}
