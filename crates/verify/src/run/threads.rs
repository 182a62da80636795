//! What a writer and a reader do in their threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::RunOptions;
use super::access::{Reader, Request, WriteConnection};
use super::keys::KeyTable;
use crate::error::Result;
use crate::fault::PhaseSignal;
use crate::history::{
    Clock, Contract, ContractId, Contracts, Key, Layer, Position, Read, Recorder, RecorderLimits,
    SessionId, Write, WriteOutcome,
};

/// The pause after an operation that failed: long enough not to flood a server that is down, and short
/// beside the phases of a plan.
const FAILURE_PAUSE: Duration = Duration::from_millis(1);

/// The sessions that a reader may have: one for each layer, and more.
pub(super) const SESSION_STEP: u16 = 1 << 4;

const _: () = assert!(Layer::ALL.len() <= SESSION_STEP as usize);

/// What the threads of a run share.
pub(super) struct Shared<'a> {
    options: &'a RunOptions,
    signal: &'a PhaseSignal,
    pub(super) clock: Clock,
    keys: KeyTable,
    /// The contracts and layers of [`RunOptions::reads`].
    reads: Vec<(Contract, ContractId, Layer)>,
    /// The newest position that a writer got, by key; 0 for none.
    positions: Vec<AtomicU64>,
    writers_stop: AtomicBool,
    readers_stop: AtomicBool,
}

impl<'a> Shared<'a> {
    /// # Errors
    ///
    /// If a contract of the options is not in the list.
    pub(super) fn new(
        options: &'a RunOptions,
        contracts: &Contracts,
        signal: &'a PhaseSignal,
    ) -> Result<Self> {
        let reads = options.reads.iter().map(|&(contract, layer)| {
            let id = contracts.id(contract)?;
            Ok((contract, id, layer))
        });
        Ok(Self {
            options,
            signal,
            keys: KeyTable::new(options.keys),
            reads: reads.collect::<Result<_>>()?,
            positions: (0..options.keys.count).map(|_| AtomicU64::new(0)).collect(),
            writers_stop: AtomicBool::new(false),
            readers_stop: AtomicBool::new(false),
            clock: Clock::new(),
        })
    }

    // `Relaxed`, here and in the loads of the two flags: nothing is read that was written before, and
    // what the threads recorded is passed by joining them.
    pub(super) fn stop_writers(&self) {
        self.writers_stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn stop_readers(&self) {
        self.readers_stop.store(true, Ordering::Relaxed);
    }

    /// Random numbers of a thread: `role` differs for writers and readers.
    fn random(&self, role: u64, number: u16) -> fastrand::Rng {
        let seed = self.options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fastrand::Rng::with_seed(seed ^ (role << 32) ^ u64::from(number))
    }

    fn position(&self, key: Key) -> &AtomicU64 {
        &self.positions[key.0 as usize]
    }
}

/// Writes until it is told to stop.
pub(super) struct Writer<'a, W> {
    shared: &'a Shared<'a>,
    connection: W,
    number: u16,
    recorder: Recorder,
}

impl<'a, W: WriteConnection> Writer<'a, W> {
    pub(super) fn new(shared: &'a Shared<'a>, connection: W, number: u16) -> Self {
        Self {
            recorder: Recorder::new(shared.options.limits),
            shared,
            connection,
            number,
        }
    }

    /// Sends on `full` when nothing more can be recorded.
    ///
    /// # Errors
    ///
    /// None in practice: there is room for each operation before it is begun.
    pub(super) fn run(mut self, full: &Sender<()>) -> Result<(W, Recorder)> {
        let shared = self.shared;
        let _notice = PanicNotice(full);
        let mut random = shared.random(1, self.number);
        while !shared.writers_stop.load(Ordering::Relaxed) {
            if !self.recorder.has_room() {
                // The receiver is gone only when the run ends anyway.
                let _ = full.send(());
                break;
            }
            let is_acknowledged = self.write(shared.keys.draw(&mut random))?;
            pause(is_acknowledged, shared.options.write_pause);
        }
        Ok((self.connection, self.recorder))
    }

