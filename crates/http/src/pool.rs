//! The unused buffers of a thread.

/// The number of buffers that are kept; more are in use only while many clients are slow.
const BUFFER_COUNT_MAX: usize = 64;

/// A buffer that has grown beyond this is freed: otherwise one large reply would occupy its memory
/// permanently.
const BUFFER_SIZE_MAX: usize = 256 << 10;

/// The capacity of a new buffer.
const BUFFER_SIZE: usize = 4 << 10;

// A new buffer is one that is kept.
const _: () = assert!(BUFFER_SIZE <= BUFFER_SIZE_MAX);

/// Idle connections hold no buffers; they take them from this pool and return them. The last buffer
/// returned is taken next, since it is still in the processor's cache.
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            buffers: Vec::with_capacity(BUFFER_COUNT_MAX),
        }
    }

    /// Takes an empty buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        match self.buffers.pop() {
            Some(buffer) => {
                debug_assert!(buffer.is_empty(), "a kept buffer is empty");
                buffer
            }
            None => Vec::with_capacity(BUFFER_SIZE),
        }
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity > 0 && capacity <= BUFFER_SIZE_MAX && self.buffers.len() < BUFFER_COUNT_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
        debug_assert!(
            self.buffers.len() <= BUFFER_COUNT_MAX,
            "the number of buffers is bounded"
        );
    }
}
