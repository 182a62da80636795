//! When which fault is injected: a list of phases, made from a seed before the run.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::FaultKind;
use crate::error::{Error, Result};

/// The limit of phases of a plan, which follows from the two bytes that a read has for its phase. A
/// plan that needs more is refused.
const PHASE_COUNT_MAX: usize = 1 << 16;

/// The index of a phase in its plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseId(u16);

impl PhaseId {
    pub(crate) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// The index of the phase, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A part of a run: with one fault, or quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPhase {
    /// The injected fault; `None` in a quiet phase.
    pub fault: Option<FaultKind>,
    /// When it begins, since the run's start.
    pub begin: Duration,
    /// When it ends, since the run's start; the next phase begins then.
    pub end: Duration,
}

/// The lengths of phases, and the seed that draws them.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Equal seeds and arguments make equal plans.
    pub seed: u64,
    /// How long a fault lasts. 50 to 250 ms: longer than the freshest contract, and short enough for
    /// 100 injections of each kind in ten minutes.
    pub fault_length: RangeInclusive<Duration>,
    /// How long it is quiet between two faults. 20 to 100 ms, so that some faults find the process
    /// recovered and others do not.
    pub quiet_length: RangeInclusive<Duration>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            fault_length: Duration::from_millis(50)..=Duration::from_millis(250),
            quiet_length: Duration::from_millis(20)..=Duration::from_millis(100),
        }
    }
}

/// The phases of a run, without gaps. The first and the last one are quiet, and a quiet phase
/// separates two faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Never empty.
    phases: Vec<FaultPhase>,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn quiet(duration: Duration) -> Self {
        Self {
            phases: vec![FaultPhase {
                fault: None,
                begin: Duration::ZERO,
                end: duration,
            }],
        }
    }

    /// Distributes faults over a run: in rounds, each of which has every kind once in a random
    /// order, so that a run that ends early has injected all kinds equally often, up to one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lookaside_verify::fault::{FaultKind, FaultPlan, PlanOptions};
    ///
    /// let kinds = [FaultKind::Truncate, FaultKind::Reload];
    /// let plan = FaultPlan::new(&kinds, Duration::from_secs(60), &PlanOptions::default())?;
    /// assert!(plan.phases().iter().any(|phase| phase.fault == Some(FaultKind::Reload)));
    /// # Ok::<(), lookaside_verify::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a range of [`PlanOptions`] is empty or begins at 0, or the plan would have more than
    /// 65,536 phases.
    pub fn new(kinds: &[FaultKind], duration: Duration, options: &PlanOptions) -> Result<Self> {
        for length in [&options.fault_length, &options.quiet_length] {
            if length.is_empty() || length.start().is_zero() {
                return Err(Error::empty_length());
            }
        }
        let mut plan = Self::quiet(duration);
        if kinds.is_empty() {
            return Ok(plan);
        }
        let mut random = fastrand::Rng::with_seed(options.seed);
        let mut round = Vec::new();
        plan.phases.clear();
        let mut begin = Duration::ZERO;
        loop {
            let quiet_end = begin.saturating_add(draw(&mut random, &options.quiet_length));
            let fault_end = quiet_end.saturating_add(draw(&mut random, &options.fault_length));
            // The fault is followed by a quiet phase.
            if fault_end.saturating_add(*options.quiet_length.start()) > duration {
                break;
            }
            if round.is_empty() {
                round.extend_from_slice(kinds);
                random.shuffle(&mut round);
            }
            plan.push(None, begin, quiet_end)?;
            plan.push(round.pop(), quiet_end, fault_end)?;
            begin = fault_end;
        }
        plan.push(None, begin, duration)?;
        Ok(plan)
    }

    fn push(&mut self, fault: Option<FaultKind>, begin: Duration, end: Duration) -> Result<()> {
        if self.phases.len() == PHASE_COUNT_MAX {
            return Err(Error::too_many_phases(PHASE_COUNT_MAX));
        }
        self.phases.push(FaultPhase { fault, begin, end });
        Ok(())
    }

    /// The phases in their order.
    pub fn phases(&self) -> &[FaultPhase] {
        &self.phases
    }

    /// The phases with their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (PhaseId, &FaultPhase)> {
        (0..=u16::MAX).map(PhaseId).zip(&self.phases)
    }

    /// The fault of a phase; `None` in a quiet phase, and for a phase that the plan does not have.
    pub fn fault(&self, phase: PhaseId) -> Option<FaultKind> {
        self.phases.get(phase.index())?.fault
    }

    /// The last fault before a phase.
    pub fn fault_before(&self, phase: PhaseId) -> Option<FaultKind> {
        let before = self.phases.get(..phase.index())?;
        before.iter().rev().find_map(|phase| phase.fault)
    }

    /// How often a fault was injected when `announced` was the last phase that began.
    pub fn injection_count(&self, kind: FaultKind, announced: PhaseId) -> u64 {
        let begun = self.phases.iter().take(announced.index() + 1);
        begun.filter(|phase| phase.fault == Some(kind)).count() as u64
    }
}

