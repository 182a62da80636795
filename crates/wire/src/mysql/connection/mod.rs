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
use queue::Kind;

/// The longest message before the server let us in, in bytes of its body. Whoever it is by then,
/// it need not be a server.
const STARTUP_MESSAGE_SIZE_MAX: usize = 64 * 1024;

/// A connection to a server, without the socket. See the [module](crate::mysql).
pub struct Connection {
    input: Input,
    dialogue: Dialogue,
    limits: Limits,
}

impl Connection {
    /// Begins with the log-in. The server speaks first.
    ///
    /// # Errors
    ///
    /// [`RequestError::Nul`] if a name or the password holds a NUL, [`RequestError::TooLong`] if
    /// the attributes take more than 64 KiB.
    pub fn new(
        startup: &Startup<'_>,
        credentials: Credentials,
        limits: Limits,
    ) -> Result<Self, RequestError> {
        if credentials.has_nul() {
            return Err(RequestError::Nul);
        }
        // A message has a head for each packet.
        let packet_count_max = limits.message_size_max / PAYLOAD_SIZE_MAX + 2;
        Ok(Self {
            input: Input::new(limits.message_size_max, packet_count_max * HEADER_SIZE),
            dialogue: Dialogue::new(startup.into_owned()?, credentials, &limits),
            limits,
        })
    }

    /// Whether the server waits for TLS to begin: the owner sends what
    /// [`take_output`](Self::take_output) gives, begins TLS, and calls
    /// [`tls_started`](Self::tls_started). Comes with [`Event::Greeting`].
    pub fn wants_tls(&self) -> bool {
        self.input.is_open() && self.dialogue.wants_tls()
    }

    /// Says that from here on all that is taken and fed is what is spoken inside of TLS. The log-in
    /// waits in the output.
    ///
    /// # Errors
    ///
    /// When bytes came before TLS, which anybody on the way could have written, or when the log-in
    /// cannot be done as the server asks; and then [`next_event`](Self::next_event) gives the same.
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

    /// Appends a request to the output, and says by which name its answer will come.
    ///
    /// # Errors
    ///
    /// What is refused leaves the connection as it was.
    pub fn queue(&mut self, request: Request<'_>) -> Result<RequestId, RequestError> {
        let (kind, statement) = Kind::of(&request);
        self.queue_with(kind, statement, |output| {
            request.encode(output);
            Ok(())
        })
    }

    /// Appends a run of a prepared statement, whose parameters `write` writes straight into the
    /// output, as many as there are `types`.
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
        self.queue_with(Kind::Execute, execute.statement, |output| {
            commands::execute(output, execute, types, write)
        })
    }

    /// Appends a run of a prepared statement for each of many rows of parameters, which `write`
    /// writes straight into the output; on MariaDB, for statements that change rows. Where each
    /// statement commits itself, they are done all or none; an error does not say which one it was.
    ///
    /// # Errors
    ///
    /// [`RequestError::Unsupported`] where the server cannot, which
    /// [`can_execute_last`](Self::can_execute_last) tells too; [`RequestError::ParameterCount`] if
    /// `write` wrote no row or no whole ones; and as [`queue`](Self::queue).
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
        self.queue_with(Kind::Execute, statement, |output| {
            commands::bulk(output, statement, types, write)
        })
    }

    fn queue_with(
        &mut self,
        kind: Kind,
        statement: StatementId,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), RequestError>,
    ) -> Result<RequestId, RequestError> {
        self.writable()?;
        if self.dialogue.queue_len() >= self.limits.request_count_max {
            return Err(RequestError::QueueFull);
        }
        self.dialogue.queue(kind, statement, encode)
    }

    /// Appends the farewell. What was queued is still answered, and more is refused.
    pub fn terminate(&mut self) {
        if self.input.open().is_ok() && self.dialogue.is_trusted() {
            self.dialogue.terminate();
        }
    }

    /// Moves what is to be sent behind what `target` holds. An empty `target` is exchanged for
    /// it, which copies nothing and lets both keep their memory.
    pub fn take_output(&mut self, target: &mut Vec<u8>) {
        self.dialogue.take_output(target);
    }

    /// Takes bytes that the server sent, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.feed(bytes);
    }

    /// Where at least `size` bytes from the server can be read to, instead of
    /// [`feed`](Self::feed) and its copy; [`received`](Self::received) says how many came.
    ///
    /// It is empty once the connection takes no more.
    pub fn receive_space(&mut self, size: usize) -> &mut [u8] {
        self.input.space(size)
    }

    /// Says that the server sent `size` bytes, which are in [`receive_space`](Self::receive_space).
    ///
    /// # Panics
    ///
    /// When there was no room for so many.
    pub fn received(&mut self, size: usize) {
        self.input.received(size);
    }

    /// Says that the server will send no more: the socket is at its end.
    pub fn end_of_input(&mut self) {
        self.input.close();
    }

    /// The next event, as far as the bytes are here.
    ///
    /// # Errors
    ///
    /// When the server broke the protocol, and then on every further call.
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
            Ok(Event::Fatal { .. }) => *end = End::Told,
            Ok(_) => {}
            Err(error) => *end = End::Broken(*error),
        }
        event.map(Some)
    }

    /// Where the next message is that has to be told, once all of it is here.
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
                    // The rest is rather waited for than looked at packet by packet.
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

    /// Forgets the columns of all statements, so that those of the next results are read as if they
    /// were new: that is what comparing them saves. Where the server leaves them out, they are kept.
    pub fn forget_columns(&mut self) {
        self.dialogue.forget_columns();
    }

    /// The requests that were queued and have no last event. After the connection's end nobody
    /// knows whether the server did them; those whose bytes were never sent it did not.
    pub fn unanswered(&self) -> RequestIds {
        self.dialogue.unanswered()
    }

    /// Where the last statement that is done left the session.
    pub fn status(&self) -> StatusFlags {
        self.dialogue.status()
    }

    /// What both sides can and want, from [`Event::Greeting`] on.
    pub fn capabilities(&self) -> Capabilities {
        self.dialogue.capabilities()
    }

    /// Whether a statement can be executed along with its Prepare, as [`StatementId::LAST`], and
    /// with many rows of parameters at once: both are MariaDB's.
    pub fn can_execute_last(&self) -> bool {
        self.capabilities().contains(Capabilities::MARIADB_BULK)
    }

    /// Refuses requests that would come at the wrong time.
    fn writable(&self) -> Result<(), RequestError> {
        self.input.open()?;
        self.dialogue.writable()
    }
}
