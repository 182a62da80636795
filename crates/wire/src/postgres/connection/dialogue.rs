//! The order of messages: the state of a session, and all transitions between its states.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html>

use super::event::Event;
use super::queue::{Phase, Queue, RequestKind};
use crate::error::{ProtocolError, Reason, RequestError};
use crate::postgres::auth::{Credentials, Login};
use crate::postgres::backend::ready_for_query;
use crate::postgres::frontend;
use crate::postgres::{
    Authentication, CancelKey, CommandTag, CopyResponse, DataRow, ErrorResponse, Execution, Format,
    NegotiateProtocolVersion, NotificationResponse, ParameterDescription, ParameterStatus,
    ProtocolVersion, Request, RowDescription, Startup, TransactionStatus,
};
use crate::read::Reader;
use crate::{RequestId, RequestIds};

/// The state of a session, without its input bytes.
pub(super) struct Dialogue {
    output: Vec<u8>,
    queue: Queue,
    /// The log-in, until it is complete.
    login: Option<Box<Login>>,
    version: ProtocolVersion,
    is_replication: bool,
    cancel_key: Option<CancelKey>,
    status: TransactionStatus,
    /// The request whose failure makes the server skip all others up to the next Sync.
    failed: Option<RequestId>,
    syncs: Syncs,
    is_terminated: bool,
}

/// Syncs after a COPY from the client.
///
/// A server that waits for data ignores each Sync, so those that were queued before it reported
/// that it waits are sent again after the data. But if the COPY failed before the server read them,
/// for example in a trigger that runs before the first row, it answers them twice; then one answer
/// is dropped here. It is received before the answer to any later request.
#[derive(Default)]
struct Syncs {
    /// The number of Syncs that must be sent again when the COPY ends.
    resend_count: usize,
    /// The maximal number of surplus answers.
    stray_count_max: usize,
}

/// A message that is part of every query, and varies in little but its length.
#[derive(Clone, Copy)]
pub(super) enum Usual {
    BindComplete,
    DataRow {
        body_size: usize,
    },
    CommandComplete {
        body_size: usize,
    },
    /// The ReadyForQuery of a Sync outside of any transaction.
    Idle,
}

impl Usual {
    /// The size of its body.
    #[inline]
    pub(super) fn body_size(self) -> usize {
        match self {
            Self::BindComplete => 0,
            Self::DataRow { body_size } | Self::CommandComplete { body_size } => body_size,
            Self::Idle => 1,
        }
    }
}

