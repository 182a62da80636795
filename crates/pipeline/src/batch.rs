//! Batches: the items that the function of a stage works on.

use std::iter::FusedIterator;
use std::marker::PhantomData;

use crate::ring::Ring;

/// Items in their slots, for a stage that changes them in place. They pass to the next stage
/// together, when the stage's function returns.
pub struct Batch<'a, T> {
    ring: &'a Ring<T>,
    from: u64,
    end: u64,
    /// It hands out `&mut T`.
    items: PhantomData<&'a mut T>,
}

impl<'a, T> Batch<'a, T> {
    /// # Safety
    ///
    /// The caller owns the `count` positions from `from` on at a stage's boundary, each of them
    /// holds an item, and both remain true while the batch lives.
    pub(crate) unsafe fn new(ring: &'a Ring<T>, from: u64, count: u64) -> Self {
        debug_assert!(count > 0, "a batch is never empty");
        debug_assert!(count <= ring.size(), "each item has a slot");
        Self {
            ring,
            from,
            end: from.wrapping_add(count),
            items: PhantomData,
        }
    }

    /// The number of items; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.end.wrapping_sub(self.from) as usize
    }

    /// The items, in the order in which they entered.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        IterMut {
            ring: self.ring,
            next: self.from,
            end: self.end,
            items: PhantomData,
        }
    }
}

impl<'a, T> IntoIterator for &'a mut Batch<'_, T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

/// The items of a batch, in place.
pub struct IterMut<'a, T> {
    ring: &'a Ring<T>,
    next: u64,
    end: u64,
    items: PhantomData<&'a mut T>,
}

impl<'a, T> Iterator for IterMut<'a, T> {
    type Item = &'a mut T;

    #[inline]
    fn next(&mut self) -> Option<&'a mut T> {
        if self.next == self.end {
            return None;
        }
        let position = self.next;
        self.next = position.wrapping_add(1);
        // SAFETY: the batch that this borrows owns the position, and the position holds an item.
        // Each position is handed out once, so the references do not alias.
        Some(unsafe { &mut *self.ring.item(position) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.end.wrapping_sub(self.next) as usize;
        (count, Some(count))
    }
}

impl<T> ExactSizeIterator for IterMut<'_, T> {}
impl<T> FusedIterator for IterMut<'_, T> {}

/// The items of the last stage: an iterator that moves them out of their slots. Items that the
/// stage's function does not take are dropped when it returns, and then the slots are free.
pub struct LastBatch<'a, T> {
    /// The items that were not moved out yet.
    rest: Batch<'a, T>,
}

impl<'a, T> LastBatch<'a, T> {
    /// # Safety
    ///
    /// As for [`Batch::new`]; and once the batch is dropped, the caller treats the positions as
    /// empty.
    pub(crate) unsafe fn new(ring: &'a Ring<T>, from: u64, count: u64) -> Self {
        // SAFETY: the caller upholds the same contract.
        let rest = unsafe { Batch::new(ring, from, count) };
        Self { rest }
    }

    /// The items that were not moved out, in place.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.rest.iter_mut()
    }
}

impl<T> Iterator for LastBatch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let Batch {
            ring, from, end, ..
        } = &mut self.rest;
        if from == end {
            return None;
        }
        let position = *from;
        *from = position.wrapping_add(1);
        // SAFETY: the batch owns the position and an item is in it. The position is removed from
        // the batch, so the item is moved out only once. A batch cannot be leaked by `mem::forget`,
        // because the crate hands out references only.
        Some(unsafe { ring.item(position).read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl<T> ExactSizeIterator for LastBatch<'_, T> {}
impl<T> FusedIterator for LastBatch<'_, T> {}

impl<T> Drop for LastBatch<'_, T> {
    fn drop(&mut self) {
        // If the `drop` of an item panics, the items after it are leaked, which is safe.
        self.for_each(drop);
    }
}