    fn write(&mut self, key: Key) -> Result<bool> {
        let shared = self.shared;
        let phase = shared.signal.current();
        let begin = shared.clock.now();
        let written = self.connection.write(key);
        let end = (written.ended).map_or_else(|| shared.clock.now(), |end| shared.clock.time(end));
        if let Some(position) = written.position {
            for key in written.others.iter().map(|other| other.0).chain([key]) {
                // `Release`, paired with the load in `Session::read`: the write was acknowledged before
                // its position is used.
                let newest = shared.position(key);
                newest.fetch_max(position.0.get(), Ordering::Release);
            }
        }
        let outcomes = [(key, written.outcome)].into_iter().chain(written.others);
        self.recorder
            .transaction(outcomes.map(|(key, outcome)| Write {
                key,
                begin,
                end,
                outcome,
                position: written.position,
                writer: self.number,
                phase,
            }))?;
        Ok(matches!(written.outcome, WriteOutcome::Acknowledged(_)))
    }
}

/// Reads until it is told to stop, and then each key once more at each layer.
pub(super) struct Session<'a, R> {
    shared: &'a Shared<'a>,
    reader: R,
    number: u16,
}

impl<'a, R: Reader> Session<'a, R> {
    pub(super) fn new(shared: &'a Shared<'a>, reader: R, number: u16) -> Self {
        Self {
            shared,
            reader,
            number,
        }
    }

    /// Sends on `full` when nothing more can be recorded. Returns what was recorded during the run and at
    /// its quiet end.
    ///
    /// # Errors
    ///
    /// As [`Writer::run`].
    pub(super) fn run(mut self, full: &Sender<()>) -> Result<[Recorder; 2]> {
        let shared = self.shared;
        let _notice = PanicNotice(full);
        let mut random = shared.random(2, self.number);
        let mut recorder = Recorder::new(shared.options.limits);
        let mut is_full = false;
        while !shared.readers_stop.load(Ordering::Relaxed) {
            if !recorder.has_room() {
                if !is_full {
                    is_full = true;
                    // The receiver is gone only when the run ends anyway.
                    let _ = full.send(());
                }
                thread::sleep(FAILURE_PAUSE);
                continue;
            }
            let (key, index) = (
                shared.keys.draw(&mut random),
                random.usize(0..shared.reads.len()),
            );
            let is_answered = self.read(key, index, &mut recorder)?;
            pause(is_answered, shared.options.read_pause);
        }
        Ok([recorder, self.read_all()?])
    }

    /// Reads each key at each layer, in a recorder of its own, which has room whatever the run recorded.
    fn read_all(&mut self) -> Result<Recorder> {
        let read_count = self.shared.reads.len();
        let keys = self.shared.options.keys;
        let mut recorder = Recorder::new(RecorderLimits {
            read_count_max: read_count.saturating_mul(keys.count as usize),
            write_count_max: 1,
        });
        for key in keys.keys() {
            for index in 0..read_count {
                self.read(key, index, &mut recorder)?;
            }
        }
        Ok(recorder)
    }

    fn read(&mut self, key: Key, index: usize, recorder: &mut Recorder) -> Result<bool> {
        let shared = self.shared;
        let (contract, id, layer) = shared.reads[index];
        let token = match contract {
            // Pairs with the store in `Writer::write`.
            Contract::After => shared.position(key).load(Ordering::Acquire),
            _ => 0,
        };
        let token = token.try_into().ok().map(Position);
        let request = Request {
            key,
            contract,
            token,
            layer,
        };
        let phase = shared.signal.current();
        let begin = shared.clock.now();
        let answer = self.reader.read(&request);
        let end = shared.clock.now();
        match answer {
            Ok(answer) => {
                let session = self.reader.session(layer);
                assert!(session < SESSION_STEP, "the number of a session: {session}");
                recorder.read(&Read {
                    key,
                    version: answer.version,
                    begin,
                    end,
                    contract: id,
                    token,
                    layer,
                    session: SessionId(self.number * SESSION_STEP + session),
                    fresh_as_of: answer.fresh_as_of.map(|claim| shared.clock.time(claim)),
                    phase,
                    source: answer.source,
                })?;
                Ok(true)
            }
            Err(error) => {
                recorder.failed_read(id, layer, phase, &error);
                Ok(false)
            }
        }
    }
}

/// Ends the run when its thread panics, or the plan would go on for nobody.
struct PanicNotice<'a>(&'a Sender<()>);

impl Drop for PanicNotice<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // The receiver is gone only when the run ends anyway.
            let _ = self.0.send(());
        }
    }
}

fn pause(is_successful: bool, between: Duration) {
    let pause = match is_successful {
        true => between,
        false => between.max(FAILURE_PAUSE),
    };
    if !pause.is_zero() {
        thread::sleep(pause);
    }
}
