//! Producers, which push items into the ring.

use crate::ring::Ring;
use crate::snapshot::Snapshot;
use crate::sync::{Arc, spin_loop};
use crate::{Reason, Refused, Wait};

/// Pushes items into a pipeline; each producing thread has its own.
///
/// When the last producer is dropped and the [`Pipeline`](crate::Pipeline) makes no more, the
/// stages finish the items in the ring and end.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// The next position, if this is the sole producer.
    head: u64,
    /// If this is the sole producer, the positions from `head` to here are known to be free.
    end: u64,
    /// The last value read from the counter of the last stage.
    freed: u64,
}

impl<T> Producer<T> {
    /// The caller has already counted this producer in the ring.
    pub(crate) fn new(ring: Arc<Ring<T>>) -> Self {
        Self {
            head: ring.head(),
            end: ring.head(),
            freed: ring.start(),
            ring,
        }
    }

    /// Pushes an item if there is a free slot and the pipeline accepts items; returns the item
    /// otherwise.
    #[inline]
    pub fn try_push(&mut self, item: T) -> Result<(), Refused<T>> {
        let claimed = if self.head != self.end && self.ring.stopped().is_none() {
            self.head = self.head.wrapping_add(1);
            Ok((self.head.wrapping_sub(1), 1))
        } else {
            self.claim(1)
        };
        match claimed {
            Ok((position, _)) => {
                // SAFETY: the position is claimed and not filled, and is passed on once, here.
                unsafe { self.ring.fill(position, item) };
                self.ring.pass(0, position, 1);
                Ok(())
            }
            Err(reason) => Err(Refused { item, reason }),
        }
    }

    /// Pushes an item, waiting for a free slot if needed; returns the item if the pipeline no
    /// longer accepts any.
    ///
    /// A thread of a stage must not call this for its own pipeline: it may be the thread that has
    /// to free the slot.
    #[inline]
    pub fn push(&mut self, mut item: T) -> Result<(), Refused<T>> {
        loop {
            match self.try_push(item) {
                Err(refused) if refused.reason == Reason::Full => item = refused.item,
                done => return done,
            }
            self.wait();
        }
    }

    /// Moves items from the front of `items` into the ring, as many as there are free slots for,
    /// and returns how many. They are published together: several items cost one hand-over and at
    /// most one wake.
    #[inline]
    pub fn try_push_batch(&mut self, items: &mut Vec<T>) -> Result<usize, Reason> {
        match self.claim_some(items.len())? {
            Some((from, count)) => Ok(self.fill(from, count, items.drain(..count as usize))),
            None => Ok(0),
        }
    }

    /// Moves all of `items` into the ring, waiting for free slots if needed. Items that the
    /// pipeline did not accept before it stopped are left in `items`.
    pub fn push_batch(&mut self, items: &mut Vec<T>) -> Result<(), Reason> {
        loop {
            self.try_push_batch(items)?;
            if items.is_empty() {
                return Ok(());
            }
            self.wait();
        }
    }

    /// As [`try_push_batch`](Self::try_push_batch), for items that the iterator `items` makes
    /// directly into their slots: as many as there are free slots for are taken from it.
    ///
    /// If `items` panics or yields fewer items than its `len`, the items it yielded are in the
    /// ring. If this is not the sole producer, the pipeline then fails, as the slots that were
    /// claimed for the missing items stay empty.
    #[inline]
    pub fn try_push_from<I>(&mut self, items: &mut I) -> Result<usize, Reason>
    where
        I: ExactSizeIterator<Item = T>,
    {
        match self.claim_some(items.len())? {
            Some((from, count)) => Ok(self.fill(from, count, items)),
            None => Ok(0),
        }
    }

    /// Moves all that `items` makes into the ring, as [`try_push_from`](Self::try_push_from) does,
    /// waiting for free slots if needed. After the pipeline stopped, no more items are taken from
    /// `items`.
    #[inline]
    pub fn push_from<I>(&mut self, items: &mut I) -> Result<(), Reason>
    where
        I: ExactSizeIterator<Item = T>,
    {
        while items.len() > 0 {
            if self.try_push_from(items)? == 0 && items.len() > 0 {
                self.wait();
            }
        }
        Ok(())
    }

