//! From a data file to UTF-8 bytes: counted, decompressed, transcoded.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};

/// The number of bytes read from the file at once; large enough that system calls do not show in a
/// profile.
const READ_SIZE: usize = 256 << 10;

/// Reads the bytes of a data file.
pub(super) type Source = Box<dyn Read + Send>;

/// The position in a file; shared with the reader at the bottom of the stack of readers.
#[derive(Debug, Default)]
pub(super) struct FilePosition(AtomicU64);

impl FilePosition {
    /// Bytes read from the file.
    pub(super) fn bytes_read(&self) -> u64 {
        // Relaxed: the number is only shown.
        self.0.load(Ordering::Relaxed)
    }
}

/// Opens a data file, and decompresses it if its name ends in a known suffix.
pub(super) fn open(path: &Path, position: &Arc<FilePosition>) -> io::Result<Source> {
    let file = Counted {
        file: File::open(path)?,
        position: Arc::clone(position),
    };
    let file = BufReader::with_capacity(READ_SIZE, file);
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    Ok(match suffix.map(str::to_ascii_lowercase).as_deref() {
        Some("gz") => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        Some("zst") => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        _ => Box::new(file),
    })
}

/// Reads up to `size` first bytes, and returns them with a reader of all bytes. It reads no more
/// than once: a later error belongs to a later line.
pub(super) fn with_head(mut bytes: Source, size: usize) -> io::Result<(Vec<u8>, Source)> {
    let mut head = vec![0; size];
    let size = loop {
        match bytes.read(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    head.truncate(size);
    let whole = Cursor::new(head.clone()).chain(bytes);
    Ok((head, Box::new(whole)))
}

/// Decodes bytes to UTF-8; UTF-8 itself is passed through.
pub(super) fn decoded(bytes: Source, encoding: &'static Encoding) -> Source {
    if encoding == UTF_8 {
        bytes
    } else {
        Box::new(Transcoded::new(bytes, encoding))
    }
}

struct Counted {
    file: File,
    position: Arc<FilePosition>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.file.read(buffer)?;
        self.position.0.fetch_add(size as u64, Ordering::Relaxed);
        Ok(size)
    }
}

/// Transcodes text to UTF-8. Bytes that are invalid in the encoding are an error, because a key
/// with a replacement character could never be found.
struct Transcoded<R> {
    bytes: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    buffer: Box<[u8]>,
    /// The part of the buffer that is not decoded yet.
    rest: std::ops::Range<usize>,
    state: TranscodeState,
}

#[derive(PartialEq, Eq)]
enum TranscodeState {
    Reading,
    /// The bytes have ended, but the decoder may still have output.
    Ended,
    Malformed,
    Done,
}

impl<R: Read> Transcoded<R> {
    fn new(bytes: R, encoding: &'static Encoding) -> Self {
        Self {
            bytes,
            encoding,
            decoder: encoding.new_decoder_with_bom_removal(),
            buffer: vec![0; READ_SIZE].into(),
            rest: 0..0,
            state: TranscodeState::Reading,
        }
    }
}

impl<R: Read> Read for Transcoded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        assert!(
            out.len() >= 8,
            "room for one character; callers read into large buffers"
        );
        loop {
            match self.state {
                TranscodeState::Done => return Ok(0),
                TranscodeState::Malformed => {
                    let message = format!("bytes that are not {}", self.encoding.name());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                TranscodeState::Reading if self.rest.is_empty() => {
                    self.rest = 0..self.bytes.read(&mut self.buffer)?;
                    if self.rest.is_empty() {
                        self.state = TranscodeState::Ended;
                    }
                }
                TranscodeState::Reading | TranscodeState::Ended => {}
            }
            let last = self.state == TranscodeState::Ended;
            let input = &self.buffer[self.rest.clone()];
            let (result, read, written) = self
                .decoder
                .decode_to_utf8_without_replacement(input, out, last);
            self.rest.start += read;
            match result {
                DecoderResult::Malformed(..) => self.state = TranscodeState::Malformed,
                DecoderResult::InputEmpty if last => self.state = TranscodeState::Done,
                DecoderResult::InputEmpty | DecoderResult::OutputFull => {}
            }
            if written > 0 {
                return Ok(written);
            }
        }
    }
}
