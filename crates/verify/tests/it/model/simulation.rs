//! Writers, readers, the log and the connections between them, as events in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use lookaside_verify::fault::{FaultPlan, PhaseId};
use lookaside_verify::history::{
    Contract, Contracts, History, Key, Layer, Position, QuietEnd, Read, Recorder, RecorderLimits,
    SessionId, Source, State, Time, Version, Write, WriteOutcome,
};

use super::cache::{Cache, FlightId, TTL, Taken, Wanted};
use super::database::{Database, LogRecord, Operation, Snapshot, Transaction};
use super::protocol::Switches;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// Keys whose rows are updated; every fourth is inserted and deleted as well.
const PLAIN_KEY_COUNT: u32 = 40;
/// Pairs of keys behind them, one of which has a row.
const PAIR_COUNT: u32 = 4;
const KEY_COUNT: u32 = PLAIN_KEY_COUNT + 2 * PAIR_COUNT;
const WRITER_COUNT: usize = 4;
const READER_COUNT: usize = 12;
/// How often a probe is sent when nothing waits for one.
const PROBE_INTERVAL: u64 = 10 * MILLI;

pub(crate) const WITHIN: Contract = Contract::Within(Duration::from_millis(50));
const CONTRACTS: [Contract; 4] = [Contract::Any, WITHIN, Contract::After, Contract::Now];
const LAYERS: [Layer; 2] = [Layer::Batch, Layer::L0];

enum Event {
    Write(usize, Operation, u64),
    Commit(usize, Transaction, u64, Ending),
    Deliver(u32, LogRecord),
    Show(Transaction),
    /// The end of a write as its writer sees it.
    EndWrite(usize, Transaction, u64, Ending),
    Read(usize),
    /// The database answers a flight.
    Answer(FlightId),
    /// The answer arrives.
    Complete(FlightId),
    Probe(u32),
    AnswerProbe(u32, u64),
    CompleteProbe(u32, u64, Snapshot),
    LoseFeed,
    ConnectFeed,
}

/// How a write ends for its writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Acknowledged,
    Aborted,
    /// No acknowledgement arrives; the writer may know what the statement returned.
    Unknown {
        is_state_known: bool,
    },
}

struct Simulation {
    random: fastrand::Rng,
    now: u64,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, Event>,
    event_count: u64,
    switches: Switches,
    database: Database,
    cache: Cache,
    contracts: Contracts,
    recorder: Recorder,
    /// The newest position that a writer got, by key.
    tokens: Vec<u64>,
    delivered: u64,
    /// A writer that waits for a lock of the table, behind which the others wait.
    table_lock: Option<usize>,
    is_probing: bool,
    writers_end: u64,
    quiet_since: u64,
    /// How many reads of the quiet end each reader has made.
    quiet_read_counts: [u32; READER_COUNT],
}

/// Simulates writes for a time, then quiet, and returns the history.
pub(crate) fn simulate(switches: Switches, seed: u64, duration: Duration) -> History {
    let state = |key: u32| match key >= PLAIN_KEY_COUNT && key % 2 == 1 {
        true => State::absent(1),
        false => State::present(1),
    };
    let states: Vec<State> = (0..KEY_COUNT).map(state).collect();
    let writers_end = duration.as_nanos() as u64;
    let simulation = Simulation {
        random: fastrand::Rng::with_seed(seed),
        now: 0,
        heap: BinaryHeap::new(),
        events: HashMap::new(),
        event_count: 0,
        switches,
        database: Database::new(&states),
        cache: Cache::new(switches, states.len(), READER_COUNT),
        contracts: Contracts::new(CONTRACTS).unwrap(),
        recorder: Recorder::new(RecorderLimits::default()),
        tokens: vec![0; states.len()],
        delivered: 0,
        table_lock: None,
        is_probing: false,
        writers_end,
        quiet_since: writers_end + TTL + 500 * MILLI,
        quiet_read_counts: [0; READER_COUNT],
    };
    simulation.run()
}

