//! How writers write during a fault that is a kind of write.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_verify::fault::{FaultKind, FaultPlan, PhaseId, PhaseSignal};

/// How a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// One transaction with one change.
    Plain,
    /// One that commits asynchronously.
    Asynchronous,
    /// In a savepoint, after one that is rolled back.
    Savepoint,
    /// Prepared, and committed by another connection.
    Prepared,
    /// Beside changes of very many other rows.
    Large,
    /// Together with all other keys that are updated in place.
    Together,
    /// Likewise, between very many changes of other rows.
    Bulk,
    /// In a transaction that stays open for this long; every second one updates the others, too.
    Slow(Duration),
    /// The row is removed by `truncate`, and all other rows are inserted again.
    Truncate,
    /// `alter column … type … using` makes the next version of all rows.
    ChangeColumnType,
}

impl Pattern {
    /// The pattern of a fault; faults that are not a kind of write have none.
    pub(super) fn of_fault(kind: FaultKind) -> Option<Self> {
        match kind {
            FaultKind::AsynchronousCommit => Some(Self::Asynchronous),
            FaultKind::Savepoint => Some(Self::Savepoint),
            FaultKind::PreparedTransaction => Some(Self::Prepared),
            FaultKind::LargeTransaction => Some(Self::Large),
            FaultKind::BulkUpdate => Some(Self::Bulk),
            FaultKind::Truncate => Some(Self::Truncate),
            FaultKind::ChangeColumnType => Some(Self::ChangeColumnType),
            _ => None,
        }
    }

    /// Whether one write a phase is enough, since it blocks all others.
    fn is_heavy(self) -> bool {
        matches!(
            self,
            Self::Large | Self::Bulk | Self::Truncate | Self::ChangeColumnType
        )
    }

    /// Whether the injector waits for a write of this pattern.
    fn is_fault(self) -> bool {
        !matches!(self, Self::Plain | Self::Together | Self::Slow(_))
    }
}

/// How every second write is made beside a fault that is not a kind of write.
fn pattern_beside(kind: FaultKind, random: &mut fastrand::Rng) -> Option<Pattern> {
    let pattern = match kind {
        // What has been changed before these is not in the stream.
        FaultKind::AlterPublication | FaultKind::DropSlot | FaultKind::TerminateWalsender => {
            Pattern::Slow(Duration::from_millis(random.u64(SLOW_MS)))
        }
        // A writer makes one commit that waits for a standby.
        FaultKind::StallStandby | FaultKind::StalledReconnect => Pattern::Together,
        _ => return None,
    };
    random.bool().then_some(pattern)
}

/// Whether commits must wait for the disk, or for a standby, during a fault: what was acknowledged has to
/// survive a crash, and a standby delays no others.
fn needs_synchronous(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::KillPostmaster | FaultKind::StallStandby | FaultKind::StalledReconnect
    )
}

/// How long the transaction of a slow writer stays open, in milliseconds: up to twice the longest fault,
/// so that it may commit during a later one.
const SLOW_MS: RangeInclusive<u64> = 10..=500;

/// No phase has this number: it is that of more phases than a plan has.
const NO_PHASE: u32 = u32::MAX;

/// What the writers of a run and the injector tell each other.
#[derive(Debug)]
pub(super) struct Patterns<'a> {
    signal: &'a PhaseSignal,
    plan: &'a FaultPlan,
    /// The phase in which a writer took the heavy write upon itself.
    claimed: AtomicU32,
    /// The last phase in which a write followed its pattern.
    done: AtomicU32,
    /// Writes that may commit asynchronously.
    asynchronous_count: AtomicU32,
    /// Whether writes commit asynchronously unless the fault needs the opposite.
    is_asynchronous: bool,
}

impl<'a> Patterns<'a> {
    pub(super) fn new(signal: &'a PhaseSignal, plan: &'a FaultPlan, is_asynchronous: bool) -> Self {
        Self {
            signal,
            plan,
            is_asynchronous,
            claimed: AtomicU32::new(NO_PHASE),
            done: AtomicU32::new(NO_PHASE),
            asynchronous_count: AtomicU32::new(0),
        }
    }

    /// Begins a write. `fits` tells whether a pattern can be used for the key.
    pub(super) fn begin(
        &self,
        random: &mut fastrand::Rng,
        fits: impl Fn(Pattern) -> bool,
    ) -> PatternWrite<'_> {
        // Before the phase is read: whoever sees 0 after the phase has ended knows that no later
        // write commits asynchronously. Sequentially consistent, as the order of the counter and the
        // phase is what matters.
        self.asynchronous_count.fetch_add(1, Ordering::SeqCst);
        let mut write = PatternWrite {
            patterns: self,
            phase: self.signal.current(),
            pattern: Pattern::Plain,
            is_asynchronous: true,
        };
        let fault = self.plan.fault(write.phase);
        let wanted = fault.and_then(Pattern::of_fault);
        let beside = fault.and_then(|kind| pattern_beside(kind, random));
        if let Some(pattern) = beside.filter(|pattern| fits(*pattern)) {
            write.pattern = pattern;
        }
        if let Some(pattern) = wanted.filter(|pattern| fits(*pattern))
            && (!pattern.is_heavy() || self.claim(write.phase))
        {
            write.pattern = pattern;
        }
        let is_asynchronous = self.is_asynchronous && !fault.is_some_and(needs_synchronous);
        if !is_asynchronous && write.pattern != Pattern::Asynchronous {
            write.end_count();
        }
        write
    }

    /// `Relaxed`, here and in `done`: a number is compared, and nothing else is read by it.
    fn claim(&self, phase: PhaseId) -> bool {
        let phase = number(phase);
        self.claimed.swap(phase, Ordering::Relaxed) != phase
    }

    /// Waits until a write has followed the pattern of a phase; `false` if none has for too long.
    pub(super) fn wait_for(&self, phase: PhaseId) -> bool {
        let is_done = || self.done.load(Ordering::Relaxed) == number(phase);
        wait_until(is_done)
    }

    /// Waits until no write that began before commits asynchronously. Called in another phase.
    pub(super) fn wait_for_asynchronous(&self) -> bool {
        wait_until(|| self.asynchronous_count.load(Ordering::SeqCst) == 0)
    }
}

/// How long a write that blocks others may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

fn wait_until(is_done: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is_done() {
        if begin.elapsed() > WRITE_TIMEOUT {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

fn number(phase: PhaseId) -> u32 {
    // A plan has at most 65,536 phases.
    phase.index() as u32
}

/// A write under way.
#[derive(Debug)]
pub(super) struct PatternWrite<'a> {
    patterns: &'a Patterns<'a>,
    phase: PhaseId,
    pub(super) pattern: Pattern,
    /// With `synchronous_commit = off`.
    pub(super) is_asynchronous: bool,
}

impl PatternWrite<'_> {
    /// The write was committed as its pattern says.
    pub(super) fn done(&self) {
        if self.pattern.is_fault() {
            let phase = number(self.phase);
            self.patterns.done.store(phase, Ordering::Relaxed);
        }
    }

    /// The heavy write failed: another one of the phase may try again.
    pub(super) fn give_back(&self) {
        if self.pattern.is_heavy() {
            self.patterns.claimed.store(NO_PHASE, Ordering::Relaxed);
        }
    }

    fn end_count(&mut self) {
        if self.is_asynchronous {
            self.is_asynchronous = false;
            let count = &self.patterns.asynchronous_count;
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for PatternWrite<'_> {
    fn drop(&mut self) {
        self.end_count();
    }
}
