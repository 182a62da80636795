//! The rules of the contracts, over a history.
//!
//! A key is a register whose versions are totally ordered by the database, so each rule is a bound on
//! the version that a read may show, and a check is a sort and a pass, O(n log n):
//!
//! | rule | a read of version v, from a to b |
//! | --- | --- |
//! | any contract | v was written by an attempt that is not known to have aborted and began before b |
//! | a claim `fresh_as_of` = t | v ≥ the newest version acknowledged before t, and t ≤ b |
//! | `within(d)` | v ≥ the newest version acknowledged before a − d |
//! | `after(p)` | v ≥ the newest version acknowledged before a whose position is not above p |
//! | `now` | v ≥ the newest version acknowledged before a, or shown by a `now` read that ended before a |
//! | session | v ≥ what the session's reads of the key had shown before |
//! | quiet end | v is the database's final state |
//!
//! `now` makes a key a linearizable register: the version order extends the order of operations that do
//! not overlap. An answer without a row has no version: it satisfies a bound if a version without a row
//! does, and shows later reads the oldest such version. Each rule is judged for itself.

mod figures;
mod floor;
mod key_writes;
mod violation;

pub use figures::{Cell, Figures, Staleness};
pub use violation::{Evidence, Expected, Rule, Violation, Witness};

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::history::{Contract, History, Key, Presence, Read, SessionId, Source, Time, Version};
use floor::Floor;
use key_writes::{KeyWrites, Newest, NewestByPosition, Origin};

/// What a check counts and keeps.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How long after an acknowledged change of its key a read counts as recent. 50 ms: the
    /// freshest duration that the documentation promises.
    pub recent: Duration,
    /// How many violations of each rule are kept; all are counted. 20: more are not read.
    pub violation_count_max: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            recent: Duration::from_millis(50),
            violation_count_max: 20,
        }
    }
}

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    /// Violations, up to the limit for each rule, ordered by key and time.
    pub violations: Vec<Violation>,
    /// How many violations of each rule were found.
    pub violation_counts: BTreeMap<Rule, u64>,
    /// The figures of each combination that was read.
    pub cells: BTreeMap<Cell, Figures>,
    /// Reads that were compared with the database's final state.
    pub quiet_count: u64,
}

impl Report {
    /// Whether no rule was violated.
    pub fn is_clean(&self) -> bool {
        self.violation_counts.is_empty()
    }
}

/// Checks a history.
pub fn check(history: &History, options: &CheckOptions) -> Report {
    let mut checker = Checker {
        history,
        options,
        report: Report {
            violations: Vec::new(),
            violation_counts: BTreeMap::new(),
            cells: BTreeMap::new(),
            quiet_count: 0,
        },
    };
    for key in history.keys() {
        let writes = KeyWrites::new(key.writes);
        checker.check_lost(key.key, &writes);
        let mut register = KeyCheck {
            by_position: NewestByPosition::new(&writes),
            writes,
            reads: &|index| key.read(index),
            now: Floor::default(),
            sessions: HashMap::new(),
        };
        for index in 0..key.read_count() {
            checker.check_read(&mut register, index);
        }
    }
    for (&(contract, layer, phase), count) in history.failed_reads() {
        if let Some(contract) = history.contracts().contract(contract) {
            let fault = history.plan().fault(phase);
            let cell = Cell {
                contract,
                layer,
                fault,
            };
            checker.report.cells.entry(cell).or_default().failed_count += count;
        }
    }
    checker.report
}

struct Checker<'a> {
    history: &'a History,
    options: &'a CheckOptions,
    report: Report,
}

/// The state of the pass over the reads of one key.
struct KeyCheck<'a> {
    writes: KeyWrites<'a>,
    reads: &'a dyn Fn(usize) -> Read,
    by_position: NewestByPosition,
    now: Floor,
    sessions: HashMap<SessionId, Floor>,
}

/// A version that a read has to show, or a newer one.
struct Bound {
    rule: Rule,
    version: Version,
    because: Because,
}

enum Because {
    Write(usize),
    Read(usize),
}

