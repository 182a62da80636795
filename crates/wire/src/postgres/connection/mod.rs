//! A connection: requests in, bytes out; bytes in, events out.

mod dialogue;
mod event;
mod queue;

use crate::error::{ProtocolError, Reason, RequestError};
use crate::input::{End, Input};
use crate::limits::Limits;
use crate::postgres::auth::Credentials;
use crate::postgres::frame::{HEADER_SIZE, Header};
use crate::postgres::tls::is_foreign_greeting;
use crate::postgres::{CancelKey, Execution, Format, Request, Startup, TransactionStatus};
use crate::read::Reader;
use crate::{RequestId, RequestIds};

use dialogue::Dialogue;
pub use event::Event;
use queue::RequestKind;

/// The maximal size of a message before the log-in is complete, in bytes of its body. Until then,
/// the peer may not be a server at all; libpq accepts 30,000.
const STARTUP_MESSAGE_SIZE_MAX: usize = 64 * 1024;

/// A connection to a server, without the socket. See the [module](crate::postgres).
pub struct Connection {
    input: Input,
    dialogue: Dialogue,
    limits: Limits,
}

impl Connection {
    /// Creates a connection, which begins with the log-in; its first message is in the output.
    ///
    /// With TLS, input and output are the plaintext within it.
    ///
    /// # Errors
    ///
    /// [`RequestError::Nul`] if a name, value or password contains a NUL.
    pub fn new(
        startup: &Startup<'_>,
        credentials: Credentials,
        limits: Limits,
    ) -> Result<Self, RequestError> {
        if credentials.has_nul() {
            return Err(RequestError::Nul);
        }
        Ok(Self {
            input: Input::new(limits.message_size_max, HEADER_SIZE),
            dialogue: Dialogue::new(startup, credentials, limits.scram_iteration_count_max)?,
            limits,
        })
    }

    /// Tells the connection that the log-in happens within TLS, which began after the connection
    /// was created; see [`Credentials::tls`].
    ///
    /// # Panics
    ///
    /// When the log-in is complete.
    pub fn tls_started(&mut self, server_end_point: Option<&[u8]>) {
        self.dialogue.tls_started(server_end_point);
    }

    /// Appends a request to the output, and returns the id of its answer.
    ///
    /// # Errors
    ///
    /// A refused request does not change the connection.
    #[inline]
    pub fn queue(&mut self, request: Request<'_>) -> Result<RequestId, RequestError> {
        self.room_for(1)?;
        self.dialogue.queue(request)
    }

    /// Appends the requests of an execution, all or none, and returns the id of its Execute.
    /// `write` appends the value of each parameter and returns its format, or `None` for NULL.
    ///
    /// # Errors
    ///
    /// As [`queue`](Self::queue), and errors of `write`.
    ///
    /// # Panics
    ///
    /// When `write` removes existing bytes.
    #[inline]
    pub fn queue_execution<E: From<RequestError>>(
        &mut self,
        execution: &Execution,
        write: impl FnMut(usize, &mut Vec<u8>) -> Result<Option<Format>, E>,
    ) -> Result<RequestId, E> {
        let kinds: &[RequestKind] = if execution.is_prepared_anew() {
            &[
                RequestKind::Parse,
                RequestKind::Bind,
                RequestKind::DescribePortal,
                RequestKind::Execute,
            ]
        } else {
            &[RequestKind::Bind, RequestKind::Execute]
        };
        self.room_for(kinds.len())?;
        self.dialogue.queue_execution(execution, kinds, write)
    }

    /// Refuses requests that are not allowed in the current state, or are too many.
    fn room_for(&self, request_count: usize) -> Result<(), RequestError> {
        self.writable()?;
        if self.dialogue.queue_len() + request_count > self.limits.request_count_max {
            return Err(RequestError::QueueFull);
        }
        Ok(())
    }

    /// Makes the server send its answers so far. Without it, answers may stay in the server's
    /// buffer until the next Sync.
    ///
    /// # Errors
    ///
    /// As [`queue`](Self::queue).
    pub fn flush(&mut self) -> Result<(), RequestError> {
        self.writable()?;
        self.dialogue.flush();
        Ok(())
    }

    /// Appends data for the COPY that [`Event::CopyIn`] or [`Event::CopyBoth`] started. The former
    /// need not be split at the ends of rows; for the latter, it is one message of replication.
    ///
    /// A server that waits for rows ignores each Sync that was queued after the COPY. Such a Sync
    /// is automatically sent again when the COPY ends, and is answered once.
    ///
    /// # Errors
    ///
    /// [`RequestError::CopyClosed`] if no COPY is open, for example after it failed with
    /// [`Event::Failed`].
    pub fn copy_data(&mut self, data: &[u8]) -> Result<(), RequestError> {
        self.input.open()?;
        self.dialogue.copy_data(data)
    }

    /// Ends a COPY after its last data; [`Event::CommandComplete`] or [`Event::Failed`] follows.
    /// After [`Event::CopyBoth`], the rest of the server's data and [`Event::CopyDone`] come first.
    ///
    /// # Errors
    ///
    /// As [`copy_data`](Self::copy_data).
    pub fn copy_done(&mut self) -> Result<(), RequestError> {
        self.input.open()?;
        self.dialogue.copy_done()
    }

    /// Aborts a COPY; [`Event::Failed`] follows, with `reason` in its message.
    ///
    /// # Errors
    ///
    /// As [`copy_data`](Self::copy_data), and [`RequestError::Unsupported`] for the COPY that
    /// [`Event::CopyBoth`] started, which [`copy_done`](Self::copy_done) ends.
    pub fn copy_fail(&mut self, reason: &str) -> Result<(), RequestError> {
        self.input.open()?;
        self.dialogue.copy_fail(reason)
    }

