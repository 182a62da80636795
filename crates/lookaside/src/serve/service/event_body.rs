//! Where the events of a stream go: into one piece while they are few, then out as they come, in the
//! coding of the answer.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookaside_http::encoding::EncodingStream;
use lookaside_http::negotiate::Encoding;
use lookaside_http::{BodyWriter, Deferred, Response};

use super::coding::OPTIONS;

/// How far the answer is.
pub(super) enum Progress {
    /// Nothing was sent.
    Begun { deferred: Deferred, body: Vec<u8> },
    /// The head was sent.
    Sending(Sending),
    /// It was sent, or given up.
    Over,
}

/// An answer that is sent as it comes.
pub(super) struct Sending {
    writer: BodyWriter,
    /// There unless the body goes as it is.
    packer: Option<EncodingStream>,
    /// What came out of it.
    packed: Vec<u8>,
    /// Bytes of the body that were sent.
    size: u64,
}

impl Sending {
    fn new(writer: BodyWriter, coding: Encoding) -> Self {
        let is_packed = coding != Encoding::Identity;
        Self {
            writer,
            packer: is_packed.then(|| EncodingStream::new(coding, &OPTIONS)),
            packed: Vec::new(),
            size: 0,
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Sends more of the body, in its coding.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bytes = match &mut self.packer {
            Some(packer) => {
                self.packed.clear();
                packer.write(bytes, &mut self.packed);
                &self.packed
            }
            None => bytes,
        };
        self.writer.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Sends the last of the body, and what stands behind it; how many bytes the body had in all.
    pub(super) fn finish(
        mut self,
        last: &[u8],
        trailers: &[(&'static str, String)],
    ) -> io::Result<u64> {
        self.send_last(last)?;
        let trailers = trailers.iter().map(|(name, value)| (*name, value.as_str()));
        self.writer.finish_with_trailers(trailers);
        Ok(self.size)
    }

    /// Sends why the body ends before its end, and breaks the connection; how many bytes it had.
    pub(super) fn break_off(mut self, last: &[u8]) -> u64 {
        // The client may be gone.
        let _ = self.send_last(last);
        self.size
    }

    /// Sends the last of what there is, and all that a coding holds back.
    fn send_last(&mut self, last: &[u8]) -> io::Result<()> {
        self.send(last)?;
        if let Some(packer) = self.packer.take() {
            self.packed.clear();
            packer.finish(&mut self.packed);
            self.writer.write_all(&self.packed)?;
            self.size += self.packed.len() as u64;
        }
        Ok(())
    }
}

/// Where events go.
pub(super) struct Out {
    answer: Arc<Mutex<Progress>>,
    head: Response,
    /// What the body will be in.
    coding: Encoding,
    size: usize,
    /// Bytes of the answer before it is sent as it comes.
    whole_size_max: usize,
}

impl Out {
    pub(super) fn new(
        answer: &Arc<Mutex<Progress>>,
        head: Response,
        coding: Encoding,
        whole_size_max: usize,
    ) -> Self {
        Self {
            answer: answer.clone(),
            head,
            coding,
            size: 0,
            whole_size_max,
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let answer = self.answer.clone();
        let mut progress = lock(&answer);
        self.size += bytes.len();
        if let Progress::Begun { body, .. } = &mut *progress {
            body.extend_from_slice(bytes);
            if self.size <= self.whole_size_max {
                return Ok(bytes.len());
            }
            let begun = std::mem::replace(&mut *progress, Progress::Over);
            let Progress::Begun { deferred, body } = begun else {
                unreachable!("it was looked at a moment ago");
            };
            let head = std::mem::replace(&mut self.head, Response::new(200));
            let mut sending = Sending::new(deferred.stream(head), self.coding);
            sending.send(&body)?;
            *progress = Progress::Sending(sending);
            return Ok(bytes.len());
        }
        match &mut *progress {
            Progress::Sending(sending) => {
                sending.send(bytes)?;
                Ok(bytes.len())
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The run writes, and who started it looks afterwards; nothing is left half-done by a panic.
pub(super) fn lock(answer: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}
