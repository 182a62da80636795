//! The ring: slots, and the counters that define which thread owns each slot. All `unsafe` code of
//! the crate relies on the rule that is stated here.
//!
//! An item has a *position*, counted from the start of the pipeline; its slot is the position modulo
//! the size. Every slot passes the same *boundaries* in the same order, lap after lap: producers
//! fill it (boundary 0), stage `k` works on it (boundary `k + 1`), and after the last stage it is
//! free for the position one lap later. **The thread that has claimed a position at a boundary owns
//! its slot from the moment that the position has passed the previous boundary until the thread
//! passes it on.** A position is claimed once:
//!
//! - at a boundary with one thread, by being next in that thread's counter, which also passes it
//!   on;
//! - at a boundary with several threads, by a compare-and-swap on a shared counter. The threads
//!   finish in any order, so each passes its slots on by stamping them with lap and boundary, and
//!   no thread waits for another.
//!
//! Positions have 64 bits, so no position ever recurs; with 32 bits, a thread that slept while 2^32
//! items passed would take a stale copy of a counter for a current one. Stamps have 32 bits, as the
//! stamp of a slot changes with every lap and is only trusted together with a position.

use std::mem::MaybeUninit;

use crate::counters::Counters;
use crate::options::StageOptions;
use crate::parker::Parker;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, Padded, UnsafeCell, fence};
use crate::{Reason, Wait};

/// Blocked producers are woken once this many slots are free, even if that is less than half of the
/// ring: that many items amortise the wake.
const FREE_COUNT_WORTH_A_WAKE: u64 = 256;

pub(crate) struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// A stamp for each slot; empty if every boundary has one thread.
    stamps: Box<[AtomicU32]>,
    /// Size less one; the size is a power of two.
    mask: u64,
    /// The initial value of the counters.
    start: u64,
    /// Whether one producer fills all slots.
    is_sole: bool,
    /// What `push` does while the ring is full.
    producer_wait: Wait,
    /// For each boundary, whether a thread may sleep until something passes it.
    may_have_sleepers: Box<[bool]>,
    /// The position that a producer claims next; with a sole producer, all positions below are
    /// filled.
    head: Padded<AtomicU64>,
    pub(crate) stages: Box<[Stage]>,
    life: Padded<Life>,
    /// Where stages with [`Wait::UpstreamIdle`] sleep while the pipeline is empty.
    idle_parker: Parker,
    /// Where producers sleep until a slot is free.
    pub(crate) space: Parker,
    pub(crate) spin_count_max: u32,
    pub(crate) pause_count_max: u32,
}

pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) thread_count: usize,
    pub(crate) options: StageOptions,
    /// With one thread: all positions below are passed. With several: all positions below are
    /// claimed.
    cursor: Padded<AtomicU64>,
    /// Where its threads sleep until there is input.
    pub(crate) input: Parker,
    pub(crate) counters: Box<[Padded<Counters>]>,
}

/// The stage or producer that failed a pipeline.
pub(crate) enum Culprit<'r> {
    Stage(&'r Stage),
    Producer,
}

/// State that each push reads and that is rarely written.
struct Life {
    /// `OPEN`, `CLOSED`, or `FAILED` plus the index of the stage that failed, or plus the number of
    /// stages if a producer failed.
    stop: AtomicU32,
    /// The number of producers, plus one while the pipeline can make another one.
    producer_count: AtomicUsize,
}

const OPEN: u32 = 0;
const CLOSED: u32 = 1;
const FAILED: u32 = 2;

// An open pipeline can be closed, and both can fail. The state never decreases; a value above `FAILED`
// contains the index of a stage.
const _: () = assert!(OPEN < CLOSED);
const _: () = assert!(CLOSED < FAILED);

// SAFETY: items move between threads and are accessed by one thread at a time (the rule above), so
// sharing the ring only requires that items are `Send`; all other fields are `Sync`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: it owns its items.
unsafe impl<T: Send> Send for Ring<T> {}

