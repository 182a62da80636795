//! The gate: a change is applied when the server that answers queries shows it, not when the log
//! delivers it.
//!
//! The log is sent when a commit is flushed, and its rows become visible after that. An entry that
//! were invalidated in between could be filled with the old row again, by a query that was sent after
//! the change had arrived, and nothing would ever invalidate it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lookaside_value::Position;

use super::visibility::Snapshot;
use crate::mutant::Mutant;
use crate::versions::{TouchedSlots, Versions};

/// More bytes of changes than this wait only if a server does not show them for a long time; then all
/// entries are invalidated instead.
const QUEUE_SIZE_MAX: usize = 64 << 20;

/// The number of probes whose position the stream has not reached; beyond it, newer ones replace
/// each other.
const PROBE_COUNT_MAX: usize = 32;

/// A committed transaction that changed rows which statements depend on.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) xid: u32,
    /// The position of its commit.
    pub(crate) commit: Position,
    pub(crate) touched: TouchedSlots,
}

/// What a probe of the server returned.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// When the probe was sent.
    pub(crate) sent: Instant,
    /// Where the server inserts the next record of its log, read after the snapshot was taken. So all
    /// transactions that the snapshot shows are before it.
    pub(crate) end: Position,
    pub(crate) snapshot: Snapshot,
}

/// The state of the caches behind a change feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Valid entries are as fresh as a query that was sent then.
    pub(crate) fresh_as_of: Option<Instant>,
    /// All transactions that committed up to here are applied.
    pub(crate) position: Position,
}

/// The queue of changes, and how far they have been applied. It uses no clock and no connection.
#[derive(Debug)]
pub(crate) struct Gate {
    /// In the order of their commits.
    queue: VecDeque<Queued>,
    /// Transactions that touched nothing and were not shown yet, in the same order: they may have changed
    /// a table of a statement that is tracked from later on.
    untouched: Vec<Untouched>,
    /// The bytes of both.
    queue_size: usize,
    /// The number of transactions that were received; the newest one has this number.
    received_count: u64,
    snapshot: Option<Snapshot>,
    /// Everything that committed before this was received.
    received: Position,
    /// Probes whose `end` was not received yet, in the order in which they were sent.
    probes: VecDeque<(Instant, Position)>,
    fresh_as_of: Option<Instant>,
    catalog: CatalogPosition,
    /// How long the transactions waited that were applied since this was taken.
    waits: Vec<Duration>,
}

/// A transaction that waits until the server shows it.
#[derive(Debug)]
struct Queued {
    number: u64,
    received: Instant,
    transaction: Transaction,
}

/// A transaction without a change that concerns a statement.
#[derive(Debug)]
struct Untouched {
    number: u64,
    xid: u32,
}

/// Up to which position no commit has changed the catalog.
///
/// The stream does not tell that, and a probe only tells what the server shows: a transaction whose
/// commit is in the log already may be shown later.
#[derive(Debug, Default)]
struct CatalogPosition {
    unchanged: Position,
    /// The end of the log at the last probe.
    end: Option<Position>,
    /// A position, and a snapshot that was taken after the log had reached it: transactions that
    /// committed before are shown when those that are in progress in this snapshot have ended.
    waiting: Option<(Position, Snapshot)>,
}

impl CatalogPosition {
    /// A probe found the catalog unchanged in a snapshot, and after that the log ended at `end`.
    fn unchanged(&mut self, end: Position, snapshot: &Snapshot) {
        if self.waiting.is_none() {
            self.waiting = self.end.map(|end| (end, snapshot.clone()));
        }
        if let Some((position, _)) =
            (self.waiting).take_if(|(_, earlier)| snapshot.is_after_all_of(earlier))
        {
            self.unchanged = self.unchanged.max(position);
        }
        self.end = Some(end);
    }
}

/// More changes wait than the queue may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

impl Gate {
    /// The gate of a stream that begins at `start`.
    pub(crate) fn new(start: Position) -> Self {
        Self {
            queue: VecDeque::new(),
            untouched: Vec::new(),
            queue_size: 0,
            received_count: 0,
            snapshot: None,
            received: start,
            probes: VecDeque::new(),
            fresh_as_of: None,
            catalog: CatalogPosition::default(),
            waits: Vec::new(),
        }
    }

