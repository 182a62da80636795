//! How far a source is behind what its broker has.

use std::fmt;
use std::time::{Duration, Instant};

/// How many messages of a partition are not delivered yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionLag {
    /// The topic or stream.
    pub topic: String,
    /// The number of the partition; 0 for brokers that have none.
    pub partition: i32,
    /// The messages from the first one that is not delivered on.
    pub messages: u64,
}

/// Queries a broker for the lag of each partition that is assigned to a source.
pub struct LagReader {
    /// `None` if the broker does not answer.
    query: Box<dyn FnMut() -> Option<Vec<PartitionLag>> + Send>,
    known: Vec<PartitionLag>,
    queried: Option<Instant>,
}

/// How often a broker is queried at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a broker may take to answer.
#[cfg(any(feature = "kafka", feature = "redis", feature = "nats"))]
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl LagReader {
    #[cfg(any(feature = "kafka", feature = "redis", feature = "nats"))]
    pub(crate) fn new(query: impl FnMut() -> Option<Vec<PartitionLag>> + Send + 'static) -> Self {
        Self {
            query: Box::new(query),
            known: Vec::new(),
            queried: None,
        }
    }

    /// The lags, at most a second old. If the broker does not answer within a second, they are
    /// those of the last answer. Partitions whose lag is not known are left out.
    pub fn read(&mut self) -> &[PartitionLag] {
        if self
            .queried
            .is_none_or(|queried| queried.elapsed() >= INTERVAL)
        {
            if let Some(lags) = (self.query)() {
                self.known = lags;
            }
            self.queried = Some(Instant::now());
        }
        &self.known
    }
}

impl fmt::Debug for LagReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LagReader").finish_non_exhaustive()
    }
}
