//! The writes of one key, indexed for the questions of the rules. A question costs a binary search, and a
//! look at the attempts of one version or at the few versions without a row that begin out of order.

use crate::history::{Position, Presence, Time, Version, Write, WriteOutcome};

/// A version that a read has to show, or a newer one, and the index of its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Newest {
    pub(super) version: Version,
    pub(super) write: usize,
}

/// Whether a version with a row can have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// By a write that is not known to have aborted.
    Written,
    /// Its only write so far was aborted.
    Aborted(usize),
    /// Its write began after the read had ended.
    Future(usize),
    /// No write made a row of this version; the write is one that made the version without a row.
    Unwritten(Option<usize>),
}

struct Attempt {
    version: Version,
    write: usize,
}

struct Absent {
    version: Version,
    begin: Time,
    /// The earliest begin of this and all newer versions without a row.
    begin_min: Time,
}

/// The writes of one key. Attempts without a known state that were aborted do not matter.
pub(super) struct KeyWrites<'a> {
    writes: &'a [Write],
    /// Attempts with a known state, by version.
    attempts: Vec<Attempt>,
    /// Acknowledged writes by end, each with the newest version up to it.
    by_end: Vec<(Time, Newest)>,
    /// Acknowledged versions, each with the earliest acknowledgement of it and all newer ones.
    by_version: Vec<(Version, Time)>,
    absent_by_version: Vec<Absent>,
    /// Versions without a row by the begin of their write, each with the newest version up to it.
    absent_by_begin: Vec<(Time, Version)>,
    /// When the first write began that may have happened and whose state is not known. It explains
    /// each version that no acknowledged write made.
    unversioned_begin: Option<Time>,
    /// An acknowledged write whose version was acknowledged again later, so that it was lost.
    repeated: Option<usize>,
}

impl<'a> KeyWrites<'a> {
    pub(super) fn new(writes: &'a [Write]) -> Self {
        let mut index = Self {
            writes,
            attempts: Vec::new(),
            by_end: Vec::new(),
            by_version: Vec::new(),
            absent_by_version: Vec::new(),
            absent_by_begin: Vec::new(),
            unversioned_begin: None,
            repeated: None,
        };
        for (number, write) in writes.iter().enumerate() {
            index.add(number, write);
        }
        index.sort();
        index
    }

    fn add(&mut self, number: usize, write: &Write) {
        let Some(state) = write.outcome.state() else {
            if matches!(write.outcome, WriteOutcome::Unknown(_)) {
                let first = self.unversioned_begin.unwrap_or(write.begin);
                self.unversioned_begin = Some(first.min(write.begin));
            }
            return;
        };
        let version = state.version;
        self.attempts.push(Attempt {
            version,
            write: number,
        });
        if let WriteOutcome::Acknowledged(_) = write.outcome {
            let newest = Newest {
                version,
                write: number,
            };
            self.by_end.push((write.end, newest));
            self.by_version.push((version, write.end));
        }
        if state.presence == Presence::Absent && !is_aborted(write) {
            self.absent_by_begin.push((write.begin, version));
            self.absent_by_version.push(Absent {
                version,
                begin: write.begin,
                begin_min: write.begin,
            });
        }
    }

    /// Sorts the lists and accumulates over them.
    fn sort(&mut self) {
        self.attempts.sort_by_key(|attempt| attempt.version);
        let acknowledged = self.attempts.iter().filter(|attempt| {
            let outcome = self.writes[attempt.write].outcome;
            matches!(outcome, WriteOutcome::Acknowledged(_))
        });
        let pairs = acknowledged.clone().zip(acknowledged.skip(1));
        let same = pairs
            .clone()
            .find(|(one, other)| one.version == other.version);
        self.repeated = same.map(|(one, other)| {
            [one.write, other.write]
                .into_iter()
                .min_by_key(|write| self.writes[*write].end)
                .expect("there are two")
        });
        self.by_end.sort_unstable();
        for at in 1..self.by_end.len() {
            self.by_end[at].1 = self.by_end[at].1.max(self.by_end[at - 1].1);
        }
        self.by_version.sort_unstable();
        for at in (1..self.by_version.len()).rev() {
            self.by_version[at - 1].1 = self.by_version[at - 1].1.min(self.by_version[at].1);
        }
        self.absent_by_begin.sort_unstable();
        for at in 1..self.absent_by_begin.len() {
            self.absent_by_begin[at].1 = self.absent_by_begin[at]
                .1
                .max(self.absent_by_begin[at - 1].1);
        }
        let absent = &mut self.absent_by_version;
        absent.sort_unstable_by_key(|absent| absent.version);
        for at in (1..absent.len()).rev() {
            absent[at - 1].begin_min = absent[at - 1].begin_min.min(absent[at].begin_min);
        }
    }