fn draw(random: &mut fastrand::Rng, length: &RangeInclusive<Duration>) -> Duration {
    let nanos = |duration: &Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random.u64(nanos(length.start())..=nanos(length.end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn phases_have_no_gaps_and_faults_are_separated() {
        for seed in 0..50 {
            let options = PlanOptions {
                seed,
                ..PlanOptions::default()
            };
            let plan = FaultPlan::new(&FaultKind::ALL, MINUTE, &options).unwrap();
            let phases = plan.phases();
            assert_eq!(phases[0].begin, Duration::ZERO);
            assert_eq!(phases[phases.len() - 1].end, MINUTE);
            assert_eq!(phases[phases.len() - 1].fault, None);
            for (index, pair) in phases.windows(2).enumerate() {
                assert_eq!(pair[0].end, pair[1].begin);
                assert!(pair[0].begin < pair[0].end);
                assert_eq!(pair[0].fault.is_some(), index % 2 == 1, "seed {seed}");
            }
        }
    }

    #[test]
    fn kinds_are_injected_equally_often_at_any_moment() {
        let plan = |minutes| {
            let options = PlanOptions::default();
            FaultPlan::new(&FaultKind::ALL, minutes * MINUTE, &options).unwrap()
        };
        let minute = plan(1);
        for (id, _) in minute.iter() {
            let counts = FaultKind::ALL.map(|kind| minute.injection_count(kind, id));
            let (min, max) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(max - min <= 1, "{counts:?} at {id:?}");
        }
        let plan = plan(10);
        let last = PhaseId((plan.phases().len() - 1) as u16);
        // Ten minutes are enough for the demand of 100 injections a kind.
        assert!(plan.injection_count(FaultKind::Reload, last) >= 100);
        assert_eq!(plan.fault_before(PhaseId(0)), None);
        assert_eq!(plan.fault_before(PhaseId(2)), plan.fault(PhaseId(1)));
    }

    #[test]
    fn the_seed_makes_the_plan() {
        let plan = |seed| {
            let options = PlanOptions {
                seed,
                ..PlanOptions::default()
            };
            FaultPlan::new(&FaultKind::ALL, MINUTE, &options).unwrap()
        };
        assert_eq!(plan(3), plan(3));
        assert_ne!(plan(3), plan(4));
    }

    #[test]
    fn plans_without_length_or_end_are_refused() {
        let options = PlanOptions {
            quiet_length: Duration::ZERO..=MINUTE,
            ..PlanOptions::default()
        };
        assert!(FaultPlan::new(&FaultKind::ALL, MINUTE, &options).is_err());
        let error = FaultPlan::new(&FaultKind::ALL, 1000 * MINUTE, &PlanOptions::default());
        assert!(error.unwrap_err().to_string().contains("65536 phases"));
        let plan = FaultPlan::new(&[], MINUTE, &PlanOptions::default()).unwrap();
        assert_eq!(plan, FaultPlan::quiet(MINUTE));
    }
}
