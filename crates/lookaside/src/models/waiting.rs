//! Lookups that wait until their database is available, for `on_lookup_failure = "wait"`.
//!
//! Only the parameter sets that failed are queried again: the evaluation of a batch does not begin
//! anew, and answers that were already found are kept.

use std::error::Error as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_knowledge::{CancelHandle, Error};
use lookaside_stream::StopFlag;
use lookaside_value::{
    Answers, BatchQuery, Lookup, LookupError, LookupErrorKind, ParamBatch, StatementId, Text,
};
use tracing::{info, warn};

use crate::log::CONFIRMATION;

/// The bounds of the time between two queries of a database that is not available: the first ones
/// find a server that restarts soon, and the last ones cost a server that returns after hours
/// nothing.
const DELAY_MIN: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(5);

/// How often a worker that waits checks whether it is cancelled.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A lookup whose [`answer_when_available`](Lookup::answer_when_available) waits; each worker has
/// its own.
pub(crate) struct WaitingLookup<L> {
    lookup: L,
    cancel: CancelHandle,
    outages: Arc<Outages>,
    /// The positions of the sets that are queried again, and buffers for that.
    failed: Vec<usize>,
    params: ParamBatch,
    answers: Answers,
}

impl<L: Lookup> WaitingLookup<L> {
    /// Waits until `cancel` is cancelled or the run is over; then the sets that failed keep their
    /// errors.
    pub(crate) fn new(lookup: L, cancel: CancelHandle, outages: Arc<Outages>) -> Self {
        Self {
            lookup,
            cancel,
            outages,
            failed: Vec::new(),
            params: ParamBatch::default(),
            answers: Answers::new(),
        }
    }

    /// Queries the sets that failed again, and keeps those that failed because the database is
    /// still not available.
    fn repeat(&mut self, query: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
        self.params.reset(params.width());
        for index in &self.failed {
            self.params.push(params.set(*index).iter().cloned());
        }
        let found = &mut self.answers;
        self.lookup.answer(query, &self.params, found);
        let mut position = 0;
        self.failed.retain(|index| {
            let error = unavailable(found, position);
            if error.is_none() {
                answers.set_from(*index, found, position);
            }
            position += 1;
            error.is_some()
        });
        // Rows of a replaced table must not be kept alive by an idle worker.
        found.clear();
    }

    /// Whether waiting makes no sense any more.
    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.outages.over.is_raised()
    }

    /// Sleeps. Returns false as soon as the lookup is cancelled.
    fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_cancelled() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            // sleep: the time between two queries of a database that is not available
            thread::sleep(left.min(CANCEL_CHECK_INTERVAL));
        }
        false
    }
}

impl<L: Lookup> Lookup for WaitingLookup<L> {
    fn prepare(&mut self, sql: &str, params: &[Text]) -> Result<StatementId, LookupError> {
        self.lookup.prepare(sql, params)
    }

    fn columns(&self, statement: StatementId) -> &[Text] {
        self.lookup.columns(statement)
    }

    fn answer(&mut self, query: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
        self.lookup.answer(query, params, answers);
    }

    fn answer_when_available(
        &mut self,
        query: BatchQuery,
        params: &ParamBatch,
        answers: &mut Answers,
    ) {
        self.lookup.answer(query, params, answers);
        let failed = (0..answers.len()).filter(|index| unavailable(answers, *index).is_some());
        self.failed.clear();
        self.failed.extend(failed);
        let Some(first) = self.failed.first() else {
            return;
        };
        if self.is_cancelled() {
            return;
        }
        let error = unavailable(answers, *first).expect("it was just found");
        let provider = self.outages.begin(error);
        let mut backoff = Backoff::new();
        while !self.failed.is_empty() && self.sleep(backoff.next(fastrand::f64())) {
            self.repeat(query, params, answers);
        }
        self.outages.end(&provider, self.failed.is_empty());
    }
}

/// The error of a set that can succeed later. Any other one would occur again: the database refuses
/// the query, or its answer exceeds a limit, so that waiting for it would block all later events.
/// Timeouts, full pools and lost connections are of this kind.
fn unavailable(answers: &Answers, index: usize) -> Option<&LookupError> {
    let error = answers.row(index).err()?;
    (error.kind() == LookupErrorKind::Unavailable).then_some(error)
}

/// Exponentially increasing times with jitter, so that workers and processes do not query a server
/// that has just started at the same moment.
struct Backoff {
    /// Twice the lower bound of the next time.
    delay: Duration,
}

impl Backoff {
    fn new() -> Self {
        Self {
            delay: 2 * DELAY_MIN,
        }
    }

    /// The next time; `random` is between 0 and 1.
    fn next(&mut self, random: f64) -> Duration {
        let delay = (self.delay / 2).mul_f64(1.0 + random);
        self.delay = (2 * self.delay).min(DELAY_MAX);
        delay
    }
}

/// Counts of the outages of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutageFigures {
    /// How often lookups began to wait.
    pub(crate) count: u64,
    /// How long they waited, without the times during which several did.
    pub(crate) elapsed: Duration,
    /// The workers that wait now.
    pub(crate) waiting: usize,
}

