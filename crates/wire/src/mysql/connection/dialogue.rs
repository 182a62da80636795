//! The order of packets: the state of a session, and all transitions between its states.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>

mod absorb;

use super::event::Event;
use super::login::{Greeted, LoginPhase};
use super::metadata::{ColumnsState, Metadata, Step};
use super::queue::{Queue, RequestKind, Waiting};
use crate::error::{ProtocolError, Reason, RequestError};
use crate::limits::Limits;
use crate::mysql::commands::{self, StartupOwned};
use crate::mysql::frame::{Frame, PAYLOAD_SIZE_MAX, write_packets};
use crate::mysql::packets::{EOF, ERR, Eof, LOCAL_INFILE, MORE_DATA, OK, PrepareOk};
use crate::mysql::{Capabilities, Credentials, ErrPacket, OkPacket, StatementId, StatusFlags};
use crate::read::Reader;
use crate::{RequestId, RequestIds};

/// The state of a session, without its input bytes.
pub(super) struct Dialogue {
    output: Vec<u8>,
    queue: Queue,
    /// The log-in, until it is complete.
    login: Option<Box<LoginPhase>>,
    capabilities: Capabilities,
    status: StatusFlags,
    metadata: Metadata,
    /// The number of the next packet, once an answer has begun.
    sequence: Option<u8>,
    /// The phase of the answer to the first request.
    phase: Phase,
    is_first_result: bool,
    message_size_max: usize,
    request_size_max: usize,
    is_terminated: bool,
}

/// The progress of the answer to the first request.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing of this result was received.
    Fresh,
    /// Definitions follow.
    Describing(Step),
    /// A statement's description is complete, and must be reported.
    Prepared(PrepareOk),
    /// A result's description is complete, and must be reported.
    Columns(ColumnsState, Option<Eof>),
    /// The rows are in a cursor, which must be reported.
    CursorOpen(Eof),
    /// Rows follow.
    Rows { columns: ColumnsState },
    /// Rows follow that cannot be decoded.
    Unreadable,
    /// The empty file was sent to the server.
    FileRefused,
}

impl Dialogue {
    pub(super) fn new(startup: StartupOwned, credentials: Credentials, limits: &Limits) -> Self {
        Self {
            output: Vec::new(),
            queue: Queue::new(),
            login: Some(Box::new(LoginPhase::new(startup, credentials))),
            capabilities: Capabilities::NONE,
            status: StatusFlags::default(),
            metadata: Metadata::default(),
            sequence: None,
            phase: Phase::Fresh,
            is_first_result: true,
            message_size_max: limits.message_size_max,
            request_size_max: limits.request_size_max,
            is_terminated: false,
        }
    }

    pub(super) fn take_output(&mut self, target: &mut Vec<u8>) {
        if target.is_empty() {
            std::mem::swap(&mut self.output, target);
        } else {
            target.append(&mut self.output);
        }
    }

    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn unanswered(&self) -> RequestIds {
        self.queue.ids()
    }

    pub(super) fn forget_columns(&mut self) {
        if !self
            .capabilities
            .contains(Capabilities::MARIADB_CACHE_METADATA)
        {
            self.metadata.forget_all();
        }
    }

    pub(super) fn status(&self) -> StatusFlags {
        self.status
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether the log-in is complete.
    pub(super) fn is_trusted(&self) -> bool {
        self.login.is_none()
    }

    pub(super) fn wants_tls(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.wants_tls())
    }

    /// Continues the log-in within TLS.
    pub(super) fn tls_started(&mut self) -> Result<(), ProtocolError> {
        match &mut self.login {
            Some(login) => login.tls_started(&mut self.output, &mut self.sequence),
            None => Ok(()),
        }
    }

    pub(super) fn writable(&self) -> Result<(), RequestError> {
        if self.login.is_some() {
            Err(RequestError::NotReady)
        } else if self.is_terminated {
            Err(RequestError::Closed)
        } else {
            Ok(())
        }
    }

