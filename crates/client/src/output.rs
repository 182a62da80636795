//! The output buffer between the connection and the socket.

/// The capacity that an empty buffer keeps; it fits a full window of short queries.
const SIZE_KEPT: usize = 256 * 1024;

/// Bytes to be written, one chunk at a time.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    written: usize,
    /// The number of the chunk in `bytes`.
    chunk: u64,
    /// The number of the last chunk of which a byte was written.
    sent_chunk: u64,
}

impl Output {
    /// What holds between two calls.
    fn check(&self) {
        assert!(
            self.written <= self.bytes.len(),
            "the written position is within the buffer"
        );
        assert!(
            self.sent_chunk <= self.chunk,
            "a chunk is filled before it is sent"
        );
    }

    /// Returns the bytes to write: the rest of a chunk, or the next one, which `take` appends.
    pub(crate) fn fill(&mut self, take: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        if self.written == self.bytes.len() {
            self.bytes.clear();
            if self.bytes.capacity() > SIZE_KEPT {
                self.bytes.shrink_to(SIZE_KEPT);
            }
            self.written = 0;
            take(&mut self.bytes);
            if !self.bytes.is_empty() {
                self.chunk += 1;
            }
        }
        self.check();
        &self.bytes[self.written..]
    }

    /// Whether all that was taken is written.
    pub(crate) fn is_drained(&self) -> bool {
        self.written == self.bytes.len()
    }

    pub(crate) fn written(&mut self, size: usize) {
        assert!(
            size <= self.bytes.len() - self.written,
            "more written than there was"
        );
        self.written += size;
        if size > 0 {
            self.sent_chunk = self.chunk;
        }
        self.check();
    }

    /// The number of the chunk that will hold what is queued now.
    pub(crate) fn next_chunk(&self) -> u64 {
        self.chunk + 1
    }

    /// Whether a byte of this chunk was written.
    pub(crate) fn is_sent(&self, chunk: u64) -> bool {
        chunk <= self.sent_chunk
    }
}
