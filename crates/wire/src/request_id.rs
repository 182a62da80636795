//! Request ids: their number in the order in which they were queued.

use std::fmt;
use std::iter::FusedIterator;

/// The id of a request of one connection; a later request has a greater id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// The log-in, with which every connection begins without queuing it.
    pub const STARTUP: Self = Self(0);

    /// The number of requests that were queued on this connection before it.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Consecutively queued requests; iterates over their ids.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestIds {
    first: u64,
    end: u64,
}

impl RequestIds {
    pub(crate) fn new(first: u64, count: usize) -> Self {
        Self {
            first,
            end: first + count as u64,
        }
    }

    /// The id after the last of them.
    pub(crate) fn following(&self) -> RequestId {
        RequestId(self.end)
    }

    /// Whether `id` is one of these.
    pub fn contains(&self, id: RequestId) -> bool {
        (self.first..self.end).contains(&id.0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// The first of them.
    pub fn first(&self) -> Option<RequestId> {
        (!self.is_empty()).then_some(RequestId(self.first))
    }
}

impl Iterator for RequestIds {
    type Item = RequestId;

    fn next(&mut self) -> Option<RequestId> {
        let id = self.first()?;
        self.first += 1;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = (self.end - self.first) as usize;
        (count, Some(count))
    }
}

impl ExactSizeIterator for RequestIds {}
impl FusedIterator for RequestIds {}

impl fmt::Debug for RequestIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}..#{}", self.first, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_range_are_its_members() {
        let ids = RequestIds::new(3, 2);
        assert_eq!(ids.len(), 2);
        assert_eq!(ids.first(), Some(RequestId(3)));
        assert_eq!(
            [2, 3, 4, 5].map(|number| ids.contains(RequestId(number))),
            [false, true, true, false]
        );
        assert_eq!(ids.map(RequestId::as_u64).collect::<Vec<_>>(), [3, 4]);
        assert!(RequestIds::new(3, 0).is_empty());
        assert_eq!(RequestIds::new(3, 0).first(), None);
    }
}
