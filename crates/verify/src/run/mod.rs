//! A run: threads that write and read through traits, and record what they did.
//!
//! The phases of a fault plan are announced to all threads by a [`PhaseSignal`]; injecting the faults is
//! up to the caller, who watches the signal. After the writers have stopped and a quiet period, each
//! reader reads the keys once more at each of its layers.

mod access;
mod keys;
mod threads;

pub use access::{Answer, Reader, Register, Request, Written};
pub use keys::{KeyDistribution, KeyLaw};

use std::collections::HashSet;
use std::panic;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::fault::{FaultPlan, PhaseId, PhaseSignal};
use crate::history::{
    Clock, Contract, Contracts, History, Key, Layer, Outcome, QuietEnd, Recorder, RecorderLimits,
    State, Time, Write,
};
use threads::{Session, Shared, Writer};

/// The limit of registers and of readers. A run with more is refused.
const THREAD_COUNT_MAX: usize = 1 << 12;

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
/// `signal` has the current phase of the plan; a thread of the caller that injects faults watches it.
///
/// # Errors
///
/// If there is no register, reader, key, or contract and layer, or more than 4,096 registers or
/// readers; if a thread cannot be started, or the states of the keys cannot be read.
///
/// # Panics
///
/// If a register or a reader panics.
pub fn run<W: Register, R: Reader>(
    options: &RunOptions,
    mut registers: Vec<W>,
    readers: Vec<R>,
    signal: &PhaseSignal,
) -> Result<History> {
    check_counts(options, registers.len(), readers.len())?;
    let contracts = Contracts::new(options.reads.iter().map(|(contract, _)| *contract))?;
    let keys: Vec<Key> = options.keys.keys().collect();
    let read_states = |register: &mut W| {
        let states = register.states(&keys).map_err(Error::no_states)?;
        let read: HashSet<Key> = states.iter().map(|(key, _)| *key).collect();
        match states.len() == keys.len() && keys.iter().all(|key| read.contains(key)) {
            true => Ok(states),
            false => Err(Error::incomplete_states(states.len(), keys.len())),
        }
    };
    let mut recorders = vec![initial_writes(read_states(&mut registers[0])?)?];
    let shared = Shared::new(options, &contracts, signal)?;
    let (announced, quiet_end) = thread::scope(|scope| {
        // Whatever ends this function, the threads end too, or the scope would wait for them.
        let _stop = StopOnDrop(&shared);
        let (full, is_full) = mpsc::channel();
        let mut writer_threads = Vec::new();
        for (number, register) in (0..).zip(registers) {
            let (writer, full) = (Writer::new(&shared, register, number), full.clone());
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
        let announced = announce_phases(&options.plan, shared.clock, signal, &is_full);
        shared.stop_writers();
        let mut registers = Vec::new();
        for thread in writer_threads {
            let (register, recorder) = join(thread)?;
            registers.push(register);
            recorders.push(recorder);
        }
        thread::sleep(options.quiet);
        let since = shared.clock.now();
        let states = read_states(&mut registers[0])?;
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

fn check_counts(options: &RunOptions, register_count: usize, reader_count: usize) -> Result<()> {
    for (what, count) in [
        ("a register", register_count),
        ("a reader", reader_count),
        ("a key", options.keys.count as usize),
        ("a contract and a layer", options.reads.len()),
    ] {
        if count == 0 {
            return Err(Error::nothing_to_run(what));
        }
    }
    if register_count.max(reader_count) > THREAD_COUNT_MAX {
        return Err(Error::too_many_threads(THREAD_COUNT_MAX));
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
            outcome: Outcome::Acknowledged(state),
            position: None,
            writer: 0,
            phase: PhaseId::default(),
        })?;
    }
    Ok(recorder)
}

/// Announces each phase at its time, until the plan or the room of a thread ends. Returns the last one.
fn announce_phases(
    plan: &FaultPlan,
    clock: Clock,
    signal: &PhaseSignal,
    is_full: &Receiver<()>,
) -> PhaseId {
    let mut announced = PhaseId::default();
    let mut phases = plan.iter();
    while let Some((id, phase)) = phases.next() {
        signal.announce(id);
        announced = id;
        let end = Time::START.after(phase.end);
        match is_full.recv_timeout(end.since(clock.now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                // The quiet end is checked without a fault.
                if plan.fault(id).is_some()
                    && let Some((next, _)) = phases.next()
                {
                    signal.announce(next);
                    announced = next;
                }
                break;
            }
        }
    }
    announced
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
