//! The messages of a source that are read and not acknowledged.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Subject;
use lookaside_stream::Partition;

/// The messages under way of a partition. A consumer may deliver messages again, out of the order of
/// the stream, so their positions are counted here, in the order of reading.
pub(super) struct UnderWay {
    pub(super) partition: Arc<Partition>,
    /// The position of the first message of the queue.
    first: u64,
    messages: VecDeque<Pending>,
    /// The positions by the sequence number in the stream, so that a message that is delivered again
    /// is not passed on again.
    positions: HashMap<u64, u64>,
}

struct Pending {
    sequence: u64,
    /// Where acknowledgements are published to.
    reply: Subject,
    /// When the server began to wait for it.
    since: Instant,
}

impl UnderWay {
    pub(super) fn new(partition: Arc<Partition>) -> Self {
        Self {
            partition,
            first: 0,
            messages: VecDeque::new(),
            positions: HashMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Adds a message and returns its position; `None` if it is under way already, and was
    /// delivered again.
    pub(super) fn add(&mut self, sequence: u64, reply: Subject) -> Option<u64> {
        let pending = Pending {
            sequence,
            reply,
            since: Instant::now(),
        };
        if let Some(position) = self.positions.get(&sequence) {
            self.messages[(position - self.first) as usize] = pending;
            return None;
        }
        let position = self.first + self.messages.len() as u64;
        self.positions.insert(sequence, position);
        self.messages.push_back(pending);
        Some(position)
    }

    /// Takes the reply subject of a message that is delivered.
    pub(super) fn take_delivered(&mut self) -> Option<Subject> {
        if self.partition.acknowledged()? <= self.first {
            return None;
        }
        let pending = self
            .messages
            .pop_front()
            .expect("what is delivered was added");
        self.first += 1;
        self.positions.remove(&pending.sequence);
        Some(pending.reply)
    }

    /// The reply subjects of messages that the server has waited for at least as long; it is told
    /// to wait again.
    pub(super) fn renew(&mut self, age: Duration) -> impl Iterator<Item = Subject> {
        let now = Instant::now();
        self.messages.iter_mut().filter_map(move |pending| {
            let is_old = now - pending.since >= age;
            is_old.then(|| {
                pending.since = now;
                pending.reply.clone()
            })
        })
    }

    /// Removes all messages and returns their reply subjects.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Subject> {
        self.positions.clear();
        self.messages.drain(..).map(|pending| pending.reply)
    }
}

#[cfg(test)]
mod tests {
    use lookaside_stream::{Messages, Receipt};

    use super::*;

    #[test]
    fn delivered_messages_are_taken_and_others_renewed() {
        let partition = Partition::new("S", 0);
        let mut under_way = UnderWay::new(Arc::clone(&partition));
        let mut receipts = Vec::new();
        for (sequence, expected) in [(7, Some(0)), (9, Some(1)), (7, None), (8, Some(2))] {
            let position = under_way.add(sequence, format!("reply.{sequence}").into());
            assert_eq!(position, expected);
            let Some(position) = position else { continue };
            let mut messages = Messages::new();
            messages.push(&partition, position, Some(b"{}"), None);
            receipts.push(Receipt::of(&messages));
        }
        receipts[1].release();
        assert_eq!(under_way.take_delivered(), None);
        receipts[0].release();
        assert_eq!(under_way.take_delivered(), Some("reply.7".into()));
        assert_eq!(under_way.take_delivered(), Some("reply.9".into()));
        assert_eq!(under_way.take_delivered(), None);
        // A message that is acknowledged and delivered again is read again.
        assert_eq!(under_way.add(7, "again".into()), Some(3));
        assert_eq!(under_way.renew(Duration::from_secs(60)).count(), 0);
        assert_eq!(under_way.renew(Duration::ZERO).count(), 2);
        assert_eq!(under_way.drain().count(), 2);
    }
}
