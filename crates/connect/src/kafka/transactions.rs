//! Exactly once from Kafka to Kafka: results and positions in one transaction.
//!
//! All results that are written between two commits, and the positions up to which they were read,
//! become visible together. If a transaction is aborted, everything that is under way is discarded
//! and read again from the positions that are stored: the partitions of these messages count as
//! revoked, so that neither the queue of the source nor the run nor this sink uses them.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use lookaside_stream::{
    Message, MessageSink, Messages, Partition, Receipt, RefusedMessage, StopFlag,
};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Statistics};
use tracing::warn;

use super::commit_error::CommitError;
use super::context::Log;
use super::delivery::{is_refused, reason_of};
use super::group::{Assignment, EndTransaction, Group};
use super::last_results::LastResults;
use super::options::{SinkOptions, refused};
use super::record::{Sent, Target};
use super::topics::limit_sizes;
use crate::{Error, Result};

/// How long one attempt of a step of a transaction waits, before it is looked whether the run gives
/// up.
const STEP_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a flush waits, before it is looked whether it is complete or a message has failed. It
/// waits for reports that the producer's own thread usually takes first, so it often waits to the end.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(1);

/// How often it is looked whether the producer's queue has room.
const QUEUE_POLL: Duration = Duration::from_millis(2);

/// How often it is looked whether dead letters of the transaction are delivered.
const RECEIPT_POLL: Duration = Duration::from_millis(2);

/// How long opening waits for the coordinator of transactions, which ends those of a predecessor.
const INIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A topic as sink of transactions.
pub(super) struct TransactionalSink {
    transactions: Arc<Transactions>,
    /// Ends the thread that commits when it is dropped.
    _stop: Sender<()>,
}

pub(super) struct Transactions {
    name: String,
    target: Target,
    producer: ThreadedProducer<Reports>,
    consumer: Arc<BaseConsumer<Group>>,
    state: Mutex<State>,
    /// Signals that no commit waits for dead letters.
    changed: Condvar,
    /// Not in the state, which a commit holds while it waits for the broker.
    refused: Mutex<Vec<RefusedMessage>>,
    give_up: OnceLock<StopFlag>,
}

#[derive(Default)]
struct State {
    is_open: bool,
    /// Whether a commit waits for dead letters, so that nothing is added to the transaction.
    is_commit_waiting: bool,
    /// The messages whose results are in the open transaction.
    last: LastResults,
    /// What the results in the open transaction come from, by their identifiers.
    sent: Vec<(Arc<Partition>, u64)>,
    /// Messages whose results the broker refuses, which aborts the transaction: when they are read
    /// again, they are refused at once.
    poison: HashSet<(Arc<str>, i32, u64)>,
    /// Why the sink cannot go on.
    failure: Option<String>,
}

/// What delivery reports say of the open transaction.
struct Reports {
    log: Log,
    failed: Mutex<Failed>,
}

#[derive(Default)]
struct Failed {
    /// The identifiers of refused messages.
    refused: Vec<usize>,
    /// Why the transaction cannot be committed.
    reason: Option<String>,
}

impl TransactionalSink {
    pub(super) fn open(
        options: SinkOptions,
        consumer: Arc<BaseConsumer<Group>>,
        commit_interval: Duration,
    ) -> Result<Self> {
        let SinkOptions {
            name,
            topic,
            mut config,
            ..
        } = options;
        limit_sizes(&mut config, &name, &topic);
        let producer: ThreadedProducer<Reports> = config
            .create_with_context(Reports {
                log: Log::new(&name),
                failed: Mutex::default(),
            })
            .map_err(|error| refused(&name, &error))?;
        super::find_topics(producer.client(), &name, std::slice::from_ref(&topic))?;
        producer.init_transactions(INIT_TIMEOUT).map_err(|error| {
            let hint = "give the user the operations DESCRIBE and WRITE on the transactional id; \
                        the broker's topic of transactions needs as many brokers as its replication \
                        factor";
            Error::unavailable(&name, &format!("transactions cannot begin: {error}"), hint)
        })?;
        let transactions = Arc::new(Transactions {
            name,
            target: Target::new(topic),
            producer,
            consumer: Arc::clone(&consumer),
            state: Mutex::default(),
            changed: Condvar::new(),
            refused: Mutex::default(),
            give_up: OnceLock::new(),
        });
        consumer.context().commit_by(Arc::downgrade(&transactions));
        let (stop, stopped) = bounded::<()>(0);
        let weak = Arc::downgrade(&transactions);
        let commits = move || {
            while stopped.recv_timeout(commit_interval) == Err(RecvTimeoutError::Timeout) {
                let Some(transactions) = Weak::upgrade(&weak) else {
                    break;
                };
                let _ = transactions.commit(None);
            }
        };
        let thread = thread::Builder::new().name("kafka-commit".into());
        thread.spawn(commits).map_err(|error| {
            let hint = "end other processes, or raise the limit of threads";
            let reason = format!("no thread can be started: {error}");
            Error::unavailable(&transactions.name, &reason, hint)
        })?;
        Ok(Self {
            transactions,
            _stop: stop,
        })
    }
}

