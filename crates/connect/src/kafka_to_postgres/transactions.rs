//! The sink whose transactions contain rows and positions.
//!
//! Why the positions of a transaction cover exactly its rows:
//!
//! - *No row without its position.* A result counts as delivered when it is among the rows of the
//!   open transaction. Before the commit, the acknowledged position of each partition is waited for
//!   until it is behind the last of the rows of that partition. It moves there only when the
//!   results of all messages before it are delivered in any way: are rows of this or of an earlier
//!   transaction, were dropped by the model, or were written to the rejects. Blocks, which are what
//!   workers transform in any order, pass the sink in the order of reading, so that a message before
//!   the last row has no result that is still to come.
//! - *No position without its rows.* The results of a block are added under the lock that a commit
//!   holds, and a message is acknowledged after all results of its block were passed on. So a position
//!   that a commit reads is not behind a message whose results come later.
//! - *No other rows.* The position is moved by an update of the row with the position from which this
//!   process has read. If another process has moved it, none is updated, and the transaction is
//!   rolled back. Of two processes that read the same messages, the second one to update waits for the
//!   lock of the row and finds it moved. So does a process that does not know whether its last
//!   `COMMIT` took effect.
//!
//! After a rollback, everything that is under way is discarded and read again from the positions that
//! are stored in the database: the partitions of these messages count as revoked, so that neither the
//! queue of the source nor the run nor this sink uses them. A result that the server does not accept
//! is looked for before that, and is refused when it is read again, so that its dead letter is written
//! before its position is stored.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use lookaside_client::blocking::Transaction;
use lookaside_client::postgres::PostgresDriver;
use lookaside_stream::{
    Message, MessageSink, Messages, Partition, Receipt, RefusedMessage, StopFlag,
};
use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tracing::warn;

use super::positions::{PositionUpdate, Positions};
use crate::kafka::{Assignment, CommitError, EndTransaction, Group, LastResults, PartitionKey};
use crate::postgres::{Client, Ended, Failure, RowTransactions, Rows, SinkOptions, Table};
use crate::{Error, Result};

/// How often a wait looks whether the run gives up.
const WAIT: Duration = Duration::from_millis(100);

/// How often it is looked whether dead letters are delivered, or a commit has ended.
const POLL: Duration = Duration::from_millis(2);

/// A table as sink of transactions that store positions.
pub(super) struct TransactionalSink {
    transactions: Arc<Transactions>,
    /// Asks the thread that commits to do so now, and ends it when it is dropped.
    commit: Sender<()>,
}

struct Transactions {
    name: String,
    table: Table,
    positions: Positions,
    batch_rows: usize,
    buffer_max: usize,
    consumer: Arc<BaseConsumer<Group>>,
    /// For the thread of the consumer, which must not wait for a commit.
    lookup: Mutex<Client>,
    /// The positions that are stored as far as this process knows.
    stored: Mutex<HashMap<PartitionKey, u64>>,
    state: Mutex<State>,
    /// Signals that a commit has ended.
    ended: Condvar,
    /// Not in the state, which a commit holds while the server is away.
    refused: Mutex<Vec<RefusedMessage>>,
    give_up: OnceLock<StopFlag>,
}

struct State {
    client: Client,
    /// The rows of the open transaction.
    rows: Rows,
    /// Whether a commit waits for dead letters, so that nothing is added to the transaction.
    is_commit_waiting: bool,
    /// The most rows of a statement.
    statement_rows: usize,
    /// The messages that these rows result from.
    last: LastResults,
    /// Results that the server does not accept, which are refused when they are read again.
    poison: Vec<Poison>,
    /// Why the sink cannot go on.
    failure: Option<String>,
}

/// A result that the server does not accept.
struct Poison {
    /// The partition by name, since it is another one when it is read again.
    partition: Arc<str>,
    position: Option<u64>,
    payload: Vec<u8>,
    reason: String,
}

