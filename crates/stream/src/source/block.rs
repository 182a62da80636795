//! Blocks of complete records for workers, and the lanes that they are cut from.

use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use crate::mark::Mark;
use crate::message::{Messages, Receipt};
use crate::reject::LONG_LINE_KEPT_SIZE;
use crate::{Chunk, Error, Framing, Header, InputFormat, Result};

/// Bytes that were read, with room for more; the memory is initialised once and reused.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    size: usize,
}

impl Buffer {
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.size]
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The free room up to `size_max`.
    pub(crate) fn room(&mut self, size_max: usize) -> &mut [u8] {
        if self.bytes.len() < size_max {
            self.bytes.resize(size_max, 0);
        }
        &mut self.bytes[self.size..size_max]
    }

    pub(crate) fn advance(&mut self, size: usize) {
        self.size += size;
        assert!(self.size <= self.bytes.len(), "only read bytes are filled");
    }

    /// Removes the first `size` bytes.
    fn consume(&mut self, size: usize) {
        self.bytes.copy_within(size..self.size, 0);
        self.size -= size;
    }

    /// Removes the content, and frees the memory beyond `size_max` that a long record may have
    /// needed.
    fn reset(&mut self, size_max: usize) {
        self.size = 0;
        if self.bytes.len() > size_max {
            self.bytes.truncate(size_max);
            self.bytes.shrink_to_fit();
        }
    }
}

/// How a read of a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockRead {
    /// The block has records.
    Filled,
    /// There are no more.
    End,
    /// The run was stopped; an incomplete record stays in its lane.
    Stopped,
    /// The source has no records at the moment.
    Idle,
}

/// A worker's input: complete records of one source. It is reused.
#[derive(Debug, Default)]
pub(crate) struct Block {
    buffer: Buffer,
    /// The number of bytes of the buffer that are complete records.
    whole: usize,
    /// Whether a newline may end a record that was not cut yet.
    line_end_seen: bool,
    first_line: u64,
    header: Option<Arc<Header>>,
    pub(crate) source: Arc<str>,
    /// A record before these that was skipped.
    pub(crate) skipped: Option<Skipped>,
    /// The position of the source after the records, if it can be resumed.
    pub(crate) mark: Option<Mark>,
    /// The end of these records in their own file; `mark` may already be in the next file.
    pub(crate) end: Option<Mark>,
    /// The messages of a source of messages; then there are no bytes.
    pub(crate) messages: Messages,
    /// The receipt for what is delivered of the block, if the source or a sink needs it.
    pub(crate) receipt: Option<Arc<Receipt>>,
}

/// A record that was skipped.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) line: u64,
    pub(crate) cause: Skip,
    pub(crate) excerpt: Vec<u8>,
}

/// Why a record was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// It is longer than a record may be.
    TooLong,
    /// The connections of a listener together buffer more than the limit.
    Crowded,
    /// Its connection broke the protocol or ended within it, for this reason.
    Broken(String),
}

impl Block {
    /// The complete records.
    pub(crate) fn chunk(&self) -> Chunk<'_> {
        Chunk {
            bytes: &self.buffer.filled()[..self.whole],
            first_line: self.first_line,
            header: self.header.as_deref(),
        }
    }

    /// Makes the block empty, for the messages of a source.
    pub(crate) fn begin_messages(&mut self, source: &Arc<str>) {
        self.buffer.size = 0;
        self.whole = 0;
        self.skipped = None;
        self.mark = None;
        self.end = None;
        self.header = None;
        self.messages.clear();
        self.source.clone_from(source);
    }

    fn is_empty(&self) -> bool {
        self.whole == 0 && self.skipped.is_none()
    }
}

/// How records are cut, and the limits of buffering.
pub(crate) struct Cutter {
    framing: Box<dyn Framing>,
    format: InputFormat,
    pub(crate) block_size: usize,
    /// The size of the longest record and its line end; this many bytes without a complete record
    /// are too long.
    pub(crate) record_size_max: usize,
}

