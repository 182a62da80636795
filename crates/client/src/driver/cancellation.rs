//! What a server is asked to cancel.
//!
//! A server cancels whatever its session is doing when it is asked. So there is at most one request
//! to cancel at a time, nothing is sent while it is under way, and what was queued until it was dealt
//! with may have been hit by mistake.
//!
//! Queries are known here by the moment when they were queued, in the driver's count of events.

use std::time::{Duration, Instant};

use crate::Ticket;

/// A request to cancel that comes before the query has begun does nothing, so another follows.
const PERIOD: Duration = Duration::from_secs(1);

/// Requests to cancel, of which there is at most one at a time.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    /// Requests that were given up while some of their queries were under way.
    pub(crate) wanted: Vec<Ticket>,
    stage: Stage,
    /// What was queued up to this moment may have been hit.
    risk_end: u64,
    /// The query that is to be cancelled, and when to ask once more.
    target: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// The owner of the driver has not taken the request to cancel yet.
    Wanted,
    /// The owner is sending it.
    UnderWay,
}

impl Cancellation {
    /// Whether nothing is to be cancelled and no request to cancel is under way, which is nearly
    /// always.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.target.is_none() && self.stage == Stage::Idle
    }

    /// Whether nothing may be sent, because it could be hit.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.stage == Stage::UnderWay
    }

    /// Whether a request to cancel may have hit what was queued at a moment.
    pub(crate) fn may_have_hit(&self, moment: u64) -> bool {
        self.is_under_way() || moment <= self.risk_end
    }

    /// When to call [`choose`](Self::choose) again; not while a request to cancel is under way, whose
    /// end is waited for.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let target = self.target.filter(|_| !self.is_under_way());
        target.map(|(_, again)| again)
    }

    /// Asks to cancel the query that was queued at this moment, or nothing any more.
    pub(crate) fn choose(&mut self, unwanted: Option<u64>, now: Instant) {
        if self.is_under_way() {
            return;
        }
        let Some(moment) = unwanted else {
            self.target = None;
            self.stage = Stage::Idle;
            return;
        };
        let is_due = match self.target {
            Some((target, again)) => target != moment || again <= now,
            None => true,
        };
        if is_due {
            self.target = Some((moment, now + PERIOD));
            self.stage = Stage::Wanted;
        }
    }

    /// Whether the owner of the driver has to send a request to cancel; it counts as under way from
    /// here on.
    pub(crate) fn take(&mut self) -> bool {
        let is_wanted = self.stage == Stage::Wanted;
        if is_wanted {
            self.stage = Stage::UnderWay;
        }
        is_wanted
    }

    /// The server has dealt with the request, which may have hit what was queued up to a moment.
    pub(crate) fn done(&mut self, risk_end: u64) {
        self.stage = Stage::Idle;
        self.risk_end = risk_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_goes_on_is_cancelled_again_after_a_period() {
        let now = Instant::now();
        let mut cancellation = Cancellation::default();
        cancellation.choose(Some(3), now);
        assert!(!cancellation.is_idle() && cancellation.take() && !cancellation.take());
        cancellation.done(3);
        cancellation.choose(Some(3), now);
        assert!(!cancellation.take());
        assert_eq!(cancellation.deadline(), Some(now + PERIOD));
        cancellation.choose(Some(3), now + PERIOD);
        assert!(cancellation.take());
    }

    #[test]
    fn what_was_queued_until_it_was_done_may_have_been_hit() {
        let now = Instant::now();
        let mut cancellation = Cancellation::default();
        assert!(!cancellation.may_have_hit(1));
        cancellation.choose(Some(3), now);
        assert!(cancellation.take() && cancellation.is_under_way());
        assert_eq!(cancellation.deadline(), None);
        assert!(cancellation.may_have_hit(9));
        // Another one is not chosen meanwhile.
        cancellation.choose(Some(4), now);
        assert!(!cancellation.take());
        cancellation.done(5);
        assert!(cancellation.may_have_hit(5) && !cancellation.may_have_hit(6));
        cancellation.choose(None, now);
        assert!(cancellation.is_idle());
    }
}
