//! Statements that are used for the first time during a run, again and again: the lookups of the run with
//! other texts, which makes them other statements of the engine.
//!
//! A change feed follows a statement from some moment after its first use on. Changes that are under way
//! then, such as commits that a standby delays, are easily missed.

use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use lookaside_knowledge::{Knowledge, Statement};
use lookaside_verify::fault::{FaultKind, FaultPlan, PhaseId, PhaseSignal};
use lookaside_verify::history::Key;

use super::registers::{LOOKUPS, lookup_index};

/// How many are used for the first time while commits wait for a standby, and during all other faults.
/// The engine has room for 65,536 statements, but a feed compares each row with all of them, for ever.
const COUNT_MAX: [u32; 2] = [48, 16];

/// How many of the newest ones are read.
const READ_COUNT: usize = 2;

/// How long after the beginning of a fault the first use is: long enough for a commit to be sent, and short
/// beside a fault.
const DELAY_MS: std::ops::Range<u64> = 10..60;

/// A lookup of the run with another text.
#[derive(Debug)]
pub(super) struct FirstUse {
    /// Counted from 0.
    pub(super) number: u32,
    /// No answer to it is older than this.
    pub(super) since: Instant,
    /// As [`LOOKUPS`].
    statements: Vec<Statement>,
}

impl FirstUse {
    pub(super) fn statement_of(&self, key: Key) -> &Statement {
        &self.statements[lookup_index(key)]
    }
}

/// Those of a run, for all its readers.
pub(super) struct FirstUses<'a> {
    knowledge: Knowledge,
    signal: &'a PhaseSignal,
    plan: &'a FaultPlan,
    next: Mutex<Next>,
    /// The newest ones, at most [`READ_COUNT`].
    newest: RwLock<Vec<Arc<FirstUse>>>,
}

/// When there is another one.
#[derive(Debug)]
struct Next {
    /// When the run began.
    begin: Instant,
    /// The phase that was seen last, and when the statement of this phase is used. `None` if it was, or if
    /// none is.
    phase: PhaseId,
    due: Option<Instant>,
    /// The numbers of those that there are, as [`COUNT_MAX`].
    counts: [u32; 2],
    random: fastrand::Rng,
}

impl<'a> FirstUses<'a> {
    /// The run begins now.
    pub(super) fn new(
        knowledge: &Knowledge,
        signal: &'a PhaseSignal,
        plan: &'a FaultPlan,
        seed: u64,
    ) -> Self {
        Self {
            knowledge: knowledge.clone(),
            signal,
            plan,
            next: Mutex::new(Next {
                begin: Instant::now(),
                phase: signal.current(),
                due: None,
                counts: [0; 2],
                random: fastrand::Rng::with_seed(seed),
            }),
            newest: RwLock::default(),
        }
    }

    /// One of the newest ones, the newest most often; `None` before the first one.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Option<Arc<FirstUse>> {
        self.add_if_due();
        let newest = self.newest.read().unwrap_or_else(PoisonError::into_inner);
        let back = random.usize(0..2 * READ_COUNT).saturating_sub(READ_COUNT);
        newest.iter().rev().nth(back).or(newest.last()).cloned()
    }

    /// Adds a statement if it is time.
    fn add_if_due(&self) {
        // Another reader does it.
        let mut next = match self.next.try_lock() {
            Ok(next) => next,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let (phase, now) = (self.signal.current(), Instant::now());
        let Some(kind) = self.plan.fault(phase) else {
            return;
        };
        let class = usize::from(!is_stalled(kind));
        if next.phase != phase {
            next.phase = phase;
            let delay = Duration::from_millis(next.random.u64(DELAY_MS));
            let length = self
                .plan
                .phases()
                .last()
                .map_or(Duration::ZERO, |it| it.end);
            let count_max = count_until(now - next.begin, length, COUNT_MAX[class]);
            next.due = (next.counts[class] < count_max).then(|| now + delay);
        }
        if next.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        let number = next.counts.iter().sum();
        let statements = LOOKUPS.iter().map(|(_, sql)| {
            let sql = other_text(sql, number);
            self.knowledge.prepare(&sql)
        });
        // Nothing is asked of the server, or of its feed, before the first read.
        let Ok(statements) = statements.collect::<Result<_, _>>() else {
            return;
        };
        next.counts[class] += 1;
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        if newest.len() == READ_COUNT {
            newest.remove(0);
        }
        newest.push(Arc::new(FirstUse {
            number,
            since: Instant::now(),
            statements,
        }));
    }
}

/// How many there may be after this time of a run: they are spread over all of it.
fn count_until(elapsed: Duration, length: Duration, count_max: u32) -> u32 {
    let share = elapsed.as_secs_f64() / length.as_secs_f64().max(0.001);
    (f64::from(count_max) * share.min(1.0)).ceil() as u32
}

/// Whether commits wait for a standby: their changes are then under way for as long as the fault lasts.
fn is_stalled(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::StallStandby | FaultKind::StalledReconnect)
}

/// The same statement with another text: another alias, or a comment.
fn other_text(sql: &str, number: u32) -> String {
    match number % 2 {
        0 => sql.replacen(
            " where id ",
            &format!(" as r{number} where r{number}.id "),
            1,
        ),
        _ => format!("{sql} /* {number} */"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_uses_are_spread_over_the_run() {
        let seconds = Duration::from_secs;
        let counts = [0, 1, 15, 60, 90].map(|it| count_until(seconds(it), seconds(60), 48));
        assert_eq!(counts, [0, 1, 12, 48, 48]);
        assert_eq!(count_until(seconds(1), Duration::ZERO, 48), 48);
    }

    #[test]
    fn texts_differ_and_read_the_same() {
        let (_, sql) = LOOKUPS[0];
        assert_eq!(
            other_text(sql, 8),
            "select version from verify.lookaside_verify.registers as r8 where r8.id = :id"
        );
        assert_eq!(other_text(sql, 9), format!("{sql} /* 9 */"));
    }
}
