//! Gzip, RFC 1952.

use std::cell::RefCell;
use std::fmt;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use libdeflater::{CompressionLvl, Compressor};

/// Whole bodies.
pub(super) struct Buffered(Compressor);

impl Buffered {
    /// `level` is 1 to 12.
    pub(super) fn new(level: u8) -> Self {
        let level = CompressionLvl::new(level.into()).expect("a level from 1 to 12");
        Self(Compressor::new(level))
    }

    pub(super) fn compress(&mut self, body: &[u8], output: &mut Vec<u8>) {
        let start = output.len();
        let size_max = self.0.gzip_compress_bound(body.len());
        output.resize(start + size_max, 0);
        let size = self.0.gzip_compress(body, &mut output[start..]);
        output.truncate(start + size.expect("the bound is enough"));
    }
}

impl fmt::Debug for Buffered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Buffered").finish_non_exhaustive()
    }
}

/// A header without name, time and operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// How much space the output is given at a time.
const SPACE_SIZE: usize = 4 * 1024;

/// How many encoders a thread keeps, of 260 KB each.
const FREE_LIST_SIZE_MAX: usize = 4;

thread_local! {
    /// Encoders whose streams have ended on this thread, with their levels.
    static FREE_LIST: RefCell<Vec<(u8, Compress)>> = const { RefCell::new(Vec::new()) };
}

/// A body that comes in pieces.
#[derive(Debug)]
pub(super) struct Encoder {
    level: u8,
    /// `None` only while it is dropped.
    compress: Option<Compress>,
    checksum: Crc,
    is_begun: bool,
}

impl Encoder {
    /// `level` is 1 to 9.
    pub(super) fn new(level: u8) -> Self {
        let kept = FREE_LIST.with_borrow_mut(|free_list| {
            let index = free_list.iter().position(|(other, _)| *other == level)?;
            Some(free_list.swap_remove(index).1)
        });
        let new = || Compress::new(Compression::new(level.into()), false);
        Self {
            level,
            compress: Some(kept.unwrap_or_else(new)),
            checksum: Crc::new(),
            is_begun: false,
        }
    }

    pub(super) fn write(&mut self, body: &[u8], output: &mut Vec<u8>) {
        self.run(FlushCompress::None, body, output);
    }

    pub(super) fn flush(&mut self, output: &mut Vec<u8>) {
        self.run(FlushCompress::Sync, b"", output);
    }

    /// Encodes the last part of the body, and ends it.
    pub(super) fn finish(&mut self, body: &[u8], output: &mut Vec<u8>) {
        self.run(FlushCompress::Finish, body, output);
        output.extend_from_slice(&self.checksum.sum().to_le_bytes());
        output.extend_from_slice(&self.checksum.amount().to_le_bytes());
    }

    fn run(&mut self, flush: FlushCompress, mut body: &[u8], output: &mut Vec<u8>) {
        if !self.is_begun {
            self.is_begun = true;
            output.extend_from_slice(&HEADER);
        }
        self.checksum.update(body);
        let compress = self.compress.as_mut().expect("it is there until the end");
        loop {
            output.reserve(SPACE_SIZE);
            let before = compress.total_in();
            let status = compress.compress_vec(body, output, flush);
            let status = status.expect("a deflate stream in order takes everything");
            let read = usize::try_from(compress.total_in() - before).expect("a part of the body");
            body = &body[read..];
            // An encoder that leaves space has no more output.
            let is_done = body.is_empty() && output.len() < output.capacity();
            if status == Status::StreamEnd || (is_done && flush != FlushCompress::Finish) {
                return;
            }
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        let Some(mut compress) = self.compress.take() else {
            return;
        };
        compress.reset();
        // While a thread ends, its free list may be gone.
        let _ = FREE_LIST.try_with(|free_list| {
            let mut free_list = free_list.borrow_mut();
            if free_list.len() < FREE_LIST_SIZE_MAX {
                free_list.push((self.level, compress));
            }
        });
    }
}
