//! What is under way of a stream.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use lookaside_stream::{Messages, Partition};
use redis::Value;

use super::entry::{Entry, EntryId, bytes};
use super::options::KEY_FIELD;

/// The header with the id of an entry.
const ID_HEADER: &str = "redis-id";

/// A stream of a source. The entries of a group may be read in any order, so their positions are
/// counted here, in the order of reading.
pub(super) struct Stream {
    pub(super) key: String,
    partition: Arc<Partition>,
    /// The position of the next message.
    position: u64,
    /// Entries that were read and are not delivered yet, with ascending positions.
    under_way: VecDeque<(u64, EntryId)>,
    /// Entries that are delivered and not acknowledged at the server yet.
    delivered: Vec<EntryId>,
    /// The entries of both, so that what is read again by this process is not passed on again.
    known: HashSet<EntryId>,
    /// Entries after this one may be pending for this consumer without being known.
    pub(super) backlog: Option<EntryId>,
    /// Entries from this one on may belong to consumers that are gone.
    pub(super) claim_from: Option<EntryId>,
}

impl Stream {
    pub(super) fn new(key: String) -> Self {
        Self {
            partition: Partition::new(&*key, 0),
            key,
            position: 0,
            under_way: VecDeque::new(),
            delivered: Vec::new(),
            known: HashSet::new(),
            backlog: None,
            claim_from: None,
        }
    }

    /// How many entries are read and not acknowledged.
    pub(super) fn known_count(&self) -> usize {
        self.known.len()
    }

    /// The entries that are read and not delivered.
    pub(super) fn under_way(&self) -> impl ExactSizeIterator<Item = EntryId> {
        self.under_way.iter().map(|(_, id)| *id)
    }

    /// The entries to acknowledge.
    pub(super) fn delivered(&mut self) -> &[EntryId] {
        let Some(acknowledged) = self.partition.acknowledged() else {
            return &self.delivered;
        };
        let is_delivered = |(position, _): &mut (u64, EntryId)| *position < acknowledged;
        while let Some((_, id)) = self.under_way.pop_front_if(is_delivered) {
            self.delivered.push(id);
        }
        &self.delivered
    }

    /// Records that the first entries to acknowledge are acknowledged.
    pub(super) fn forget(&mut self, count: usize) {
        for id in self.delivered.drain(..count) {
            self.known.remove(&id);
        }
    }

    /// Appends an entry to messages, unless it is known. An entry that is no longer in the stream
    /// is only acknowledged.
    pub(super) fn push(&mut self, entry: Entry, payload_field: &str, messages: &mut Messages) {
        let Entry { id, fields } = entry;
        if !self.known.insert(id) {
            return;
        }
        let Some(fields) = fields else {
            self.delivered.push(id);
            return;
        };
        let (pairs, _) = fields.as_chunks::<2>();
        let value_of = |wanted: &str| {
            let mut pairs = pairs.iter();
            let pair = pairs.find(|[name, _]| bytes(name) == Some(wanted.as_bytes()));
            pair.and_then(|[_, value]| bytes(value))
        };
        let (payload, key) = (value_of(payload_field), value_of(KEY_FIELD));
        self.under_way.push_back((self.position, id));
        messages.push(&self.partition, self.position, payload, key);
        self.position += 1;
        if let Ok(milliseconds) = i64::try_from(id.milliseconds) {
            messages.set_timestamp(milliseconds);
        }
        for [name, value] in pairs {
            let is_header =
                |name: &&[u8]| *name != payload_field.as_bytes() && *name != KEY_FIELD.as_bytes();
            if let Some(name) = bytes(name).filter(is_header) {
                messages.push_header(&String::from_utf8_lossy(name), bytes(value));
            }
        }
        messages.push_header(ID_HEADER, Some(id.to_string().as_bytes()));
        if payload.is_none() {
            messages.set_problem(&format!("the entry has no field `{payload_field}`"));
        }
    }
}

/// The size of the fields of an entry.
pub(super) fn size_of(entry: &Entry) -> usize {
    let fields = entry.fields.iter().flatten();
    fields
        .filter_map(|field: &Value| bytes(field))
        .map(<[u8]>::len)
        .sum()
}
