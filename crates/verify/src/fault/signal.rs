//! The current phase of a run, and the handshake between the run and who injects its faults.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{FaultPlan, PhaseId};

/// The current phase of a run, for all its threads.
#[derive(Debug, Default)]
pub struct PhaseSignal {
    current: AtomicU16,
    injecting: Mutex<Injecting>,
    changed: Condvar,
}

/// What the run and the injector tell each other.
#[derive(Debug, Default)]
struct Injecting {
    has_injector: bool,
    /// The announced phase with a fault that the injector has not finished.
    unfinished: Option<PhaseId>,
    /// No phase is announced any more.
    is_over: bool,
    /// Somebody wants the run to end before its plan.
    is_ended_early: bool,
}

impl PhaseSignal {
    /// Creates a signal at the first phase.
    pub fn new() -> Self {
        Self::default()
    }

    /// The phase that was announced last.
    pub fn current(&self) -> PhaseId {
        // Pairs with the store in `announce`.
        PhaseId::from_bits(self.current.load(Ordering::Acquire))
    }

    /// The one who injects the faults. From now on, and until it is dropped, a phase with a fault lasts
    /// until the injector has finished it: no fault is left out because another one took longer.
    pub fn injector(&self) -> Injector<'_> {
        self.lock().has_injector = true;
        Injector(self)
    }

    /// Ends the run before its plan: the writers stop, and the quiet end is checked.
    pub fn end_early(&self) {
        self.lock().is_ended_early = true;
        self.changed.notify_all();
    }

    /// Announces that a phase begins.
    pub(crate) fn announce(&self, phase: PhaseId, plan: &FaultPlan) {
        let mut injecting = self.lock();
        // Pairs with the load in `current`: what the announcing thread did before is visible.
        self.current.store(phase.bits(), Ordering::Release);
        if injecting.has_injector && plan.fault(phase).is_some() {
            injecting.unfinished = Some(phase);
        }
        self.changed.notify_all();
    }

    /// Waits for the end of the current phase: for `length`, and for the injector. Returns at once if
    /// the run has to end.
    pub(crate) fn wait(&self, length: Duration, must_end: &dyn Fn() -> bool) -> Ended {
        /// How often `must_end` is asked.
        const LOOK: Duration = Duration::from_millis(20);
        let begin = Instant::now();
        let mut injecting = self.lock();
        loop {
            if injecting.is_ended_early || must_end() {
                return Ended::Run;
            }
            let left = length.saturating_sub(begin.elapsed());
            if left.is_zero() && injecting.unfinished.is_none() {
                return Ended::Phase;
            }
            let wait = match left.is_zero() {
                true => LOOK,
                false => left.min(LOOK),
            };
            let waited = self.changed.wait_timeout(injecting, wait);
            injecting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No phase follows.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// No state is left inconsistent by a panic: each change is one assignment.
    fn lock(&self) -> MutexGuard<'_, Injecting> {
        self.injecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a wait ended for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Phase,
    Run,
}

/// The end of a [`PhaseSignal`] that injects the faults.
#[derive(Debug)]
pub struct Injector<'a>(&'a PhaseSignal);

impl Injector<'_> {
    /// Waits for the next phase with a fault; `None` when there is none any more.
    pub fn next_phase(&self) -> Option<PhaseId> {
        let mut injecting = self.0.lock();
        loop {
            if let Some(phase) = injecting.unfinished {
                return Some(phase);
            }
            if injecting.is_over {
                return None;
            }
            let waited = self.0.changed.wait(injecting);
            injecting = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The fault of the current phase is over: the next phase may begin.
    pub fn finish(&self) {
        self.0.lock().unfinished = None;
        self.0.changed.notify_all();
    }
}

impl Drop for Injector<'_> {
    /// Without an injector, phases end at their times.
    fn drop(&mut self) {
        let mut injecting = self.0.lock();
        injecting.has_injector = false;
        injecting.unfinished = None;
        drop(injecting);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::fault::{FaultKind, PlanOptions};

    #[test]
    fn a_fault_lasts_until_it_is_finished() {
        let length = Duration::from_secs(1);
        let plan = FaultPlan::new(&[FaultKind::Reload], length, &PlanOptions::default()).unwrap();
        let signal = PhaseSignal::new();
        let injector = signal.injector();
        let phases: Vec<_> = plan.iter().map(|(id, _)| id).collect();
        signal.announce(phases[0], &plan);
        assert_eq!(signal.wait(Duration::ZERO, &|| false), Ended::Phase);
        signal.announce(phases[1], &plan);
        assert_eq!(injector.next_phase(), Some(phases[1]));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| signal.wait(Duration::ZERO, &|| false));
            injector.finish();
            assert_eq!(waiting.join().unwrap(), Ended::Phase);
        });
        signal.announce(phases[1], &plan);
        signal.end_early();
        assert_eq!(signal.wait(Duration::MAX, &|| false), Ended::Run);
        injector.finish();
        signal.end();
        assert_eq!(injector.next_phase(), None);
    }

    #[test]
    fn without_an_injector_phases_end_at_their_times() {
        let length = Duration::from_secs(1);
        let plan = FaultPlan::new(&[FaultKind::Reload], length, &PlanOptions::default()).unwrap();
        let signal = PhaseSignal::new();
        drop(signal.injector());
        let fault = plan.iter().map(|(id, _)| id).nth(1).unwrap();
        signal.announce(fault, &plan);
        assert_eq!(signal.current(), fault);
        assert_eq!(signal.wait(Duration::ZERO, &|| false), Ended::Phase);
    }
}