    pub(super) fn write(&self, index: usize) -> &Write {
        &self.writes[index]
    }

    /// The newest version that was acknowledged before a moment.
    pub(super) fn newest_before(&self, moment: Time) -> Option<Newest> {
        let count = self.by_end.partition_point(|(end, _)| *end < moment);
        Some(self.by_end[..count].last()?.1)
    }

    /// The newest version that was acknowledged at all.
    pub(super) fn newest(&self) -> Option<Newest> {
        Some(self.by_end.last()?.1)
    }

    /// An acknowledged write that was lost, as its version was made again.
    pub(super) fn repeated(&self) -> Option<usize> {
        self.repeated
    }

    /// The last acknowledgement before a moment.
    pub(super) fn acknowledged_before(&self, moment: Time) -> Option<Time> {
        let count = self.by_end.partition_point(|(end, _)| *end < moment);
        Some(self.by_end[..count].last()?.0)
    }

    /// The first acknowledgement of a version that is newer than this one.
    pub(super) fn outdated_at(&self, version: Version) -> Option<Time> {
        let from = self.by_version.partition_point(|(it, _)| *it <= version);
        Some(self.by_version.get(from)?.1)
    }

    /// How a row of a version can have been read by the end of a read.
    pub(super) fn origin(&self, version: Version, end: Time) -> Origin {
        let from = self.attempts.partition_point(|it| it.version < version);
        let attempts = self.attempts[from..].iter();
        let attempts = attempts.take_while(|attempt| attempt.version == version);
        let mut found = Origin::Unwritten(None);
        let mut is_acknowledged = false;
        for attempt in attempts {
            let write = &self.writes[attempt.write];
            let has_row =
                (write.outcome.state()).is_some_and(|state| state.presence == Presence::Present);
            let has_begun = write.begin <= end;
            is_acknowledged |= matches!(write.outcome, WriteOutcome::Acknowledged(_));
            match (is_aborted(write), has_row) {
                (false, true) if has_begun => return Origin::Written,
                (false, true) => found = Origin::Future(attempt.write),
                (true, true) if has_begun && !matches!(found, Origin::Future(_)) => {
                    found = Origin::Aborted(attempt.write);
                }
                (false, false) if found == Origin::Unwritten(None) => {
                    found = Origin::Unwritten(Some(attempt.write));
                }
                _ => {}
            }
        }
        if !is_acknowledged && self.may_have_happened_by(end) {
            return Origin::Written;
        }
        found
    }

    /// Whether a write whose version is not known may have happened by a moment.
    pub(super) fn may_have_happened_by(&self, end: Time) -> bool {
        self.unversioned_begin.is_some_and(|begin| begin <= end)
    }

    /// The oldest version without a row from `version` on whose write began by the end of a read.
    pub(super) fn oldest_absent(&self, version: Version, end: Time) -> Option<Version> {
        let from = (self.absent_by_version).partition_point(|it| it.version < version);
        // Versions begin about in their order, so that few are skipped.
        let candidates = self.absent_by_version[from..].iter();
        let mut candidates = candidates.take_while(|absent| absent.begin_min <= end);
        candidates
            .find(|absent| absent.begin <= end)
            .map(|absent| absent.version)
    }

    /// The newest version without a row whose write began by the end of a read.
    pub(super) fn newest_absent(&self, end: Time) -> Option<Version> {
        let count = self
            .absent_by_begin
            .partition_point(|(begin, _)| *begin <= end);
        Some(self.absent_by_begin[..count].last()?.1)
    }

