//! The threads of a stage.

use crate::Wait;
use crate::batch::{Batch, LastBatch};
use crate::ring::{Ring, Stage};
use crate::sync::{Arc, spin_loop, yield_now};

/// One thread of a stage that changes items in place, for a thread that the caller owns; see
/// [`Builder::stage_by_caller`](crate::Builder::stage_by_caller).
///
/// Dropping it before the end fails the pipeline, because its items would never be processed.
pub struct Worker<T>(StageWorker<T>);

/// One thread of the last stage, for a thread that the caller owns; see
/// [`Builder::last_by_caller`](crate::Builder::last_by_caller).
///
/// Dropping it before the end fails the pipeline, because its items would never be processed.
pub struct LastWorker<T>(StageWorker<T>);

/// The result of one step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It handled a batch of this many items.
    Handled(usize),
    /// There is nothing to do at the moment.
    Empty,
    /// There is nothing left to do: all producers are dropped, or a stage failed.
    Ended,
}

impl<T> Worker<T> {
    pub(crate) fn new(ring: Arc<Ring<T>>, stage: usize, thread: usize) -> Self {
        Self(StageWorker::new(ring, stage, thread))
    }

    /// Calls `handle` with batch after batch until the pipeline ends.
    pub fn run(mut self, mut handle: impl FnMut(&mut Batch<'_, T>)) {
        while self.0.wait() {
            self.step(&mut handle);
        }
    }

    /// Calls `handle` with what there is, without waiting.
    #[inline]
    pub fn step(&mut self, handle: impl FnOnce(&mut Batch<'_, T>)) -> Step {
        let turn = match self.0.turn(false) {
            Ok(turn) => turn,
            Err(step) => return step,
        };
        // SAFETY: the positions are claimed, the boundary before has passed them, and they are
        // passed on when the turn is done, after the batch is dropped.
        handle(&mut unsafe { Batch::new(&turn.worker.ring, turn.from, turn.count) });
        turn.done()
    }
}

impl<T> LastWorker<T> {
    pub(crate) fn new(ring: Arc<Ring<T>>, stage: usize, thread: usize) -> Self {
        Self(StageWorker::new(ring, stage, thread))
    }

    /// Calls `handle` with batch after batch until the pipeline ends.
    pub fn run(mut self, mut handle: impl FnMut(&mut LastBatch<'_, T>)) {
        while self.0.wait() {
            self.step(&mut handle);
        }
    }

    /// Calls `handle` with what there is, without waiting.
    #[inline]
    pub fn step(&mut self, handle: impl FnOnce(&mut LastBatch<'_, T>)) -> Step {
        let turn = match self.0.turn(true) {
            Ok(turn) => turn,
            Err(step) => return step,
        };
        // SAFETY: the positions are claimed and the boundary before has passed them. The batch ends
        // before the turn does, which passes them on as empty, whatever happens.
        handle(&mut unsafe { LastBatch::new(&turn.worker.ring, turn.from, turn.count) });
        turn.done()
    }
}

/// The worker of one thread of a stage, whether or not it is the last stage.
struct StageWorker<T> {
    ring: Arc<Ring<T>>,
    stage: usize,
    thread: usize,
    /// The next position, if the stage has no other thread.
    position: u64,
    /// The last value read from the counter of the previous boundary.
    seen: u64,
    /// Rounds that it pauses before it checks for more items.
    ///
    /// A thread that checks at once, and again after each item, follows the previous stage so
    /// closely that each check and each item costs the transfer of a cache line between the two. So
    /// if every check finds some items but few, it checks less often. A stage that does not keep up
    /// finds many items and one that waits finds none: neither pauses.
    pause_count: u32,
    has_ended: bool,
}

/// A check that finds this many items was not too early.
const WORTH_A_LOOK: u64 = 128;

impl<T> StageWorker<T> {
    fn new(ring: Arc<Ring<T>>, stage: usize, thread: usize) -> Self {
        assert!(stage < ring.last(), "a stage is before the last boundary");
        assert!(
            thread < ring.stages[stage].thread_count,
            "the thread index is below the stage's thread count"
        );
        Self {
            position: ring.start(),
            seen: ring.start(),
            ring,
            stage,
            thread,
            pause_count: 0,
            has_ended: false,
        }
    }

    fn stage(&self) -> &Stage {
        &self.ring.stages[self.stage]
    }

    fn is_sole(&self) -> bool {
        self.stage().thread_count == 1
    }

    /// The next position of this stage.
    #[inline]
    fn next(&self) -> u64 {
        if self.is_sole() {
            self.position
        } else {
            self.ring.cursor(self.stage)
        }
    }

    /// What holds between two batches. Only in debug builds, as this is at each item's cost.
    #[inline]
    fn check(&self) {
        debug_assert!(
            self.pause_count <= self.ring.pause_count_max,
            "a pause has a limit"
        );
        if cfg!(debug_assertions) && self.is_sole() && self.ring.is_counted(self.stage) {
            // Nothing behind an item that this thread has not passed on can be free again, so the
            // boundary before is less than a lap ahead.
            let ahead = self.seen.wrapping_sub(self.position);
            debug_assert!(
                ahead <= self.ring.size(),
                "published is at most a lap ahead"
            );
        }
    }

    /// Takes a batch, if there is one.
    #[inline]
    fn claim(&mut self) -> Option<(u64, u64)> {
        self.check();
        let want = u64::from(self.stage().options.batch_max.get());
        loop {
            let from = self.next();
            let want = want.min(self.ring.size());
            let count = self.ring.passed(self.stage, from, &mut self.seen, want);
            if count > 0 && (self.is_sole() || self.ring.claim_cursor(self.stage, from, count)) {
                return Some((from, count));
            }
            if count == 0 && from == self.next() {
                return None;
            }
        }
    }

    /// Takes a batch, or returns why there is none.
    #[inline]
    fn turn(&mut self, is_last: bool) -> Result<Turn<'_, T>, Step> {
        match self.claim() {
            Some((from, count)) => Ok(Turn {
                worker: self,
                from,
                count,
                is_last,
                is_done: false,
            }),
            None => Err(self.idle()),
        }
    }

    /// Passes a batch to the next stage.
    #[inline]
    fn finish(&mut self, from: u64, count: u64) {
        debug_assert!(
            count <= u64::from(self.stage().options.batch_max.get()),
            "a batch has a limit"
        );
        debug_assert!(
            !self.is_sole() || from == self.position,
            "one thread passes items on in order"
        );
        self.position = from.wrapping_add(count);
        self.stage().counters[self.thread].0.add_batch(count);
        self.ring.pass(self.stage + 1, from, count);
    }

    /// Handles a step without a batch: whether one may still come.
    fn idle(&mut self) -> Step {
        if self.ring.has_failed() || self.ring.is_ended(self.next()) {
            self.has_ended = true;
            return Step::Ended;
        }
        if self.stage + 1 == self.ring.last() {
            self.ring.offer_space();
        }
        Step::Empty
    }

    /// Waits until there is something to do; `false` when there never will be.
    #[inline]
    fn wait(&mut self) -> bool {
        if self.ring.has_failed() {
            self.has_ended = true;
            return false;
        }
        let next = self.next();
        if self.seen.wrapping_sub(next) as i64 > 0 {
            // Based only on what it has seen before; with stamps this is a guess.
            return true;
        }
        (0..self.pause_count).for_each(|_| spin_loop());
        // Stamps are checked one by one, so no more of them than a batch can take.
        let worth_it = match self.ring.is_counted(self.stage) {
            true => WORTH_A_LOOK,
            false => WORTH_A_LOOK.min(u64::from(self.stage().options.batch_max.get())),
        };
        let want = worth_it.min(self.ring.size());
        let count = self.ring.passed(self.stage, next, &mut self.seen, want);
        self.pause_count = match count {
            0 => 0,
            _ if count < want => (self.pause_count * 2 + 1).min(self.ring.pause_count_max),
            _ => self.pause_count / 2,
        };
        count > 0 || self.wait_idle()
    }

    #[cold]
    fn wait_idle(&mut self) -> bool {
        if self.idle() == Step::Ended {
            return false;
        }
        let mut spins: u32 = 0;
        let mut spins_in_all = 0;
        loop {
            spin_loop();
            spins = spins.saturating_add(1);
            spins_in_all += 1;
            if self.has_news() {
                break;
            }
            if spins >= self.ring.spin_count_max {
                match self.stage().options.wait {
                    Wait::Spin => {}
                    Wait::UpstreamIdle if self.ring.head() != self.next() => yield_now(),
                    Wait::UpstreamIdle | Wait::StageEmpty => {
                        self.sleep();
                        spins = 0;
                    }
                }
            }
        }
        self.stage().counters[self.thread].0.add_spins(spins_in_all);
        !self.ended()
    }

    fn sleep(&mut self) {
        let ring = Arc::clone(&self.ring);
        ring.parker(self.stage).park(|| {
            let waits_for_any = self.stage().options.wait == Wait::UpstreamIdle;
            self.has_news() || (waits_for_any && ring.head() != self.next())
        });
    }

    fn has_news(&mut self) -> bool {
        let next = self.next();
        self.ring.passed(self.stage, next, &mut self.seen, 1) > 0 || self.ended()
    }

    fn ended(&mut self) -> bool {
        self.has_ended = self.ring.has_failed() || self.ring.is_ended(self.next());
        self.has_ended
    }
}

impl<T> Drop for StageWorker<T> {
    fn drop(&mut self) {
        if self.has_ended {
            // Another thread of the stage may sleep waiting for the items that this one took.
            self.ring.wake_siblings(self.stage);
        } else {
            self.ring.fail(self.stage);
        }
    }
}

/// A batch that the function of a stage is working on.
struct Turn<'h, T> {
    worker: &'h mut StageWorker<T>,
    from: u64,
    count: u64,
    is_last: bool,
    is_done: bool,
}

impl<T> Turn<'_, T> {
    #[inline]
    fn done(mut self) -> Step {
        self.is_done = true;
        Step::Handled(self.count as usize)
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_done {
            self.worker.ring.fail(self.worker.stage);
        }
        // After a panic in an earlier stage, the items stay where the ring's `drop` finds them. At
        // the last stage they are dropped already, and `drop` must not find them.
        if self.is_done || self.is_last {
            self.worker.finish(self.from, self.count);
        }
    }
}
