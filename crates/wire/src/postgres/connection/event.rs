//! What a connection tells its owner: one event for each message that came, and the names of
//! requests that got no message because the server skipped them.

use crate::postgres::{
    Authentication, CommandTag, CopyResponse, DataRow, ErrorResponse, NegotiateProtocolVersion,
    NoticeResponse, NotificationResponse, ParameterDescription, ParameterStatus, RowDescription,
    TransactionStatus,
};
use crate::{RequestId, RequestIds};

/// What happened; it borrows from the receive buffer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A step of the log-in, which was answered already.
    Authentication(Authentication<'a>),
    /// The server lowered the protocol's version.
    NegotiateProtocolVersion(NegotiateProtocolVersion<'a>),
    /// [`Connection::cancel_key`](super::Connection::cancel_key) is known from here on.
    BackendKeyData,

    /// A setting has this value now. Comes at log-in and at any time.
    ParameterStatus(ParameterStatus<'a>),
    /// The server remarks something. Comes at any time.
    Notice(NoticeResponse<'a>),
    /// Somebody notified a channel that is listened to. Comes at any time.
    Notification(NotificationResponse<'a>),

    /// A statement is prepared. The request is done.
    ParseComplete {
        /// The Parse.
        id: RequestId,
    },
    /// The types of a statement's parameters; its columns follow.
    ParameterDescription {
        /// The description asked for.
        id: RequestId,
        /// The types.
        description: ParameterDescription<'a>,
    },
    /// The columns of the rows that follow, or of the statement or portal that was asked for. With
    /// it, a description is done.
    RowDescription {
        /// The query, or the description asked for.
        id: RequestId,
        /// The columns.
        description: RowDescription<'a>,
    },
    /// The statement or portal gives no rows. The description is done.
    NoData {
        /// The description asked for.
        id: RequestId,
    },
    /// A portal is there. The request is done.
    BindComplete {
        /// The Bind.
        id: RequestId,
    },
    /// A row.
    DataRow {
        /// The query or Execute.
        id: RequestId,
        /// The row.
        row: DataRow<'a>,
    },
    /// A statement is done, and with it an Execute; more may follow for a query.
    CommandComplete {
        /// The query or Execute.
        id: RequestId,
        /// What was done, and to how many rows.
        tag: CommandTag<'a>,
    },
    /// There was no statement in the SQL. Done as by `CommandComplete`.
    EmptyQuery {
        /// The query or Execute.
        id: RequestId,
    },
    /// The portal has more rows than were asked for. The Execute is done; another one goes on.
    PortalSuspended {
        /// The Execute.
        id: RequestId,
    },
    /// A statement or portal is forgotten. The request is done.
    CloseComplete {
        /// The Close.
        id: RequestId,
    },

    /// The server waits for the data of a COPY.
    CopyIn {
        /// The query or Execute.
        id: RequestId,
        /// How it has to be written.
        response: CopyResponse<'a>,
    },
    /// The data of a COPY follows.
    CopyOut {
        /// The query or Execute.
        id: RequestId,
        /// How it is written.
        response: CopyResponse<'a>,
    },
    /// Data of a COPY, cut as the server likes; so far always a row.
    CopyData {
        /// The query or Execute.
        id: RequestId,
        /// The data.
        data: &'a [u8],
    },
    /// All data came; `CommandComplete` follows.
    CopyDone {
        /// The query or Execute.
        id: RequestId,
    },

    /// The server refused a request. It is done, unless it is a query or a Sync, which `Ready`
    /// ends. What came before it in the same batch is undone; for a Sync, that is the whole batch.
    Failed {
        /// The request.
        id: RequestId,
        /// Why.
        error: ErrorResponse<'a>,
    },
    /// Requests that were not done because one before them in the batch failed. There is no other
    /// event for them, and nothing keeps a client from queuing them again.
    Skipped {
        /// The requests.
        ids: RequestIds,
        /// The one that failed.
        failed: RequestId,
    },
    /// The log-in, a query or a Sync is done.
    Ready {
        /// Which of them; [`RequestId::STARTUP`] for the log-in.
        id: RequestId,
        /// Where it left the transaction.
        status: TransactionStatus,
    },

    /// The server ended the session, or refused the log-in. This is the last event; what happened
    /// to the requests in [`Connection::unanswered`](super::Connection::unanswered) is not known.
    Fatal {
        /// Why.
        error: ErrorResponse<'a>,
    },
    /// All that came was read, and nothing will follow. This is the last event, as `Fatal` is.
    Closed,
}

impl Event<'_> {
    /// The request that it belongs to. None for [`Event::Skipped`], which belongs to many.
    pub fn request_id(&self) -> Option<RequestId> {
        match *self {
            Self::ParseComplete { id }
            | Self::ParameterDescription { id, .. }
            | Self::RowDescription { id, .. }
            | Self::NoData { id }
            | Self::BindComplete { id }
            | Self::DataRow { id, .. }
            | Self::CommandComplete { id, .. }
            | Self::EmptyQuery { id }
            | Self::PortalSuspended { id }
            | Self::CloseComplete { id }
            | Self::CopyIn { id, .. }
            | Self::CopyOut { id, .. }
            | Self::CopyData { id, .. }
            | Self::CopyDone { id }
            | Self::Failed { id, .. }
            | Self::Ready { id, .. } => Some(id),
            Self::Authentication(_) | Self::NegotiateProtocolVersion(_) | Self::BackendKeyData => {
                Some(RequestId::STARTUP)
            }
            Self::ParameterStatus(_)
            | Self::Notice(_)
            | Self::Notification(_)
            | Self::Skipped { .. }
            | Self::Fatal { .. }
            | Self::Closed => None,
        }
    }
}
