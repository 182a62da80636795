//! A run: threads that write and read through traits, and record what they did.
//!
//! The phases of a fault plan are announced to all threads by a [`PhaseSignal`]; injecting the faults is
//! up to the caller, with an [`Injector`](crate::fault::Injector) of the signal. After the writers have stopped and a quiet period, each
//! reader reads the keys once more at each of its layers.

mod access;
mod keys;
mod threads;

pub use access::{Answer, Reader, Request, WriteConnection, Written};
pub use keys::{KeyDistribution, KeyLaw};

use std::collections::HashSet;
use std::panic;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fault::{Ended, FaultPlan, PhaseId, PhaseSignal};
use crate::history::{
    Contract, Contracts, History, Key, Layer, QuietEnd, Recorder, RecorderLimits, State, Time,
    Write, WriteOutcome,
};
use threads::{SESSION_STEP, Session, Shared, Writer};

/// The limit of writers and of readers. A run with more is refused.
const THREAD_COUNT_MAX: usize = 1 << 12;

// Each session of a reader has a number of two bytes.
const _: () = assert!(THREAD_COUNT_MAX * SESSION_STEP as usize <= 1 << 16);

/// The limit of keys. At the end each reader reads all of them at each of its layers, and a write may
/// touch all of them. A run with more is refused.
const KEY_COUNT_MAX: u32 = 1 << 20;

/// How often the quiet period looks whether a thread has failed.
const QUIET_LOOK: Duration = Duration::from_millis(20);

/// What a run does. There is no default: contracts and layers depend on the readers.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The phases; the writers stop at the end of the last one.
    pub plan: FaultPlan,
    /// How long nothing is written before the last reads: longer than a cached answer is used without
    /// a feed, and than a write that was not acknowledged may still take.
    pub quiet: Duration,
    /// Which keys are written and read.
    pub keys: KeyDistribution,
    /// The contracts and layers of the reads, each equally often.
    pub reads: Vec<(Contract, Layer)>,
    /// The pause of a writer between two writes; 0 for none.
    pub write_pause: Duration,
    /// The pause of a reader between two reads; 0 for none.
    pub read_pause: Duration,
    /// Equal seeds make equal choices of keys, contracts and layers in each thread.
    pub seed: u64,
    /// The most operations that a thread records. Writers stop when a thread has no room left.
    pub limits: RecorderLimits,
}

/// Drives writers and readers over a database and its caches, a thread each, and returns what they
/// recorded. Writer `n` records as writer `n`, reader `n` as session `n`.
///
/// `signal` has the current phase of the plan; a thread of the caller injects the faults. A phase lasts as
/// long as the plan says and, with an injector, until that has finished its fault.
///
/// # Errors
///
/// If there is no writer, reader, key, or contract and layer, more than 4,096 writers or readers, or more
/// than 1,048,576 keys; if a thread cannot be started, or the states of the keys cannot be read.
///
/// # Panics
///
/// If a connection or a reader panics, as soon as the other threads have ended.
pub fn run<W: WriteConnection, R: Reader>(
    options: &RunOptions,
    mut connections: Vec<W>,
    readers: Vec<R>,
    signal: &PhaseSignal,
) -> Result<History> {
    // Also when the run cannot begin: an injector waits for its first phase.
    let _end = EndOnDrop(signal);
    check_counts(options, connections.len(), readers.len())?;
    let contracts = Contracts::new(options.reads.iter().map(|(contract, _)| *contract))?;
    let keys: Vec<Key> = options.keys.keys().collect();
    let read_states = |connection: &mut W| {
        let states = connection.states(&keys).map_err(Error::no_states)?;
        let read: HashSet<Key> = states.iter().map(|(key, _)| *key).collect();
        match states.len() == keys.len() && keys.iter().all(|key| read.contains(key)) {
            true => Ok(states),
            false => Err(Error::incomplete_states(states.len(), keys.len())),
        }
    };
    let mut recorders = vec![initial_writes(read_states(&mut connections[0])?)?];
    let shared = Shared::new(options, &contracts, signal)?;
    let (announced, quiet_end) = thread::scope(|scope| {
        // Whatever ends this function, the threads end too, or the scope would wait for them.
        let _stop = StopOnDrop(&shared);
        let (full, is_full) = mpsc::channel();
        let mut writer_threads = Vec::new();
        for (number, connection) in (0..).zip(connections) {
            let (writer, full) = (Writer::new(&shared, connection, number), full.clone());
            let name = format!("verify-write-{number}");
            writer_threads.push(spawn(scope, name, move || writer.run(&full))?);
        }
        let mut session_threads = Vec::new();
        for (number, reader) in (0..).zip(readers) {
            let (session, full) = (Session::new(&shared, reader, number), full.clone());
            let name = format!("verify-read-{number}");
            session_threads.push(spawn(scope, name, move || session.run(&full))?);
        }
        drop(full);
        let announced = announce_phases(&options.plan, signal, &is_full);
        signal.end();
        shared.stop_writers();
        let mut connections = Vec::new();
        for thread in writer_threads {
            let (connection, recorder) = join(thread)?;
            connections.push(connection);
            recorders.push(recorder);
        }
        let quiet_begin = Instant::now();
        // A session that ends before it is told to has failed, and is joined below.
        while !session_threads.iter().any(ScopedJoinHandle::is_finished)
            && let left = options.quiet.saturating_sub(quiet_begin.elapsed())
            && !left.is_zero()
        {
            thread::sleep(left.min(QUIET_LOOK));
        }
        let since = shared.clock.now();
        let states = read_states(&mut connections[0])?;
        shared.stop_readers();
        for thread in session_threads {
            recorders.extend(join(thread)?);
        }
        let states = states.into_iter().collect();
        Ok((announced, QuietEnd { since, states }))
    })?;
    let mut history = History::merge(contracts, options.plan.clone(), announced, recorders)?;
    history.set_quiet_end(quiet_end);
    Ok(history)
}