    /// The current statistics of the pipeline.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.ring)
    }

    /// Claims up to `want` free positions; `None` if none is free or `want` is 0.
    #[inline]
    fn claim_some(&mut self, want: usize) -> Result<Option<(u64, u64)>, Reason> {
        if want == 0 {
            return Ok(None);
        }
        match self.claim(want as u64) {
            Ok(claimed) => Ok(Some(claimed)),
            Err(Reason::Full) => Ok(None),
            Err(reason) => Err(reason),
        }
    }

    /// Fills the claimed positions with the first of `items`, publishes them and returns how many.
    #[inline]
    fn fill(&mut self, from: u64, count: u64, items: impl Iterator<Item = T>) -> usize {
        let mut filling = Filling {
            producer: self,
            from,
            next: from,
            end: from.wrapping_add(count),
        };
        for item in items.take(count as usize) {
            // SAFETY: the position is claimed, not filled, and passed on once, when `filling` is
            // dropped.
            unsafe { filling.producer.ring.fill(filling.next, item) };
            filling.next = filling.next.wrapping_add(1);
        }
        filling.next.wrapping_sub(from) as usize
    }

    /// What holds between two claims. Only in debug builds, as this is at each item's cost.
    #[inline]
    fn check(&self) {
        if cfg!(debug_assertions) && self.ring.is_sole() {
            let free = self.end.wrapping_sub(self.head);
            debug_assert!(
                free <= self.ring.size(),
                "free slots do not exceed the slots"
            );
            if self.ring.is_counted(self.ring.last()) {
                // A lap before the free positions, all is freed.
                let lap_before = self.end.wrapping_sub(self.ring.size());
                let claimed = self.freed.wrapping_sub(lap_before);
                debug_assert!(claimed <= self.ring.size(), "a claim fits into the ring");
            }
        }
    }

    /// Claims up to `want` free positions, at least one.
    fn claim(&mut self, want: u64) -> Result<(u64, u64), Reason> {
        debug_assert!(want > 0, "a claim is not empty");
        self.check();
        if let Some(reason) = self.ring.stopped() {
            return Err(reason);
        }
        if self.ring.is_sole() {
            if self.head == self.end {
                let size = self.ring.size();
                let count = room(&self.ring, self.head, &mut self.freed, size);
                self.end = self.head.wrapping_add(count);
            }
            let from = self.head;
            let count = self.end.wrapping_sub(from).min(want);
            self.head = from.wrapping_add(count);
            self.check();
            return if count > 0 {
                Ok((from, count))
            } else {
                Err(Reason::Full)
            };
        }
        loop {
            let from = self.ring.head();
            let count = room(&self.ring, from, &mut self.freed, want);
            if count > 0 && self.ring.claim_head(from, count) {
                return Ok((from, count));
            }
            // If another producer has moved the head meanwhile, this result is out of date.
            if count == 0 && self.ring.head() == from {
                return Err(Reason::Full);
            }
        }
    }

    /// Waits until there may be a free slot.
    #[cold]
    fn wait(&mut self) {
        let Self { ring, freed, .. } = self;
        let mut has_news = || ring.stopped().is_some() || room(ring, ring.head(), freed, 1) > 0;
        let mut spins = 0;
        while !has_news() {
            if spins >= ring.spin_count_max && ring.producer_wait() != Wait::Spin {
                return ring.space.park(has_news);
            }
            spin_loop();
            spins = spins.saturating_add(1);
        }
    }
}

/// Claimed positions, of which those below `next` are filled; passed on when it is dropped.
struct Filling<'p, T> {
    producer: &'p mut Producer<T>,
    from: u64,
    next: u64,
    end: u64,
}

impl<T> Drop for Filling<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let ring = &self.producer.ring;
        let filled = self.next.wrapping_sub(self.from);
        let claimed = self.end.wrapping_sub(self.from);
        debug_assert!(filled <= claimed, "only claimed positions are filled");
        if self.next != self.end {
            if ring.is_sole() {
                // No other thread has seen the claim.
                self.producer.head = self.next;
            } else {
                ring.fail_by_producer();
            }
        }
        if self.next != self.from {
            ring.pass(0, self.from, self.next.wrapping_sub(self.from));
        }
    }
}

/// How many positions from `from` on are free: those that the last stage has passed one lap
/// earlier.
#[inline]
fn room<T>(ring: &Ring<T>, from: u64, freed: &mut u64, want: u64) -> u64 {
    let lap_before = from.wrapping_sub(ring.size());
    ring.passed(ring.last(), lap_before, freed, want)
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.ring.remove_producer();
    }
}
