//! The partitions that are assigned to a consumer, and their positions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use lookaside_stream::Partition;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, RebalanceProtocol,
};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Offset, Statistics, TopicPartitionList};
use tracing::{debug, info, warn};

use super::context::Log;
use super::start;
use crate::options::Start;

/// How long a rebalance waits for what is under way in a revoked partition, so that it is not
/// processed twice; below the session time-out, after which the partition is lost anyway.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a rebalance looks whether what is under way is delivered.
const REVOKE_POLL: Duration = Duration::from_millis(50);

/// How often it is tried to read stored positions from a server that does not answer.
const STORE_POLL: Duration = Duration::from_secs(1);

/// A topic, and the number of a partition of it.
pub(crate) type PartitionKey = (Box<str>, i32);

/// The partitions that are assigned to this consumer.
pub(crate) struct Group {
    pub(super) name: String,
    /// Where partitions begin that have no stored position.
    start: Start,
    log: Log,
    state: Mutex<State>,
    /// Set if positions are stored by transactions.
    transactions: OnceLock<Box<dyn EndTransaction>>,
    /// Whether everything is delivered that is going to be.
    is_closing: AtomicBool,
    /// Disconnected when the source is being closed.
    stopped: OnceLock<Receiver<()>>,
}

/// Transactions that include the results of partitions.
pub(crate) trait EndTransaction: Send + Sync {
    /// Ends the open transaction, since partitions are about to be revoked, and calls `after` before
    /// anything is written to another one.
    fn end(&self, assignment: Assignment, after: &dyn Fn());

    /// Whether the transactions store the positions outside of the group.
    fn stores_positions(&self) -> bool {
        false
    }

    /// The positions that the transactions have stored of these partitions, if they do; `None` if
    /// the run ends, so that they are not needed any more.
    ///
    /// # Errors
    /// The reason why they cannot be read at the moment.
    fn positions(&self, partitions: &[PartitionKey]) -> Option<Result<Vec<Option<u64>>, String>> {
        Some(Ok(vec![None; partitions.len()]))
    }
}

/// What becomes of partitions in a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// They are given up, and their positions can be stored.
    Revoked,
    /// They may have another owner already.
    Lost,
}

#[derive(Default)]
struct State {
    partitions: HashMap<PartitionKey, Assigned>,
    /// Positions to return to after an aborted transaction.
    rewinds: Vec<Rewind>,
}

/// A partition that is read again from a position, after an aborted transaction. Until then, no
/// message of it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rewind {
    key: PartitionKey,
    /// The position that was stored last as far as this process knows.
    position: u64,
}

struct Assigned {
    partition: Arc<Partition>,
    /// The position of its first message.
    first: u64,
    /// The position that was stored last.
    committed: Option<u64>,
}

impl Group {
    pub(super) fn new(name: &str, start: Start) -> Self {
        Self {
            name: name.to_owned(),
            start,
            log: Log::new(name),
            state: Mutex::default(),
            transactions: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            stopped: OnceLock::new(),
        }
    }

