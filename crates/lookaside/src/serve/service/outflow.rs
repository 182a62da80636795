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
    /// The head was sent, and so many bytes of the body.
    Sending { writer: BodyWriter, size: u64 },
    /// It was sent, or given up.
    Over,
}

/// Where events go.
pub(super) struct Out {
    answer: Arc<Mutex<Progress>>,
    head: Response,
    /// What the body will be in.
    coding: Encoding,
    /// There once the head was sent, unless the body goes as it is.
    packer: Option<EncodingStream>,
    /// What came out of it.
    packed: Vec<u8>,
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
            packer: None,
            packed: Vec::new(),
            size: 0,
            whole_size_max,
        }
    }

    /// Sends more of a body that is sent as it comes, in its coding.
    fn send(&mut self, writer: &mut BodyWriter, bytes: &[u8]) -> io::Result<u64> {
        let Some(packer) = &mut self.packer else {
            writer.write_all(bytes)?;
            return Ok(bytes.len() as u64);
        };
        self.packed.clear();
        packer.write(bytes, &mut self.packed);
        writer.write_all(&self.packed)?;
        Ok(self.packed.len() as u64)
    }

    /// Sends the end of such a body.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Progress::Sending { writer, size } = &mut *lock(&self.answer)
            && let Some(packer) = self.packer.take()
        {
            self.packed.clear();
            packer.finish(&mut self.packed);
            writer.write_all(&self.packed)?;
            *size += self.packed.len() as u64;
        }
        Ok(())
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
            if self.coding != Encoding::Identity {
                self.packer = Some(EncodingStream::new(self.coding, &OPTIONS));
            }
            let mut writer = deferred.stream(head);
            let size = self.send(&mut writer, &body)?;
            *progress = Progress::Sending { writer, size };
            return Ok(bytes.len());
        }
        match &mut *progress {
            Progress::Sending { writer, size } => {
                *size += self.send(writer, bytes)?;
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
