//! Mistakes that a change feed could contain, one of which can be switched on to show that
//! `lookaside verify freshness` finds it. Without the feature `mutants`, which no release has, none can.

#[cfg(feature = "mutants")]
use std::sync::atomic::{AtomicU8, Ordering};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "mutants", non_exhaustive)]
#[cfg_attr(
    not(feature = "mutants"),
    allow(unreachable_pub, reason = "the feature exports it")
)]
pub enum Mutant {
    /// A change is applied when it arrives, not when the server shows it.
    ApplyOnArrival,
    /// An entry keeps the version of the time when its answer arrived.
    NoLease,
    /// A change of each hundredth row is lost.
    DropRows,
    /// The old key of a row that moved is not touched.
    IgnoreOldKey,
    /// Entries stay valid when the connection is lost.
    KeepOverReconnect,
    /// The catalog is not compared.
    NoFingerprint,
    /// Contracts are ignored.
    NoContract,
    /// A query after a position takes the answer of one that was sent before.
    AfterJoinsFlights,
    /// Of each run of events that are there already and as many as are taken in one go, the last one is
    /// lost.
    DropRunEnd,
    /// A commit that the server does not show yet is not waited for by statements that are used for the
    /// first time meanwhile.
    ForgetPending,
    /// A statement does not wait for the transactions that were writing when its table was published.
    NoWriterWait,
    /// The statements of a stream that begins do not wait for the transactions that the server does not
    /// show yet, and that may have committed before the stream.
    NoStartWait,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// All mistakes.
    pub const ALL: [Self; 12] = [
        Self::ApplyOnArrival,
        Self::NoLease,
        Self::DropRows,
        Self::IgnoreOldKey,
        Self::KeepOverReconnect,
        Self::NoFingerprint,
        Self::NoContract,
        Self::AfterJoinsFlights,
        Self::DropRunEnd,
        Self::ForgetPending,
        Self::NoWriterWait,
        Self::NoStartWait,
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApplyOnArrival => "apply-on-arrival",
            Self::NoLease => "no-lease",
            Self::DropRows => "drop-rows",
            Self::IgnoreOldKey => "ignore-old-key",
            Self::KeepOverReconnect => "keep-over-reconnect",
            Self::NoFingerprint => "no-fingerprint",
            Self::NoContract => "no-contract",
            Self::AfterJoinsFlights => "after-joins-flights",
            Self::DropRunEnd => "drop-run-end",
            Self::ForgetPending => "forget-pending",
            Self::NoWriterWait => "no-writer-wait",
            Self::NoStartWait => "no-start-wait",
        }
    }

    /// Switches this mistake on, for the whole process, in place of any other.
    pub fn activate(self) {
        ACTIVE.store(self as u8 + 1, Ordering::SeqCst);
    }

    /// Whether the mistake is made.
    pub(crate) fn is_active(self) -> bool {
        ACTIVE.load(Ordering::Relaxed) == self as u8 + 1
    }
}

/// The number of the mistake that is made, counted from 1; 0 for none.
#[cfg(feature = "mutants")]
static ACTIVE: AtomicU8 = AtomicU8::new(0);

#[cfg(not(feature = "mutants"))]
impl Mutant {
    /// No mistake is made.
    #[inline(always)]
    pub(crate) const fn is_active(self) -> bool {
        false
    }
}