    /// Records that the consumer is about to leave: its partitions are not waited for any more.
    pub(super) fn close(&self) {
        // Relaxed: it is read by the same thread.
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Sets what is disconnected when the source is being closed.
    pub(super) fn set_stopped(&self, stopped: Receiver<()>) {
        let set = self.stopped.set(stopped);
        assert!(set.is_ok(), "a group has one consumer");
    }

    /// Whether the consumer is about to leave.
    pub(super) fn is_closing(&self) -> bool {
        let is_stopped = |stopped: &Receiver<()>| stopped.try_recv() != Err(TryRecvError::Empty);
        self.is_closing.load(Ordering::Relaxed) || self.stopped.get().is_some_and(is_stopped)
    }

    /// Lets transactions store the positions.
    pub(crate) fn commit_by(&self, transactions: impl EndTransaction + 'static) {
        let set = self.transactions.set(Box::new(transactions));
        assert!(set.is_ok(), "a group has one sink with transactions");
    }

    /// Whether transactions store the positions.
    pub(super) fn is_transactional(&self) -> bool {
        self.transactions.get().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partition of a message at a position, which is assigned; `None` if the message is to be
    /// read again later.
    pub(super) fn partition(&self, topic: &str, number: i32, first: u64) -> Option<Arc<Partition>> {
        let mut state = self.lock();
        let key = (topic.into(), number);
        if state.rewinds.iter().any(|rewind| rewind.key == key) {
            return None;
        }
        let new = || Assigned {
            partition: Partition::with_stable_positions(topic, number),
            first,
            committed: None,
        };
        let assigned = state.partitions.entry(key).or_insert_with(new);
        if assigned.partition.read_end() > first {
            // Its positions begin again, as those of a topic that was deleted and created.
            warn!(
                connector = self.name,
                topic,
                number,
                position = first,
                "positions went back"
            );
            assigned.partition.revoke();
            *assigned = new();
        }
        Some(Arc::clone(&assigned.partition))
    }

    /// The position up to which messages of a partition are delivered; `None` if none was read.
    pub(super) fn position(&self, topic: &str, number: i32) -> Option<u64> {
        let state = self.lock();
        let assigned = state.partitions.get(&(topic.into(), number))?;
        Some(assigned.partition.acknowledged().unwrap_or(assigned.first))
    }

    /// The positions that are acknowledged and not known to be stored.
    pub(crate) fn positions(&self) -> TopicPartitionList {
        let mut positions = TopicPartitionList::new();
        for ((topic, number), assigned) in &self.lock().partitions {
            let acknowledged = assigned.partition.acknowledged();
            if let Some(position) = acknowledged
                && acknowledged != assigned.committed
            {
                add(&mut positions, topic, *number, position);
            }
        }
        positions
    }

    /// Records that these positions are stored.
    pub(crate) fn set_committed(&self, positions: &TopicPartitionList) {
        let mut state = self.lock();
        for element in positions.elements() {
            let key = (element.topic().into(), element.partition());
            if element.error().is_err() {
                continue;
            }
            if let (Some(assigned), Offset::Offset(offset)) =
                (state.partitions.get_mut(&key), element.offset())
            {
                assigned.committed = u64::try_from(offset).ok();
            }
        }
    }

    /// Discards everything that is under way: it is read again from the positions that are stored.
    pub(crate) fn discard(&self) {
        let mut state = self.lock();
        let State {
            partitions,
            rewinds,
            ..
        } = &mut *state;
        for (key, assigned) in partitions.drain() {
            assigned.partition.revoke();
            let position = assigned.committed.unwrap_or(assigned.first);
            rewinds.push(Rewind { key, position });
        }
    }

    /// Whether transactions store the positions outside of the group.
    fn stores_positions(&self) -> bool {
        let transactions = self.transactions.get();
        transactions.is_some_and(|transactions| transactions.stores_positions())
    }

    /// The positions that transactions have stored of these partitions; waits until they can be
    /// read. `None` if the run ends before.
    fn stored_positions(&self, keys: &[PartitionKey]) -> Option<Vec<Option<u64>>> {
        let transactions = self.transactions.get()?;
        let connector = &*self.name;
        let mut has_failed = false;
        loop {
            match transactions.positions(keys)? {
                Ok(positions) => return Some(positions),
                Err(reason) if has_failed => debug!(connector, reason, "still not readable"),
                Err(reason) => warn!(connector, reason, "stored positions cannot be read"),
            }
            has_failed = true;
            thread::sleep(STORE_POLL);
        }
    }

    /// Sets the positions at which partitions begin that are being assigned; returns whether the
    /// run goes on.
    ///
    /// They are part of the assignment, since a seek is not enough: while the library looks for the
    /// first position, a seek succeeds, and the position that is found later replaces it.
    fn set_positions(&self, assigned: &mut TopicPartitionList) -> bool {
        let keys: Vec<PartitionKey> = assigned
            .elements()
            .into_iter()
            .map(|element| (element.topic().into(), element.partition()))
            .collect();
        let Some(positions) = self.stored_positions(&keys) else {
            return false;
        };
        for ((topic, number), position) in keys.iter().zip(positions) {
            if let Some(position) = position {
                let offset = i64::try_from(position).expect("offsets of Kafka are signed");
                assigned
                    .set_partition_offset(topic, *number, Offset::Offset(offset))
                    .expect("the partition is in the list");
            }
        }
        true
    }

    /// Returns to the stored positions, if something was discarded.
    pub(super) fn rewind(&self, consumer: &BaseConsumer<Self>) {
        // Not under the lock: messages are only taken by the thread that is here.
        let mut rewinds = self.lock().rewinds.clone();
        if rewinds.is_empty() {
            return;
        }
        let keys: Vec<_> = rewinds.iter().map(|rewind| rewind.key.clone()).collect();
        let stored = self.transactions.get().map(|it| it.positions(&keys));
        match stored {
            Some(Some(Ok(stored))) => {
                for (rewind, stored) in rewinds.iter_mut().zip(stored) {
                    rewind.position = stored.unwrap_or(rewind.position);
                }
            }
            // After the next poll, which keeps the consumer in its group.
            Some(Some(Err(reason))) => {
                debug!(
                    connector = self.name,
                    reason, "stored positions cannot be read"
                );
                return;
            }
            Some(None) | None => return,
        }
        let mut positions = TopicPartitionList::new();
        for Rewind { key, position } in &rewinds {
            add(&mut positions, &key.0, key.1, *position);
        }
        match consumer.seek_partitions(positions, REVOKE_TIMEOUT) {
            Ok(sought) => {
                // One that is not assigned any more begins at its stored position when it is again.
                let assigned = consumer.assignment().ok();
                let is_assigned = |topic: &str, number| {
                    let assigned = assigned.as_ref();
                    assigned.is_some_and(|list| list.find_partition(topic, number).is_some())
                };
                let failed: Vec<PartitionKey> = sought
                    .elements()
                    .into_iter()
                    .filter(|element| element.error().is_err())
                    .filter(|element| is_assigned(element.topic(), element.partition()))
                    .map(|element| (element.topic().into(), element.partition()))
                    .collect();
                // Not those that were added meanwhile.
                let is_sought = |key: &PartitionKey| {
                    rewinds.iter().any(|rewind| rewind.key == *key) && !failed.contains(key)
                };
                self.lock().rewinds.retain(|rewind| !is_sought(&rewind.key));
            }
            Err(error) => debug!(connector = self.name, %error, "cannot seek"),
        }
    }

    /// Stores the positions of revoked partitions, after waiting for what is under way in them.
    fn revoke(&self, consumer: &BaseConsumer<Self>, revoked: &TopicPartitionList) {
        let keys: Vec<PartitionKey> = revoked
            .elements()
            .into_iter()
            .map(|element| (element.topic().into(), element.partition()))
            .collect();
        let under_way: Vec<_> = {
            let state = self.lock();
            let partitions = keys.iter().filter_map(|key| state.partitions.get(key));
            partitions
                .map(|assigned| Arc::clone(&assigned.partition))
                .collect()
        };
        let deadline = Instant::now() + REVOKE_TIMEOUT;
        let wait = || {
            if self.is_closing() {
                return;
            }
            for partition in &under_way {
                while !partition.wait_settled(REVOKE_POLL) && Instant::now() < deadline {}
            }
        };
        let revoke = || under_way.iter().for_each(|partition| partition.revoke());
        let assignment = match consumer.assignment_lost() {
            true => Assignment::Lost,
            false => Assignment::Revoked,
        };
        match (self.transactions.get(), assignment) {
            // Results of revoked partitions are not written to the transaction, so that they are
            // revoked after what is under way is part of it.
            (Some(transactions), Assignment::Revoked) => {
                wait();
                transactions.end(assignment, &revoke);
            }
            (Some(transactions), Assignment::Lost) => transactions.end(assignment, &revoke),
            // What was not begun yet need not be.
            (None, Assignment::Revoked) => {
                revoke();
                wait();
                self.commit_revoked(consumer, &keys);
            }
            (None, Assignment::Lost) => revoke(),
        }
        let mut state = self.lock();
        keys.iter().for_each(|key| _ = state.partitions.remove(key));
        state.rewinds.retain(|rewind| !keys.contains(&rewind.key));
    }

    fn commit_revoked(&self, consumer: &BaseConsumer<Self>, keys: &[PartitionKey]) {
        let mut positions = TopicPartitionList::new();
        for element in self.positions().elements() {
            let key = (element.topic().into(), element.partition());
            if let (true, Offset::Offset(offset)) = (keys.contains(&key), element.offset()) {
                add(
                    &mut positions,
                    element.topic(),
                    element.partition(),
                    offset as u64,
                );
            }
        }
        if positions.count() > 0
            && let Err(error) = consumer.commit(&positions, CommitMode::Sync)
        {
            warn!(connector = self.name, %error, "positions of revoked partitions are not stored");
        }
    }
}

fn add(positions: &mut TopicPartitionList, topic: &str, number: i32, position: u64) {
    let offset = i64::try_from(position).expect("offsets of Kafka are signed");
    positions
        .add_partition_offset(topic, number, Offset::Offset(offset))
        .expect("an offset from 0 on is valid");
}

impl ClientContext for Group {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.log(level, facility, message);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.log.error(error, reason);
    }
}

impl ConsumerContext for Group {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        code: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let is_cooperative = matches!(
            consumer.rebalance_protocol(),
            RebalanceProtocol::Cooperative
        );
        let is_assign = code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if is_assign {
            let goes_on = !self.stores_positions() || self.set_positions(list);
            let is_set = |list: &mut TopicPartitionList| {
                let is_closing = || self.is_closing();
                start::set(consumer, &self.name, self.start, list, is_closing)
            };
            if !goes_on || !is_set(list) {
                *list = TopicPartitionList::new();
            }
        }
        let rebalance = match code {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Rebalance::Assign(list),
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS => Rebalance::Revoke(list),
            code => Rebalance::Error(KafkaError::Rebalance(code.into())),
        };
        self.pre_rebalance(consumer, &rebalance);
        let changed = match (is_assign, is_cooperative) {
            (true, true) => consumer.incremental_assign(list),
            (true, false) => consumer.assign(list),
            (false, true) => consumer.incremental_unassign(list),
            (false, false) => consumer.unassign(),
        };
        if let Err(error) = changed {
            warn!(connector = self.name, %error, "the assignment is not changed");
        }
        self.post_rebalance(consumer, &rebalance);
    }

    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Revoke(revoked) => self.revoke(consumer, revoked),
            Rebalance::Assign(_) => {}
            Rebalance::Error(error) => warn!(connector = self.name, %error, "rebalance failed"),
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let (change, list) = match rebalance {
            Rebalance::Assign(list) => ("assigned", list),
            Rebalance::Revoke(list) => ("revoked", list),
            Rebalance::Error(_) => return,
        };
        if list.count() > 0 {
            info!(
                connector = self.name,
                count = list.count(),
                "partitions {change}"
            );
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, positions: &TopicPartitionList) {
        match result {
            Ok(()) => self.set_committed(positions),
            // The next commit includes these positions, unless the partition has a new owner.
            Err(error) => debug!(connector = self.name, %error, "positions are not stored"),
        }
    }
}

