//! Buffers of a thread that nobody uses at the moment.

/// As many buffers are kept; more are in use only while many clients are slow.
const BUFFER_COUNT_MAX: usize = 64;

/// A buffer that has grown larger is not kept: one large reply would stay for ever.
const BUFFER_SIZE_MAX: usize = 256 << 10;

/// What a new buffer has room for.
const BUFFER_SIZE: usize = 4 << 10;

/// Connections that wait hold no buffers; this is where theirs come from and go to. The last one
/// given is the next one taken, so that it is still in the processor's cache.
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            buffers: Vec::with_capacity(BUFFER_COUNT_MAX),
        }
    }

    /// An empty buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        match self.buffers.pop() {
            Some(buffer) => buffer,
            None => Vec::with_capacity(BUFFER_SIZE),
        }
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity > 0 && capacity <= BUFFER_SIZE_MAX && self.buffers.len() < BUFFER_COUNT_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}