impl Dialogue {
    pub(super) fn new(
        startup: &Startup<'_>,
        credentials: Credentials,
        iteration_count_max: u32,
    ) -> Result<Self, RequestError> {
        let mut output = Vec::new();
        startup.encode(&mut output)?;
        let login = Login::new(startup.user_name(), credentials, iteration_count_max);
        Ok(Self {
            output,
            queue: Queue::new(),
            login: Some(Box::new(login)),
            version: startup.version_asked(),
            is_replication: startup.is_replication(),
            cancel_key: None,
            status: TransactionStatus::Idle,
            failed: None,
            syncs: Syncs::default(),
            is_terminated: false,
        })
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

    pub(super) fn transaction_status(&self) -> TransactionStatus {
        self.status
    }

    pub(super) fn cancel_key(&self) -> Option<&CancelKey> {
        self.cancel_key.as_ref()
    }

    pub(super) fn tls_started(&mut self, server_end_point: Option<&[u8]>) {
        let login = self.login.as_mut();
        let login = login.expect("TLS begins before the log-in is done");
        login.tls_started(server_end_point);
    }

    /// Whether the log-in is complete.
    pub(super) fn is_trusted(&self) -> bool {
        self.login.as_ref().is_none_or(|login| login.is_done())
    }

    pub(super) fn writable(&self) -> Result<(), RequestError> {
        if self.login.is_some() {
            Err(RequestError::NotReady)
        } else if self.is_terminated {
            Err(RequestError::Closed)
        } else if self.queue.phase.takes_data() {
            Err(RequestError::CopyOpen)
        } else {
            Ok(())
        }
    }

    #[inline]
    pub(super) fn queue(&mut self, request: Request<'_>) -> Result<RequestId, RequestError> {
        let kind = RequestKind::of(&request);
        request.encode(&mut self.output)?;
        Ok(self.queue.push(kind))
    }

    /// Queues an execution, which consists of these requests, and returns the id of the last.
    #[inline]
    pub(super) fn queue_execution<E: From<RequestError>>(
        &mut self,
        execution: &Execution,
        kinds: &[RequestKind],
        write: impl FnMut(usize, &mut Vec<u8>) -> Result<Option<Format>, E>,
    ) -> Result<RequestId, E> {
        execution.encode(&mut self.output, write)?;
        Ok(self.queue.extend(kinds))
    }

    pub(super) fn flush(&mut self) {
        frontend::flush(&mut self.output);
    }

    pub(super) fn terminate(&mut self) {
        if !self.is_terminated {
            frontend::terminate(&mut self.output);
            self.is_terminated = true;
        }
    }

    pub(super) fn copy_data(&mut self, data: &[u8]) -> Result<(), RequestError> {
        self.copy_open()?;
        frontend::copy_data(&mut self.output, data)
    }

    pub(super) fn copy_done(&mut self) -> Result<(), RequestError> {
        self.copy_open()?;
        frontend::copy_done(&mut self.output)?;
        match self.queue.phase {
            // The server sends what it has begun, and then its own end.
            Phase::CopyBoth => self.queue.phase = Phase::CopyBothOut,
            Phase::CopyBothIn => self.queue.phase = Phase::CopyInEnded,
            _ => self.copy_in_ended(),
        }
        Ok(())
    }

    pub(super) fn copy_fail(&mut self, reason: &str) -> Result<(), RequestError> {
        self.copy_open()?;
        // A server treats CopyFail as fatal then.
        if self.queue.phase != Phase::CopyIn {
            return Err(RequestError::Unsupported);
        }
        frontend::copy_fail(&mut self.output, reason)?;
        self.copy_in_ended();
        Ok(())
    }

    fn copy_open(&self) -> Result<(), RequestError> {
        if self.queue.phase.takes_data() && !self.is_terminated {
            Ok(())
        } else {
            Err(RequestError::CopyClosed)
        }
    }

    fn copy_in_ended(&mut self) {
        self.queue.phase = Phase::CopyInEnded;
        for _ in 0..self.syncs.resend_count {
            frontend::sync(&mut self.output);
        }
    }

    /// Whether the server skips queued requests, up to the next Sync.
    #[inline]
    pub(super) fn is_skipping(&self) -> bool {
        self.failed.is_some()
    }

    /// The event for requests that the server skips; each request is reported once.
    #[inline]
    pub(super) fn skipped(&mut self) -> Option<Event<'static>> {
        let failed = self.failed?;
        let ids = self.queue.pop_until_sync();
        (!ids.is_empty()).then_some(Event::Skipped { ids, failed })
    }

    /// Whether a ReadyForQuery is the second answer to a Sync that was sent twice.
    #[inline]
    pub(super) fn absorbs_ready(&mut self) -> bool {
        if self.syncs.stray_count_max == 0 || self.takes_ready() {
            return false;
        }
        self.syncs.stray_count_max -= 1;
        true
    }

    /// Called after a COPY only.
    #[cold]
    fn takes_ready(&self) -> bool {
        let Some((_, kind)) = self.queue.head() else {
            return false;
        };
        match kind {
            RequestKind::Sync | RequestKind::Startup => true,
            RequestKind::Query => matches!(self.queue.phase, Phase::Between | Phase::Ending),
            _ => false,
        }
    }

    /// The kind of the first unread message, if it is one that is part of every query. All others
    /// are left to [`message`](Self::message).
    #[inline]
    pub(super) fn usual(&self, unread: &[u8]) -> Option<Usual> {
        let (_, kind) = self.queue.head()?;
        match (kind, unread) {
            (RequestKind::Bind, [b'2', 0, 0, 0, 4, ..]) => Some(Usual::BindComplete),
            (RequestKind::Sync, [b'Z', 0, 0, 0, 5, b'I', ..]) => Some(Usual::Idle),
            (RequestKind::Execute, [tag @ (b'D' | b'C'), a, b, c, d, rest @ ..])
                if self.queue.phase == Phase::Fresh =>
            {
                let length = u32::from_be_bytes([*a, *b, *c, *d]);
                let body_size = usize::try_from(length.checked_sub(4)?).ok()?;
                let is_here = body_size <= rest.len();
                is_here.then_some(match tag {
                    b'D' => Usual::DataRow { body_size },
                    _ => Usual::CommandComplete { body_size },
                })
            }
            _ => None,
        }
    }