impl TransactionalSink {
    pub(super) fn open(
        client: Client,
        table: Table,
        positions: Positions,
        options: &SinkOptions,
        consumer: Arc<BaseConsumer<Group>>,
        commit_interval: Duration,
    ) -> Result<Self> {
        let transactions = Arc::new(Transactions {
            name: options.name.clone(),
            table,
            positions,
            batch_rows: options.batch_rows,
            buffer_max: options.buffer_max,
            consumer: Arc::clone(&consumer),
            lookup: Mutex::new(Client::new(&options.name, &options.config)),
            stored: Mutex::default(),
            state: Mutex::new(State {
                client,
                rows: Rows::default(),
                is_commit_waiting: false,
                statement_rows: usize::MAX,
                last: LastResults::default(),
                poison: Vec::new(),
                failure: None,
            }),
            ended: Condvar::new(),
            refused: Mutex::default(),
            give_up: OnceLock::new(),
        });
        consumer.context().commit_by(Arc::downgrade(&transactions));
        let (commit, due) = bounded::<()>(1);
        let weak = Arc::downgrade(&transactions);
        let commits = move || {
            while due.recv_timeout(commit_interval) != Err(RecvTimeoutError::Disconnected) {
                let Some(transactions) = Weak::upgrade(&weak) else {
                    break;
                };
                // A failure is known to the next write.
                let _ = transactions.commit(None);
            }
        };
        let thread = thread::Builder::new().name("postgres-commit".into());
        thread
            .spawn(commits)
            .map_err(|error| Error::no_thread(&options.name, &error))?;
        Ok(Self {
            transactions,
            commit,
        })
    }
}