impl MessageSink for TransactionalSink {
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        self.transactions.write(messages, receipt)
    }

    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        std::mem::take(&mut self.transactions.lock_refused())
    }

    fn wait_ready(&mut self, timeout: Duration) -> io::Result<bool> {
        self.transactions.wait_ready(timeout)
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + timeout;
        let Some(mut state) = self.transactions.commit(Some(deadline))? else {
            return Ok(false);
        };
        match state.failure.take() {
            Some(failure) => Err(io::Error::other(failure)),
            None => Ok(true),
        }
    }

    fn attach(&mut self, give_up: &StopFlag) {
        let _ = self.transactions.give_up.set(give_up.clone());
    }
}

impl Drop for TransactionalSink {
    fn drop(&mut self) {
        // Readers of committed messages wait for the end of an open transaction.
        if std::mem::take(&mut self.transactions.lock().is_open) {
            let _ = self.transactions.producer.abort_transaction(STEP_TIMEOUT);
        }
    }
}

impl EndTransaction for Weak<Transactions> {
    fn end(&self, assignment: Assignment, after: &dyn Fn()) {
        let Some(transactions) = self.upgrade() else {
            return after();
        };
        // A failure is known to the next write. The lock is held until `after` has ended.
        let _state = match assignment {
            Assignment::Revoked => match transactions.commit(None) {
                Ok(Some(state)) => state,
                Ok(None) | Err(_) => transactions.lock(),
            },
            Assignment::Lost => {
                let mut state = transactions.lock();
                let reason = "partitions are assigned to another process".to_owned();
                let _ = transactions.settle(&mut state, CommitError::Abort(reason));
                state
            }
        };
        after();
    }
}