impl Cutter {
    pub(crate) fn new(format: &InputFormat, block_size: usize) -> Self {
        Self {
            framing: format.framing(),
            format: format.clone(),
            block_size,
            record_size_max: format.line_size_max().saturating_add(2),
        }
    }
}

/// One stream of bytes with consecutive records: a file, a pipe, a connection.
#[derive(Debug)]
pub(crate) struct Lane {
    source: Arc<str>,
    /// The beginning of a record whose end has not been read yet.
    carry: Vec<u8>,
    /// The first line of the carry, counted from 1.
    line: u64,
    /// Whether the lane is within a record that is too long.
    skipping: bool,
    header: Option<Arc<Header>>,
}

/// Whether a stream can have more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eof {
    Ahead,
    Reached,
}

/// The state of a block after adding bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It has no complete record yet.
    Partial,
    /// It may have records, and it has room.
    Open,
    /// It is ready for a worker.
    Full,
}

impl Lane {
    pub(crate) fn new(source: Arc<str>) -> Self {
        Self {
            source,
            carry: Vec::new(),
            line: 1,
            skipping: false,
            header: None,
        }
    }

    pub(crate) fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// Resumes at a later line of a stream that begins with `start`.
    ///
    /// # Errors
    /// When the beginning should be a header and is invalid.
    pub(crate) fn resume(&mut self, line: u64, start: &[u8], cutter: &Cutter) -> Result<()> {
        self.line = line;
        if cutter.format.has_header() {
            let size = cutter.framing.first(start, true).unwrap_or(start.len());
            let header = cutter.format.header(&start[..size]);
            self.header = Some(Arc::new(
                header.map_err(|error| error.in_source(&self.source))?,
            ));
        }
        Ok(())
    }

    /// How far before the read position the next record begins, and its line; `None` within a
    /// skipped record, which could not be resumed.
    pub(crate) fn rest(&self) -> Option<(usize, u64)> {
        (!self.skipping).then_some((self.carry.len(), self.line))
    }

    /// Starts a block with the incomplete record that the last one left.
    pub(crate) fn begin(&mut self, block: &mut Block, cutter: &Cutter) -> Result<Cut> {
        block.buffer.reset(cutter.block_size);
        block.whole = 0;
        block.skipped = None;
        block.mark = None;
        block.end = None;
        block.messages.clear();
        block.line_end_seen = false;
        block.source.clone_from(&self.source);
        let size = self.carry.len();
        block.buffer.room(size.max(cutter.block_size))[..size].copy_from_slice(&self.carry);
        self.carry.clear();
        self.carry.shrink_to(cutter.block_size);
        block.buffer.advance(size);
        self.look(0, block, cutter)
    }

