//! The output of a stream: events are collected while they are few, then sent as they are produced,
//! in the coding of the answer.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookaside_http::encoding::EncodingStream;
use lookaside_http::negotiate::Encoding;
use lookaside_http::{BodyWriter, Deferred, Response};

use super::coding::OPTIONS;

/// The progress of the answer.
pub(super) enum Progress {
    /// Nothing has been sent.
    Begun { deferred: Deferred, body: Vec<u8> },
    /// The head has been sent.
    Sending(Sending),
    /// The answer has been sent or abandoned.
    Over,
}

/// An answer that is sent as it is produced.
pub(super) struct Sending {
    writer: BodyWriter,
    /// `None` if the body is not compressed.
    packer: Option<EncodingStream>,
    /// The output of `packer`.
    packed: Vec<u8>,
    /// Bytes of the body that have been sent.
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

    /// Sends the end of the body and the trailers; returns the size of the body in bytes.
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

    /// Sends the reason why the body ends early, and aborts the connection; returns the size of the
    /// body in bytes.
    pub(super) fn break_off(mut self, last: &[u8]) -> u64 {
        // The client may have disconnected.
        let _ = self.send_last(last);
        self.size
    }

    /// Sends the last bytes, and all that the compressor holds back.
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

/// The writer that receives the events.
pub(super) struct Out {
    answer: Arc<Mutex<Progress>>,
    head: Response,
    /// The coding of the body.
    coding: Encoding,
    size: usize,
    /// The size up to which the answer is sent as a whole.
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
                unreachable!("the state was just checked");
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

/// The run writes it, and the thread that started the run reads it afterwards. Poisoning is
/// ignored: a panic leaves no inconsistent state.
pub(super) fn lock(answer: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}