impl Simulation {
    fn run(mut self) -> History {
        for (key, state) in self.database.states() {
            let initial = WriteOutcome::Acknowledged(state);
            self.recorder
                .write(write(key, 0, 0, initial, 0, 0))
                .unwrap();
        }
        for writer in 0..WRITER_COUNT {
            self.next_write(writer);
        }
        for reader in 0..READER_COUNT {
            let pause = self.between(10 * MICRO, MILLI);
            self.schedule(pause, Event::Read(reader));
        }
        if self.switches.has_feed {
            self.schedule(0, Event::ConnectFeed);
        }
        while let Some(Reverse((time, number))) = self.heap.pop() {
            let event = self
                .events
                .remove(&number)
                .expect("each event happens once");
            self.now = time;
            self.handle(event);
        }
        let states = self.database.states();
        let quiet_end = QuietEnd {
            since: Time::from_nanos(self.quiet_since),
            states: states.map(|(key, state)| (Key(key), state)).collect(),
        };
        let plan = FaultPlan::quiet(Duration::from_nanos(self.now));
        let recorders = vec![self.recorder];
        let merged = History::merge(self.contracts, plan, PhaseId::default(), recorders);
        let mut history = merged.unwrap();
        history.set_quiet_end(quiet_end);
        history
    }

    fn schedule(&mut self, delay: u64, event: Event) {
        self.event_count += 1;
        self.heap
            .push(Reverse((self.now + delay, self.event_count)));
        self.events.insert(self.event_count, event);
    }

    fn between(&mut self, min: u64, max: u64) -> u64 {
        self.random.u64(min..=max)
    }

