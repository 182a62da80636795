//! The state of cancel requests to a server.
//!
//! A cancel request hits whatever query the session is executing when it arrives. So at most one is
//! in flight at a time, no queries are sent meanwhile, and queries that were queued before it was
//! processed may have been hit by mistake.
//!
//! Queries are identified by the sequence number at which they were queued, from the driver's
//! event count.

use std::time::{Duration, Instant};

use crate::Ticket;

/// A cancel request that arrives before the query has begun has no effect, so it is repeated. The
/// answer to one query arrives here before the server begins the next, and on a busy machine a cancel
/// request can overtake it: the first pause is short, and each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest pause before a cancel request is repeated.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Cancel requests, of which at most one is in flight.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    /// Requests that were cancelled while some of their queries were in flight.
    pub(crate) wanted: Vec<Ticket>,
    stage: Stage,
    /// Queries queued up to this sequence number may have been hit.
    risk_end: u64,
    target: Option<Target>,
}

/// The query to cancel.
#[derive(Clone, Copy, Debug)]
struct Target {
    sequence: u64,
    chosen_at: Instant,
    /// The pause after the cancel request before it is repeated.
    pause: Duration,
    /// When it is repeated; `None` until the driver has seen that the server has processed it.
    again: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// The owner of the driver has not taken the cancel request yet.
    Wanted,
    /// The owner is sending it.
    UnderWay,
}

impl Cancellation {
    /// Whether there is nothing to cancel and no cancel request in flight, which is nearly always
    /// the case.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.target.is_none() && self.stage == Stage::Idle
    }

    /// Whether no queries may be sent, because they could be hit.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.stage == Stage::UnderWay
    }

    /// Whether a cancel request may have hit a query that was queued at this sequence number.
    pub(crate) fn may_have_hit(&self, sequence: u64) -> bool {
        self.is_under_way() || sequence <= self.risk_end
    }

    /// When to [`take`](Self::take) the cancel request or to call [`choose`](Self::choose) again, at
    /// once where that is in the past; `None` while a cancel request is in flight.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let target = self.target.filter(|_| !self.is_under_way());
        target.map(|target| target.again.unwrap_or(target.chosen_at))
    }

    /// Chooses the query to cancel by its sequence number; `None` cancels nothing.
    pub(crate) fn choose(&mut self, unwanted: Option<u64>, now: Instant) {
        if self.is_under_way() {
            return;
        }
        let Some(sequence) = unwanted else {
            self.target = None;
            self.stage = Stage::Idle;
            return;
        };
        let pause = match &mut self.target {
            Some(target) if target.sequence == sequence => match target.again {
                None if self.stage == Stage::Wanted => return,
                None => {
                    target.again = Some(now + target.pause);
                    return;
                }
                Some(again) if now < again => return,
                Some(_) => PAUSE_MAX.min(2 * target.pause),
            },
            _ => PAUSE_MIN,
        };
        self.target = Some(Target {
            sequence,
            chosen_at: now,
            pause,
            again: None,
        });
        self.stage = Stage::Wanted;
    }

    /// Whether the owner of the driver has to send a cancel request; it counts as in flight from
    /// now on.
    pub(crate) fn take(&mut self) -> bool {
        let is_wanted = self.stage == Stage::Wanted;
        if is_wanted {
            assert!(
                self.target.is_some(),
                "a wanted cancel request has a target"
            );
            self.stage = Stage::UnderWay;
        }
        is_wanted
    }

    /// The server has processed the cancel request, which may have hit queries that were queued up
    /// to this sequence number.
    pub(crate) fn done(&mut self, risk_end: u64) {
        assert!(self.risk_end <= risk_end, "the risk end does not decrease");
        self.stage = Stage::Idle;
        self.risk_end = risk_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_goes_on_is_cancelled_again_after_pauses_that_grow() {
        let mut now = Instant::now();
        let mut cancellation = Cancellation::default();
        cancellation.choose(Some(3), now);
        assert_eq!(cancellation.deadline(), Some(now));
        assert!(!cancellation.is_idle() && cancellation.take() && !cancellation.take());
        for pause in [10, 20, 40, 80, 160, 320, 640, 1000, 1000].map(Duration::from_millis) {
            cancellation.done(3);
            cancellation.choose(Some(3), now);
            assert!(!cancellation.take());
            assert_eq!(cancellation.deadline(), Some(now + pause));
            now += pause;
            cancellation.choose(Some(3), now);
            assert!(cancellation.take());
            // The pause begins when the request has been processed, however long that takes.
            assert_eq!(cancellation.deadline(), None);
            now += 3 * pause;
        }
        // Another query has the short pause.
        cancellation.done(4);
        cancellation.choose(Some(5), now);
        assert!(cancellation.take());
        cancellation.done(5);
        cancellation.choose(Some(5), now);
        assert_eq!(cancellation.deadline(), Some(now + PAUSE_MIN));
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
        // No other query is chosen meanwhile.
        cancellation.choose(Some(4), now);
        assert!(!cancellation.take());
        cancellation.done(5);
        assert!(cancellation.may_have_hit(5) && !cancellation.may_have_hit(6));
        cancellation.choose(None, now);
        assert!(cancellation.is_idle());
    }
}
