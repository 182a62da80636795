//! The ordered way out: workers finish in any order, their output leaves in the order of the input.
//!
//! There is no writer thread. A worker leaves its output at its place in a short queue; whoever
//! finds the sinks free and the front of the queue there writes, outside the lock, until the front
//! is missing. So nobody waits for a slower neighbour until the queue is full, and a buffer goes to
//! the sink from the core that filled it.

use std::collections::VecDeque;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{End, Progress, Report, Strictness};
use crate::{Error, Rejects, Result, Sink, StopFlag};

/// Outputs that wait for an earlier one, for each worker. One evens out chunks of unequal cost; the
/// second covers a write that blocks for a moment.
const WAITING_PER_WORKER: u64 = 2;

/// Room beyond this is given back, so that one huge batch does not hold memory for good.
const KEPT_SIZE_MAX: usize = 8 << 20;

/// What a worker made of one block.
#[derive(Default)]
pub(super) struct Output {
    /// Whole lines, compressed as the sink wants them.
    pub(super) bytes: Vec<u8>,
    /// Rejected lines, compressed as their sink wants them.
    pub(super) reject_bytes: Vec<u8>,
    pub(super) source: Arc<str>,
    pub(super) rejects: Rejects,
    pub(super) report: Report,
    pub(super) counts: Counts,
}

/// Sums of a block or a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) events_in: u64,
    pub(super) events_out: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Output {
    fn reset(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_SIZE_MAX);
        self.reject_bytes.clear();
        self.reject_bytes.shrink_to(KEPT_SIZE_MAX);
        self.counts = Counts::default();
    }
}

/// Where a run writes to.
pub(super) struct Sinks {
    pub(super) output: Sink,
    pub(super) rejects: Option<Sink>,
}

impl Sinks {
    fn write(&mut self, output: &Output) -> Result<()> {
        self.output.write(&output.bytes)?;
        match &mut self.rejects {
            Some(rejects) => rejects.write(&output.reject_bytes),
            None => Ok(()),
        }
    }

    /// Makes final what may appear at that end. A stopped run is not whole: what it wrote of a file
    /// that appears when whole is kept beside it, under the names that come back.
    pub(super) fn finish(self, end: End) -> Result<Vec<PathBuf>> {
        let mut parts = Vec::new();
        for sink in [Some(self.output), self.rejects].into_iter().flatten() {
            if end == End::Stopped && sink.appears_whole() {
                parts.extend(sink.keep_part()?);
            } else {
                sink.finish()?;
            }
        }
        Ok(parts)
    }
}

/// Everything that left in order.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    pub(super) rejects: Rejects,
    pub(super) failures: Rejects,
}

/// How a run went, seen from its end.
pub(super) struct Outcome {
    pub(super) totals: Totals,
    pub(super) limit_reached: bool,
    pub(super) sinks: Result<Sinks>,
}

pub(super) struct Gate {
    state: Mutex<State>,
    /// `State::front` has moved, or the run is over.
    moved: Condvar,
    /// Raised when the run is over before its input is, to wake whoever reads.
    abort: StopFlag,
    waiting_max: u64,
    strictness: Strictness,
    /// Whether the bytes of rejected lines go anywhere.
    rejects_kept: bool,
    /// Whether the run ends after so many events.
    limited: bool,
    progress: Progress,
}

struct State {
    /// The number of the output that leaves next.
    front: u64,
    /// Outputs from `front` on; never more than `Gate::waiting_max`.
    waiting: VecDeque<Option<Output>>,
    /// Taken while somebody writes.
    sinks: Option<Sinks>,
    spare: Vec<Output>,
    totals: Totals,
    /// The number of the block whose events are admitted next.
    admitted: u64,
    /// How many events may still be admitted.
    events_left: u64,
    over: bool,
    error: Option<Error>,
}

impl Gate {
    pub(super) fn new(
        sinks: Sinks,
        workers: usize,
        strictness: Strictness,
        event_limit: Option<NonZero<u64>>,
        abort: StopFlag,
        progress: Progress,
    ) -> Self {
        let rejects_kept = sinks.rejects.is_some();
        Self {
            state: Mutex::new(State {
                front: 0,
                waiting: VecDeque::new(),
                sinks: Some(sinks),
                spare: Vec::new(),
                totals: Totals::default(),
                admitted: 0,
                events_left: event_limit.map_or(u64::MAX, NonZero::get),
                over: false,
                error: None,
            }),
            moved: Condvar::new(),
            abort,
            waiting_max: workers as u64 * WAITING_PER_WORKER,
            strictness,
            rejects_kept,
            limited: event_limit.is_some(),
            progress,
        }
    }

