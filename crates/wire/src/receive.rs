//! The receive buffer, in which messages are decoded in place.
//!
//! ```text
//!   0          start             end                bytes.len()
//!   │ consumed │ unread           │ space to write to │
//! ```

/// The size that an empty buffer keeps after a long message; enough for many ordinary rows.
const SIZE_KEPT: usize = 256 * 1024;

/// The minimal size of the buffer: a read of this size can return hundreds of small answers.
const SIZE_MIN: usize = 16 * 1024;

/// Bytes between the socket and the decoder.
#[derive(Default)]
pub(crate) struct ReceiveBuffer {
    /// All of it is initialised, so that a reader may write to any part of it.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    /// The received bytes that were not consumed.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// As [`Self::unread`], for data that must be rearranged before it can be read in place.
    pub(crate) fn unread_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Consumes `size` unread bytes; they stay readable until something is received.
    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> &[u8] {
        assert!(size <= self.end - self.start, "taken before it came");
        let start = self.start;
        self.start += size;
        &self.bytes[start..self.start]
    }

    /// Space for at least `size` bytes, to be followed by [`received`](Self::received).
    pub(crate) fn space(&mut self, size: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > SIZE_KEPT && size <= SIZE_KEPT {
                self.bytes.truncate(SIZE_KEPT);
                self.bytes.shrink_to_fit();
            }
        }
        if self.bytes.len() - self.end < size {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let size_needed = self.end + size;
        if self.bytes.len() < size_needed {
            // The size doubles, so that a long message is not moved for each piece of it.
            let size_new = size_needed.max(2 * self.end).max(SIZE_MIN);
            self.bytes.resize(size_new, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Adds `size` bytes that were written to the space.
    pub(crate) fn received(&mut self, size: usize) {
        assert!(
            size <= self.bytes.len() - self.end,
            "more received than there was room for"
        );
        self.end += size;
    }

    /// Appends a copy of `bytes`.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.space(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.received(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut buffer = ReceiveBuffer::default();
        let mut model = Vec::new();
        for step in 0..20_000 {
            if random.bool() {
                let size = random.usize(..3_000);
                let bytes: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
                buffer.feed(&bytes);
                model.extend_from_slice(&bytes);
            } else {
                let size = random.usize(..=model.len());
                assert_eq!(buffer.take(size), &model[..size], "step {step}");
                model.drain(..size);
            }
            assert_eq!(buffer.unread(), model, "step {step}");
        }
    }

    #[test]
    fn a_buffer_that_is_drained_does_not_grow() {
        let mut buffer = ReceiveBuffer::default();
        for _ in 0..10_000 {
            buffer.feed(&[7; 1_000]);
            buffer.take(990);
            buffer.take(10);
        }
        assert_eq!(buffer.bytes.len(), SIZE_MIN);
    }

    #[test]
    fn a_long_message_does_not_stay() {
        let mut buffer = ReceiveBuffer::default();
        buffer.feed(&vec![7; 8 << 20]);
        assert_eq!(buffer.take(8 << 20).len(), 8 << 20);
        buffer.feed(b"next");
        assert_eq!(buffer.unread(), b"next");
        assert_eq!(buffer.bytes.capacity(), SIZE_KEPT);
    }
}
