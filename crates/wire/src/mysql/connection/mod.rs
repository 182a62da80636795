//! A connection: requests in, bytes out; bytes in, events out.

mod dialogue;
mod event;
mod login;
mod metadata;
mod queue;

use crate::error::{ProtocolError, Reason, RequestError};
use crate::input::{End, Input};
use crate::limits::Limits;
use crate::mysql::frame::{Frame, HEADER_SIZE, PAYLOAD_SIZE_MAX};
use crate::mysql::{
    BulkWriter, Capabilities, Credentials, Execute, ParameterType, ParameterWriter, Request,
    Startup, StatementId, StatusFlags, commands,
};
use crate::{RequestId, RequestIds};

use dialogue::{Dialogue, Order};
pub use event::{Event, Prepared};
use queue::RequestKind;

/// The maximal size of a message before the log-in is complete, in bytes of its body. Until then,
/// the peer may not be a server at all.
const STARTUP_MESSAGE_SIZE_MAX: usize = 64 * 1024;

/// A connection to a server, without the socket. See the [module](crate::mysql).
pub struct Connection {
    input: Input,
    dialogue: Dialogue,
    limits: Limits,
}

impl Connection {
    /// Creates a connection, which begins with the log-in. The server sends the first message.
    ///
    /// # Errors
    ///
    /// [`RequestError::Nul`] if a name or the password contains a NUL, [`RequestError::TooLong`] if
    /// the attributes take more than 64 KiB.
    pub fn new(
        startup: &Startup<'_>,
        credentials: Credentials,
        limits: Limits,
    ) -> Result<Self, RequestError> {
        if credentials.has_nul() {
            return Err(RequestError::Nul);
        }
        // A message has a header for each packet.
        let packet_count_max = limits.message_size_max / PAYLOAD_SIZE_MAX + 2;
        Ok(Self {
            input: Input::new(limits.message_size_max, packet_count_max * HEADER_SIZE),
            dialogue: Dialogue::new(startup.into_owned()?, credentials, &limits),
            limits,
        })
    }

    /// Whether the server waits for TLS to begin: the owner then sends the output of
    /// [`take_output`](Self::take_output), begins TLS, and calls
    /// [`tls_started`](Self::tls_started). Set after [`Event::Greeting`].
    pub fn wants_tls(&self) -> bool {
        self.input.is_open() && self.dialogue.wants_tls()
    }

    /// Tells the connection that TLS has begun: from here on, its output and input are the
    /// plaintext within TLS. The log-in is in the output.
    ///
    /// # Errors
    ///
    /// When bytes were received before TLS, which a man in the middle could have written, or when
    /// the log-in cannot be done as the server requires; [`next_event`](Self::next_event) then
    /// returns the same error.
    pub fn tls_started(&mut self) -> Result<(), ProtocolError> {
        let started = if self.wants_tls() && !self.input.unread().is_empty() {
            Err(ProtocolError::new("input", 0, Reason::Stuffed))
        } else {
            self.dialogue.tls_started()
        };
        if let Err(error) = started {
            self.input.fail(error);
        }
        started
    }

    /// Appends a request to the output, and returns the id of its answer.
    ///
    /// # Errors
    ///
    /// A refused request does not change the connection.
    pub fn queue(&mut self, request: Request<'_>) -> Result<RequestId, RequestError> {
        let (kind, statement) = RequestKind::of(&request);
        self.queue_with(kind, statement, |output| {
            request.encode(output);
            Ok(())
        })
    }