impl Transactions {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_refused(&self) -> MutexGuard<'_, Vec<RefusedMessage>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, message: &Message<'_>, receipt: &Arc<Receipt>, reason: String) {
        self.lock_refused()
            .push(RefusedMessage::of(message, receipt, reason));
    }

    fn write(&self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(io::Error::other(failure.clone()));
        }
        if let Some(reason) = self.producer.context().failure() {
            self.settle(&mut state, CommitError::Abort(reason))?;
        }
        if let Err(error) = self.begin(&mut state) {
            return self.settle(&mut state, error);
        }
        for message in messages.iter() {
            let partition = receipt.partition(message.segment());
            if partition.is_revoked() {
                // It is read again, by this process or by another.
                continue;
            }
            let position = message.position();
            let position = position.expect("results of messages of Kafka have positions");
            let origin = (Arc::clone(partition.topic()), partition.number(), position);
            if state.poison.contains(&origin) {
                self.refuse(&message, receipt, "the broker refuses it".to_owned());
                continue;
            }
            let id = state.sent.len();
            state.sent.push((Arc::clone(partition), position));
            state.last.record(partition, position);
            match self.send(&message, id) {
                Ok(Sent::Queued) => receipt.deliver(message.segment(), 1),
                Ok(Sent::Refused(reason)) => self.refuse(&message, receipt, reason),
                // The rest of these messages is discarded with the transaction.
                Err(error) => return self.settle(&mut state, error),
            }
        }
        Ok(())
    }

    fn begin(&self, state: &mut State) -> Result<(), CommitError> {
        if !state.is_open {
            self.producer.begin_transaction().map_err(commit_error)?;
            state.is_open = true;
        }
        Ok(())
    }

    fn send(&self, message: &Message<'_>, id: usize) -> Result<Sent, CommitError> {
        let wait = || {
            self.check()?;
            thread::sleep(QUEUE_POLL);
            Ok(())
        };
        let fail = |error: KafkaError| CommitError::Abort(error.to_string());
        self.target.send(&self.producer, message, id, wait, fail)
    }

    fn check(&self) -> Result<(), CommitError> {
        match self.give_up.get().is_some_and(StopFlag::is_raised) {
            true => Err(CommitError::GivenUp),
            false => Ok(()),
        }
    }

    /// Waits while a commit waits for the delivery of dead letters.
    fn wait_ready(&self, timeout: Duration) -> io::Result<bool> {
        let is_waiting = |state: &mut State| state.is_commit_waiting;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, is_waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        if let Some(failure) = &state.failure {
            return Err(io::Error::other(failure.clone()));
        }
        Ok(!state.is_commit_waiting)
    }

    /// Waits until the dead letters of the messages in the transaction are delivered, then commits the
    /// results and the positions. `None` if the deadline passes before that.
    ///
    /// Results must not become visible earlier: their positions could not be stored with them.
    fn commit(&self, deadline: Option<Instant>) -> io::Result<Option<MutexGuard<'_, State>>> {
        let mut state = self.lock();
        // The lock is not held meanwhile, since the run delivers dead letters.
        while state.failure.is_none() && !state.last.are_acknowledged() {
            state.is_commit_waiting = true;
            drop(state);
            self.check()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            thread::sleep(RECEIPT_POLL);
            state = self.lock();
        }
        state.is_commit_waiting = false;
        self.changed.notify_all();
        if state.failure.is_some() {
            return Ok(Some(state));
        }
        match self.try_commit(&mut state) {
            Ok(()) => {}
            Err(error) => self.settle(&mut state, error)?,
        }
        Ok(Some(state))
    }

    fn try_commit(&self, state: &mut State) -> Result<(), CommitError> {
        let group = self.consumer.context();
        let positions = group.positions();
        if positions.count() == 0 && !state.is_open {
            return Ok(());
        }
        self.begin(state)?;
        loop {
            let flushed = self.producer.flush(FLUSH_TIMEOUT);
            // After a failure, the library sends nothing more of the transaction.
            if let Some(reason) = self.producer.context().failure() {
                return Err(CommitError::Abort(reason));
            }
            match flushed {
                Ok(()) if self.producer.in_flight_count() == 0 => break,
                Ok(()) | Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)) => {}
                Err(error) => return Err(commit_error(error)),
            }
            self.check()?;
        }
        if positions.count() > 0 {
            let Some(metadata) = self.consumer.group_metadata() else {
                return Err(CommitError::Abort(
                    "the consumer has left its group".to_owned(),
                ));
            };
            self.step(|| {
                let producer = &self.producer;
                producer.send_offsets_to_transaction(&positions, &metadata, STEP_TIMEOUT)
            })?;
        }
        self.step(|| self.producer.commit_transaction(STEP_TIMEOUT))?;
        group.set_committed(&positions);
        state.close();
        Ok(())
    }

    /// Repeats a step while it can be.
    fn step(&self, step: impl Fn() -> Result<(), KafkaError>) -> Result<(), CommitError> {
        loop {
            let error = match step() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match &error {
                KafkaError::Transaction(cause) if cause.is_retriable() => self.check()?,
                KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut) => self.check()?,
                _ => return Err(commit_error(error)),
            }
        }
    }

    /// Aborts the transaction if that helps; what is under way is read again.
    fn settle(&self, state: &mut State, error: CommitError) -> io::Result<()> {
        let reason = match error {
            CommitError::GivenUp => return Err(io::ErrorKind::Interrupted.into()),
            CommitError::Fatal(reason) => {
                state.failure = Some(reason.clone());
                return Err(io::Error::other(reason));
            }
            CommitError::Abort(reason) => reason,
        };
        warn!(
            connector = self.name,
            reason, "the transaction is aborted; its events are read again"
        );
        // First, so that no later result becomes part of another transaction before it is read again.
        self.consumer.context().discard();
        let poison = self.producer.context().take_refused();
        for (partition, position) in poison.into_iter().filter_map(|id| state.sent.get(id)) {
            let origin = (Arc::clone(partition.topic()), partition.number(), *position);
            state.poison.insert(origin);
        }
        if state.is_open {
            match self.step(|| self.producer.abort_transaction(STEP_TIMEOUT)) {
                Ok(()) => {}
                Err(CommitError::GivenUp) => return Err(io::ErrorKind::Interrupted.into()),
                Err(CommitError::Abort(reason) | CommitError::Fatal(reason)) => {
                    state.failure = Some(reason.clone());
                    return Err(io::Error::other(reason));
                }
            }
        }
        self.producer.context().clear();
        state.close();
        Ok(())
    }
}

impl State {
    fn close(&mut self) {
        self.is_open = false;
        self.last.clear();
        self.sent.clear();
    }
}

fn commit_error(error: KafkaError) -> CommitError {
    match &error {
        KafkaError::Transaction(cause) if cause.is_fatal() => CommitError::Fatal(error.to_string()),
        KafkaError::Transaction(cause) if cause.txn_requires_abort() => {
            CommitError::Abort(error.to_string())
        }
        KafkaError::Transaction(_) => CommitError::Fatal(error.to_string()),
        _ => CommitError::Abort(error.to_string()),
    }
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, Failed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> Option<String> {
        self.lock().reason.clone()
    }

    fn take_refused(&self) -> Vec<usize> {
        std::mem::take(&mut self.lock().refused)
    }

    fn clear(&self) {
        *self.lock() = Failed::default();
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.log(level, facility, message);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.log.error(error, reason);
    }
}

impl ProducerContext<NoCustomPartitioner> for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, id: usize) {
        let Err((error, _)) = result else {
            return;
        };
        let code = error.rdkafka_error_code();
        if matches!(
            code,
            Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)
        ) {
            return;
        }
        let mut failed = self.lock();
        if is_refused(error) {
            failed.refused.push(id);
        }
        failed.reason.get_or_insert_with(|| reason_of(error));
    }

    fn get_custom_partitioner(&self) -> Option<&NoCustomPartitioner> {
        None
    }
}