    /// A transaction was received. It is applied at once if the newest snapshot shows it, as what is
    /// visible once remains visible.
    pub(crate) fn receive(
        &mut self,
        transaction: Transaction,
        now: Instant,
        versions: &Versions,
    ) -> Result<(), Overflow> {
        self.received_count += 1;
        let is_shown = (self.snapshot.as_ref()).is_some_and(|it| it.shows(transaction.xid));
        let is_shown = is_shown || Mutant::ApplyOnArrival.is_active();
        let number = self.received_count;
        match (is_shown, transaction.touched.is_empty()) {
            (true, true) => return Ok(()),
            (true, false) => {
                transaction.touched.apply(versions);
                self.waits.push(Duration::ZERO);
                return Ok(());
            }
            (false, true) => {
                self.queue_size += size_of::<Untouched>();
                self.untouched.push(Untouched {
                    number,
                    xid: transaction.xid,
                });
            }
            (false, false) => {
                self.queue_size += size_of_queued(&transaction);
                self.queue.push_back(Queued {
                    number,
                    received: now,
                    transaction,
                });
            }
        }
        match self.queue_size > QUEUE_SIZE_MAX {
            true => Err(Overflow),
            false => Ok(()),
        }
    }

    /// Everything that committed before `end` was received.
    pub(crate) fn reach(&mut self, end: Position) {
        self.received = self.received.max(end);
        while let Some((sent, end)) = self.probes.front()
            && *end <= self.received
        {
            // What the snapshot of the probe shows was applied with it, or when it was received.
            self.fresh_as_of = Some(*sent);
            self.probes.pop_front();
        }
    }

    /// Applies what the server shows now. The probe has found the catalog unchanged.
    pub(crate) fn probed(&mut self, probe: Probe, now: Instant, versions: &Versions) {
        self.catalog.unchanged(probe.end, &probe.snapshot);
        self.apply(probe.snapshot, now, versions);
        if self.probes.len() == PROBE_COUNT_MAX {
            self.probes.pop_back();
        }
        self.probes.push_back((probe.sent, probe.end));
        self.reach(self.received);
    }

    /// Applies what a snapshot shows, without a horizon.
    pub(crate) fn apply(&mut self, snapshot: Snapshot, now: Instant, versions: &Versions) {
        let (size, waits) = (&mut self.queue_size, &mut self.waits);
        self.queue.retain(|queued| {
            let transaction = &queued.transaction;
            let is_shown = snapshot.shows(transaction.xid);
            if is_shown {
                transaction.touched.apply(versions);
                waits.push(now.saturating_duration_since(queued.received));
                *size -= size_of_queued(transaction);
            }
            !is_shown
        });
        self.untouched.retain(|untouched| {
            let is_shown = snapshot.shows(untouched.xid);
            if is_shown {
                *size -= size_of::<Untouched>();
            }
            !is_shown
        });
        self.snapshot = Some(snapshot);
    }

    /// Withdraws the horizon up to the next probe: there may have been changes that the stream does
    /// not tell.
    pub(crate) fn forget_horizon(&mut self) {
        self.probes.clear();
        self.fresh_as_of = None;
        self.catalog = CatalogPosition::default();
    }

    /// Everything that committed before this was received.
    pub(crate) fn received(&self) -> Position {
        self.received
    }

    /// Whether changes wait until the server shows them.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a probe waits for the stream.
    pub(crate) fn awaits_stream(&self) -> bool {
        !self.probes.is_empty()
    }

    /// How long the transactions waited that were applied since the last call.
    pub(crate) fn take_waits(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.waits)
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// The number of transactions that were received.
    pub(crate) fn received_count(&self) -> u64 {
        self.received_count
    }

    /// Whether the first `count` transactions were received and applied.
    pub(crate) fn has_applied(&self, count: u64) -> bool {
        let touched = self.queue.front().map(|queued| queued.number);
        let untouched = self.untouched.first().map(|untouched| untouched.number);
        let first = [touched, untouched].into_iter().flatten().min();
        self.received_count >= count && first.is_none_or(|first| first > count)
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            fresh_as_of: self.fresh_as_of,
            position: match self.queue.front() {
                // Just before the first commit that waits.
                Some(first) => self.received.min(first.transaction.commit.before()),
                None => self.received,
            }
            .min(self.catalog.unchanged),
        }
    }
}