impl MessageSink for TransactionalSink {
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let transactions = &self.transactions;
        let mut state = transactions.lock()?;
        if let Some(failure) = &state.failure {
            return Err(io::Error::other(failure.clone()));
        }
        transactions.add(&mut state, messages, receipt);
        Ok(())
    }

    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        mem::take(&mut lock(&self.transactions.refused))
    }

    fn wait_ready(&mut self, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + timeout;
        let transactions = &self.transactions;
        let mut state = transactions.lock()?;
        loop {
            if !state.is_commit_waiting {
                if let Some(failure) = &state.failure {
                    return Err(io::Error::other(failure.clone()));
                }
                match transactions.is_full(&state) {
                    false => return Ok(true),
                    true => _ = self.commit.try_send(()),
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            state = transactions.wait(state, left);
            transactions.check()?;
        }
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<bool> {
        let committed = self.transactions.commit(Some(Instant::now() + timeout))?;
        Ok(committed.is_some())
    }

    fn attach(&mut self, give_up: &StopFlag) {
        let _ = self.transactions.give_up.set(give_up.clone());
    }
}

impl EndTransaction for Weak<Transactions> {
    fn end(&self, assignment: Assignment, after: &dyn Fn()) {
        let Some(transactions) = self.upgrade() else {
            return after();
        };
        // A failure is known to the next write. The lock is held until `after` has ended.
        let state = match assignment {
            Assignment::Revoked => match transactions.commit(None) {
                Ok(state) => state,
                Err(_) => transactions.lock().ok(),
            },
            Assignment::Lost => transactions.lock().ok().map(|mut state| {
                state.poison.clear();
                transactions.discard(&mut state, "partitions are assigned to another process");
                state
            }),
        };
        // Without the lock, the run has given up, and nothing more is written.
        after();
        drop(state);
    }

    fn stores_positions(&self) -> bool {
        true
    }

    fn positions(&self, partitions: &[PartitionKey]) -> Option<Result<Vec<Option<u64>>, String>> {
        let transactions = self.upgrade()?;
        transactions.check().ok()?;
        Some(transactions.read_positions(partitions))
    }
}

/// Nothing that holds one of these locks leaves what it protects inconsistent when it panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transactions {
    /// Waits for the lock, which a commit holds for as long as the server is away.
    fn lock(&self) -> Result<MutexGuard<'_, State>, CommitError> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return Ok(state),
                Err(TryLockError::Poisoned(error)) => return Ok(error.into_inner()),
                Err(TryLockError::WouldBlock) => self.check()?,
            }
            thread::sleep(POLL);
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, timeout: Duration) -> MutexGuard<'a, State> {
        let waited = self.ended.wait_timeout(state, timeout.min(WAIT));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Fails if the run gives up.
    fn check(&self) -> Result<(), CommitError> {
        match self.give_up.get().is_some_and(StopFlag::is_raised) {
            true => Err(CommitError::GivenUp),
            false => Ok(()),
        }
    }

    fn is_full(&self, state: &State) -> bool {
        state.failure.is_none()
            && (state.rows.len() >= self.batch_rows || state.rows.size() >= self.buffer_max)
    }

    /// Adds results to the open transaction.
    fn add(&self, state: &mut State, messages: &Messages, receipt: &Arc<Receipt>) {
        for message in messages.iter() {
            let segment = message.segment();
            let partition = receipt.partition(segment);
            if partition.is_revoked() {
                // It is read again, by this process or by another.
                continue;
            }
            let pushed = match state.take_poison(partition, &message) {
                Some(reason) => Err(reason),
                None => state.rows.push(&self.table, &message, receipt),
            };
            match pushed {
                Ok(()) => {
                    let position = message.position();
                    let position = position.expect("results of messages of Kafka have positions");
                    state.last.record(partition, position);
                    receipt.deliver(segment, 1);
                }
                Err(reason) => {
                    let refused = RefusedMessage::of(&message, receipt, reason);
                    lock(&self.refused).push(refused);
                }
            }
        }
    }

    /// Waits until the dead letters of the messages in the transaction are delivered, then commits the
    /// rows and the positions. `None` if the deadline passes before that.
    ///
    /// Rows must not become visible earlier: their positions could not be stored with them.
    fn commit(&self, deadline: Option<Instant>) -> io::Result<Option<MutexGuard<'_, State>>> {
        let mut state = self.lock()?;
        // The lock is not held meanwhile, since the run delivers dead letters.
        while state.failure.is_none() && !state.last.are_acknowledged() {
            state.is_commit_waiting = true;
            drop(state);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            self.check()?;
            thread::sleep(POLL);
            state = self.lock()?;
        }
        state.is_commit_waiting = false;
        if let Some(failure) = &state.failure {
            return Err(io::Error::other(failure.clone()));
        }
        let ended = match self.try_commit(&mut state) {
            Ok(()) => {
                state.clear();
                Ok(())
            }
            Err(CommitError::Abort(reason)) => {
                self.discard(&mut state, &reason);
                Ok(())
            }
            Err(CommitError::Fatal(reason)) => {
                state.failure = Some(reason.clone());
                Err(CommitError::Fatal(reason).into())
            }
            Err(CommitError::GivenUp) => Err(CommitError::GivenUp.into()),
        };
        self.ended.notify_all();
        ended.map(|()| Some(state))
    }

    fn try_commit(&self, state: &mut State) -> Result<(), CommitError> {
        let group = self.consumer.context();
        let positions = group.positions();
        let updates = self.updates(&positions.elements());
        let is_covered = |(partition, last): &(Arc<Partition>, u64)| {
            !partition.is_revoked()
                && updates.iter().any(|update| {
                    *update.topic == **partition.topic()
                        && update.number == partition.number()
                        && update.new > *last
                })
        };
        if !state.last.iter().all(is_covered) {
            return Err(CommitError::Abort("a partition was revoked".to_owned()));
        }
        if updates.is_empty() {
            return Ok(());
        }
        self.write(state, &updates)?;
        group.set_committed(&positions);
        let mut stored = lock(&self.stored);
        for update in updates {
            stored.insert((update.topic, update.number), update.new);
        }
        Ok(())
    }

    fn updates(
        &self,
        positions: &[rdkafka::topic_partition_list::TopicPartitionListElem<'_>],
    ) -> Vec<PositionUpdate> {
        let stored = lock(&self.stored);
        let updates = positions.iter().filter_map(|element| {
            let Offset::Offset(offset) = element.offset() else {
                return None;
            };
            let key: PartitionKey = (element.topic().into(), element.partition());
            Some(PositionUpdate {
                expected: stored.get(&key).copied(),
                topic: key.0,
                number: key.1,
                new: u64::try_from(offset).ok()?,
            })
        });
        updates.collect()
    }

    /// Writes the rows and the positions.
    fn write(&self, state: &mut State, updates: &[PositionUpdate]) -> Result<(), CommitError> {
        let store = |transaction: &mut Transaction<'_, PostgresDriver>| {
            for update in updates {
                if !self.positions.store(transaction, update)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let pause = |time: Duration| {
            let until = Instant::now() + time;
            while Instant::now() < until {
                self.check()?;
                thread::sleep(WAIT.min(until.saturating_duration_since(Instant::now())));
            }
            self.check()
        };
        let mut transactions = RowTransactions {
            client: &mut state.client,
            table: &self.table,
            statement_rows: &mut state.statement_rows,
        };
        let reason = match transactions.commit(&state.rows, store, pause)? {
            Ended::Committed => return Ok(()),
            Ended::Moved => {
                "the stored positions are not those that are expected: another process has moved \
                 them, or the answer to a COMMIT was lost"
                    .to_owned()
            }
            Ended::Refused(refused) => {
                let count = refused.len();
                let last = refused.last().map(|(_, reason)| reason.clone());
                for (index, reason) in refused {
                    state.add_poison(index, reason);
                }
                let last = last.unwrap_or_default();
                format!("rows that the server refuses: {count}; {last}")
            }
            Ended::Unclear(reason) => reason,
            Ended::Impossible(reason) => return Err(CommitError::Fatal(reason)),
        };
        Err(CommitError::Abort(reason))
    }

    /// Drops what is under way, which is read again.
    fn discard(&self, state: &mut State, reason: &str) {
        warn!(
            connector = self.name,
            reason, "the transaction is rolled back; its events are read again"
        );
        // First, so that no later result becomes part of another transaction before it is read again.
        self.consumer.context().discard();
        state.clear();
    }

    fn read_positions(&self, partitions: &[PartitionKey]) -> Result<Vec<Option<u64>>, String> {
        let found = lock(&self.lookup).run(|connection| {
            let positions = partitions
                .iter()
                .map(|(topic, number)| self.positions.read(connection, topic, *number));
            positions.collect::<lookaside_client::Result<Vec<_>>>()
        });
        let found = found.map_err(Failure::into_reason)?;
        let mut stored = lock(&self.stored);
        for (key, position) in partitions.iter().zip(&found) {
            match position {
                Some(position) => stored.insert(key.clone(), *position),
                None => stored.remove(key),
            };
        }
        Ok(found)
    }
}

impl State {
    /// Records a result that the server does not accept.
    fn add_poison(&mut self, index: usize, reason: String) {
        let (partition, position, payload) = self.rows.origin(index);
        self.poison.push(Poison {
            partition: Arc::clone(partition.name()),
            position,
            payload: payload.to_vec(),
            reason,
        });
    }

    /// Why a result is refused that was looked for when it was read before.
    fn take_poison(&mut self, partition: &Partition, message: &Message<'_>) -> Option<String> {
        let is_it = |poison: &Poison| {
            poison.partition == *partition.name()
                && poison.position == message.position()
                && Some(&*poison.payload) == message.payload()
        };
        let index = self.poison.iter().position(is_it)?;
        Some(self.poison.swap_remove(index).reason)
    }

    /// Begins the next transaction.
    fn clear(&mut self) {
        self.rows = Rows::default();
        self.last.clear();
    }
}
