//! The events of a connection.

use std::sync::Arc;

use crate::RequestId;
use crate::mysql::{Authentication, Columns, ErrPacket, Greeting, OkPacket, Row, StatementId};

/// An event; it borrows from the connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The server's greeting, which was answered by a request for TLS or by the log-in; see
    /// [`Connection::wants_tls`](super::Connection::wants_tls).
    Greeting(Greeting<'a>),
    /// A step of the authentication, which was already answered.
    Authentication(Authentication),

    /// A statement without rows, the log-in or another request is complete. The request is
    /// complete, unless [`has_more_results`](crate::mysql::StatusFlags::has_more_results).
    Ok {
        /// The request.
        id: RequestId,
        /// The result of the statement.
        ok: OkPacket<'a>,
    },
    /// A statement is prepared. The request is complete.
    Prepared {
        /// The request.
        id: RequestId,
        /// The statement.
        prepared: Prepared,
    },
    /// Rows of these columns follow.
    Columns {
        /// The query or Execute.
        id: RequestId,
        /// The columns; the same [`Arc`] as long as they are the same.
        columns: &'a Arc<Columns>,
        /// Whether they differ from those of this statement's last result or, before its first
        /// result, from those that it was prepared with; for a query, from those of the last query.
        is_changed: bool,
    },
    /// A row.
    Row {
        /// The query, Execute or Fetch.
        id: RequestId,
        /// The row.
        row: Row<'a>,
    },
    /// All rows of a result were received, or all that were fetched, or a cursor holds them. The
    /// request is complete, unless
    /// [`has_more_results`](crate::mysql::StatusFlags::has_more_results).
    RowsEnd {
        /// The query, Execute or Fetch.
        id: RequestId,
        /// The packet that ended the rows.
        ok: OkPacket<'a>,
    },
    /// The server left out the column definitions, and its rows do not match the known ones. The
    /// statement was executed; its rows are skipped, previous rows may be wrong, and the known
    /// columns are dropped. It is sent at the end of the rows, instead of `RowsEnd`.
    ///
    /// Only with [`Startup::optional_metadata`](crate::mysql::Startup::optional_metadata).
    Unreadable {
        /// The query, Execute or Fetch.
        id: RequestId,
        /// The packet that ended the rows.
        ok: OkPacket<'a>,
    },
    /// The server requested a file, which is refused by sending an empty one. `Ok` or `Failed`
    /// follows, and neither means success.
    LocalInfile {
        /// The request.
        id: RequestId,
        /// The name of the file.
        file_name: &'a [u8],
    },
    /// The server refused a request. It is complete, and other requests are not affected.
    Failed {
        /// The request.
        id: RequestId,
        /// Why.
        error: ErrPacket<'a>,
    },

    /// The server ended the session, or refused the log-in. This is the last event; whether the
    /// requests in [`Connection::unanswered`](super::Connection::unanswered) were executed is
    /// unknown.
    Fatal {
        /// Why.
        error: ErrPacket<'a>,
    },
    /// All received data was processed, and nothing will follow. This is the last event, as `Fatal`
    /// is.
    Closed,
}

/// A statement that the server is ready to execute.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// Its id on this connection.
    pub statement: StatementId,
    /// How many parameters it has.
    pub parameter_count: u16,
    /// How many columns its rows have; 0 if it returns no rows.
    pub column_count: u16,
    /// How many warnings there were.
    pub warning_count: u16,
    /// The definitions of its parameters; `None` if the server left them out. MariaDB only provides
    /// their number.
    pub parameters: Option<Arc<Columns>>,
    /// The columns of its rows; `None` if the server left them out.
    pub columns: Option<Arc<Columns>>,
}

impl Event<'_> {
    /// The request that it belongs to.
    pub fn request_id(&self) -> Option<RequestId> {
        match *self {
            Self::Ok { id, .. }
            | Self::Prepared { id, .. }
            | Self::Columns { id, .. }
            | Self::Row { id, .. }
            | Self::RowsEnd { id, .. }
            | Self::Unreadable { id, .. }
            | Self::LocalInfile { id, .. }
            | Self::Failed { id, .. } => Some(id),
            Self::Greeting(_) | Self::Authentication(_) => Some(RequestId::STARTUP),
            Self::Fatal { .. } | Self::Closed => None,
        }
    }

    /// Whether it is the last event of its request.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Ok { ok, .. } | Self::RowsEnd { ok, .. } | Self::Unreadable { ok, .. } => {
                !ok.status.has_more_results()
            }
            Self::Prepared { .. } | Self::Failed { .. } => true,
            Self::Greeting(_)
            | Self::Authentication(_)
            | Self::Columns { .. }
            | Self::Row { .. }
            | Self::LocalInfile { .. }
            | Self::Fatal { .. }
            | Self::Closed => false,
        }
    }
}
