//! The TLS session of one connection, independent of its socket: converts received bytes to
//! plaintext, and plaintext to bytes to send.

use std::fmt;

use rustls::InvalidMessage;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError};
use rustls::unbuffered::{UnbufferedStatus, WriteTraffic};

use super::Tls;
use crate::caught::{self, Caught};

/// The maximum overhead of a record: RFC 5246, section 6.2.3.
const RECORD_OVERHEAD: usize = 5 + 256;

/// The maximum payload of a record.
const RECORD_SIZE_MAX: usize = 16 * 1024;

/// The limit of incomplete input of a session. rustls takes handshake messages of up to 64 KiB; the
/// rest is for the records that a message is cut into, which may be as small as a byte.
const INCOMING_SIZE_MAX: usize = 128 << 10;

/// Why a session has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client broke the protocol, or does not share a version or cipher with the server.
    Protocol(rustls::Error),
    /// rustls or the code around it panicked. The session is no longer used.
    Panic(Caught),
}

impl From<rustls::Error> for Failure {
    fn from(error: rustls::Error) -> Self {
        Self::Protocol(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => error.fmt(formatter),
            Self::Panic(caught) => write!(formatter, "panic: {}", caught.message),
        }
    }
}

/// The server's side of one connection.
pub(crate) struct TlsSession {
    tls: UnbufferedServerConnection,
    /// Input that rustls has not consumed: incomplete records, and complete ones of an incomplete
    /// handshake message. At most [`INCOMING_SIZE_MAX`] plus one read.
    pub(super) incoming: Vec<u8>,
    /// Whether anything was received.
    is_begun: bool,
    is_open: bool,
    is_end_of_input: bool,
    /// Whether the session has failed or closed; then it is not passed to rustls again. After a
    /// failure, rustls may hold positions in bytes that are gone; after we have closed, a record
    /// that does not decrypt triggers a debug assertion of rustls that no alert was sent before.
    is_over: bool,
}

/// A write that runs once the protocol allows it; returns whether it succeeded.
type Write<'w> =
    &'w mut dyn FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>) -> bool;

impl TlsSession {
    /// Creates the session of an accepted connection.
    pub(crate) fn new(tls: &Tls) -> Result<Self, rustls::Error> {
        Ok(Self {
            tls: UnbufferedServerConnection::new(tls.config.clone())?,
            incoming: Vec::new(),
            is_begun: false,
            is_open: false,
            is_end_of_input: false,
            is_over: false,
        })
    }

    /// Whether the first bytes are a plaintext request: it begins with an upper-case letter, a
    /// handshake record with the byte 22 (RFC 8446, 5.1).
    pub(crate) fn is_plain(&self, first: &[u8]) -> bool {
        !self.is_begun && first.first().is_some_and(u8::is_ascii_uppercase)
    }

    /// Whether the handshake is over, so that there may be something to [`send`](Self::send).
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the client has sent `close_notify`. A connection that ends without it may have been
    /// truncated by an attacker.
    pub(crate) fn is_end_of_input(&self) -> bool {
        self.is_end_of_input
    }

    /// Decrypts received bytes, which are overwritten, and appends the plaintext to `plain`, and
    /// bytes to send to `output`; on a failure as well, since the alert has to be sent. Input after
    /// a failure or after [`close`](Self::close) is ignored.
    pub(crate) fn receive(
        &mut self,
        cipher: &mut [u8],
        plain: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.is_begun = true;
        self.contain(output, |session, output| {
            if session.incoming.is_empty() {
                let used = session.advance(cipher, plain, output, None)?;
                session.incoming.extend_from_slice(&cipher[used..]);
            } else {
                let mut incoming = std::mem::take(&mut session.incoming);
                incoming.extend_from_slice(cipher);
                let used = session.advance(&mut incoming, plain, output, None)?;
                incoming.drain(..used);
                if !incoming.is_empty() {
                    session.incoming = incoming;
                }
            }
            if session.is_end_of_input {
                // RFC 8446, 6.1: what follows is ignored. rustls takes that alert between handshake
                // messages only, so it holds no position in what is dropped here.
                session.incoming = Vec::new();
            }
            match session.incoming.len() > INCOMING_SIZE_MAX {
                true => Err(InvalidMessage::HandshakePayloadTooLarge.into()),
                false => Ok(()),
            }
        })
    }