/// The parameters of a ring.
pub(crate) struct Layout {
    pub(crate) lg_size: u32,
    pub(crate) start: u64,
    pub(crate) is_sole: bool,
    pub(crate) producer_wait: Wait,
    pub(crate) stages: Vec<(String, usize, StageOptions)>,
    pub(crate) spin_count_max: u32,
    pub(crate) pause_count_max: u32,
}

impl<T> Ring<T> {
    /// The builder has checked the layout.
    pub(crate) fn new(layout: Layout) -> Self {
        let size = 1_u64 << layout.lg_size;
        let start = layout.start;
        let may_have_sleepers = may_have_sleepers(&layout);
        let stages = layout.stages.into_iter();
        let stages = stages.map(|(name, thread_count, options)| Stage {
            name,
            thread_count,
            options,
            cursor: Padded(AtomicU64::new(start)),
            input: Parker::new(),
            counters: (0..thread_count)
                .map(|_| Padded(Counters::default()))
                .collect(),
        });
        let mut ring = Self {
            slots: (0..size)
                .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
                .collect(),
            stamps: Box::default(),
            mask: size - 1,
            start,
            is_sole: layout.is_sole,
            producer_wait: layout.producer_wait,
            may_have_sleepers,
            head: Padded(AtomicU64::new(start)),
            stages: stages.collect(),
            life: Padded(Life {
                stop: AtomicU32::new(OPEN),
                producer_count: AtomicUsize::new(1),
            }),
            idle_parker: Parker::new(),
            space: Parker::new(),
            spin_count_max: layout.spin_count_max,
            pause_count_max: layout.pause_count_max,
        };
        assert!(!ring.stages.is_empty(), "the builder asks for a stage");
        assert!(
            ring.last() as u64 <= ring.mask,
            "a stamp has room for each boundary"
        );
        assert!(
            ring.stages.iter().all(|stage| stage.thread_count > 0),
            "each stage has a thread"
        );
        assert_eq!(
            ring.may_have_sleepers.len(),
            ring.last() + 1,
            "there is a sleeper flag per boundary"
        );
        if (0..=ring.last()).any(|boundary| ring.counter(boundary).is_none()) {
            // As if the last stage had passed every slot one lap earlier.
            let mut stamps: Vec<_> = (0..size).map(|_| AtomicU32::new(0)).collect();
            for offset in 0..size {
                let position = start.wrapping_add(offset);
                let stamp = ring.stamp(position.wrapping_sub(size), ring.last());
                stamps[ring.index(position)] = AtomicU32::new(stamp);
            }
            ring.stamps = stamps.into();
        }
        ring
    }

    pub(crate) fn size(&self) -> u64 {
        self.mask + 1
    }

    pub(crate) fn is_sole(&self) -> bool {
        self.is_sole
    }