/// The bytes that a transaction takes in the queue.
fn size_of_queued(transaction: &Transaction) -> usize {
    size_of::<Queued>() + transaction.touched.heap_size()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::versions::VersionSlot;

    fn slot(number: u64) -> VersionSlot {
        VersionSlot::of(number << 24)
    }

    fn transaction(xid: u32, commit: u64) -> Transaction {
        let mut touched = TouchedSlots::default();
        touched.add(slot(xid.into()));
        Transaction {
            xid,
            commit: Position(commit),
            touched,
        }
    }

    fn probe(sent: Instant, end: u64, snapshot: &str) -> Probe {
        Probe {
            sent,
            end: Position(end),
            snapshot: snapshot.parse().unwrap(),
        }
    }

    struct Watched {
        versions: Versions,
        gate: Gate,
    }

    impl Watched {
        fn new() -> Self {
            Self {
                versions: Versions::new(),
                gate: Gate::new(Position(100)),
            }
        }

        fn is_applied(&self, xid: u64) -> bool {
            self.versions.get(slot(xid)) != Versions::new().get(slot(xid))
        }
    }

    #[test]
    fn a_change_waits_until_the_server_shows_it() {
        let Watched { versions, mut gate } = Watched::new();
        gate.receive(transaction(7, 110), Instant::now(), &versions)
            .unwrap();
        gate.receive(transaction(8, 120), Instant::now(), &versions)
            .unwrap();
        let mut it = Watched { versions, gate };
        assert!(!it.is_applied(7));
        it.gate
            .apply("7:9:7".parse().unwrap(), Instant::now(), &it.versions);
        assert!(!it.is_applied(7));
        assert!(it.is_applied(8), "there is no order among transactions");
        assert!(it.gate.is_waiting());
        it.gate
            .apply("9:9:".parse().unwrap(), Instant::now(), &it.versions);
        assert!(it.is_applied(7));
        assert!(!it.gate.is_waiting());
        it.gate
            .receive(transaction(5, 130), Instant::now(), &it.versions)
            .unwrap();
        assert!(it.is_applied(5), "the newest snapshot shows it already");
    }

    #[test]
    fn the_wait_is_from_the_arrival_until_the_server_shows_the_change() {
        let Watched { versions, mut gate } = Watched::new();
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        for (xid, ms) in [(7, 0), (8, 5)] {
            let received = gate.receive(transaction(xid, 110), later(ms), &versions);
            received.unwrap();
        }
        gate.apply("7:9:7".parse().unwrap(), later(20), &versions);
        assert_eq!(gate.take_waits(), [Duration::from_millis(15)]);
        gate.apply("9:9:".parse().unwrap(), later(30), &versions);
        let shown = gate.receive(transaction(5, 130), later(31), &versions);
        shown.unwrap();
        let untouched = Transaction {
            touched: TouchedSlots::default(),
            ..transaction(6, 140)
        };
        gate.receive(untouched, later(32), &versions).unwrap();
        let waits = [Duration::from_millis(30), Duration::ZERO];
        assert_eq!(
            gate.take_waits(),
            waits,
            "one that touches nothing is not counted"
        );
        assert!(gate.take_waits().is_empty());
    }

    #[test]
    fn the_horizon_is_a_probe_whose_end_was_received() {
        let Watched { versions, mut gate } = Watched::new();
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        gate.probed(probe(later(1), 200, "7:7:"), start, &versions);
        assert_eq!(gate.progress().fresh_as_of, None);
        assert!(gate.awaits_stream());
        gate.probed(probe(later(2), 300, "7:7:"), start, &versions);
        gate.reach(Position(199));
        assert_eq!(gate.progress().fresh_as_of, None);
        gate.reach(Position(200));
        assert_eq!(gate.progress().fresh_as_of, Some(later(1)));
        gate.reach(Position(150));
        assert_eq!(gate.progress().position, Position(200));
        gate.reach(Position(1000));
        assert_eq!(gate.progress().fresh_as_of, Some(later(2)));
        gate.probed(probe(later(3), 900, "7:7:"), start, &versions);
        assert_eq!(gate.progress().fresh_as_of, Some(later(3)));
        assert!(!gate.awaits_stream());
    }

    #[test]
    fn the_position_is_before_the_first_change_that_waits() {
        let Watched { versions, mut gate } = Watched::new();
        assert_eq!(
            gate.progress().position,
            Position(0),
            "the catalog may change"
        );
        for end in [1000, 1001] {
            gate.probed(
                probe(Instant::now(), end, "7:7:"),
                Instant::now(),
                &versions,
            );
        }
        assert_eq!(gate.progress().position, Position(100));
        gate.receive(transaction(7, 110), Instant::now(), &versions)
            .unwrap();
        gate.receive(transaction(8, 120), Instant::now(), &versions)
            .unwrap();
        gate.reach(Position(140));
        assert_eq!(gate.progress().position, Position(109));
        gate.apply("8:9:8".parse().unwrap(), Instant::now(), &versions);
        assert_eq!(gate.progress().position, Position(119));
        gate.apply("9:9:".parse().unwrap(), Instant::now(), &versions);
        assert_eq!(gate.progress().position, Position(140));
    }

    #[test]
    fn the_position_waits_for_transactions_that_may_change_the_catalog() {
        let Watched { versions, mut gate } = Watched::new();
        gate.reach(Position(1000));
        let mut probed = |end, snapshot: &str| {
            let now = Instant::now();
            gate.probed(probe(now, end, snapshot), now, &versions);
            gate.progress().position
        };
        assert_eq!(probed(200, "7:8:7"), Position(0));
        // 8 may have committed before 200, and is not shown yet.
        assert_eq!(probed(300, "8:9:8"), Position(0));
        assert_eq!(probed(400, "8:10:8"), Position(0));
        assert_eq!(probed(500, "9:10:9"), Position(200));
        assert_eq!(probed(600, "10:10:"), Position(500));
        gate.forget_horizon();
        assert_eq!(gate.progress().position, Position(0));
    }

    #[test]
    fn it_is_known_which_transactions_are_applied() {
        let Watched { versions, mut gate } = Watched::new();
        assert!(gate.has_applied(0));
        assert!(!gate.has_applied(1), "it was not received");
        gate.receive(transaction(7, 110), Instant::now(), &versions)
            .unwrap();
        gate.receive(transaction(8, 120), Instant::now(), &versions)
            .unwrap();
        assert!(!gate.has_applied(1));
        gate.apply("8:9:8".parse().unwrap(), Instant::now(), &versions);
        assert!(gate.has_applied(1));
        assert!(!gate.has_applied(2));
    }

    /// It may have changed a table of a statement that is tracked only afterwards.
    #[test]
    fn issue_15_a_transaction_that_touches_nothing_is_applied_when_it_is_shown() {
        let Watched { versions, mut gate } = Watched::new();
        let untouched = |xid| Transaction {
            touched: TouchedSlots::default(),
            ..transaction(xid, 110)
        };
        let now = Instant::now();
        for xid in [7, 8] {
            gate.receive(untouched(xid), now, &versions).unwrap();
        }
        assert!(!gate.is_waiting(), "the server is not asked for it");
        assert!(!gate.has_applied(1));
        gate.apply("7:9:7".parse().unwrap(), now, &versions);
        assert!(!gate.has_applied(1));
        gate.receive(transaction(9, 130), now, &versions).unwrap();
        gate.apply("9:9:".parse().unwrap(), now, &versions);
        assert!(gate.has_applied(2));
        assert!(!gate.has_applied(3));
        gate.receive(untouched(5), now, &versions).unwrap();
        gate.apply("10:10:".parse().unwrap(), now, &versions);
        assert!(gate.has_applied(4), "the snapshot showed it already");
        assert_eq!(gate.queue_size, 0);
    }

    #[test]
    fn issue_15_the_position_waits_for_the_newest_transaction() {
        let Watched { versions, mut gate } = Watched::new();
        gate.reach(Position(1000));
        let mut probed = |end, snapshot: &str, next| {
            let now = Instant::now();
            let probe = probe(now, end, snapshot);
            let snapshot = probe.snapshot.clone().with_next(next);
            gate.probed(Probe { snapshot, ..probe }, now, &versions);
            gate.progress().position
        };
        assert_eq!(probed(200, "7:7:", 8), Position(0));
        // 7 may have committed before 200, and is not shown yet.
        assert_eq!(probed(200, "7:7:", 8), Position(0));
        assert_eq!(probed(300, "7:7:", 8), Position(0));
        assert_eq!(probed(300, "8:8:", 8), Position(200));
    }

    #[test]
    fn a_stream_that_is_far_behind_keeps_its_first_probes() {
        let Watched { versions, mut gate } = Watched::new();
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let count = 3 * PROBE_COUNT_MAX as u64;
        for ms in 0..count {
            gate.probed(probe(later(ms), 200 + ms, "7:7:"), start, &versions);
        }
        gate.reach(Position(200));
        assert_eq!(gate.progress().fresh_as_of, Some(start));
        gate.reach(Position(200 + count));
        assert_eq!(gate.progress().fresh_as_of, Some(later(count - 1)));
    }

    #[test]
    fn the_queue_is_bounded() {
        let Watched { versions, mut gate } = Watched::new();
        let mut count = 0;
        let overflow = (0..10_000_000).find_map(|xid| {
            count += 1;
            gate.receive(transaction(xid, 110), Instant::now(), &versions)
                .err()
        });
        assert_eq!(overflow, Some(Overflow));
        assert!(count > 100_000, "{count}");
    }
}
