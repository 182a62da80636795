//! The bytes between the connection and the socket, and how far they have come.

use lookaside_wire::postgres::Connection;

/// What an empty buffer keeps after a long output; a full window of short queries fits.
const SIZE_KEPT: usize = 256 * 1024;

/// Bytes that are to be written, a chunk at a time.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    written: usize,
    /// The number of the chunk in `bytes`.
    chunk: u64,
    /// The number of the last chunk of which a byte was written.
    sent_chunk: u64,
}

impl Output {
    /// What is to be written: the rest of a chunk, or the next one.
    pub(super) fn fill(&mut self, connection: &mut Connection) -> &[u8] {
        if self.written == self.bytes.len() {
            self.bytes.clear();
            if self.bytes.capacity() > SIZE_KEPT {
                self.bytes.shrink_to(SIZE_KEPT);
            }
            self.written = 0;
            connection.take_output(&mut self.bytes);
            if !self.bytes.is_empty() {
                self.chunk += 1;
            }
        }
        &self.bytes[self.written..]
    }

    pub(super) fn written(&mut self, size: usize) {
        assert!(
            size <= self.bytes.len() - self.written,
            "more written than there was"
        );
        self.written += size;
        if size > 0 {
            self.sent_chunk = self.chunk;
        }
    }

    /// The number of the chunk that will hold what is queued now.
    pub(super) fn next_chunk(&self) -> u64 {
        self.chunk + 1
    }

    /// Whether a byte of this chunk was written.
    pub(super) fn is_sent(&self, chunk: u64) -> bool {
        chunk <= self.sent_chunk
    }
}