    pub(crate) fn producer_wait(&self) -> Wait {
        self.producer_wait
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The last boundary: slots that passed it are free.
    pub(crate) fn last(&self) -> usize {
        self.stages.len()
    }

    #[inline]
    fn index(&self, position: u64) -> usize {
        (position & self.mask) as usize
    }

    #[inline]
    fn stamp(&self, position: u64, boundary: usize) -> u32 {
        // There are fewer boundaries than slots, so the boundary fits in the bits that the lap does
        // not use.
        (position & !self.mask) as u32 | boundary as u32
    }

    /// The counter of what passed `boundary`; `None` if stamps record it.
    #[inline]
    fn counter(&self, boundary: usize) -> Option<&AtomicU64> {
        match boundary.checked_sub(1) {
            None => self.is_sole.then_some(&self.head.0),
            Some(stage) => {
                let stage = &self.stages[stage];
                (stage.thread_count == 1).then_some(&stage.cursor.0)
            }
        }
    }

    /// Whether one load returns all that has passed `boundary`.
    #[inline]
    pub(crate) fn is_counted(&self, boundary: usize) -> bool {
        self.counter(boundary).is_some()
    }

    /// How many positions from `from` on have passed `boundary`, without a gap, at most `want`.
    ///
    /// `seen` is the caller's copy of the boundary's counter. The counter is read again only when
    /// the copy yields nothing, so its cache line moves between cores once per batch and not once
    /// per item.
    #[inline]
    pub(crate) fn passed(&self, boundary: usize, from: u64, seen: &mut u64, want: u64) -> u64 {
        debug_assert!(boundary <= self.last(), "the last boundary frees slots");
        if let Some(counter) = self.counter(boundary) {
            // Signed: if other threads claim too, `from` can be ahead of an old copy.
            if seen.wrapping_sub(from) as i64 <= 0 {
                // Acquire: pairs with the Release of `pass`. What the boundary did to the slots is
                // visible here.
                *seen = counter.load(Ordering::Acquire);
            }
            let count = seen.wrapping_sub(from) as i64;
            return u64::try_from(count).unwrap_or(0).min(want);
        }
        let is_passed = |offset: &u64| {
            let position = from.wrapping_add(*offset);
            // Acquire: as above, for one slot.
            let stamp = self.stamps[self.index(position)].load(Ordering::Acquire);
            stamp == self.stamp(position, boundary)
        };
        (0..want).take_while(is_passed).count() as u64
    }

    /// Publishes that `count` positions from `from` on have passed `boundary`, which ends the
    /// caller's ownership, and wakes the threads that wait for them.
    #[inline]
    pub(crate) fn pass(&self, boundary: usize, from: u64, count: u64) {
        debug_assert!(boundary <= self.last(), "the last boundary frees slots");
        debug_assert!(count > 0, "a published batch is not empty");
        debug_assert!(count <= self.size(), "a batch does not exceed the slots");
        if let Some(counter) = self.counter(boundary) {
            // Release: pairs with the Acquire of `passed`.
            counter.store(from.wrapping_add(count), Ordering::Release);
        } else {
            for offset in 0..count {
                let position = from.wrapping_add(offset);
                let stamp = self.stamp(position, boundary);
                self.stamps[self.index(position)].store(stamp, Ordering::Release);
            }
        }
        if self.may_have_sleepers[boundary] {
            self.wake(boundary, count);
        }
    }

    /// Kept out of line for rings that only spin.
    #[inline(never)]
    fn wake(&self, boundary: usize, count: u64) {
        // The partner of the fence in `Parker::park`.
        fence(Ordering::SeqCst);
        if boundary == self.last() {
            self.wake_producers();
        } else {
            self.wake_stages(boundary, count);
        }
    }

    /// After `count` items passed `boundary`: wakes the threads that sleep until they do.
    #[inline]
    fn wake_stages(&self, boundary: usize, count: u64) {
        let next = &self.stages[boundary];
        if next.input.has_sleepers() {
            let batch_count = count.div_ceil(u64::from(next.options.batch_max.get()));
            next.input
                .unpark(u32::try_from(batch_count).unwrap_or(u32::MAX));
        }
        if boundary == 0 && self.idle_parker.has_sleepers() {
            self.idle_parker.unpark_all();
        }
    }

    /// After the last stage freed slots: wakes blocked producers once there are enough for the wake to
    /// be worth it. Fewer are offered when the last stage runs out of work.
    #[inline]
    fn wake_producers(&self) {
        if self.space.has_sleepers() {
            let used = self.head().wrapping_sub(self.cursor(self.last() - 1));
            let free = self.size().saturating_sub(used);
            if free >= FREE_COUNT_WORTH_A_WAKE || free * 2 >= self.size() {
                self.space.unpark_all();
            }
        }
    }

    /// The last stage is out of work: wakes blocked producers for any number of free slots.
    pub(crate) fn offer_space(&self) {
        fence(Ordering::SeqCst);
        if self.space.has_sleepers() {
            self.space.unpark_all();
        }
    }

    /// Wakes the other threads of `stage`, after one of them has seen the end.
    pub(crate) fn wake_siblings(&self, stage: usize) {
        fence(Ordering::SeqCst);
        if self.parker(stage).has_sleepers() {
            self.parker(stage).unpark_all();
        }
    }

    /// Where a thread of `stage` sleeps.
    pub(crate) fn parker(&self, stage: usize) -> &Parker {
        match self.stages[stage].options.wait {
            Wait::UpstreamIdle if stage > 0 => &self.idle_parker,
            _ => &self.stages[stage].input,
        }
    }

    /// The position that a producer claims next. The real value may already be larger.
    pub(crate) fn head(&self) -> u64 {
        // Relaxed: it orders no other access. Items are handed over by `pass` and `passed`, and the
        // end of the pipeline by `producer_count`.
        self.head.0.load(Ordering::Relaxed)
    }

    /// The position that a thread of `stage` claims next; if it has one thread, the first position
    /// that is not finished.
    pub(crate) fn cursor(&self, stage: usize) -> u64 {
        // Acquire: pairs with the Release of `claim`. A thread that sees another thread's claim
        // also sees all positions that the other thread knew to be filled. Without that, it could
        // take the stage for empty while there are items, for example some that the other thread
        // pushed itself.
        self.stages[stage].cursor.0.load(Ordering::Acquire)
    }

    /// Claims positions, which the caller has seen free, for one of several producers; fails if
    /// another producer claimed first.
    #[inline]
    pub(crate) fn claim_head(&self, from: u64, count: u64) -> bool {
        claim(&self.head.0, from, count)
    }

    /// Claims positions for one of several threads of a stage; fails if another thread claimed
    /// first.
    #[inline]
    pub(crate) fn claim_cursor(&self, stage: usize, from: u64, count: u64) -> bool {
        claim(&self.stages[stage].cursor.0, from, count)
    }

    /// Fills a free slot.
    ///
    /// # Safety
    ///
    /// The caller owns the position at boundary 0 and has not filled it yet.
    #[inline]
    pub(crate) unsafe fn fill(&self, position: u64, item: T) {
        self.slot(position).with_mut(|slot| {
            // SAFETY: the caller owns the slot, so no other thread reads or writes it; it is free,
            // so the write does not leak an item.
            unsafe { (*slot).write(item) };
        });
    }

    /// The item of a filled slot, to be changed or moved out.
    ///
    /// # Safety
    ///
    /// The caller uses the pointer while it owns the position at the boundary of a stage, and after
    /// moving the item out only as a pointer to uninitialised memory.
    #[inline]
    pub(crate) unsafe fn item(&self, position: u64) -> *mut T {
        self.slot(position).with_mut(|slot| slot.cast::<T>())
    }

    #[inline]
    fn slot(&self, position: u64) -> &UnsafeCell<MaybeUninit<T>> {
        debug_assert_eq!(self.slots.len() as u64, self.size());
        // SAFETY: the index is at most `mask`, and there are `mask + 1` slots; neither ever
        // changes.
        unsafe { self.slots.get_unchecked(self.index(position)) }
    }

    /// Why the pipeline accepts no items, if it does not.
    #[inline]
    pub(crate) fn stopped(&self) -> Option<Reason> {
        // Relaxed: no other read depends on it.
        match self.life.0.stop.load(Ordering::Relaxed) {
            OPEN => None,
            CLOSED => Some(Reason::Closed),
            _ => Some(Reason::Failed),
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.stopped() == Some(Reason::Failed)
    }

    /// The stage or producer that failed first.
    pub(crate) fn failed(&self) -> Option<Culprit<'_>> {
        let stop = self.life.0.stop.load(Ordering::Relaxed);
        let stage = self.stages.get(stop.checked_sub(FAILED)? as usize);
        Some(stage.map_or(Culprit::Producer, Culprit::Stage))
    }

    /// Accepts no more items.
    pub(crate) fn close(&self) {
        self.stop(CLOSED, |stop| stop == OPEN);
    }

    /// Fails the pipeline, because `stage` cannot continue.
    #[cold]
    pub(crate) fn fail(&self, stage: usize) {
        assert!(
            stage <= self.stages.len(),
            "the failed part is a stage or the producers, which follow the last stage"
        );
        self.stop(FAILED + stage as u32, |stop| stop < FAILED);
    }

    /// Fails the pipeline, because a producer left slots empty that it had claimed.
    pub(crate) fn fail_by_producer(&self) {
        self.fail(self.stages.len());
    }

    fn stop(&self, to: u32, may: impl Fn(u32) -> bool) {
        let stop = &self.life.0.stop;
        let mut now = stop.load(Ordering::Relaxed);
        while may(now) {
            match stop.compare_exchange(now, to, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return self.wake_all(),
                Err(changed) => now = changed,
            }
        }
    }

    pub(crate) fn add_producer(&self) {
        // Relaxed: the caller is itself counted, so the count is not zero before.
        let before = self.life.0.producer_count.fetch_add(1, Ordering::Relaxed);
        assert!(before > 0, "the caller is a producer");
    }

    pub(crate) fn remove_producer(&self) {
        // AcqRel: pairs with the Acquire of `is_ended`. All that this and other producers claimed
        // is visible to a thread that reads zero.
        let before = self.life.0.producer_count.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "the producer was counted");
        if before == 1 {
            self.wake_all();
        }
    }

