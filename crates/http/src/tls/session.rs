//! One connection's TLS, without its socket: what comes from the socket goes in, what the client
//! says comes out, and the other way round.

use std::fmt;

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError};
use rustls::unbuffered::{UnbufferedStatus, WriteTraffic};

use super::Tls;

/// How much a record is larger than what it carries, at most: RFC 5246, section 6.2.3.
const RECORD_OVERHEAD: usize = 5 + 256;

/// How much a record carries at most.
const RECORD_SIZE_MAX: usize = 16 * 1024;

/// Why a client and its server no longer understand each other.
pub(crate) type Failure = rustls::Error;

/// The server's side of one connection.
pub(crate) struct Session {
    tls: UnbufferedServerConnection,
    /// The beginning of what is not whole yet. At most what a handshake may take, 64 KiB, and what
    /// was read at once.
    pub(super) incoming: Vec<u8>,
    /// Whether anything was received.
    is_begun: bool,
    is_open: bool,
    is_end_of_input: bool,
}

impl Session {
    /// A connection that has been accepted.
    pub(crate) fn new(tls: &Tls) -> Result<Self, Failure> {
        Ok(Self {
            tls: UnbufferedServerConnection::new(tls.config.clone())?,
            incoming: Vec::new(),
            is_begun: false,
            is_open: false,
            is_end_of_input: false,
        })
    }

    /// Whether what came first begins a request in plain: the letter of a method, where each record
    /// of a handshake begins with the number 22 (RFC 8446, 5.1).
    pub(crate) fn is_plain(&self, first: &[u8]) -> bool {
        !self.is_begun && first.first().is_some_and(u8::is_ascii_uppercase)
    }

    /// Whether the handshake is over, so that there may be something to [`send`](Self::send).
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the client has said that it says no more. A connection that ends without that may
    /// have been cut by somebody else.
    pub(crate) fn is_end_of_input(&self) -> bool {
        self.is_end_of_input
    }

    /// Takes what came from the socket, which is overwritten, and appends what it says to `plain`,
    /// and what the socket is to send to `output`: after a failure too, since that tells the client
    /// what it was.
    pub(crate) fn receive(
        &mut self,
        cipher: &mut [u8],
        plain: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.is_begun = true;
        let done = if self.incoming.is_empty() {
            let (used, done) = self.process(cipher, plain, output);
            self.incoming.extend_from_slice(&cipher[used..]);
            done
        } else {
            let mut incoming = std::mem::take(&mut self.incoming);
            incoming.extend_from_slice(cipher);
            let (used, done) = self.process(&mut incoming, plain, output);
            incoming.drain(..used);
            if !incoming.is_empty() {
                self.incoming = incoming;
            }
            done
        };
        if done.is_err() {
            self.incoming = Vec::new();
            self.take_alert(output);
        }
        done
    }

    /// How much of `incoming` is done with, and whether all is well.
    fn process(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> (usize, Result<(), Failure>) {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut incoming[used..]);
            let mut is_blocked = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                plain.extend_from_slice(record.payload);
                            }
                            Err(error) => return (used + discard, Err(error)),
                        }
                    }
                }
                Ok(ConnectionState::PeerClosed) => self.is_end_of_input = true,
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.is_open = true;
                    is_blocked = true;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(output, RECORD_OVERHEAD, |space| data.encode(space));
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                // Early data is not accepted, so none is ever there.
                Ok(_) => is_blocked = true,
                Err(error) => return (used + discard, Err(error)),
            }
            used += discard;
            if is_blocked {
                return (used, Ok(()));
            }
        }
    }

    /// What a failure says to the client.
    fn take_alert(&mut self, output: &mut Vec<u8>) {
        loop {
            match self.tls.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(output, RECORD_OVERHEAD, |space| data.encode(space));
                }
                _ => return,
            }
        }
    }

    /// Appends to `output` what the socket is to send so that the client gets `plain`: as few
    /// records as it takes, so one for all replies of a batch.
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
        self.write(output, |traffic, output| {
            append(output, size, |space| traffic.encrypt(plain, space))
        })
    }

    /// Says that nothing more will be said.
    pub(crate) fn close(&mut self, output: &mut Vec<u8>) {
        if self.is_open {
            // A session that cannot say so has failed, and its client knows already.
            let _ = self.write(output, |traffic, output| {
                append(output, RECORD_OVERHEAD, |space| {
                    traffic.queue_close_notify(space)
                })
            });
        }
    }

    /// Runs `write` once whatever the protocol itself has to say is said.
    fn write(
        &mut self,
        output: &mut Vec<u8>,
        mut write: impl FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>) -> bool,
    ) -> Result<(), Failure> {
        loop {
            match self.tls.process_tls_records(&mut []).state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    return if write(&mut traffic, output) {
                        Ok(())
                    } else {
                        Err(Failure::EncryptError)
                    };
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    append(output, RECORD_OVERHEAD, |space| data.encode(space));
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.is_end_of_input = true,
                // It has been closed from both sides.
                _ => return Ok(()),
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("is_open", &self.is_open)
            .field("is_end_of_input", &self.is_end_of_input)
            .finish_non_exhaustive()
    }
}

/// Appends what `encode` writes, with more space if it wants more. Whether it had something to
/// write.
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

/// How much space would do, if that is what is missing.
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
