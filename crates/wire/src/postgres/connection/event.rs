//! The events of a connection: one for each received message, and the ids of requests that got no
//! message because the server skipped them.

use crate::postgres::{
    Authentication, CommandTag, CopyResponse, DataRow, ErrorResponse, NegotiateProtocolVersion,
    NoticeResponse, NotificationResponse, ParameterDescription, ParameterStatus, RowDescription,
    TransactionStatus,
};
use crate::{RequestId, RequestIds};

/// An event; it borrows from the receive buffer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A step of the authentication, which was already answered.
    Authentication(Authentication<'a>),
    /// The server lowered the protocol's version.
    NegotiateProtocolVersion(NegotiateProtocolVersion<'a>),
    /// [`Connection::cancel_key`](super::Connection::cancel_key) is known from here on.
    BackendKeyData,

    /// The current value of a setting. Sent at log-in and at any time.
    ParameterStatus(ParameterStatus<'a>),
    /// A notice of the server. Sent at any time.
    Notice(NoticeResponse<'a>),
    /// A notification on a channel that the session listens to. Sent at any time.
    Notification(NotificationResponse<'a>),

    /// A statement is prepared. The request is complete.
    ParseComplete {
        /// The Parse.
        id: RequestId,
    },
    /// The types of a statement's parameters; its columns follow.
    ParameterDescription {
        /// The request for the description.
        id: RequestId,
        /// The types.
        description: ParameterDescription<'a>,
    },
    /// The columns of the rows that follow, or of the statement or portal that was to be described.
    /// A request for a description is then complete.
    RowDescription {
        /// The query, or the request for the description.
        id: RequestId,
        /// The columns.
        description: RowDescription<'a>,
    },
    /// The statement or portal returns no rows. The request for the description is complete.
    NoData {
        /// The request for the description.
        id: RequestId,
    },
    /// A portal is created. The request is complete.
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
    /// A statement is complete, and with it an Execute; for a query, more may follow.
    CommandComplete {
        /// The query or Execute.
        id: RequestId,
        /// The command, and its row count.
        tag: CommandTag<'a>,
    },
    /// There was no statement in the SQL. Ends the request like `CommandComplete`.
    EmptyQuery {
        /// The query or Execute.
        id: RequestId,
    },
    /// The portal has more rows than were requested. The Execute is complete; another one
    /// continues.
    PortalSuspended {
        /// The Execute.
        id: RequestId,
    },
    /// A statement or portal is closed. The request is complete.
    CloseComplete {
        /// The Close.
        id: RequestId,
    },

    /// The server waits for the data of a COPY.
    CopyIn {
        /// The query or Execute.
        id: RequestId,
        /// The required format.
        response: CopyResponse<'a>,
    },
    /// The data of a COPY follows.
    CopyOut {
        /// The query or Execute.
        id: RequestId,
        /// Its format.
        response: CopyResponse<'a>,
    },
    /// Both sides may send data: the answer to START_REPLICATION in a session that
    /// [`Startup::replication`](crate::postgres::Startup::replication) began. The client sends by
    /// [`Connection::copy_data`](super::Connection::copy_data); see
    /// [`replication`](crate::postgres::replication) for the content.
    CopyBoth {
        /// The query.
        id: RequestId,
        /// The format, which says nothing of the content.
        response: CopyResponse<'a>,
    },
    /// Data of a COPY, split at any position by the server; all known servers send one row each,
    /// or one message of replication.
    CopyData {
        /// The query or Execute.
        id: RequestId,
        /// The data.
        data: &'a [u8],
    },
    /// All data was received; `CommandComplete` follows, after [`Event::CopyBoth`] only once the
    /// client has ended its data too.
    CopyDone {
        /// The query or Execute.
        id: RequestId,
    },

    /// The server refused a request. It is complete, unless it is a query or a Sync, which `Ready`
    /// ends. Earlier requests of the same batch are rolled back; for a Sync, that is the whole
    /// batch.
    Failed {
        /// The request.
        id: RequestId,
        /// Why.
        error: ErrorResponse<'a>,
    },
    /// Requests that were not executed because an earlier one of the batch failed. There is no
    /// other event for them, and they can be queued again.
    Skipped {
        /// The requests.
        ids: RequestIds,
        /// The one that failed.
        failed: RequestId,
    },
    /// The log-in, a query or a Sync is complete.
    Ready {
        /// The request; [`RequestId::STARTUP`] for the log-in.
        id: RequestId,
        /// The state of the transaction.
        status: TransactionStatus,
    },

    /// The server ended the session, or refused the log-in. This is the last event; whether the
    /// requests in [`Connection::unanswered`](super::Connection::unanswered) were executed is
    /// unknown.
    Fatal {
        /// Why.
        error: ErrorResponse<'a>,
    },
    /// All received data was processed, and nothing will follow. This is the last event, as `Fatal`
    /// is.
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
            | Self::CopyBoth { id, .. }
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