    /// Whether no more items will come for a stage that has claimed all positions below `from`.
    pub(crate) fn is_ended(&self, from: u64) -> bool {
        self.life.0.producer_count.load(Ordering::Acquire) == 0 && self.head() == from
    }

    fn wake_all(&self) {
        // The partner of the fence in `Parker::park`.
        fence(Ordering::SeqCst);
        let inputs = self.stages.iter().map(|stage| &stage.input);
        for parker in inputs.chain([&self.idle_parker, &self.space]) {
            if parker.has_sleepers() {
                parker.unpark_all();
            }
        }
    }
}

fn may_have_sleepers(layout: &Layout) -> Box<[bool]> {
    let waits = layout.stages.iter().map(|(_, _, options)| options.wait);
    let mut may: Vec<bool> = waits.clone().map(|wait| wait == Wait::StageEmpty).collect();
    may[0] |= waits.into_iter().any(|wait| wait == Wait::UpstreamIdle);
    may.push(layout.producer_wait != Wait::Spin);
    may.into()
}

/// Claims `count` positions from `from` on if they are next.
#[inline]
fn claim(counter: &AtomicU64, from: u64, count: u64) -> bool {
    debug_assert!(count > 0, "a claim is not empty");
    let to = from.wrapping_add(count);
    // Release is for `cursor`. For the claim itself Relaxed would do: it only decides between the
    // claiming threads. The content of the slots was made visible by `passed`, and positions do not
    // recur, so success means that nothing has changed since.
    let claimed = counter.compare_exchange_weak(from, to, Ordering::Release, Ordering::Relaxed);
    claimed.is_ok()
}

impl<T> Ring<T> {
    /// Whether a claimed position that has not passed the last boundary got its item.
    fn was_filled(&self, position: u64) -> bool {
        // A sole producer does not claim what it does not fill. Other producers leave the stamp of
        // the previous lap.
        let stamp = || self.stamps[self.index(position)].load(Ordering::Relaxed);
        self.is_sole || (stamp() ^ self.stamp(position, 0)) & !self.mask as u32 == 0
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // No producer and no stage is left, so every claimed position that has not passed the last
        // stage still holds its item, except those that a producer failed to fill.
        let head = self.head();
        let filled = head.wrapping_sub(self.start).min(self.size());
        let last = self.last();
        for position in (1..=filled).rev().map(|back| head.wrapping_sub(back)) {
            let is_through = match self.counter(last) {
                Some(_) => (position.wrapping_sub(self.cursor(last - 1)) as i64) < 0,
                None => {
                    let stamp = self.stamps[self.index(position)].load(Ordering::Relaxed);
                    stamp == self.stamp(position, last)
                }
            };
            if !is_through && self.was_filled(position) {
                // SAFETY: the slot is filled, no other thread uses the ring, and each position is
                // visited once.
                unsafe { self.item(position).drop_in_place() };
            }
        }
    }
}
