//! How fresh the caches of a provider are, published for callers on all threads.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lookaside_value::Position;
use tokio::sync::Notify;

use super::gate::Progress;
use super::position::LogPosition;

/// The horizon of a provider: valid entries are as fresh as a query that was sent at that moment.
#[derive(Debug)]
pub(crate) struct Horizon {
    /// Moments are stored as nanoseconds since then.
    start: Instant,
    /// 0 while there is no horizon. Stored after the changes before it were applied (`Release`).
    fresh_as_of: AtomicU64,
    /// The last one, also after it was withdrawn; for the metrics.
    last: AtomicU64,
    position: AtomicU64,
    /// Where the server's log ended when it was asked last; 0 while that is not known.
    log_end: AtomicU64,
    /// The cluster that positions refer to; 0 before it is known.
    system_id: AtomicU64,
    timeline: AtomicU32,
    /// When the newest probe was sent, which brings a horizon of that moment.
    probed: AtomicU64,
    /// Whether a caller needs a newer horizon soon.
    is_wanted: AtomicBool,
    wanted: Notify,
    /// Notified after progress was published.
    advanced: Notify,
}

impl Horizon {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            start: now,
            fresh_as_of: AtomicU64::new(0),
            last: AtomicU64::new(0),
            position: AtomicU64::new(0),
            log_end: AtomicU64::new(0),
            system_id: AtomicU64::new(0),
            timeline: AtomicU32::new(0),
            probed: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            wanted: Notify::new(),
            advanced: Notify::new(),
        }
    }

    /// Publishes progress. Changes up to there must have been applied.
    pub(crate) fn publish(&self, progress: Progress) {
        let fresh_as_of = progress.fresh_as_of.map_or(0, |at| self.nanos(at).max(1));
        (self.position).store(progress.position.0, Ordering::Release);
        self.fresh_as_of.store(fresh_as_of, Ordering::Release);
        if fresh_as_of != 0 {
            self.last.store(fresh_as_of, Ordering::Relaxed);
        }
        self.advanced.notify_waiters();
    }

    /// A moment as it is stored.
    fn nanos(&self, at: Instant) -> u64 {
        let nanos = at.saturating_duration_since(self.start).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Withdraws the horizon: nothing is known any more.
    pub(super) fn withdraw(&self) {
        self.fresh_as_of.store(0, Ordering::Release);
        self.position.store(0, Ordering::Release);
        self.log_end.store(0, Ordering::Release);
        // Callers that wait for a position learn that there is none.
        self.advanced.notify_waiters();
    }

    /// Sets where the server's log ended when it was asked. Its cluster must be set.
    pub(super) fn set_log_end(&self, end: Position) {
        self.log_end.store(end.0, Ordering::Release);
    }

    /// The moment that valid entries are fresh as of. To be read before the version of a key.
    pub(crate) fn fresh_as_of(&self) -> Option<Instant> {
        match self.fresh_as_of.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(self.start + Duration::from_nanos(nanos)),
        }
    }

    /// The time since the horizon, or since the last one if it was withdrawn; since the start if there
    /// was none.
    pub(super) fn age(&self, now: Instant) -> Duration {
        let last = Duration::from_nanos(self.last.load(Ordering::Relaxed));
        now.saturating_duration_since(self.start + last)
    }

    /// Whether valid entries are as fresh as a query that was sent at most `age_max` before `now`.
    /// Asks for a newer horizon when half of that has passed, and since the newest probe as well: one that
    /// is under way is not sent again. To be called before the version of a key is read.
    pub(crate) fn is_within(&self, age_max: Duration, now: Instant) -> bool {
        let Some(at) = self.fresh_as_of() else {
            return false;
        };
        let age = now.saturating_duration_since(at);
        if age > age_max / 2 {
            // Relaxed: an older value only costs a probe.
            let probed = Duration::from_nanos(self.probed.load(Ordering::Relaxed));
            if now.saturating_duration_since(self.start + probed) > age_max / 2 {
                self.want();
            }
        }
        age <= age_max
    }

    /// Whether all commits up to a position were applied; if not, asks for a newer horizon. To be called
    /// before the version of a key is read.
    pub(crate) fn has_reached(&self, position: Position) -> bool {
        let reached = self.position.load(Ordering::Acquire);
        let has_reached = reached != 0 && position.0 <= reached;
        if !has_reached {
            self.want();
        }
        has_reached
    }

    /// Waits until all commits up to a position were applied, and returns whether they were: the feed may
    /// be interrupted before.
    pub(crate) async fn reached(&self, position: Position) -> bool {
        loop {
            // Before the check, so that progress in between is noticed.
            let advanced = self.advanced.notified();
            if self.has_reached(position) {
                return true;
            }
            if self.fresh_as_of().is_none() {
                return false;
            }
            advanced.await;
        }
    }

    pub(crate) fn position(&self) -> Option<Position> {
        let position = self.position.load(Ordering::Acquire);
        (position != 0).then_some(Position(position))
    }

    /// The position with its cluster. To be called before the version of a key is read.
    pub(crate) fn log_position(&self) -> Option<LogPosition> {
        self.in_cluster(|| self.position())
    }

    /// Where the server's log ended when it was asked last.
    pub(crate) fn log_end(&self) -> Option<LogPosition> {
        self.in_cluster(|| match self.log_end.load(Ordering::Acquire) {
            0 => None,
            end => Some(Position(end)),
        })
    }

    /// A position that is read, with its cluster; none if the feed begins to follow another cluster
    /// meanwhile.
    fn in_cluster(&self, position: impl FnOnce() -> Option<Position>) -> Option<LogPosition> {
        let (system_id, timeline) = self.cluster();
        let position = position()?;
        (self.cluster() == (system_id, timeline)).then_some(LogPosition {
            system_id,
            timeline,
            position,
        })
    }

    fn cluster(&self) -> (u64, u32) {
        let acquire = Ordering::Acquire;
        (self.system_id.load(acquire), self.timeline.load(acquire))
    }

    /// Sets the cluster of the positions to come. There is no position yet.
    pub(super) fn set_cluster(&self, system_id: u64, timeline: u32) {
        self.system_id.store(system_id, Ordering::Release);
        self.timeline.store(timeline, Ordering::Release);
    }

    fn want(&self) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Relaxed);
            self.wanted.notify_one();
        }
    }

    /// Waits until a caller needs a newer horizon.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// A probe is sent now: callers may ask again.
    pub(super) fn take_wanted(&self, now: Instant) {
        self.probed.store(self.nanos(now), Ordering::Relaxed);
        self.is_wanted.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_covers_its_age_and_its_position() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let horizon = Horizon::new(start);
        assert!(!horizon.is_within(Duration::MAX, later(0)));
        assert!(!horizon.has_reached(Position(0)), "nothing is known");
        horizon.take_wanted(later(0));
        assert_eq!(horizon.age(later(7)), Duration::from_millis(7));
        horizon.publish(Progress {
            fresh_as_of: Some(later(10)),
            position: Position(100),
        });
        assert_eq!(horizon.fresh_as_of(), Some(later(10)));
        assert!(horizon.is_within(Duration::from_millis(50), later(30)));
        assert!(!horizon.is_wanted.load(Ordering::Relaxed));
        assert!(horizon.is_within(Duration::from_millis(50), later(60)));
        assert!(horizon.is_wanted.load(Ordering::Relaxed), "half has passed");
        assert!(!horizon.is_within(Duration::from_millis(50), later(61)));
        horizon.take_wanted(later(60));
        assert!(horizon.is_within(Duration::from_millis(80), later(80)));
        assert!(!horizon.is_within(Duration::from_millis(50), later(85)));
        let is_wanted = horizon.is_wanted.load(Ordering::Relaxed);
        assert!(!is_wanted, "the probe is under way");
        assert!(!horizon.is_within(Duration::from_millis(50), later(86)));
        assert!(horizon.is_wanted.load(Ordering::Relaxed), "it takes long");
        assert!(horizon.has_reached(Position(100)));
        assert!(!horizon.has_reached(Position(101)));
        horizon.set_cluster(7, 1);
        assert_eq!(horizon.log_end(), None);
        horizon.set_log_end(Position(120));
        let end = LogPosition {
            system_id: 7,
            timeline: 1,
            position: Position(120),
        };
        assert_eq!(horizon.log_end(), Some(end));
        horizon.withdraw();
        assert!(!horizon.is_within(Duration::MAX, later(60)));
        assert_eq!((horizon.position(), horizon.log_end()), (None, None));
        assert_eq!(horizon.age(later(60)), Duration::from_millis(50));
    }
}
