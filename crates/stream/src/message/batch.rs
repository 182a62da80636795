//! Messages that are read or written together, in one buffer.

use std::sync::Arc;

use super::Partition;

/// Messages that are read or written together: the bytes of all of them are in one buffer, which is
/// reused.
///
/// ```
/// use lookaside_stream::{Messages, Partition};
///
/// let partition = Partition::new("clicks", 0);
/// let mut messages = Messages::new();
/// messages.push(&partition, 41, Some(b"{\"user\":7}"), Some(b"7"));
/// messages.push_header("trace", Some(b"abc"));
/// messages.set_timestamp(1_700_000_000_000);
/// let message = messages.iter().next().unwrap();
/// assert_eq!(message.payload(), Some(&b"{\"user\":7}"[..]));
/// assert_eq!(message.key(), Some(&b"7"[..]));
/// assert_eq!(message.headers().next().unwrap().name, "trace");
/// ```
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    headers: Vec<HeaderEntry>,
    segments: Vec<Segment>,
    topics: Vec<Arc<str>>,
    problems: Vec<Box<str>>,
    payload_size: usize,
}

/// The messages of one partition among those that were read together.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) partition: Arc<Partition>,
    /// The position of the message after them.
    pub(crate) end: u64,
}

/// A part of the buffer.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    size: usize,
}

#[derive(Debug)]
struct Entry {
    payload: Option<Span>,
    key: Option<Span>,
    /// The range of the message's headers.
    headers: (u32, u32),
    timestamp_ms: Option<i64>,
    /// The position of the message that was read; dead letters of results have none.
    position: Option<u64>,
    segment: u32,
    /// The position in `topics`, if the message names its topic.
    topic: Option<u32>,
    /// The position in `problems`, if the message cannot become an event.
    problem: Option<u32>,
}

#[derive(Debug)]
struct HeaderEntry {
    name: Span,
    value: Option<Span>,
}

/// A header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name; a message may have several headers of a name.
    pub name: &'a str,
    /// The value, which need not be text.
    pub value: Option<&'a [u8]>,
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    messages: &'a Messages,
    entry: &'a Entry,
}

/// Larger buffers are freed, so that one huge message does not keep memory permanently.
const KEPT_SIZE_MAX: usize = 8 << 20;

impl Messages {
    /// No messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The size of all payloads in bytes.
    pub fn payload_size(&self) -> usize {
        self.payload_size
    }

    /// Removes all messages and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_SIZE_MAX);
        self.entries.clear();
        self.headers.clear();
        self.segments.clear();
        self.topics.clear();
        self.problems.clear();
        self.payload_size = 0;
    }

    /// Appends a message that was read from a partition at a position. The positions of a partition
    /// ascend; they need not be consecutive.
    pub fn push(
        &mut self,
        partition: &Arc<Partition>,
        position: u64,
        payload: Option<&[u8]>,
        key: Option<&[u8]>,
    ) {
        partition.read(position);
        let segment = self.segment(partition);
        self.segments[segment].end = position + 1;
        self.push_result(segment, payload, key);
        self.last().position = Some(position);
    }

    /// Appends a result of a message of this segment of the messages that were read.
    pub(crate) fn push_result(
        &mut self,
        segment: usize,
        payload: Option<&[u8]>,
        key: Option<&[u8]>,
    ) {
        let payload = payload.map(|bytes| self.append(bytes));
        self.payload_size += payload.map_or(0, |span| span.size);
        let key = key.map(|bytes| self.append(bytes));
        let first = index(self.headers.len());
        self.entries.push(Entry {
            payload,
            key,
            headers: (first, first),
            timestamp_ms: None,
            position: None,
            segment: index(segment),
            topic: None,
            problem: None,
        });
    }

    /// Sets the position of the message that the last one results from.
    pub(crate) fn set_position(&mut self, position: Option<u64>) {
        self.last().position = position;
    }

    /// Adds a header to the last message.
    ///
    /// # Panics
    /// When there are no messages.
    pub fn push_header(&mut self, name: &str, value: Option<&[u8]>) {
        let name = self.append(name.as_bytes());
        let value = value.map(|bytes| self.append(bytes));
        self.headers.push(HeaderEntry { name, value });
        self.last().headers.1 += 1;
    }

    /// Sets the timestamp of the last message, in milliseconds since 1970.
    ///
    /// # Panics
    /// When there are no messages.
    pub fn set_timestamp(&mut self, milliseconds: i64) {
        self.last().timestamp_ms = Some(milliseconds);
    }

    /// Sets the topic that the last message is written to, in place of the one of the sink.
    ///
    /// # Panics
    /// When there are no messages.
    pub fn set_topic(&mut self, topic: &str) {
        let known = self.topics.iter().position(|known| **known == *topic);
        let place = known.unwrap_or_else(|| {
            self.topics.push(topic.into());
            self.topics.len() - 1
        });
        self.last().topic = Some(index(place));
    }

    /// Records why the last message cannot become an event, as one lower-case phrase: it is rejected
    /// with its key and headers, whatever its payload is. For sources whose messages need not have
    /// a payload at all.
    ///
    /// # Panics
    /// When there are no messages.
    pub fn set_problem(&mut self, reason: &str) {
        self.problems.push(reason.into());
        self.last().problem = Some(index(self.problems.len() - 1));
    }

    /// Removes the messages of partitions that are no longer assigned to this process. They are not
    /// on the receipt, so that they are not acknowledged either.
    pub fn remove_revoked(&mut self) {
        let is_revoked = |segment: &Segment| segment.partition.is_revoked();
        if !self.segments.iter().any(is_revoked) {
            return;
        }
        // The new position of each segment; a partition may be revoked between two looks at it.
        let mut places = Vec::new();
        let mut count = 0;
        self.segments.retain(|segment| {
            let place = (!is_revoked(segment)).then_some(count);
            places.push(place);
            count += u32::from(place.is_some());
            place.is_some()
        });
        self.entries
            .retain_mut(|entry| match places[entry.segment as usize] {
                Some(place) => {
                    entry.segment = place;
                    true
                }
                None => false,
            });
        let payloads = self.entries.iter().filter_map(|entry| entry.payload);
        self.payload_size = payloads.map(|span| span.size).sum();
    }

    /// The messages in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Message<'_>> + ExactSizeIterator {
        self.entries.iter().map(|entry| Message {
            messages: self,
            entry,
        })
    }

    /// The message at a position among these messages.
    pub(crate) fn get(&self, index: usize) -> Message<'_> {
        Message {
            messages: self,
            entry: &self.entries[index],
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segment of the partition; added if it is new.
    fn segment(&mut self, partition: &Arc<Partition>) -> usize {
        let is_it = |segment: &Segment| Arc::ptr_eq(&segment.partition, partition);
        // Messages of a partition usually follow each other.
        let known = self.entries.last().map(|entry| entry.segment as usize);
        let known = known.filter(|known| is_it(&self.segments[*known]));
        known
            .or_else(|| self.segments.iter().position(is_it))
            .unwrap_or_else(|| {
                self.segments.push(Segment {
                    partition: Arc::clone(partition),
                    end: 0,
                });
                self.segments.len() - 1
            })
    }

    fn append(&mut self, bytes: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Span {
            start,
            size: bytes.len(),
        }
    }

    fn last(&mut self) -> &mut Entry {
        self.entries.last_mut().expect("there is a message")
    }

    fn slice(&self, span: Span) -> &[u8] {
        &self.bytes[span.start..][..span.size]
    }
}