/// The outages of databases for which the workers of a run waited or wait.
///
/// An outage begins when a lookup waits for a database that no other one waits for, and ends with
/// the last one, so that it is logged once and not by each worker.
#[derive(Debug)]
pub(crate) struct Outages {
    state: Mutex<OutageState>,
    /// Raised when nothing is written any more.
    over: StopFlag,
}

#[derive(Debug, Default)]
struct OutageState {
    /// At most one for each provider.
    current: Vec<Outage>,
    count: u64,
    /// Of those that have ended.
    elapsed: Duration,
}

#[derive(Debug)]
struct Outage {
    provider: Box<str>,
    began: Instant,
    waiting: usize,
}

impl Outages {
    /// No outages yet; no lookup waits once `over` is raised.
    pub(crate) fn new(over: StopFlag) -> Self {
        Self {
            state: Mutex::default(),
            over,
        }
    }

    /// Registers a worker that waits because of `error`, until [`Self::end`] with the returned
    /// provider.
    fn begin(&self, error: &LookupError) -> Box<str> {
        let source = error.source().and_then(|it| it.downcast_ref::<Error>());
        // Without a name, it is a local failure, such as of a file that cannot be read now.
        let provider: Box<str> = source.and_then(Error::provider_name).unwrap_or("").into();
        let mut state = self.lock();
        let mut current = state.current.iter_mut();
        if let Some(outage) = current.find(|it| it.provider == provider) {
            outage.waiting += 1;
            return provider;
        }
        state.count += 1;
        state.current.push(Outage {
            provider: provider.clone(),
            began: Instant::now(),
            waiting: 1,
        });
        drop(state);
        warn!(reason = %error, "lookups wait until the database is available");
        provider
    }

    /// Removes a worker; `is_available` is false if it was cancelled.
    fn end(&self, provider: &str, is_available: bool) {
        let mut state = self.lock();
        let mut current = state.current.iter();
        let index = current.position(|it| &*it.provider == provider);
        let index = index.expect("an outage lasts as long as a worker waits");
        let outage = &mut state.current[index];
        outage.waiting -= 1;
        if outage.waiting > 0 {
            return;
        }
        let waited = outage.began.elapsed();
        state.elapsed += waited;
        state.current.swap_remove(index);
        drop(state);
        match is_available {
            true => {
                info!(target: CONFIRMATION, ?waited, "the database is available, lookups go on")
            }
            false => info!(target: CONFIRMATION, ?waited, "lookups that waited are cancelled"),
        }
    }

    pub(crate) fn figures(&self) -> OutageFigures {
        let state = self.lock();
        let current = state.current.iter();
        let running: Duration = current.clone().map(|it| it.began.elapsed()).sum();
        OutageFigures {
            count: state.count,
            elapsed: state.elapsed + running,
            waiting: current.map(|it| it.waiting).sum(),
        }
    }

    /// The state is consistent also after a panic: each change is a single step.
    fn lock(&self) -> MutexGuard<'_, OutageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use lookaside_testing::wait_until;
    use lookaside_value::{RowSetBuilder, Value};

    use super::*;

    /// Answers the set of a number with it. Each of them fails as often as is scripted.
    #[derive(Default)]
    struct Script {
        failures: Vec<(i64, LookupErrorKind, usize)>,
        queried: Vec<Vec<i64>>,
        /// Cancelled by the query with this index.
        cancelled_by: Option<(usize, CancelHandle)>,
    }

    impl Lookup for Script {
        fn prepare(&mut self, _: &str, _: &[Text]) -> Result<StatementId, LookupError> {
            unreachable!("statements are numbers here")
        }

        fn columns(&self, _: StatementId) -> &[Text] {
            &[]
        }

        fn answer(&mut self, _: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
            answers.clear();
            if let Some((index, cancel)) = &self.cancelled_by
                && *index == self.queried.len()
            {
                cancel.cancel();
            }
            self.queried.push(Vec::new());
            for set in params.iter() {
                let [Value::Int(number)] = *set else {
                    panic!("{set:?}")
                };
                self.queried.last_mut().unwrap().push(number);
                let failure = self.failures.iter_mut();
                let failure = failure.filter(|(_, _, count)| *count > 0);
                match failure.into_iter().find(|(failing, ..)| *failing == number) {
                    Some((_, kind, count)) => {
                        *count -= 1;
                        answers.push_failed(LookupError::new(*kind, "failed"));
                    }
                    None => {
                        let mut rows = RowSetBuilder::new(["number"]);
                        rows.push([Value::Int(number)]);
                        answers.push_first(&rows.build());
                    }
                }
            }
        }
    }

    fn outages() -> Outages {
        Outages::new(StopFlag::new().unwrap())
    }

    fn waiting(script: Script, cancel: &CancelHandle) -> WaitingLookup<Script> {
        WaitingLookup::new(script, cancel.clone(), Arc::new(outages()))
    }