    pub(super) fn queue(
        &mut self,
        kind: RequestKind,
        statement: StatementId,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), RequestError>,
    ) -> Result<RequestId, RequestError> {
        if statement == StatementId::LAST && !self.capabilities.contains(Capabilities::MARIADB_BULK)
        {
            return Err(RequestError::Unsupported);
        }
        let packet_count = write_packets(&mut self.output, 0, self.request_size_max, encode)?;
        let id = self.queue.push(Waiting {
            kind,
            sequence: packet_count as u8,
            statement,
        });
        self.skip_unanswered();
        Ok(id)
    }

    pub(super) fn terminate(&mut self) {
        if !self.is_terminated {
            let written = write_packets(&mut self.output, 0, PAYLOAD_SIZE_MAX, |output| {
                commands::quit(output);
                Ok(())
            });
            written.expect("a byte fits into a packet");
            self.is_terminated = true;
        }
    }

    /// Checks the number of a message, and treats it as part of the answer to the first request.
    ///
    /// An error may have any number: a server that ends the session may not have read the request.
    pub(super) fn begin(&mut self, frame: &Frame, payload: &[u8]) -> Result<Order, ProtocolError> {
        let expected = match self.queue.head() {
            _ if self.sequence.is_some() => self.sequence,
            head => head.map(|(_, waiting)| waiting.sequence),
        };
        let found = frame.sequence;
        match expected {
            Some(expected) if expected == found => {
                self.sequence = Some(frame.sequence_behind());
                Ok(Order::InOrder)
            }
            _ if payload.first() == Some(&ERR) => Ok(Order::Farewell),
            Some(expected) => {
                let reason = Reason::Sequence { found, expected };
                Err(ProtocolError::new("packet", 3, reason))
            }
            None => {
                let reason = Reason::Unexpected("while no request waits");
                Err(ProtocolError::new("packet", 0, reason))
            }
        }
    }

    /// Processes a message, or reports the result of the last absorbed one.
    pub(super) fn message<'a>(&'a mut self, payload: &'a [u8]) -> Result<Event<'a>, ProtocolError> {
        let Some((id, waiting)) = self.queue.head() else {
            return self.error(payload);
        };
        let unexpected =
            |name| ProtocolError::new(name, 0, Reason::Unexpected(waiting.kind.waiting()));
        match self.phase {
            Phase::Prepared(ok) => {
                self.pop();
                let prepared = self.metadata.take_prepared(ok);
                return Ok(Event::Prepared { id, prepared });
            }
            Phase::Columns(state, eof) => return Ok(self.columns(id, state, eof)),
            // The columns of the cursor's rows are unknown.
            Phase::CursorOpen(eof) => {
                self.phase = Phase::Unreadable;
                return Ok(self.rows_end(id, OkPacket::of_eof(eof)));
            }
            _ => {}
        }
        let Some(&first) = payload.first() else {
            return Err(unexpected("empty packet"));
        };
        if self.login.is_some() {
            return self.login_message(id, first, payload);
        }
        match (self.phase, first) {
            (_, ERR) => self.error(payload),
            (Phase::Rows { .. } | Phase::Unreadable, _) if is_rows_end(payload) => {
                let body = Reader::new("end of rows", payload);
                let ok = OkPacket::decode_end(body, self.capabilities)?;
                Ok(self.rows_end(id, ok))
            }
            (Phase::Rows { .. }, _) => {
                let row = self.row(payload)?;
                Ok(Event::Row { id, row })
            }
            (Phase::Fresh, LOCAL_INFILE)
                if matches!(waiting.kind, RequestKind::Query | RequestKind::Execute) =>
            {
                self.refuse_file();
                let file_name = &payload[1..];
                Ok(Event::LocalInfile { id, file_name })
            }
            (Phase::Fresh | Phase::FileRefused, OK)
                if !matches!(waiting.kind, RequestKind::Prepare | RequestKind::Fetch) =>
            {
                self.ok(id, waiting.kind, payload)
            }
            _ => Err(unexpected("packet")),
        }
    }

    fn ok<'a>(
        &mut self,
        id: RequestId,
        kind: RequestKind,
        payload: &'a [u8],
    ) -> Result<Event<'a>, ProtocolError> {
        let ok = OkPacket::decode(Reader::new("OK", payload), self.capabilities)?;
        if kind == RequestKind::ResetConnection {
            self.metadata.reset();
        }
        self.result_ended(ok.status);
        Ok(Event::Ok { id, ok })
    }

    /// Rows follow, or wait in a cursor.
    fn columns(&mut self, id: RequestId, state: ColumnsState, eof: Option<Eof>) -> Event<'_> {
        self.phase = match eof {
            Some(eof) if eof.status.is_cursor_open() => Phase::CursorOpen(eof),
            _ => Phase::Rows { columns: state },
        };
        let columns = self.metadata.current();
        Event::Columns {
            id,
            columns: columns.expect("they were described just now"),
            is_changed: state == ColumnsState::Changed,
        }
    }

    /// Returns the event for an open cursor, which has no message.
    pub(super) fn cursor_open(&mut self) -> Option<Event<'static>> {
        let Phase::CursorOpen(eof) = self.phase else {
            return None;
        };
        let (id, _) = self.queue.head()?;
        Some(self.rows_end(id, OkPacket::of_eof(eof)))
    }

    fn rows_end<'a>(&mut self, id: RequestId, ok: OkPacket<'a>) -> Event<'a> {
        let is_readable = match self.phase {
            Phase::Unreadable => false,
            Phase::Rows {
                columns: ColumnsState::LeftOut,
            } => !(self.can_leave_out() && ok.status.is_metadata_changed()),
            _ => true,
        };
        if !is_readable && let Some((_, waiting)) = self.queue.head() {
            match waiting.kind {
                RequestKind::Execute | RequestKind::Fetch => {
                    self.metadata.forget(waiting.statement)
                }
                _ => {}
            }
        }
        self.result_ended(ok.status);
        if is_readable {
            Event::RowsEnd { id, ok }
        } else {
            Event::Unreadable { id, ok }
        }
    }

    /// Completes a result, and with the last one its request.
    fn result_ended(&mut self, status: StatusFlags) {
        self.status = status;
        if status.has_more_results() {
            self.phase = Phase::Fresh;
            self.is_first_result = false;
        } else {
            self.pop();
        }
    }

    fn pop(&mut self) {
        self.queue.pop();
        self.phase = Phase::Fresh;
        self.is_first_result = true;
        self.sequence = None;
        self.skip_unanswered();
    }

    /// Completes requests without answers at the head of the queue.
    fn skip_unanswered(&mut self) {
        while let Some((_, waiting)) = self.queue.head()
            && waiting.kind == RequestKind::Close
        {
            self.metadata.close(waiting.statement);
            self.queue.pop();
        }
    }

    /// Sends an empty packet, which means the end of a file.
    fn refuse_file(&mut self) {
        let sequence = self.sequence.expect("the server asked just now");
        let written = write_packets(&mut self.output, sequence, PAYLOAD_SIZE_MAX, |_| Ok(()));
        written.expect("nothing fits into a packet");
        self.sequence = Some(sequence.wrapping_add(1));
        self.phase = Phase::FileRefused;
    }

    fn login_message<'a>(
        &mut self,
        id: RequestId,
        first: u8,
        payload: &'a [u8],
    ) -> Result<Event<'a>, ProtocolError> {
        let login = self.login.as_mut().expect("the log-in is not complete");
        if first == ERR {
            return self.error(payload);
        }
        if login.is_fresh() {
            let Greeted {
                greeting,
                capabilities,
            } = login.greeting(payload, &mut self.output, &mut self.sequence)?;
            self.capabilities = capabilities;
            return Ok(Event::Greeting(greeting));
        }
        match first {
            OK => {
                login.accept()?;
                let event = self.ok(id, RequestKind::Startup, payload)?;
                // This also drops the password.
                self.login = None;
                Ok(event)
            }
            EOF | MORE_DATA => {
                let step = login.step(payload, &mut self.output, &mut self.sequence)?;
                Ok(Event::Authentication(step))
            }
            _ => {
                let reason = Reason::Unexpected(RequestKind::Startup.waiting());
                Err(ProtocolError::new("packet", 0, reason))
            }
        }
    }

    /// ERR: the session ends, or the first request fails.
    pub(super) fn error<'a>(&mut self, payload: &'a [u8]) -> Result<Event<'a>, ProtocolError> {
        let error = ErrPacket::decode(Reader::new("ERR", payload))?;
        let head = self.queue.head().filter(|_| self.login.is_none());
        let Some((id, waiting)) = head else {
            return Ok(Event::Fatal { error });
        };
        if waiting.kind == RequestKind::Prepare {
            self.metadata.prepare_failed();
        }
        self.pop();
        Ok(Event::Failed { id, error })
    }

    /// ERR with an unexpected number: the server ends the session.
    pub(super) fn farewell<'a>(&self, payload: &'a [u8]) -> Result<Event<'a>, ProtocolError> {
        let error = ErrPacket::decode(Reader::new("ERR", payload))?;
        Ok(Event::Fatal { error })
    }
}

/// Whether the number of a message is as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    InOrder,
    /// The number is unexpected, and the message is an error packet.
    Farewell,
}

/// Whether a message in place of a row is the end of the rows. A text row may begin with the same
/// byte, which is then the length of a value that alone is longer than a packet.
fn is_rows_end(payload: &[u8]) -> bool {
    payload.first() == Some(&EOF) && payload.len() < PAYLOAD_SIZE_MAX
}
