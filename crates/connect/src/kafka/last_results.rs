//! Which messages have results in a transaction, by the last ones of each partition.

use std::sync::Arc;

use lookaside_stream::Partition;

/// The partitions that have results in a transaction, each with the position of the last message
/// that has one.
///
/// Blocks pass a sink in the order of reading, so that everything before that message is delivered
/// once it is acknowledged: is in this or an earlier transaction, or among the rejects. The receipts
/// of the results do not say that: a block whose only result is a dead letter has none here.
#[derive(Default)]
pub(crate) struct LastResults(Vec<(Arc<Partition>, u64)>);

impl LastResults {
    pub(crate) fn record(&mut self, partition: &Arc<Partition>, position: u64) {
        // Results of a partition usually follow each other.
        let mut known = self.0.iter_mut().rev();
        match known.find(|(known, _)| Arc::ptr_eq(known, partition)) {
            Some((_, last)) => *last = position,
            None => self.0.push((Arc::clone(partition), position)),
        }
    }

    /// Whether these messages are acknowledged, but for partitions that are no longer assigned to
    /// this process.
    pub(crate) fn are_acknowledged(&self) -> bool {
        self.0.iter().all(|(partition, last)| {
            partition.is_revoked() || partition.acknowledged() > Some(*last)
        })
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Arc<Partition>, u64)> {
        self.0.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