    /// The answers to the sets 0, 1, 2 and 3, with the kinds of errors.
    fn ask(lookup: &mut impl Lookup) -> [Result<i64, LookupErrorKind>; 4] {
        let mut params = ParamBatch::new(1);
        for number in 0..4 {
            params.push([Value::Int(number)]);
        }
        let mut answers = Answers::new();
        let query = BatchQuery::first(StatementId::from_index(0));
        lookup.answer_when_available(query, &params, &mut answers);
        assert_eq!(answers.len(), 4);
        [0, 1, 2, 3].map(|index| match answers.row(index) {
            Ok(Some([Value::Int(number)])) => Ok(*number),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        })
    }

    #[test]
    fn only_sets_that_can_succeed_later_are_queried_again() {
        use LookupErrorKind::{LimitReached, Refused, Unavailable};
        let script = Script {
            failures: vec![
                (0, Refused, 1),
                (1, Unavailable, 2),
                (2, LimitReached, 1),
                (3, Unavailable, 1),
                // It is refused once it is available.
                (3, Refused, 1),
            ],
            ..Script::default()
        };
        let mut lookup = waiting(script, &CancelHandle::default());
        let expected = [Err(Refused), Ok(1), Err(LimitReached), Err(Refused)];
        assert_eq!(ask(&mut lookup), expected);
        let queried = [vec![0, 1, 2, 3], vec![1, 3], vec![1]];
        assert_eq!(lookup.lookup.queried, queried);
        let figures = lookup.outages.figures();
        assert_eq!((figures.count, figures.waiting), (1, 0));
        assert!(figures.elapsed >= 3 * DELAY_MIN, "{figures:?}");

        // What answers at once does not wait.
        assert_eq!(ask(&mut lookup), [0, 1, 2, 3].map(Ok));
        assert_eq!(lookup.lookup.queried.len(), 4);
        assert_eq!(lookup.outages.figures(), figures);
    }

    #[test]
    fn cancelling_ends_the_wait_and_keeps_the_errors() {
        for index in 0..3 {
            let cancel = CancelHandle::default();
            let script = Script {
                failures: vec![(2, LookupErrorKind::Unavailable, usize::MAX)],
                cancelled_by: Some((index, cancel.clone())),
                ..Script::default()
            };
            let mut lookup = waiting(script, &cancel);
            let unavailable = Err(LookupErrorKind::Unavailable);
            assert_eq!(ask(&mut lookup), [Ok(0), Ok(1), unavailable, Ok(3)]);
            assert_eq!(lookup.lookup.queried.len(), index + 1);
            assert_eq!(lookup.outages.figures().waiting, 0);
        }
    }

    #[test]
    fn the_end_of_the_run_ends_the_wait() {
        let script = Script {
            failures: vec![(2, LookupErrorKind::Unavailable, usize::MAX)],
            ..Script::default()
        };
        let mut lookup = waiting(script, &CancelHandle::default());
        let outages = lookup.outages.clone();
        let waiter = thread::spawn(move || ask(&mut lookup));
        wait_until("it waits", || outages.figures().waiting == 1);
        outages.over.raise();
        let unavailable = Err(LookupErrorKind::Unavailable);
        let answers = waiter.join().unwrap();
        assert_eq!(answers, [Ok(0), Ok(1), unavailable, Ok(3)]);
    }

    #[test]
    fn a_plain_answer_does_not_wait() {
        let script = Script {
            failures: vec![(0, LookupErrorKind::Unavailable, 1)],
            ..Script::default()
        };
        let mut lookup = waiting(script, &CancelHandle::default());
        let mut params = ParamBatch::new(1);
        params.push([Value::Int(0)]);
        let mut answers = Answers::new();
        let query = BatchQuery::first(StatementId::from_index(0));
        lookup.answer(query, &params, &mut answers);
        assert!(answers.row(0).is_err());
        assert_eq!(lookup.outages.figures(), OutageFigures::default());
    }

    #[test]
    fn an_outage_lasts_until_no_worker_waits() {
        let outages = outages();
        let error = LookupError::new(LookupErrorKind::Unavailable, "gone");
        let first = outages.begin(&error);
        let second = outages.begin(&error);
        assert_eq!((outages.figures().count, outages.figures().waiting), (1, 2));
        outages.end(&first, true);
        let third = outages.begin(&error);
        assert_eq!((outages.figures().count, outages.figures().waiting), (1, 2));
        outages.end(&second, true);
        outages.end(&third, true);
        assert_eq!((outages.figures().count, outages.figures().waiting), (1, 0));
        let next = outages.begin(&error);
        outages.end(&next, false);
        assert_eq!(outages.figures().count, 2);
    }

    #[test]
    fn delays_grow_from_the_least_to_the_greatest() {
        for random in [0.0, 0.5, 0.999] {
            let mut backoff = Backoff::new();
            let delays: Vec<Duration> = (0..20).map(|_| backoff.next(random)).collect();
            assert!(delays.is_sorted(), "{delays:?}");
            assert!(delays[0] >= DELAY_MIN && delays[0] < 2 * DELAY_MIN);
            assert!(delays[1] >= 2 * DELAY_MIN);
            let last = delays[19];
            assert!(last >= DELAY_MAX / 2 && last <= DELAY_MAX, "{last:?}");
        }
    }
}