impl KeyCheck<'_> {
    fn bounds(&mut self, read: &Read, contract: Contract) -> [Option<Bound>; 3] {
        let by_write = |rule, newest: Option<Newest>| {
            newest.map(|newest| Bound {
                rule,
                version: newest.version,
                because: Because::Write(newest.write),
            })
        };
        let by_read = |rule, newest: Option<(Version, usize)>| {
            newest.map(|(version, read)| Bound {
                rule,
                version,
                because: Because::Read(read),
            })
        };
        let claim = (read.fresh_as_of).and_then(|claim| self.writes.newest_before(claim));
        let contracted = match contract {
            Contract::Any => None,
            Contract::Within(duration) => {
                let newest = self.writes.newest_before(read.begin.before(duration));
                by_write(Rule::Within, newest)
            }
            Contract::After => {
                self.by_position.advance(read.begin);
                let newest = (read.token).and_then(|token| self.by_position.newest_up_to(token));
                by_write(Rule::After, newest)
            }
            Contract::Now => {
                let acknowledged = self.writes.newest_before(read.begin);
                let shown = self.now.at(read.begin);
                match shown.map(|shown| shown.0) > acknowledged.map(|newest| newest.version) {
                    true => by_read(Rule::Now, shown),
                    false => by_write(Rule::Now, acknowledged),
                }
            }
        };
        let shown = match read.layer.has_sessions() {
            true => (self.sessions.entry(read.session).or_default()).at(read.begin),
            false => None,
        };
        [
            by_write(Rule::Claim, claim),
            contracted,
            by_read(Rule::Session, shown),
        ]
    }

    /// Adds what the read is certain to have shown to what later ones have to show: at least `now` for
    /// reads under that contract, at least `session` for those of its session. Each rule is judged
    /// for itself, so that an answer without a row that breaks one of them is not a violation of another
    /// one later.
    fn remember(
        &mut self,
        read: &Read,
        index: usize,
        contract: Contract,
        now: Version,
        session: Version,
    ) {
        // A read that begins in the nanosecond in which another ends may overlap it.
        if contract == Contract::Now
            && let Some(shown) = self.oldest_shown(read, now)
        {
            let from = read.end.after(Duration::from_nanos(1));
            self.now.add(from, shown, index);
        }
        // The reads of a session are sequential, but the order of two in the same nanosecond is lost.
        if read.layer.has_sessions()
            && let Some(shown) = self.oldest_shown(read, session)
        {
            let from = read.end.max(read.begin.after(Duration::from_nanos(1)));
            let session = self.sessions.entry(read.session).or_default();
            session.add(from, shown, index);
        }
    }

    /// The oldest version from `version` on that the answer can be; `None` if it can be any.
    fn oldest_shown(&self, read: &Read, version: Version) -> Option<Version> {
        match read.version {
            Some(shown) => Some(shown),
            None if self.writes.may_have_happened_by(read.end) => None,
            None => self.writes.oldest_absent(version, read.end),
        }
    }
}