    /// The acknowledged writes in the order of their ends, as indices.
    fn acknowledged(&self) -> Vec<usize> {
        let is_acknowledged =
            |index: &usize| matches!(self.writes[*index].outcome, WriteOutcome::Acknowledged(_));
        let mut list: Vec<usize> = (0..self.writes.len()).filter(is_acknowledged).collect();
        list.sort_by_key(|index| self.writes[*index].end);
        list
    }
}

fn is_aborted(write: &Write) -> bool {
    matches!(write.outcome, WriteOutcome::Aborted(_))
}

/// The newest version up to a position, of the writes that were acknowledged before a moment which
/// only advances.
///
/// Both conditions are needed: two positions are equal if nothing was logged between them, and then
/// the position that a client got before a write was acknowledged does not cover that write.
pub(super) struct NewestByPosition {
    positions: Vec<Position>,
    /// A Fenwick tree of maxima over the ranks of positions.
    tree: Vec<Option<Newest>>,
    /// Acknowledged writes with a position, by end: end, rank, write.
    waiting: Vec<(Time, usize, Newest)>,
    added_count: usize,
}

impl NewestByPosition {
    pub(super) fn new(writes: &KeyWrites<'_>) -> Self {
        let acknowledged = writes.acknowledged();
        let position = |index: &usize| writes.write(*index).position;
        let mut positions: Vec<Position> = acknowledged.iter().filter_map(position).collect();
        positions.sort_unstable();
        positions.dedup();
        let waiting = acknowledged.iter().filter_map(|&index| {
            let write = writes.write(index);
            let rank = positions.binary_search(&write.position?).ok()?;
            let version = write.outcome.state()?.version;
            let newest = Newest {
                version,
                write: index,
            };
            Some((write.end, rank, newest))
        });
        Self {
            waiting: waiting.collect(),
            tree: vec![None; positions.len()],
            positions,
            added_count: 0,
        }
    }

    /// Adds the writes that were acknowledged before a moment.
    pub(super) fn advance(&mut self, moment: Time) {
        while let Some((end, rank, newest)) = self.waiting.get(self.added_count)
            && *end < moment
        {
            let mut at = *rank;
            while at < self.tree.len() {
                self.tree[at] = self.tree[at].max(Some(*newest));
                at |= at + 1;
            }
            self.added_count += 1;
        }
    }

    /// The newest added version whose position is not above this one.
    pub(super) fn newest_up_to(&self, position: Position) -> Option<Newest> {
        let mut count = self.positions.partition_point(|it| *it <= position);
        let mut newest = None;
        while count > 0 {
            newest = newest.max(self.tree[count - 1]);
            count &= count - 1;
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::PhaseId;
    use crate::history::{Key, State};

    fn acknowledged(version: u32, end: u64, position: u64) -> Write {
        Write {
            key: Key(1),
            begin: Time::from_nanos(end - 1),
            end: Time::from_nanos(end),
            outcome: WriteOutcome::Acknowledged(State::present(version)),
            position: position.try_into().ok().map(Position),
            writer: 0,
            phase: PhaseId::default(),
        }
    }

    #[test]
    fn the_newest_version_by_position_is_that_of_a_scan() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let writes: Vec<Write> = (1..random.u32(2..30))
                .map(|version| acknowledged(version, random.u64(1..50), random.u64(1..20)))
                .collect();
            let index = KeyWrites::new(&writes);
            let mut by_position = NewestByPosition::new(&index);
            for moment in (1..50).map(Time::from_nanos) {
                by_position.advance(moment);
                let position = Position(random.u64(1..22).try_into().unwrap());
                let shown = |write: &&Write| write.end < moment && write.position <= Some(position);
                let version = |write: &Write| write.outcome.state().unwrap().version;
                let expected = writes.iter().filter(shown).map(version).max();
                let found = by_position.newest_up_to(position);
                assert_eq!(found.map(|it| it.version), expected, "{writes:?}");
            }
        }
    }
}