    /// The room for the next bytes; never empty.
    pub(crate) fn room<'b>(&self, block: &'b mut Block, cutter: &Cutter) -> &'b mut [u8] {
        let size = block.buffer.size();
        let size_max = match size < cutter.block_size {
            true => cutter.block_size,
            // The size doubles, so that repeated searches for the end of a long record take linear
            // time in total.
            false => (size * 2).min(cutter.record_size_max.max(size + 1)),
        };
        block.buffer.room(size_max)
    }

    /// Processes `size` bytes that were read into the room.
    pub(crate) fn filled(
        &mut self,
        size: usize,
        block: &mut Block,
        cutter: &Cutter,
    ) -> Result<Cut> {
        let before = block.buffer.size();
        block.buffer.advance(size);
        if self.skipping {
            assert_eq!(before, 0, "nothing is held while a record is skipped");
            let Some(at) = memchr(b'\n', block.buffer.filled()) else {
                block.buffer.reset(cutter.block_size);
                return Ok(Cut::Partial);
            };
            self.end_skip(at + 1, block);
        }
        self.look(before, block, cutter)
    }

    /// Processes the new bytes of a block, which begin at `from`.
    fn look(&mut self, from: usize, block: &mut Block, cutter: &Cutter) -> Result<Cut> {
        let new = block.buffer.filled().get(from..).unwrap_or_default();
        block.line_end_seen |= memchr(b'\n', new).is_some();
        let size = block.buffer.size();
        if !block.line_end_seen && size < cutter.record_size_max {
            // Every record ends with a newline, so bytes without one complete no record.
            return Ok(Cut::Partial);
        }
        if block.line_end_seen && size < cutter.block_size {
            return Ok(Cut::Open);
        }
        self.cut(block, cutter, Eof::Ahead)?;
        block.line_end_seen = false;
        Ok(match block.is_empty() {
            true => Cut::Partial,
            false => Cut::Full,
        })
    }

    fn end_skip(&mut self, size: usize, block: &mut Block) {
        block.buffer.consume(size);
        self.line += 1;
        self.skipping = false;
    }

    /// Ends a block that is not full: cuts it after its last complete record, or after everything
    /// at the end of the stream. Returns whether it has records; if not, the block can take more
    /// bytes.
    pub(crate) fn end(&mut self, block: &mut Block, cutter: &Cutter, eof: Eof) -> Result<bool> {
        self.cut(block, cutter, eof)?;
        block.line_end_seen = false;
        Ok(!block.is_empty())
    }

    /// Stops reading a record that begins with `bytes`, up to the next newline.
    fn skip(&mut self, bytes: &[u8], cause: Skip) -> Skipped {
        self.skipping = true;
        Skipped {
            line: self.line,
            cause,
            excerpt: bytes[..bytes.len().min(LONG_LINE_KEPT_SIZE)].to_vec(),
        }
    }

    /// The number of bytes of the incomplete record.
    pub(crate) fn carry_size(&self) -> usize {
        self.carry.len()
    }

    /// Skips the incomplete record of the lane, which frees its memory.
    pub(crate) fn give_up(&mut self, block: &mut Block, cause: Skip) {
        let carry = std::mem::take(&mut self.carry);
        block.whole = 0;
        block.skipped = Some(self.skip(&carry, cause));
    }

    /// Moves the content of a block without a complete record back into the lane.
    pub(crate) fn suspend(&mut self, block: &Block) {
        assert!(block.is_empty(), "a block with records goes to a worker");
        self.carry.extend_from_slice(block.buffer.filled());
    }

    fn cut(&mut self, block: &mut Block, cutter: &Cutter, eof: Eof) -> Result<()> {
        let eof = eof == Eof::Reached;
        if cutter.format.has_header() && self.header.is_none() {
            self.take_header(block, cutter, eof)?;
        }
        let bytes = block.buffer.filled();
        block.whole = cutter.framing.whole(bytes, eof);
        block.first_line = self.line;
        block.header.clone_from(&self.header);
        if block.whole > 0 {
            let (whole, rest) = bytes.split_at(block.whole);
            self.line += memchr_iter(b'\n', whole).count() as u64;
            self.carry.extend_from_slice(rest);
        } else if bytes.len() >= cutter.record_size_max {
            block.skipped = Some(self.skip(bytes, Skip::TooLong));
            // Skipping ends at the next newline, even for a record of several lines, because its
            // real end is unknown without buffering it.
            if let Some(at) = memchr(b'\n', bytes) {
                self.carry.extend_from_slice(&bytes[at + 1..]);
                self.line += 1;
                self.skipping = false;
            }
        }
        Ok(())
    }

    fn take_header(&mut self, block: &mut Block, cutter: &Cutter, eof: bool) -> Result<()> {
        let bytes = block.buffer.filled();
        match cutter.framing.first(bytes, eof) {
            Some(size) => {
                let header = cutter.format.header(&bytes[..size]);
                self.header = Some(Arc::new(
                    header.map_err(|error| error.in_source(&self.source))?,
                ));
                self.line += memchr_iter(b'\n', &bytes[..size]).count() as u64;
                block.buffer.consume(size);
                Ok(())
            }
            None if bytes.len() >= cutter.record_size_max => Err(Error::header_too_long(
                &self.source,
                cutter.format.line_size_max(),
            )),
            None => Ok(()),
        }
    }
}
