//! The newest version that earlier reads have shown.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::history::{Time, Version};

/// Collects reads in the order of their begin, and tells what those had shown that ended before a
/// later one began.
#[derive(Default)]
pub(super) struct Floor {
    /// Moment from which on a read counts, its version, its index.
    open: BinaryHeap<Reverse<(Time, Version, usize)>>,
    newest: Option<(Version, usize)>,
}

impl Floor {
    /// Adds a read that counts from a moment on.
    pub(super) fn add(&mut self, from: Time, version: Version, read: usize) {
        self.open.push(Reverse((from, version, read)));
    }

    /// The newest version that counts at a moment, which never decreases between calls, and the read
    /// that showed it.
    pub(super) fn at(&mut self, moment: Time) -> Option<(Version, usize)> {
        while let Some(Reverse((from, version, read))) = self.open.peek()
            && *from <= moment
        {
            // The first read that showed it is kept.
            if self.newest.is_none_or(|(newest, _)| newest < *version) {
                self.newest = Some((*version, *read));
            }
            self.open.pop();
        }
        self.newest
    }
}