    fn is_one_in(&mut self, count: u32) -> bool {
        self.random.u32(0..count) == 0
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Write(writer, operation, begin) => self.begin_write(writer, operation, begin),
            Event::Commit(writer, transaction, begin, ending) => {
                self.commit(writer, transaction, begin, ending);
            }
            Event::Deliver(connection, record) => {
                if self.cache.feed.receive(connection, record) {
                    self.schedule(0, Event::Probe(connection));
                }
            }
            Event::Show(transaction) => self.database.show(&transaction),
            Event::EndWrite(writer, transaction, begin, ending) => {
                self.end_write(writer, &transaction, begin, ending);
            }
            Event::Read(reader) => self.begin_read(reader),
            Event::Answer(id) => {
                let flight = self.cache.flights.get_mut(&id);
                let flight = flight.expect("an open flight is answered");
                flight.version = self.database.row(flight.key);
                // The way back is slow at times.
                let delay = match self.is_one_in(40) {
                    true => self.between(60 * MILLI, 150 * MILLI),
                    false => self.between(50 * MICRO, MILLI),
                };
                self.schedule(delay, Event::Complete(id));
            }
            Event::Complete(id) => self.complete(id),
            Event::Probe(connection) => {
                if self.cache.feed.connection() == Some(connection) && !self.is_probing {
                    self.is_probing = true;
                    let delay = self.between(50 * MICRO, 500 * MICRO);
                    self.schedule(delay, Event::AnswerProbe(connection, self.now));
                }
            }
            Event::AnswerProbe(connection, sent) => {
                let snapshot = self.database.snapshot();
                let delay = self.between(50 * MICRO, 500 * MICRO);
                self.schedule(delay, Event::CompleteProbe(connection, sent, snapshot));
            }
            Event::CompleteProbe(connection, sent, snapshot) => {
                self.is_probing = false;
                let is_waiting = self.cache.feed.take_probe(connection, sent, snapshot);
                self.schedule_probe(is_waiting);
            }
            Event::LoseFeed => {
                self.cache.feed.lose_connection();
                let delay = self.between(5 * MILLI, 60 * MILLI);
                self.schedule(delay, Event::ConnectFeed);
            }
            Event::ConnectFeed => {
                self.cache.feed.connect(self.database.position());
                if self.is_before(self.writers_end) {
                    let delay = self.between(300 * MILLI, 900 * MILLI);
                    self.schedule(delay, Event::LoseFeed);
                }
                self.schedule_probe(true);
            }
        }
    }

    fn is_before(&self, end: u64) -> bool {
        self.now < end
    }

    /// The next probe: at once if changes wait for one, and none when the run has ended.
    fn schedule_probe(&mut self, is_waiting: bool) {
        let Some(connection) = self.cache.feed.connection() else {
            return;
        };
        if self.is_before(self.quiet_since) {
            let delay = match is_waiting {
                true => 0,
                false => PROBE_INTERVAL,
            };
            self.schedule(delay, Event::Probe(connection));
        }
    }

    fn next_write(&mut self, writer: usize) {
        let pause = self.between(200 * MICRO, 1500 * MICRO);
        if !self.is_before(self.writers_end) {
            return;
        }
        let operation = match self.random.u32(0..1000) {
            0..3 => Operation::Truncate,
            3..6 => Operation::Rewrite,
            6..100 => {
                let first = PLAIN_KEY_COUNT + 2 * self.random.u32(0..PAIR_COUNT);
                Operation::Move(first, first + 1)
            }
            _ => {
                let key = self.key().min(PLAIN_KEY_COUNT - 1);
                match key.is_multiple_of(4) && self.random.bool() {
                    true => Operation::Toggle(key),
                    false => Operation::Update(key),
                }
            }
        };
        self.schedule(pause, Event::Write(writer, operation, self.now + pause));
    }

    /// A key; the lower ones more often.
    fn key(&mut self) -> u32 {
        let draw = |random: &mut fastrand::Rng| random.u32(0..KEY_COUNT);
        draw(&mut self.random).min(draw(&mut self.random))
    }

    fn begin_write(&mut self, writer: usize, operation: Operation, begin: u64) {
        let is_free = self.table_lock.is_none_or(|waiting| waiting == writer);
        let transaction = match is_free {
            true => self.database.begin(operation),
            false => None,
        };
        let Some(transaction) = transaction else {
            if operation.is_of_table() && is_free {
                self.table_lock = Some(writer);
            }
            self.schedule(100 * MICRO, Event::Write(writer, operation, begin));
            return;
        };
        if self.table_lock == Some(writer) {
            self.table_lock = None;
        }
        let ending = match self.random.u32(0..100) {
            0..3 => Ending::Aborted,
            3..5 => Ending::Unknown {
                is_state_known: self.random.bool(),
            },
            _ => Ending::Acknowledged,
        };
        let delay = self.between(100 * MICRO, 500 * MICRO);
        self.schedule(delay, Event::Commit(writer, transaction, begin, ending));
    }

    fn commit(&mut self, writer: usize, transaction: Transaction, begin: u64, ending: Ending) {
        let is_lost =
            ending != Ending::Acknowledged && (ending == Ending::Aborted || self.random.bool());
        if is_lost {
            self.database.end(&transaction);
            self.schedule(
                50 * MICRO,
                Event::EndWrite(writer, transaction, begin, ending),
            );
            return;
        }
        let record = self.database.commit(&transaction);
        // The log is delivered in its order.
        let delivered = self.now + self.between(50 * MICRO, 3 * MILLI);
        self.delivered = self.delivered.max(delivered);
        if let Some(connection) = self.cache.feed.connection() {
            let delay = self.delivered - self.now;
            self.schedule(delay, Event::Deliver(connection, record));
        }
        // A commit waits for a standby at times.
        let visible = match self.random.u32(0..100) {
            0 => self.between(60 * MILLI, 200 * MILLI),
            1..8 => self.between(MILLI, 23 * MILLI),
            _ => self.between(10 * MICRO, 300 * MICRO),
        };
        self.schedule(visible, Event::Show(transaction.clone()));
        let end = match ending {
            Ending::Acknowledged => visible + self.between(20 * MICRO, 300 * MICRO),
            _ => 50 * MICRO,
        };
        self.schedule(end, Event::EndWrite(writer, transaction, begin, ending));
    }

    fn end_write(&mut self, writer: usize, transaction: &Transaction, begin: u64, ending: Ending) {
        let position = match ending {
            Ending::Acknowledged => self.database.position(),
            _ => 0,
        };
        for &(key, state) in &transaction.states {
            let outcome = match ending {
                Ending::Acknowledged => WriteOutcome::Acknowledged(state),
                Ending::Aborted => WriteOutcome::Aborted(Some(state)),
                Ending::Unknown { is_state_known } => {
                    WriteOutcome::Unknown(is_state_known.then_some(state))
                }
            };
            let number = writer as u16;
            let write = write(key, begin, self.now, outcome, position, number);
            self.recorder.write(write).unwrap();
            let token = &mut self.tokens[key as usize];
            *token = (*token).max(position);
        }
        self.next_write(writer);
    }

    /// The next read of a reader: one at random, and at the quiet end each key at each layer once.
    fn wanted(&mut self, reader: usize) -> Option<Wanted> {
        if self.is_before(self.quiet_since) {
            let key = self.key();
            return Some(Wanted {
                key,
                contract: CONTRACTS[self.random.usize(0..CONTRACTS.len())],
                layer: LAYERS[self.random.usize(0..LAYERS.len())],
                token: self.tokens[key as usize],
            });
        }
        let count = &mut self.quiet_read_counts[reader];
        *count += 1;
        let (key, layer) = ((*count - 1) / 2, (*count - 1) % 2);
        (key < KEY_COUNT).then_some(Wanted {
            key,
            contract: Contract::Any,
            layer: LAYERS[layer as usize],
            token: 0,
        })
    }

    fn begin_read(&mut self, reader: usize) {
        let Some(wanted) = self.wanted(reader) else {
            return;
        };
        match self.cache.lookup(reader, wanted, self.now) {
            Some(taken) => {
                self.end_read(reader, wanted, self.now, taken, Source::Memory);
            }
            None => {
                if let Some(flight) = self.cache.ask(reader, wanted, self.now) {
                    let delay = self.between(50 * MICRO, 500 * MICRO);
                    self.schedule(delay, Event::Answer(flight));
                }
            }
        }
    }

    fn complete(&mut self, id: FlightId) {
        let (flight, taken) = self.cache.complete(id, self.now);
        for (reader, wanted, begin) in flight.waiters {
            self.end_read(reader, wanted, begin, taken, Source::Database);
        }
    }

    fn end_read(
        &mut self,
        reader: usize,
        wanted: Wanted,
        begin: u64,
        taken: Taken,
        source: Source,
    ) {
        let is_after = wanted.contract == Contract::After;
        let token = wanted.token.try_into().ok().map(Position);
        let read = Read {
            key: Key(wanted.key),
            version: taken.version.map(Version),
            begin: Time::from_nanos(begin),
            end: Time::from_nanos(self.now),
            contract: self.contracts.id(wanted.contract).unwrap(),
            token: token.filter(|_| is_after),
            layer: wanted.layer,
            session: SessionId(reader as u16),
            fresh_as_of: Some(Time::from_nanos(taken.fresh_as_of)),
            phase: PhaseId::default(),
            source,
        };
        self.recorder.read(&read).unwrap();
        let pause = self.between(100 * MICRO, 1500 * MICRO);
        self.schedule(pause, Event::Read(reader));
    }
}

fn write(
    key: u32,
    begin: u64,
    end: u64,
    outcome: WriteOutcome,
    position: u64,
    writer: u16,
) -> Write {
    Write {
        key: Key(key),
        begin: Time::from_nanos(begin),
        end: Time::from_nanos(end),
        outcome,
        position: position.try_into().ok().map(Position),
        writer,
        phase: PhaseId::default(),
    }
}