#[cfg(test)]
mod tests {
    use lookaside_stream::{Messages, Receipt};
    use rdkafka::error::RDKafkaErrorCode;

    use super::*;

    #[test]
    fn a_position_is_offered_until_it_is_known_to_be_stored() {
        let group = Group::new("kafka://test/t", Start::Earliest);
        let deliver = |position| {
            let partition = group.partition("t", 3, position).unwrap();
            let mut messages = Messages::new();
            messages.push(&partition, position, Some(b"x"), None);
            Receipt::of(&messages).release();
        };
        deliver(7);
        let offered = |group: &Group| {
            let positions = group.positions();
            let offsets = positions.elements().into_iter().map(|it| it.offset());
            offsets.collect::<Vec<_>>()
        };
        assert_eq!(offered(&group), [Offset::Offset(8)]);
        // A rebalance may refuse a commit that the library accepted.
        let refused = KafkaError::ConsumerCommit(RDKafkaErrorCode::IllegalGeneration);
        group.commit_callback(Err(refused), &group.positions());
        assert_eq!(offered(&group), [Offset::Offset(8)]);
        group.commit_callback(Ok(()), &group.positions());
        assert_eq!(offered(&group), []);
        deliver(9);
        assert_eq!(offered(&group), [Offset::Offset(10)]);
    }

