//! What the server is asked to cancel, and whom that may have hit by mistake.

use std::time::{Duration, Instant};

use lookaside_wire::postgres::ErrorResponse;

use super::Session;
use crate::Ticket;
use crate::postgres::driver::in_flight::InFlight;
use crate::postgres::driver::query_range::QueryRange;

/// Requests to cancel, of which there is at most one at a time.
#[derive(Default)]
pub(in crate::postgres::driver) struct Cancel {
    /// Requests that were given up while some of their queries were under way.
    pub(in crate::postgres::driver) wanted: Vec<Ticket>,
    stage: CancelStage,
    /// What was queued up to this moment may have been hit.
    risk_end: u64,
    /// What is to be cancelled, by the moment when it was queued, and when to ask once more.
    target: Option<(u64, Instant)>,
}

impl Cancel {
    /// Whether nothing is to be cancelled and nobody has been asked to, which is nearly always.
    fn is_over(&self) -> bool {
        self.wanted.is_empty() && self.target.is_none() && self.stage == CancelStage::Idle
    }

    /// Whether nothing may be sent, because it could be hit.
    pub(in crate::postgres::driver) fn is_under_way(&self) -> bool {
        self.stage == CancelStage::UnderWay
    }

    /// When to look again whether to ask once more.
    pub(super) fn again(&self) -> Option<Instant> {
        self.target.map(|(_, again)| again)
    }
}

/// A request to cancel that comes before the query has begun does nothing, so another follows.
const CANCEL_PERIOD: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CancelStage {
    #[default]
    Idle,
    /// The owner shall see to it.
    Asked,
    /// The owner sees to it.
    UnderWay,
}

impl Session {
    /// Whether an error is what a request to cancel does, and may have hit this by mistake.
    pub(super) fn is_victim(&self, error: &ErrorResponse<'_>, moment: u64) -> bool {
        let canceled = error
            .sqlstate()
            .is_some_and(|state| state.as_bytes() == b"57014");
        let asked = self.cancel.is_under_way() || moment <= self.cancel.risk_end;
        canceled && asked
    }

    /// Asks to cancel what the server is doing if nobody wants it.
    #[inline]
    pub(in crate::postgres::driver) fn choose_cancel(&mut self, now: Instant) {
        if !self.cancel.is_over() {
            self.choose_cancel_of(now);
        }
    }

    #[cold]
    fn choose_cancel_of(&mut self, now: Instant) {
        if !self.cancel.wanted.is_empty() {
            let (steps, statements) = (&self.steps, &self.statements);
            self.cancel.wanted.retain(|&ticket| {
                steps.iter().any(|step| match step {
                    InFlight::Run { run, .. } => run.ticket == ticket,
                    InFlight::Script { ticket: of, .. } => *of == ticket,
                    InFlight::Prepare { key, .. } => statements.is_awaited(key, ticket),
                    InFlight::Close(_) | InFlight::Sync => false,
                })
            });
        }
        let unwanted = match self.steps.front() {
            Some(InFlight::Run { run, moment, .. }) if self.cancel.wanted.contains(&run.ticket) => {
                Some(*moment)
            }
            Some(InFlight::Script { ticket, moment, .. })
                if self.cancel.wanted.contains(ticket) =>
            {
                Some(*moment)
            }
            // What nobody waits for is left alone unless somebody wanted it cancelled: it is done
            // sooner than the server could be asked, or else it waits for a lock.
            Some(InFlight::Prepare { key, moment, .. }) => {
                let waiting = self.statements.waiting(key);
                let is_open = |span: &QueryRange| self.jobs.contains(span.ticket);
                let is_given_up = |span: &QueryRange| self.cancel.wanted.contains(&span.ticket);
                let is_unwanted = !waiting.iter().any(is_open) && waiting.iter().any(is_given_up);
                is_unwanted.then_some(*moment)
            }
            _ => None,
        };
        if self.cancel.is_under_way() {
            return;
        }
        let Some(moment) = unwanted else {
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

    pub(in crate::postgres::driver) fn take_cancel(&mut self) -> bool {
        let asked = self.cancel.stage == CancelStage::Asked;
        if asked {
            self.cancel.stage = CancelStage::UnderWay;
        }
        asked
    }

    pub(in crate::postgres::driver) fn cancel_done(&mut self) {
        if self.cancel.is_under_way() {
            self.cancel.stage = CancelStage::Idle;
            self.cancel.risk_end = self.moment;
            self.moment += 1;
        }
    }
}