fn check_counts(options: &RunOptions, writer_count: usize, reader_count: usize) -> Result<()> {
    for (what, count) in [
        ("a writer", writer_count),
        ("a reader", reader_count),
        ("a key", options.keys.count as usize),
        ("a contract and a layer", options.reads.len()),
    ] {
        if count == 0 {
            return Err(Error::nothing_to_run(what));
        }
    }
    if writer_count.max(reader_count) > THREAD_COUNT_MAX {
        return Err(Error::too_many_threads(THREAD_COUNT_MAX));
    }
    if options.keys.count > KEY_COUNT_MAX {
        return Err(Error::too_many_keys(KEY_COUNT_MAX));
    }
    Ok(())
}

/// The states before the run, as writes that were acknowledged at its start.
fn initial_writes(states: Vec<(Key, State)>) -> Result<Recorder> {
    let mut recorder = Recorder::new(RecorderLimits {
        read_count_max: 1,
        write_count_max: states.len(),
    });
    for (key, state) in states {
        recorder.write(Write {
            key,
            begin: Time::START,
            end: Time::START,
            outcome: WriteOutcome::Acknowledged(state),
            position: None,
            writer: 0,
            phase: PhaseId::default(),
        })?;
    }
    Ok(recorder)
}

/// Announces each phase when the one before has ended, until the plan or the room of a thread ends.
/// Returns the last one.
fn announce_phases(plan: &FaultPlan, signal: &PhaseSignal, is_full: &Receiver<()>) -> PhaseId {
    let mut announced = PhaseId::default();
    let mut phases = plan.iter();
    while let Some((id, phase)) = phases.next() {
        signal.announce(id, plan);
        announced = id;
        let must_end = || is_full.try_recv() != Err(TryRecvError::Empty);
        if signal.wait(phase.end.saturating_sub(phase.begin), &must_end) == Ended::Run {
            // The quiet end is checked without a fault.
            if plan.fault(id).is_some()
                && let Some((next, _)) = phases.next()
            {
                signal.announce(next, plan);
                announced = next;
            }
            break;
        }
    }
    announced
}

struct EndOnDrop<'a>(&'a PhaseSignal);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct StopOnDrop<'a>(&'a Shared<'a>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop_writers();
        self.0.stop_readers();
    }
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let builder = thread::Builder::new().name(name);
    builder.spawn_scoped(scope, body).map_err(Error::no_thread)
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| panic::resume_unwind(panic))
}