    /// Processes one of the usual messages, with this body.
    #[inline]
    pub(super) fn usual_message<'a>(
        &mut self,
        usual: Usual,
        body: &'a [u8],
    ) -> Result<Event<'a>, ProtocolError> {
        let (id, _) = self.queue.head().expect("a request waits for the message");
        let event = match usual {
            Usual::DataRow { .. } => {
                let row = DataRow::decode(Reader::new("DataRow", body))?;
                self.syncs.stray_count_max = 0;
                return Ok(Event::DataRow { id, row });
            }
            Usual::CommandComplete { .. } => {
                let tag = CommandTag::decode(Reader::new("CommandComplete", body))?;
                Event::CommandComplete { id, tag }
            }
            Usual::BindComplete => Event::BindComplete { id },
            Usual::Idle => {
                self.failed = None;
                self.status = TransactionStatus::Idle;
                self.queue.pop();
                let status = self.status;
                return Ok(Event::Ready { id, status });
            }
        };
        self.syncs.stray_count_max = 0;
        self.queue.pop();
        Ok(event)
    }

    /// Processes a message.
    pub(super) fn message<'a>(
        &mut self,
        tag: u8,
        body: Reader<'a>,
    ) -> Result<Event<'a>, ProtocolError> {
        match tag {
            b'S' => ParameterStatus::decode(body).map(Event::ParameterStatus),
            b'N' => ErrorResponse::decode(body).map(Event::Notice),
            b'A' if self.login.is_none() => {
                NotificationResponse::decode(body).map(Event::Notification)
            }
            b'E' => self.error(body),
            _ => match self.queue.head() {
                Some((_, RequestKind::Startup)) => self.startup(tag, body),
                Some((id, kind)) => self.answer(id, kind, tag, body),
                None => Err(body.error(Reason::Unexpected("while no request waits"))),
            },
        }
    }

    /// Processes a message of the log-in.
    fn startup<'a>(&mut self, tag: u8, body: Reader<'a>) -> Result<Event<'a>, ProtocolError> {
        let login = self.login.as_mut();
        let login = login.expect("the log-in is the first request as long as it lasts");
        let unexpected = Err(body.error(Reason::Unexpected(RequestKind::Startup.waiting())));
        match (tag, login.is_done()) {
            (b'R', false) => {
                let step = Authentication::decode(body)?;
                login.step(step, &mut self.output)?;
                Ok(Event::Authentication(step))
            }
            (b'v', false) => {
                let negotiated = NegotiateProtocolVersion::decode(body, self.version)?;
                self.version = negotiated.version();
                Ok(Event::NegotiateProtocolVersion(negotiated))
            }
            (b'K', true) => {
                self.cancel_key = Some(CancelKey::decode(body, self.version)?);
                Ok(Event::BackendKeyData)
            }
            (b'Z', true) => {
                // This also drops the password.
                self.login = None;
                self.ready(RequestId::STARTUP, body)
            }
            _ => unexpected,
        }
    }

    /// Processes a message of the answer to the first request.
    fn answer<'a>(
        &mut self,
        id: RequestId,
        kind: RequestKind,
        tag: u8,
        body: Reader<'a>,
    ) -> Result<Event<'a>, ProtocolError> {
        use Phase as P;
        use RequestKind as K;
        let empty = |event: Event<'a>| body.finish().map(|()| event);
        let phase = self.queue.phase;
        // What the request waits for next; `None` if this message is its last.
        let (event, next) = match (kind, phase, tag) {
            (K::Execute, P::Fresh, b'D') => {
                let row = DataRow::decode(body)?;
                (Event::DataRow { id, row }, Some(P::Fresh))
            }
            (K::Bind, _, b'2') => (empty(Event::BindComplete { id })?, None),
            (K::Execute, P::Fresh | P::CopyInEnded | P::CopyOutEnded, b'C') => {
                let tag = CommandTag::decode(body)?;
                (Event::CommandComplete { id, tag }, None)
            }
            (K::Sync, _, b'Z') | (K::Query, P::Between | P::Ending, b'Z') => {
                return self.ready(id, body);
            }

            (K::Query, P::Rows, b'D') => {
                let row = DataRow::decode(body)?;
                (Event::DataRow { id, row }, Some(P::Rows))
            }
            (K::Query, P::Fresh | P::Between, b'T') => {
                let description = RowDescription::decode(body)?;
                (Event::RowDescription { id, description }, Some(P::Rows))
            }
            (
                K::Query,
                P::Fresh | P::Between | P::Rows | P::CopyInEnded | P::CopyOutEnded,
                b'C',
            ) => {
                let tag = CommandTag::decode(body)?;
                (Event::CommandComplete { id, tag }, Some(P::Between))
            }
            (K::Query, P::Fresh, b'I') => (empty(Event::EmptyQuery { id })?, Some(P::Ending)),

            (K::Parse, _, b'1') => (empty(Event::ParseComplete { id })?, None),
            (K::Close, _, b'3') => (empty(Event::CloseComplete { id })?, None),
            (K::DescribeStatement, P::Fresh, b't') => {
                let description = ParameterDescription::decode(body)?;
                let event = Event::ParameterDescription { id, description };
                (event, Some(P::Parameters))
            }
            (K::DescribeStatement, P::Parameters, b'T') | (K::DescribePortal, _, b'T') => {
                let description = RowDescription::decode(body)?;
                (Event::RowDescription { id, description }, None)
            }
            (K::DescribeStatement, P::Parameters, b'n') | (K::DescribePortal, _, b'n') => {
                (empty(Event::NoData { id })?, None)
            }
            (K::Execute, P::Fresh, b's') => (empty(Event::PortalSuspended { id })?, None),
            (K::Execute, P::Fresh, b'I') => (empty(Event::EmptyQuery { id })?, None),

            (K::Query, P::Fresh | P::Between, b'G') | (K::Execute, P::Fresh, b'G') => {
                let response = CopyResponse::decode(body)?;
                self.syncs.resend_count = self.queue.sync_count_behind_head();
                (Event::CopyIn { id, response }, Some(P::CopyIn))
            }
            (K::Query, P::Fresh | P::Between, b'H') | (K::Execute, P::Fresh, b'H') => {
                let response = CopyResponse::decode(body)?;
                (Event::CopyOut { id, response }, Some(P::CopyOut))
            }
            // The answer to a replication command, which is alone in its query. A session that did
            // not log in for replication has an owner that does not expect it.
            (K::Query, P::Fresh, b'W') if self.is_replication => {
                let response = CopyResponse::decode(body)?;
                self.syncs.resend_count = 0;
                (Event::CopyBoth { id, response }, Some(P::CopyBoth))
            }
            (K::Query, phase @ (P::CopyBoth | P::CopyBothOut), b'd') => {
                let mut body = body;
                let data = body.rest();
                (Event::CopyData { id, data }, Some(phase))
            }
            (K::Query, P::CopyBoth, b'c') => (empty(Event::CopyDone { id })?, Some(P::CopyBothIn)),
            (K::Query, P::CopyBothOut, b'c') => {
                (empty(Event::CopyDone { id })?, Some(P::CopyOutEnded))
            }
            // The second stream of a session ends at once, without a CopyDone: a logical walsender
            // still takes both sides for ended (`streamingDoneSending` in walsender.c). The owner may
            // have ended its side before it reads that.
            (K::Query, P::CopyBoth | P::CopyBothOut, b'C') => {
                let tag = CommandTag::decode(body)?;
                (Event::CommandComplete { id, tag }, Some(P::Between))
            }
            (K::Query | K::Execute, P::CopyOut, b'd') => {
                let mut body = body;
                let data = body.rest();
                (Event::CopyData { id, data }, Some(P::CopyOut))
            }
            (K::Query | K::Execute, P::CopyOut, b'c') => {
                (empty(Event::CopyDone { id })?, Some(P::CopyOutEnded))
            }
            _ => return Err(body.error(Reason::Unexpected(kind.waiting()))),
        };
        // The server has processed every Sync before this request.
        self.syncs.stray_count_max = 0;
        match next {
            Some(phase) => self.queue.phase = phase,
            None => self.queue.pop(),
        }
        Ok(event)
    }

    /// ReadyForQuery: the log-in, a query or a Sync is complete.
    fn ready<'a>(&mut self, id: RequestId, body: Reader<'a>) -> Result<Event<'a>, ProtocolError> {
        let status = ready_for_query(body)?;
        if self
            .queue
            .head()
            .is_some_and(|(_, kind)| kind == RequestKind::Sync)
        {
            self.failed = None;
        }
        self.status = status;
        self.queue.pop();
        Ok(Event::Ready { id, status })
    }

    /// ErrorResponse: the session ends, or the first request fails, and perhaps later ones with it.
    fn error<'a>(&mut self, body: Reader<'a>) -> Result<Event<'a>, ProtocolError> {
        let error = ErrorResponse::decode(body)?;
        if error.is_fatal() {
            return Ok(Event::Fatal { error });
        }
        let Some((id, kind)) = self.queue.head() else {
            return Err(body.error(Reason::Unexpected("while no request waits")));
        };
        if matches!(self.queue.phase, Phase::CopyIn | Phase::CopyInEnded) {
            if self.queue.phase == Phase::CopyIn {
                self.copy_in_ended();
            }
            self.syncs.stray_count_max = self.syncs.resend_count;
        }
        match kind {
            // Whatever its severity, there is no session after it.
            RequestKind::Startup => return Ok(Event::Fatal { error }),
            RequestKind::Query | RequestKind::Sync => self.queue.phase = Phase::Ending,
            _ => {
                self.queue.pop();
                self.failed = Some(id);
            }
        }
        Ok(Event::Failed { id, error })
    }
}
