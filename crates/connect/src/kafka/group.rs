//! The partitions that are assigned to a consumer, and their positions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lookaside_stream::Partition;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{ClientContext, Offset, Statistics, TopicPartitionList};
use tracing::{debug, info, warn};

use super::context::Log;

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
    log: Log,
    state: Mutex<State>,
    /// Set if positions are stored by transactions.
    transactions: OnceLock<Box<dyn EndTransaction>>,
    /// Whether everything is delivered that is going to be.
    is_closing: AtomicBool,
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

    /// The positions that the transactions have stored of these partitions, if they do.
    ///
    /// # Errors
    /// The reason why they cannot be read at the moment.
    fn positions(&self, partitions: &[PartitionKey]) -> Result<Vec<Option<u64>>, String> {
        Ok(vec![None; partitions.len()])
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
    /// Partitions whose next messages are not the next ones to read.
    rewinds: Vec<Rewind>,
    /// Where partitions begin that the consumer has sought.
    starts: HashMap<PartitionKey, Start>,
    /// When stored positions could not be read last.
    failed: Option<Instant>,
}

/// A partition that is read from another position: after an aborted transaction, or since its
/// position is not stored in the group. Until then, no message of it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rewind {
    key: PartitionKey,
    /// The position of the first message that was not taken, unless transactions have stored another one.
    position: Option<u64>,
}

/// The position that a consumer has sought. While the library still looks for the first position of a
/// partition that was just assigned, it reports success, and then begins at the other position.
struct Start {
    position: u64,
    /// Whether the position was sought again, since earlier messages came.
    is_repeated: bool,
}

struct Assigned {
    partition: Arc<Partition>,
    /// The position of its first message.
    first: u64,
    /// The position that was stored last.
    committed: Option<u64>,
}