    /// Appends an execution of a prepared statement. `write` writes its parameters directly into
    /// the output, one for each of `types`.
    ///
    /// # Errors
    ///
    /// [`RequestError::ParameterCount`] if `write` wrote another number of them, and as
    /// [`queue`](Self::queue).
    pub fn queue_execute(
        &mut self,
        execute: &Execute,
        types: &[ParameterType],
        write: impl FnOnce(&mut ParameterWriter<'_>),
    ) -> Result<RequestId, RequestError> {
        self.queue_with(RequestKind::Execute, execute.statement, |output| {
            commands::execute(output, execute, types, write)
        })
    }

    /// Appends an execution of a prepared statement for each of many rows of parameters, which
    /// `write` writes directly into the output; on MariaDB, for statements that change rows. With
    /// autocommit, all or none are executed; an error does not tell which row caused it.
    ///
    /// # Errors
    ///
    /// [`RequestError::Unsupported`] if the server does not support it, see
    /// [`can_execute_last`](Self::can_execute_last); [`RequestError::ParameterCount`] if `write`
    /// wrote no row or an incomplete one; and as [`queue`](Self::queue).
    pub fn queue_bulk(
        &mut self,
        statement: StatementId,
        types: &[ParameterType],
        write: impl FnOnce(&mut BulkWriter<'_>),
    ) -> Result<RequestId, RequestError> {
        self.dialogue.writable()?;
        if !self.can_execute_last() {
            return Err(RequestError::Unsupported);
        }
        self.queue_with(RequestKind::Execute, statement, |output| {
            commands::bulk(output, statement, types, write)
        })
    }

    fn queue_with(
        &mut self,
        kind: RequestKind,
        statement: StatementId,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), RequestError>,
    ) -> Result<RequestId, RequestError> {
        self.writable()?;
        if self.dialogue.queue_len() >= self.limits.request_count_max {
            return Err(RequestError::QueueFull);
        }
        self.dialogue.queue(kind, statement, encode)
    }

    /// Appends the termination of the session. Queued requests are still answered, and further ones
    /// are refused.
    pub fn terminate(&mut self) {
        if self.input.open().is_ok() && self.dialogue.is_trusted() {
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
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, ProtocolError> {
        if !self.input.has_more()? {
            return Ok(None);
        }
        if let Some(event) = self.dialogue.cursor_open() {
            return Ok(Some(event));
        }
        let (frame, order) = match self.next_frame() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(self.input.is_exhausted().then_some(Event::Closed)),
            Err(error) => {
                self.input.fail(error);
                return Err(error);
            }
        };
        let (message, end) = self.input.take(frame.head_size() + frame.payload_size);
        let payload = &message[frame.head_size()..];
        let event = match order {
            Order::InOrder => self.dialogue.message(payload),
            Order::Farewell => self.dialogue.farewell(payload),
        };
        match &event {
            Ok(Event::Fatal { .. }) => *end = End::Reported,
            Ok(_) => {}
            Err(error) => *end = End::Broken(*error),
        }
        event.map(Some)
    }

    /// The next message that must be reported, once it is complete.
    fn next_frame(&mut self) -> Result<Option<(Frame, Order)>, ProtocolError> {
        loop {
            let unread = self.input.unread();
            if self.dialogue.wants_tls() && !unread.is_empty() {
                return Err(ProtocolError::new("input", 0, Reason::Stuffed));
            }
            if let Some(known) = self.dialogue.known_packets() {
                let size = known.len();
                if unread.starts_with(known) {
                    self.input.take(size);
                    if self.dialogue.absorb_known()? {
                        continue;
                    }
                    return Ok(Some((Frame::EMPTY, Order::InOrder)));
                }
                if known.starts_with(unread) {
                    // Waiting for the rest is cheaper than processing it packet by packet.
                    return Ok(None);
                }
            }
            let is_trusted = self.dialogue.is_trusted();
            let size_max = self.limits.message_size_max;
            let found = Frame::find(unread, |size| {
                if size > STARTUP_MESSAGE_SIZE_MAX && !is_trusted {
                    Err(Reason::GreetingTooLong { size })
                } else if size > size_max {
                    Err(Reason::TooLong { size, size_max })
                } else {
                    Ok(())
                }
            });
            let Some(frame) = found? else {
                return Ok(None);
            };
            if frame.packet_count > 1 {
                frame.join(self.input.unread_mut());
            }
            let size = frame.head_size() + frame.payload_size;
            let payload = &self.input.unread()[frame.head_size()..size];
            let order = self.dialogue.begin(&frame, payload)?;
            if order == Order::Farewell || !self.dialogue.absorbs(payload)? {
                return Ok(Some((frame, order)));
            }
            self.input.take(size);
        }
    }

    /// Drops the columns of all statements, so that those of the next results are decoded as if
    /// they were new, to measure what comparing them saves. If the server leaves them out, they are
    /// kept.
    pub fn forget_columns(&mut self) {
        self.dialogue.forget_columns();
    }

    /// The queued requests without a last event. After the end of the connection, it is unknown
    /// whether the server executed them, except those whose bytes were never sent.
    pub fn unanswered(&self) -> RequestIds {
        self.dialogue.unanswered()
    }

    /// The state of the session after the last complete statement.
    pub fn status(&self) -> StatusFlags {
        self.dialogue.status()
    }

    /// The capabilities that both sides have and want, from [`Event::Greeting`] on.
    pub fn capabilities(&self) -> Capabilities {
        self.dialogue.capabilities()
    }

    /// Whether a statement can be executed together with its Prepare, as [`StatementId::LAST`], and
    /// with many rows of parameters at once; both are features of MariaDB.
    pub fn can_execute_last(&self) -> bool {
        self.capabilities().contains(Capabilities::MARIADB_BULK)
    }

    /// Refuses requests that are not allowed in the current state.
    fn writable(&self) -> Result<(), RequestError> {
        self.input.open()?;
        self.dialogue.writable()
    }
}
