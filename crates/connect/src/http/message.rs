//! Messages as they are sent, and their identities.

use std::sync::Arc;

use lookaside_stream::{Message, Partition, Receipt, RefusedMessage};

/// What a message counts besides its content: its place in memory, as an estimate.
const OVERHEAD_SIZE: usize = 128;

/// A message that is to be sent.
pub(super) struct Outgoing {
    /// A line without its end.
    pub(super) payload: Box<[u8]>,
    pub(super) key: Option<Box<[u8]>>,
    /// The topic that a model has set.
    pub(super) topic: Option<Arc<str>>,
    /// Identifies the message; see [`Identities`].
    pub(super) id: String,
    pub(super) receipt: Arc<Receipt>,
    pub(super) segment: usize,
}

impl Outgoing {
    /// How many bytes it counts in a batch and in the buffer.
    pub(super) fn size(&self) -> usize {
        let key_size = self.key.as_ref().map_or(0, |key| key.len());
        OVERHEAD_SIZE + self.payload.len() + key_size + self.id.len()
    }

    pub(super) fn deliver(&self) {
        self.receipt.deliver(self.segment, 1);
    }

    pub(super) fn into_refused(self, reason: String) -> RefusedMessage {
        RefusedMessage {
            payload: Some(self.payload.into_vec()),
            key: self.key.map(<[u8]>::into_vec),
            reason,
            receipt: self.receipt,
            segment: self.segment,
        }
    }
}

/// The identities of messages.
///
/// A result of a message whose source has stable positions is identified by them in every run:
/// `TOPIC:PARTITION:OFFSET`, followed by `:N` for further results of the same message. Other results
/// are counted, after a random number for the run: what is sent twice by a run is recognised, and
/// what a later run reads again is not. The colon does not occur in topics of Kafka.
pub(super) struct Identities {
    run: u64,
    count: u64,
    /// The message that the last result was of, and how many results of it there were.
    last: Option<(Arc<Partition>, u64, u64)>,
}

impl Identities {
    pub(super) fn new() -> Self {
        Self {
            run: fastrand::u64(..),
            count: 0,
            last: None,
        }
    }

    pub(super) fn of(&mut self, message: &Message<'_>, receipt: &Receipt) -> String {
        let partition = receipt.partition(message.segment());
        let position = message.position();
        let Some(position) = position.filter(|_| partition.has_stable_positions()) else {
            self.count += 1;
            return format!("{:016x}:{}", self.run, self.count);
        };
        let count = match &mut self.last {
            Some((last, at, count)) if Arc::ptr_eq(last, partition) && *at == position => {
                *count += 1;
                *count
            }
            _ => {
                self.last = Some((Arc::clone(partition), position, 0));
                0
            }
        };
        let (topic, number) = (partition.topic(), partition.number());
        match count {
            0 => format!("{topic}:{number}:{position}"),
            _ => format!("{topic}:{number}:{position}:{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use lookaside_stream::Messages;

    use super::*;

    fn ids(partition: &Arc<Partition>, positions: &[u64]) -> Vec<String> {
        let mut identities = Identities::new();
        let mut ids = Vec::new();
        for position in positions {
            // A result has the position of its message.
            let mut messages = Messages::new();
            let own = Partition::with_stable_positions("t", 0);
            messages.push(&own, *position, Some(b"{}"), None);
            let message = messages.iter().next().unwrap();
            let mut read = Messages::new();
            read.push(partition, partition.read_end(), Some(b"{}"), None);
            ids.push(identities.of(&message, &Receipt::of(&read)));
        }
        ids
    }

    #[test]
    fn stable_positions_identify_messages_in_every_run() {
        let new = || Partition::with_stable_positions("clicks", 3);
        let expected = ["clicks:3:7", "clicks:3:7:1", "clicks:3:7:2", "clicks:3:9"];
        assert_eq!(ids(&new(), &[7, 7, 7, 9]), expected);
        assert_eq!(ids(&new(), &[7, 7, 7, 9]), expected);
    }

    #[test]
    fn other_positions_identify_messages_in_one_run() {
        let new = || Partition::new("clicks", 3);
        let (one, other) = (ids(&new(), &[7, 7]), ids(&new(), &[7, 7]));
        assert_ne!(one[0], one[1]);
        assert_ne!(one[0], other[0]);
    }
}