impl Group {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            log: Log::new(name),
            state: Mutex::default(),
            transactions: OnceLock::new(),
            is_closing: AtomicBool::new(false),
        }
    }

    /// Records that the consumer is about to leave: its partitions are not waited for any more.
    pub(super) fn close(&self) {
        // Relaxed: it is read by the same thread.
        self.is_closing.store(true, Ordering::Relaxed);
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
        if let Some(rewind) = state.rewinds.iter_mut().find(|rewind| rewind.key == key) {
            rewind.position.get_or_insert(first);
            return None;
        }
        if let Some(start) = state.starts.get_mut(&key)
            && first < start.position
        {
            if !start.is_repeated {
                start.is_repeated = true;
                let position = Some(start.position);
                state.rewinds.push(Rewind { key, position });
                return None;
            }
            // The topic was deleted and created, so that its positions begin again.
            state.starts.remove(&key);
            warn!(
                connector = self.name,
                topic,
                number,
                position = first,
                "positions went back"
            );
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
            starts,
            ..
        } = &mut *state;
        starts.clear();
        for (key, assigned) in partitions.drain() {
            assigned.partition.revoke();
            let position = assigned.committed.unwrap_or(assigned.first);
            rewinds.push(Rewind {
                key,
                position: Some(position),
            });
        }
    }

    /// Lets partitions that were just assigned begin at the positions that transactions have stored.
    fn begin_at_stored_positions(&self, assigned: &TopicPartitionList) {
        let mut state = self.lock();
        for element in assigned.elements() {
            let key = (element.topic().into(), element.partition());
            if state.rewinds.iter().all(|rewind| rewind.key != key) {
                state.rewinds.push(Rewind {
                    key,
                    position: None,
                });
            }
        }
    }

    /// Whether transactions store the positions outside of the group.
    fn stores_positions(&self) -> bool {
        let transactions = self.transactions.get();
        transactions.is_some_and(|transactions| transactions.stores_positions())
    }

    /// Replaces the positions by those that transactions have stored; fails until these can be read.
    fn query_positions(&self, rewinds: &mut [Rewind]) -> Result<(), ()> {
        let Some(transactions) = self.transactions.get().filter(|it| it.stores_positions()) else {
            return Ok(());
        };
        let failed = self.lock().failed;
        if failed.is_some_and(|failed| failed.elapsed() < STORE_POLL) {
            return Err(());
        }
        let keys: Vec<_> = rewinds.iter().map(|rewind| rewind.key.clone()).collect();
        let stored = transactions.positions(&keys);
        self.lock().failed = stored.is_err().then(Instant::now);
        let connector = &*self.name;
        let stored = stored.map_err(|reason| match failed {
            None => warn!(connector, reason, "stored positions cannot be read"),
            Some(_) => debug!(connector, reason, "stored positions cannot be read"),
        })?;
        for (rewind, stored) in rewinds.iter_mut().zip(stored) {
            rewind.position = stored.or(rewind.position);
        }
        Ok(())
    }

    /// Returns to the stored positions, if something was discarded.
    pub(super) fn rewind(&self, consumer: &BaseConsumer<Self>) {
        // Not under the lock: messages are only taken by the thread that is here.
        let mut rewinds = self.lock().rewinds.clone();
        if rewinds.is_empty() || self.query_positions(&mut rewinds).is_err() {
            return;
        }
        // Without a position, none is stored and no message was left out.
        let (rewinds, done): (Vec<_>, Vec<_>) = rewinds
            .into_iter()
            .partition(|rewind| rewind.position.is_some());
        let is_done = |rewind: &Rewind| done.iter().any(|done| done.key == rewind.key);
        self.lock().rewinds.retain(|rewind| !is_done(rewind));
        let mut positions = TopicPartitionList::new();
        for Rewind { key, position } in &rewinds {
            let position = position.expect("the others are done");
            add(&mut positions, &key.0, key.1, position);
        }
        if rewinds.is_empty() {
            return;
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
                let mut state = self.lock();
                state.rewinds.retain(|rewind| !is_sought(&rewind.key));
                let sought = rewinds.iter().filter(|rewind| is_sought(&rewind.key));
                sought.for_each(|rewind| state.begin_at(rewind));
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
            if self.is_closing.load(Ordering::Relaxed) {
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
        state.starts.retain(|key, _| !keys.contains(key));
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

impl State {
    /// Records that the consumer has sought a position.
    fn begin_at(&mut self, rewind: &Rewind) {
        let Some(position) = rewind.position else {
            return;
        };
        let new = Start {
            position,
            is_repeated: false,
        };
        let start = self.starts.entry(rewind.key.clone()).or_insert(new);
        start.position = position;
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
        if matches!(rebalance, Rebalance::Assign(_)) && self.stores_positions() {
            self.begin_at_stored_positions(list);
        }
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
        let group = Group::new("kafka://test/t");
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
        let group = Group::new("kafka://test/t");
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
    fn messages_before_the_position_that_was_sought_are_not_taken() {
        let group = Group::new("kafka://test/t");
        let rewind = Rewind {
            key: ("t".into(), 0),
            position: Some(5),
        };
        group.lock().begin_at(&rewind);
        // The library began at the first message nevertheless: it is sought again.
        assert!(group.partition("t", 0, 0).is_none());
        assert_eq!(group.lock().rewinds, std::slice::from_ref(&rewind));
        assert!(group.partition("t", 0, 1).is_none());
        group.lock().rewinds.clear();
        group.lock().begin_at(&rewind);
        assert!(group.partition("t", 0, 5).is_some());
        // A topic that was created again has no such position.
        group.lock().partitions.clear();
        assert!(group.partition("t", 0, 0).is_some());
        group.discard();
        assert!(group.lock().starts.is_empty());
    }

    #[test]
    fn discarded_messages_are_read_again_from_the_stored_position() {
        let group = Group::new("kafka://test/t");
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
            position: Some(5),
        };
        assert_eq!(rewinds, [expected]);
        let partition = group.partition("t", 0, 5).unwrap();
        assert!(!partition.is_revoked());
    }
}
