//! Requests to cancel, of which there is at most one at a time.

use std::time::{Duration, Instant};

use lookaside_wire::mysql::ErrPacket;

use super::Session;
use crate::Ticket;
use crate::mysql::driver::in_flight::{InFlight, Work};

/// `ER_QUERY_INTERRUPTED`
const INTERRUPTED: u16 = 1317;

/// A request to cancel that comes before the query has begun does nothing, so another follows.
const CANCEL_PERIOD: Duration = Duration::from_secs(1);

/// Whether a request to cancel is the reason.
pub(super) fn is_interrupted(error: &ErrPacket<'_>) -> bool {
    error.code() == INTERRUPTED
}

#[derive(Default)]
pub(in crate::mysql::driver) struct Cancel {
    /// Requests that were given up while some of their queries were under way.
    pub(in crate::mysql::driver) wanted: Vec<Ticket>,
    stage: CancelStage,
    /// What was queued up to this moment may have been hit.
    risk_end: u64,
    /// What is to be cancelled, by the moment when it was queued, and when to ask once more.
    target: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CancelStage {
    #[default]
    Idle,
    /// The owner shall see to it.
    Asked,
    /// The owner sees to it.
    UnderWay,
}

impl Cancel {
    /// Whether nothing may be sent, because it could be hit.
    pub(in crate::mysql::driver) fn is_under_way(&self) -> bool {
        self.stage == CancelStage::UnderWay
    }

    /// When to ask once more.
    pub(in crate::mysql::driver) fn deadline(&self) -> Option<Instant> {
        self.target.map(|(_, again)| again)
    }

    /// Whether an error is what a request to cancel does, and may have hit this by mistake.
    pub(in crate::mysql::driver) fn is_victim(&self, error: &ErrPacket<'_>, moment: u64) -> bool {
        is_interrupted(error) && (self.is_under_way() || moment <= self.risk_end)
    }

    /// Whether this was given up.
    fn wants(&self, step: &InFlight) -> bool {
        match step {
            InFlight::Run { run, .. } => self.wanted.contains(&run.ticket),
            InFlight::Bulk { span, .. } => self.wanted.contains(&span.ticket),
            _ => false,
        }
    }

    /// Takes the order to see to it.
    pub(in crate::mysql::driver) fn take(&mut self) -> bool {
        let asked = self.stage == CancelStage::Asked;
        if asked {
            self.stage = CancelStage::UnderWay;
        }
        asked
    }
}

impl Session {
    /// Asks to cancel what the server is doing if nobody wants it.
    ///
    /// Should the query be done in that very moment, then the next one is hit. So nobody is asked
    /// while something is queued behind it that could not be sent again.
    pub(in crate::mysql::driver) fn choose_cancel(&mut self, now: Instant) {
        let (steps, statements) = (&self.steps, &self.statements);
        self.cancel.wanted.retain(|&ticket| {
            steps.iter().any(|step| match step {
                InFlight::Own { .. }
                | InFlight::Ping { .. }
                | InFlight::Reset { .. }
                | InFlight::Guard { .. }
                | InFlight::Void { .. } => false,
                InFlight::Run { run, .. } => run.ticket == ticket,
                InFlight::Bulk { span, .. } => span.ticket == ticket,
                InFlight::Prepare { key, .. } => {
                    let mut waiting = statements.waiting(key).iter();
                    waiting.any(|span| span.ticket == ticket)
                }
            })
        });
        if self.cancel.is_under_way() {
            return;
        }
        let mut behind = self.steps.iter().skip(1);
        let is_alone = behind.all(|step| step.is_repeatable() || self.cancel.wants(step));
        let Some(moment) = self.unwanted().filter(|_| is_alone) else {
            self.cancel.target = None;
            self.cancel.stage = CancelStage::Idle;
            return;
        };
        let is_due = match self.cancel.target {
            Some((target, again)) => target != moment || again <= now,
            None => true,
        };
        if is_due {
            self.cancel.target = Some((moment, now + CANCEL_PERIOD));
            self.cancel.stage = CancelStage::Asked;
        }
    }

    /// The first step, if it was given up.
    fn unwanted(&self) -> Option<u64> {
        let step = self.steps.front()?;
        let is_unwanted = match step {
            InFlight::Own { .. }
            | InFlight::Ping { .. }
            | InFlight::Reset { .. }
            | InFlight::Guard { .. }
            | InFlight::Void { .. } => false,
            InFlight::Run { .. } | InFlight::Bulk { .. } => self.cancel.wants(step),
            // What nobody waits for is left alone unless somebody wanted it cancelled: it is done
            // sooner than the server could be asked, or else it waits for a lock.
            InFlight::Prepare { key, .. } => {
                let waiting = self.statements.waiting(key).iter();
                let along = match self.steps.get(1) {
                    Some(InFlight::Run {
                        run,
                        work: Work::Last,
                        ..
                    }) => Some(run.ticket),
                    _ => None,
                };
                let mut tickets = waiting.map(|span| span.ticket).chain(along);
                let is_open = tickets.clone().any(|ticket| self.requests.contains(ticket));
                !is_open && tickets.any(|ticket| self.cancel.wanted.contains(&ticket))
            }
        };
        is_unwanted.then(|| step.moment())
    }

    pub(in crate::mysql::driver) fn cancel_done(&mut self) {
        if self.cancel.is_under_way() {
            self.cancel.stage = CancelStage::Idle;
            // A server that had nothing to interrupt may still interrupt what comes next.
            self.cancel.risk_end = self.next_moment() + 1;
        }
    }
}