    /// Appends the termination of the session. Queued requests are still answered, and further ones
    /// are refused.
    pub fn terminate(&mut self) {
        if self.input.open().is_ok() {
            self.dialogue.terminate();
        }
    }

    /// Appends the bytes to send to `target`. An empty `target` is swapped with the output, which
    /// copies nothing and lets both keep their memory.
    pub fn take_output(&mut self, target: &mut Vec<u8>) {
        self.dialogue.take_output(target);
    }

    /// Adds bytes that the server sent, split at any position.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.feed(bytes);
    }

    /// Space for at least `size` bytes from the server, as an alternative to [`feed`](Self::feed)
    /// that avoids a copy; must be followed by [`received`](Self::received).
    ///
    /// It is empty once the connection accepts no more.
    pub fn receive_space(&mut self, size: usize) -> &mut [u8] {
        self.input.space(size)
    }

    /// Adds `size` bytes that were read into [`receive_space`](Self::receive_space).
    ///
    /// # Panics
    ///
    /// When the space was smaller.
    pub fn received(&mut self, size: usize) {
        self.input.received(size);
    }

    /// Tells the connection that the server will send no more: the socket is at its end.
    pub fn end_of_input(&mut self) {
        self.input.close();
    }

    /// The next event, if its bytes were received.
    ///
    /// # Errors
    ///
    /// When the server violated the protocol, and then on every further call.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, ProtocolError> {
        if self.input.is_open() && !self.dialogue.is_skipping() {
            let unread = self.input.unread();
            // A fast path: an owner calls this until there is no event, usually because all bytes
            // are consumed.
            if unread.is_empty() {
                return Ok(None);
            }
            if let Some(usual) = self.dialogue.usual(unread)
                && usual.body_size() <= self.limits.message_size_max
            {
                let (message, end) = self.input.take(HEADER_SIZE + usual.body_size());
                let event = self.dialogue.usual_message(usual, &message[HEADER_SIZE..]);
                if let Err(error) = &event {
                    *end = End::Broken(*error);
                }
                return event.map(Some);
            }
        }
        self.read_event()
    }

    fn read_event(&mut self) -> Result<Option<Event<'_>>, ProtocolError> {
        if !self.input.has_more()? {
            return Ok(None);
        }
        if let Some(skipped) = self.dialogue.skipped() {
            return Ok(Some(skipped));
        }
        let header = match self.next_header() {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(self.input.is_exhausted().then_some(Event::Closed)),
            Err(error) => {
                let is_trusted = self.dialogue.is_trusted();
                let error = foreign_greeting(self.input.unread(), is_trusted).unwrap_or(error);
                self.input.fail(error);
                return Err(error);
            }
        };
        let is_trusted = self.dialogue.is_trusted();
        let (message, end) = self.input.take(header.message_size());
        if let Some(error) = foreign_greeting(message, is_trusted) {
            *end = End::Broken(error);
            return Err(error);
        }
        let body = Reader::new(header.name, &message[HEADER_SIZE..]);
        let event = self.dialogue.message(header.tag, body);
        match &event {
            Ok(Event::Fatal { .. }) => *end = End::Reported,
            Ok(_) => {}
            Err(error) => *end = End::Broken(*error),
        }
        event.map(Some)
    }

    /// The header of the next message, once it is complete.
    fn next_header(&mut self) -> Result<Option<Header>, ProtocolError> {
        while let Some(header) = Header::decode(self.input.unread())? {
            // Checked before the body is received, so that a message that would be refused is not
            // awaited.
            self.check_size(header)?;
            if header.message_size() > self.input.unread().len() {
                return Ok(None);
            }
            if header.tag != b'Z' || !self.dialogue.absorbs_ready() {
                return Ok(Some(header));
            }
            self.input.take(header.message_size());
        }
        Ok(None)
    }

    #[inline]
    fn check_size(&self, header: Header) -> Result<(), ProtocolError> {
        let size = header.body_size;
        let size_max = self.limits.message_size_max;
        let reason = if size > STARTUP_MESSAGE_SIZE_MAX && !self.dialogue.is_trusted() {
            Reason::LoginTooLong { size }
        } else if size > size_max {
            Reason::TooLong { size, size_max }
        } else {
            return Ok(());
        };
        Err(ProtocolError::new(header.name, 0, reason))
    }

    /// The queued requests without a last event. After the end of the connection, it is unknown
    /// whether the server executed them, except those whose bytes were never sent.
    pub fn unanswered(&self) -> RequestIds {
        self.dialogue.unanswered()
    }

    /// The state of the transaction after the last complete query or Sync.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.dialogue.transaction_status()
    }

    /// The key for cancelling queries, from [`Event::BackendKeyData`] on. Some proxies send none.
    pub fn cancel_key(&self) -> Option<&CancelKey> {
        self.dialogue.cancel_key()
    }

    /// Refuses requests that are not allowed in the current state.
    fn writable(&self) -> Result<(), RequestError> {
        self.input.open()?;
        self.dialogue.writable()
    }
}

/// The error if a message of the log-in is the greeting of another kind of server.
#[inline]
fn foreign_greeting(received: &[u8], is_trusted: bool) -> Option<ProtocolError> {
    let is_foreign = !is_trusted && is_foreign_greeting(received);
    is_foreign.then(|| ProtocolError::new("greeting", 0, Reason::ForeignGreeting))
}