impl<'a> Message<'a> {
    /// The payload; `None` for a null payload, which deletes a key of a compacted topic.
    pub fn payload(&self) -> Option<&'a [u8]> {
        Some(self.messages.slice(self.entry.payload?))
    }

    /// The key, which usually determines the partition.
    pub fn key(&self) -> Option<&'a [u8]> {
        Some(self.messages.slice(self.entry.key?))
    }

    /// The headers in their order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = Header<'a>> + use<'a> {
        let messages = self.messages;
        let (first, end) = self.entry.headers;
        let entries = messages.headers[first as usize..end as usize].iter();
        entries.map(|entry| Header {
            name: str::from_utf8(messages.slice(entry.name)).expect("names are given as text"),
            value: entry.value.map(|span| messages.slice(span)),
        })
    }

    /// The timestamp in milliseconds since 1970, if the message has one.
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.entry.timestamp_ms
    }

    /// The topic that the message is written to, if it is not the one of the sink.
    pub fn topic(&self) -> Option<&'a Arc<str>> {
        Some(&self.messages.topics[self.entry.topic? as usize])
    }

    /// Why the message cannot become an event, if its source knows that.
    pub fn problem(&self) -> Option<&'a str> {
        Some(&self.messages.problems[self.entry.problem? as usize])
    }

    /// The position in its partition of the message that was read, or that this one results from;
    /// `None` for results of other inputs.
    pub fn position(&self) -> Option<u64> {
        self.entry.position
    }

    /// The position of a message of a source.
    ///
    /// # Panics
    /// When it is a result without a position.
    pub(crate) fn read_position(&self) -> u64 {
        self.position()
            .expect("a message that was read has a position")
    }

    /// The segment of a [`Receipt`](super::Receipt) that the message belongs to.
    pub fn segment(&self) -> usize {
        self.entry.segment as usize
    }

    /// The partition that the message was read from.
    pub(crate) fn partition(&self) -> &'a Arc<Partition> {
        &self.messages.segments[self.segment()].partition
    }
}

fn index(index: usize) -> u32 {
    u32::try_from(index).expect("fewer messages and headers than 2^32 in a batch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_revoked_partitions_are_removed_and_not_acknowledged() {
        let partitions = [0, 1, 2].map(|number| Partition::new("t", number));
        let mut messages = Messages::new();
        for position in 0..4 {
            for partition in &partitions {
                let payload = [b'0' + partition.number() as u8; 3];
                messages.push(partition, position, Some(&payload), None);
            }
        }
        partitions[1].revoke();
        messages.remove_revoked();
        assert_eq!((messages.len(), messages.payload_size()), (8, 24));
        for (index, message) in messages.iter().enumerate() {
            let number = [0, 2][index % 2];
            assert_eq!(message.partition().number(), number);
            assert_eq!(message.payload(), Some(&[b'0' + number as u8; 3][..]));
        }
        crate::Receipt::of(&messages).release();
        let acknowledged = partitions.map(|partition| partition.acknowledged());
        assert_eq!(acknowledged, [Some(4), None, Some(4)]);
    }
}