    #[test]
    fn a_topic_that_begins_again_is_another_partition() {
        let group = Group::new("kafka://test/t", Start::Earliest);
        let read = |position| {
            let partition = group.partition("t", 0, position).unwrap();
            let mut messages = Messages::new();
            messages.push(&partition, position, None, None);
            (partition, Receipt::of(&messages))
        };
        let (old, receipt) = read(7);
        let (new, _) = read(2);
        assert!(old.is_revoked() && !new.is_revoked());
        receipt.release();
        assert_eq!(
            group.positions().count(),
            0,
            "the old positions are not stored"
        );
        assert!(Arc::ptr_eq(&new, &group.partition("t", 0, 3).unwrap()));
    }

    #[test]
    fn discarded_messages_are_read_again_from_the_stored_position() {
        let group = Group::new("kafka://test/t", Start::Earliest);
        let partition = group.partition("t", 0, 5).unwrap();
        group.discard();
        assert!(partition.is_revoked());
        // Until the consumer has returned, what it polls is later than what was discarded.
        assert!(group.partition("t", 0, 6).is_none());
        // A partition of which nothing was read has nothing to return to.
        assert!(group.partition("t", 1, 9).is_some());
        let rewinds = std::mem::take(&mut group.lock().rewinds);
        let expected = Rewind {
            key: ("t".into(), 0),
            position: 5,
        };
        assert_eq!(rewinds, [expected]);
        let partition = group.partition("t", 0, 5).unwrap();
        assert!(!partition.is_revoked());
    }
}