    /// Encrypts `plain` and appends it to `output`, in as few records as possible, usually one for
    /// all replies of a batch.
    ///
    /// # Panics
    /// Before the session is [open](Self::is_open).
    pub(crate) fn send(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Failure> {
        assert!(self.is_open, "there is nobody to send to yet");
        if plain.is_empty() {
            return Ok(());
        }
        let records = plain.len().div_ceil(RECORD_SIZE_MAX);
        let size = plain.len() + records * RECORD_OVERHEAD;
        self.write(output, &mut |traffic, output| {
            append(output, size, |space| traffic.encrypt(plain, space))
        })
    }

    /// Sends `close_notify`, and ignores further input. An error means that the session is not able
    /// to send it, so the client knows already or is gone.
    pub(crate) fn close(&mut self, output: &mut Vec<u8>) -> Result<(), Failure> {
        if !self.is_open {
            return Ok(());
        }
        let done = self.write(output, &mut |traffic, output| {
            append(output, RECORD_OVERHEAD, |space| {
                traffic.queue_close_notify(space)
            })
        });
        self.end();
        done
    }

    fn end(&mut self) {
        self.is_over = true;
        self.is_open = false;
        self.incoming = Vec::new();
    }

    /// Runs `write` after the protocol's own pending output.
    fn write(&mut self, output: &mut Vec<u8>, write: Write<'_>) -> Result<(), Failure> {
        self.contain(output, |session, output| {
            let mut incoming = std::mem::take(&mut session.incoming);
            let mut plain = Vec::new();
            let used = session.advance(&mut incoming, &mut plain, output, Some(write))?;
            incoming.drain(..used);
            session.incoming = incoming;
            // `receive` has taken all that is whole.
            assert!(plain.is_empty(), "what was received is not there twice");
            Ok(())
        })
    }

    /// Runs code that only affects this session, and ends the session if that fails or panics.
    fn contain(
        &mut self,
        output: &mut Vec<u8>,
        run: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<(), rustls::Error>,
    ) -> Result<(), Failure> {
        if self.is_over {
            return Ok(());
        }
        let size = output.len();
        let done = match caught::catch(|| run(self, output)) {
            Ok(done) => done.map_err(Failure::Protocol),
            Err(caught) => {
                // It may end in a record that is not whole.
                output.truncate(size);
                Err(Failure::Panic(caught))
            }
        };
        if done.is_err() {
            self.end();
        }
        done
    }

    /// Runs rustls until it needs more bytes, or until `write` has succeeded. Returns how many
    /// bytes were consumed.
    ///
    /// `incoming` is all that was received and not discarded, also when there is nothing new and
    /// only something to write. The parts of a handshake message stay in it until that is whole, and
    /// rustls 0.23.46 continues where the last part ended: `ConnectionCore::process_more_input` slices
    /// `buffer[progress.processed()..]`, whatever the length of the buffer that it is given. An empty
    /// one in its place panics. Its issue 1958 advises to pass an empty slice to get at
    /// `WriteTraffic`; that was before messages were joined in the caller's buffer.
    fn advance(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        output: &mut Vec<u8>,
        mut write: Option<Write<'_>>,
    ) -> Result<usize, rustls::Error> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut incoming[used..]);
            let mut is_blocked = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::PeerClosed) => self.is_end_of_input = true,
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    self.is_open = true;
                    is_blocked = true;
                    if let Some(write) = write.take()
                        && !write(&mut traffic, output)
                    {
                        return Err(rustls::Error::EncryptError);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(output, RECORD_OVERHEAD, |space| data.encode(space));
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                // More is needed, or both sides have closed. Early data is not accepted, so there
                // never is any.
                Ok(_) => is_blocked = true,
                Err(error) => {
                    let rest = &mut incoming[used + discard..];
                    self.take_alert(rest, output);
                    return Err(error);
                }
            }
            used += discard;
            if is_blocked {
                return Ok(used);
            }
        }
    }

    /// Appends the alert of a failure. While rustls has output, it returns that before it parses
    /// `rest`, where it would find the same failure again.
    fn take_alert(&mut self, rest: &mut [u8], output: &mut Vec<u8>) {
        while self.tls.wants_write() {
            match self.tls.process_tls_records(rest).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(output, RECORD_OVERHEAD, |space| data.encode(space));
                }
                // What was received before the failure is not answered.
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while traffic.next_record().is_some() {}
                }
                _ => return,
            }
        }
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("is_open", &self.is_open)
            .field("is_end_of_input", &self.is_end_of_input)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

/// Appends the output of `encode`, with more space if needed. Returns whether there was output.
fn append<E: Into<Shortage>>(
    output: &mut Vec<u8>,
    size: usize,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> bool {
    let start = output.len();
    let mut size = size;
    loop {
        output.resize(start + size, 0);
        match encode(&mut output[start..]).map_err(Into::into) {
            Ok(written) => {
                output.truncate(start + written);
                return true;
            }
            Err(Shortage(Some(required_size))) => {
                assert!(required_size > size, "enough is not enough");
                size = required_size;
            }
            Err(Shortage(None)) => {
                output.truncate(start);
                return false;
            }
        }
    }
}

/// The required space, if the output did not fit.
struct Shortage(Option<usize>);

impl From<EncodeError> for Shortage {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Self(Some(required_size))
            }
            EncodeError::AlreadyEncoded => Self(None),
        }
    }
}

impl From<EncryptError> for Shortage {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => {
                Self(Some(required_size))
            }
            EncryptError::EncryptExhausted => Self(None),
        }
    }
}