impl Checker<'_> {
    fn check_lost(&mut self, key: Key, writes: &KeyWrites<'_>) {
        let lost = writes.repeated().map(|write| *writes.write(write));
        if let Some(write) = lost
            && let Some(state) = write.outcome.state()
        {
            self.keep(Violation {
                rule: Rule::Lost,
                key,
                witness: None,
                expected: Expected::AtLeast(Version(state.version.0.saturating_add(1))),
                evidence: Evidence::Write(write),
            });
        }
        let quiet_end = self.history.quiet_end();
        let state = quiet_end.and_then(|it| it.states.get(&key));
        let (Some(state), Some(newest)) = (state, writes.newest()) else {
            return;
        };
        if state.version < newest.version {
            self.keep(Violation {
                rule: Rule::Lost,
                key,
                witness: None,
                expected: Expected::AtLeast(newest.version),
                evidence: Evidence::Write(*writes.write(newest.write)),
            });
        }
    }

    fn check_read(&mut self, key: &mut KeyCheck<'_>, index: usize) {
        let read = (key.reads)(index);
        // A history has no read without a contract of its list.
        let Some(contract) = self.history.contracts().contract(read.contract) else {
            return;
        };
        let plan = self.history.plan();
        let witness = Witness {
            read,
            contract,
            fault: plan.fault(read.phase),
            fault_before: plan.fault_before(read.phase),
        };
        let count_before: u64 = self.report.violation_counts.values().sum();
        let shown = self.check_origin(key, &witness);
        if let Some(shown) = shown {
            self.check_bounds(key, &witness, index, shown);
        }
        self.check_quiet_end(&witness);
        let violation_count = self.report.violation_counts.values().sum::<u64>() - count_before;
        self.count(key, &witness, shown, violation_count);
    }

    /// The newest version that the answer may show; `None` if no write explains it.
    fn check_origin(&mut self, key: &KeyCheck<'_>, witness: &Witness) -> Option<Version> {
        let (read, writes) = (&witness.read, &key.writes);
        let (rule, write) = match read.version {
            Some(version) => match writes.origin(version, read.end) {
                Origin::Written => return Some(version),
                Origin::Aborted(write) => (Rule::Aborted, Some(write)),
                Origin::Future(write) => (Rule::Future, Some(write)),
                Origin::Unwritten(write) => (Rule::Unwritten, write),
            },
            None => {
                // A write whose version is not known may have made the newest one.
                if writes.may_have_happened_by(read.end) {
                    return Some(Version(u32::MAX));
                }
                match writes.newest_absent(read.end) {
                    Some(newest) => return Some(newest),
                    None => (Rule::Unwritten, None),
                }
            }
        };
        let evidence = write.map_or(Evidence::None, |write| {
            Evidence::Write(*writes.write(write))
        });
        self.keep(Violation {
            rule,
            key: read.key,
            witness: Some(*witness),
            expected: Expected::Written,
            evidence,
        });
        None
    }

    fn check_bounds(
        &mut self,
        key: &mut KeyCheck<'_>,
        witness: &Witness,
        index: usize,
        newest_shown: Version,
    ) {
        let read = &witness.read;
        if read.fresh_as_of.is_some_and(|claim| claim > read.end) {
            self.keep(Violation {
                rule: Rule::FutureClaim,
                key: read.key,
                witness: Some(*witness),
                expected: Expected::EarlierClaim,
                evidence: Evidence::None,
            });
        }
        let (mut now, mut session) = (Version::default(), Version::default());
        for bound in key.bounds(read, witness.contract).into_iter().flatten() {
            if newest_shown >= bound.version {
                match bound.rule {
                    Rule::Now => now = bound.version,
                    Rule::Session => session = bound.version,
                    _ => {}
                }
            } else {
                self.keep(Violation {
                    rule: bound.rule,
                    key: read.key,
                    witness: Some(*witness),
                    expected: Expected::AtLeast(bound.version),
                    evidence: match bound.because {
                        Because::Write(write) => Evidence::Write(*key.writes.write(write)),
                        Because::Read(read) => Evidence::Read((key.reads)(read)),
                    },
                });
            }
        }
        key.remember(read, index, witness.contract, now, session);
    }

    fn check_quiet_end(&mut self, witness: &Witness) {
        let read = &witness.read;
        let quiet_end = self.history.quiet_end();
        let quiet_end = quiet_end.filter(|quiet_end| read.begin >= quiet_end.since);
        let Some(state) = quiet_end.and_then(|it| it.states.get(&read.key)) else {
            return;
        };
        self.report.quiet_count += 1;
        let expected = (state.presence == Presence::Present).then_some(state.version);
        if read.version != expected {
            self.keep(Violation {
                rule: Rule::Quiet,
                key: read.key,
                witness: Some(*witness),
                expected: Expected::Exactly(*state),
                evidence: Evidence::None,
            });
        }
    }

    fn count(
        &mut self,
        key: &KeyCheck<'_>,
        witness: &Witness,
        shown: Option<Version>,
        violation_count: u64,
    ) {
        let read = &witness.read;
        let cell = Cell {
            contract: witness.contract,
            layer: read.layer,
            fault: witness.fault,
        };
        let figures = self.report.cells.entry(cell).or_default();
        figures.read_count += 1;
        figures.memory_count += u64::from(read.source == Source::Memory);
        figures.violation_count += violation_count;
        let changed = key.writes.acknowledged_before(read.begin);
        // The states before the run are not changes.
        let changed = changed.filter(|changed| *changed > Time::START);
        let is_recent = |changed| read.begin.since(changed) <= self.options.recent;
        figures.recent_count += u64::from(changed.is_some_and(is_recent));
        if let Some(shown) = shown {
            let outdated = key.writes.outdated_at(shown);
            let staleness = outdated.map_or(Duration::ZERO, |outdated| read.begin.since(outdated));
            figures.staleness.add(staleness);
        }
    }

    /// Counts a violation, and keeps it if there are not enough of its rule.
    fn keep(&mut self, violation: Violation) {
        let count = (self.report.violation_counts)
            .entry(violation.rule)
            .or_default();
        *count += 1;
        if *count <= self.options.violation_count_max as u64 {
            self.report.violations.push(violation);
        }
    }
}

#[cfg(test)]
mod tests;
