//! Accounts for the memory of answers on the whole server, from their encoding until clients have
//! received them.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lookaside_http::Monitor;

use super::Shared;
use crate::serve::problem::Problem;

/// The default limit of bytes of answers that are being built or not yet sent: a few of the largest
/// answers, or hundreds of one megabyte.
const HELD_SIZE_MAX: u64 = 256 << 20;

/// The limit of a batch's answer, as a multiple of the largest request body.
pub(super) const ANSWER_GROWTH_MAX: usize = 8;

/// An answer up to this size is sent without checking the limit.
pub(super) const SMALL_ANSWER_SIZE_MAX: usize = 64 << 10;

/// The limit for answers with a given limit for bodies: two batches of the largest size fit.
pub(crate) fn held_size_max(body_size_max: usize) -> u64 {
    let largest = body_size_max.saturating_mul(ANSWER_GROWTH_MAX) as u64;
    HELD_SIZE_MAX.max(largest.saturating_mul(2))
}

impl Shared {
    /// Bytes of answers that are being built, or that clients have not received.
    // Relaxed: the numbers limit memory and synchronize nothing.
    pub(crate) fn held_size(&self) -> u64 {
        let unsent_size = self.monitor.get().map_or(0, Monitor::unsent_size);
        self.held_size.load(Ordering::Relaxed) + unsent_size
    }

    /// Returns an error if there is no room for an answer: 503 if it is temporary, 413 if the
    /// answer is too large by itself.
    pub(super) fn check_room(&self, size: usize) -> Result<(), Problem> {
        self.check_alone(size)?;
        match self.held_size().saturating_add(size as u64) <= self.held_size_max {
            true => Ok(()),
            false => Err(Problem::new(503, "too many answers are waiting to be sent")
                .retry_after(1)
                .detail(format!(
                    "answers that are being produced, and those that clients have not received, \
                     may have {} bytes together; receive answers before you send further \
                     requests",
                    self.held_size_max
                ))),
        }
    }

    /// Returns an error for an answer that is larger than the limit for all answers.
    fn check_alone(&self, size: usize) -> Result<(), Problem> {
        match size as u64 <= self.held_size_max {
            true => Ok(()),
            false => Err(Problem::new(413, "the answer is too large").detail(format!(
                "all answers together may have {} bytes, and this one alone would have more; \
                 select fewer or shorter values",
                self.held_size_max
            ))),
        }
    }
}

/// The memory accounted to one answer, released on drop.
pub(super) struct Share {
    shared: Arc<Shared>,
    size: usize,
}

impl Share {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: shared.clone(),
            size: 0,
        }
    }

    /// Adds `size` bytes, if there is room.
    pub(super) fn grow(&mut self, size: usize) -> Result<(), Problem> {
        self.shared.check_alone(self.size.saturating_add(size))?;
        self.set(self.size + size);
        let checked = self.shared.check_room(0);
        if checked.is_err() {
            self.set(self.size - size);
        }
        checked
    }

    /// Sets the size, whether there is room or not.
    pub(super) fn set(&mut self, size: usize) {
        let before = mem::replace(&mut self.size, size);
        let held_size = &self.shared.held_size;
        match size.checked_sub(before) {
            Some(more) => held_size.fetch_add(more as u64, Ordering::Relaxed),
            None => held_size.fetch_sub((before - size) as u64, Ordering::Relaxed),
        };
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_batches_at_their_limit_have_room() {
        assert_eq!(held_size_max(8 << 20), 256 << 20);
        assert_eq!(held_size_max(1 << 30), 16 << 30);
    }
}