    /// The lock is never held across a call that could panic or block, and a panic ends the run.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.moved
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of the `count` events of block `number` are within the limit: the blocks before it
    /// come first, so it waits until they are decoded. `None` when nothing of it counts any more.
    pub(super) fn admit(&self, number: u64, count: u64) -> Option<u64> {
        if !self.limited {
            return Some(count);
        }
        let mut state = self.lock();
        while state.admitted < number && state.events_left > 0 && !state.over {
            state = self.wait(state);
        }
        if state.events_left == 0 || state.over {
            return None;
        }
        let admitted = count.min(state.events_left);
        state.admitted += 1;
        state.events_left -= admitted;
        if state.events_left == 0 {
            // Whoever waits for input waits in vain; what was admitted still leaves.
            self.abort.raise();
        }
        self.moved.notify_all();
        Some(admitted)
    }

    /// Waits until everything before `number` has left; false when the run is over.
    pub(super) fn await_turn(&self, number: u64) -> bool {
        let mut state = self.lock();
        while state.front < number && !state.over {
            state = self.wait(state);
        }
        !state.over
    }

    /// Leaves the output of block `number` and takes an empty one along; `None` when the run is
    /// over. Each number comes once, and numbers have no gaps.
    pub(super) fn leave(&self, number: u64, output: Output) -> Option<Output> {
        let mut state = self.lock();
        // The front itself never waits, so somebody always moves on.
        while number >= state.front + self.waiting_max && !state.over {
            state = self.wait(state);
        }
        if state.over {
            return None;
        }
        let place = usize::try_from(number - state.front).expect("bounded by waiting_max");
        if state.waiting.len() <= place {
            state.waiting.resize_with(place + 1, || None);
        }
        state.waiting[place] = Some(output);
        assert!(
            state.waiting.len() as u64 <= self.waiting_max,
            "what waits is bounded"
        );
        let mut state = self.write_front(state);
        if state.over {
            return None;
        }
        let empty = state.spare.pop();
        Some(empty.unwrap_or_else(|| self.new_output()))
    }

    /// An empty output.
    pub(super) fn new_output(&self) -> Output {
        Output {
            rejects: match self.rejects_kept {
                true => Rejects::with_raw(),
                false => Rejects::new(),
            },
            ..Output::default()
        }
    }

    /// Writes what has reached the front, unless somebody else does.
    fn write_front<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while matches!(state.waiting.front(), Some(Some(_))) {
            let Some(mut sinks) = state.sinks.take() else {
                return state;
            };
            let mut output = state.waiting.pop_front().flatten().expect("just seen");
            state.front += 1;
            self.moved.notify_all();
            let refused = self.strictness == Strictness::Strict
                && output.rejects.count() + output.report.count() > 0;
            let written = match refused {
                true => Err(Error::strict(
                    &output.source,
                    &output.rejects,
                    &output.report.failures,
                )),
                false => {
                    drop(state);
                    let written = sinks.write(&output);
                    state = self.lock();
                    written
                }
            };
            let closed = sinks.output.is_closed();
            state.sinks = Some(sinks);
            if written.is_err() {
                output.counts.events_out = 0;
                output.counts.bytes_out = 0;
            }
            self.progress.add(&output);
            state.totals.add(&mut output);
            output.reset();
            state.spare.push(output);
            match written {
                Ok(()) if closed => self.end(&mut state, None),
                Ok(()) => {}
                Err(error) => self.end(&mut state, Some(error)),
            }
            if state.over {
                break;
            }
        }
        state
    }

    /// Ends the run with an error; the first one counts.
    pub(super) fn fail(&self, error: Error) {
        self.end(&mut self.lock(), Some(error));
    }

    fn end(&self, state: &mut State, error: Option<Error>) {
        if !state.over {
            state.over = true;
            state.error = error;
            self.abort.raise();
            self.moved.notify_all();
        }
    }

    /// What left, and where it went, once all workers are gone.
    pub(super) fn into_outcome(self) -> Outcome {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        Outcome {
            totals: state.totals,
            limit_reached: state.events_left == 0,
            sinks: match (state.error, state.sinks) {
                (Some(error), _) => Err(error),
                (None, Some(sinks)) => Ok(sinks),
                (None, None) => unreachable!("who took the sinks gave them back or panicked"),
            },
        }
    }
}

impl Totals {
    fn add(&mut self, output: &mut Output) {
        self.counts.events_in += output.counts.events_in;
        self.counts.events_out += output.counts.events_out;
        self.counts.bytes_in += output.counts.bytes_in;
        self.counts.bytes_out += output.counts.bytes_out;
        self.rejects.append(&mut output.rejects, &output.source);
        self.failures
            .append(&mut output.report.failures, &output.source);
    }
}
