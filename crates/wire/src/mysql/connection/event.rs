//! What a connection tells its owner.

use std::sync::Arc;

use crate::RequestId;
use crate::mysql::{Authentication, Columns, ErrPacket, Greeting, OkPacket, Row, StatementId};

/// What happened; it borrows from the connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The server said who it is, and was answered, by a request for TLS or by the log-in; see
    /// [`Connection::wants_tls`](super::Connection::wants_tls).
    Greeting(Greeting<'a>),
    /// A step of the log-in, which was answered already.
    Authentication(Authentication),

    /// A statement without rows is done, the log-in or another request. The request is done, unless
    /// [`has_more_results`](crate::mysql::StatusFlags::has_more_results).
    Ok {
        /// The request.
        id: RequestId,
        /// What was done.
        ok: OkPacket<'a>,
    },
    /// A statement is prepared. The request is done.
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
        /// Whether they are other ones than those of this statement's last result or, before its
        /// first result, those that it was prepared with. Of a query, than those of the last query.
        is_changed: bool,
    },
    /// A row.
    Row {
        /// The query, Execute or Fetch.
        id: RequestId,
        /// The row.
        row: Row<'a>,
    },
    /// All rows of a result came, or all that were fetched, or a cursor holds them. The request is
    /// done, unless [`has_more_results`](crate::mysql::StatusFlags::has_more_results).
    RowsEnd {
        /// The query, Execute or Fetch.
        id: RequestId,
        /// How it ended.
        ok: OkPacket<'a>,
    },
    /// The server left out the definitions of columns, and its rows do not fit those that are
    /// known. The statement was executed; its rows are skipped, those that came before are not to
    /// be trusted, and what was known of its columns is forgotten. Comes at the end of the rows,
    /// instead of `RowsEnd`.
    ///
    /// Only with [`Startup::optional_metadata`](crate::mysql::Startup::optional_metadata).
    Unreadable {
        /// The query, Execute or Fetch.
        id: RequestId,
        /// How it ended.
        ok: OkPacket<'a>,
    },
    /// The server asked for a file, which it cannot have; it was answered with an empty one.
    /// `Ok` or `Failed` follows, and neither is to be taken for success.
    LocalInfile {
        /// The request.
        id: RequestId,
        /// The name of the file.
        file_name: &'a [u8],
    },
    /// The server refused a request. It is done, and no other one is touched by it.
    Failed {
        /// The request.
        id: RequestId,
        /// Why.
        error: ErrPacket<'a>,
    },

    /// The server ended the session, or refused the log-in. This is the last event; what happened
    /// to the requests in [`Connection::unanswered`](super::Connection::unanswered) is not known.
    Fatal {
        /// Why.
        error: ErrPacket<'a>,
    },
    /// All that came was read, and nothing will follow. This is the last event, as `Fatal` is.
    Closed,
}

/// A statement that the server is ready to execute.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// Its name on this connection.
    pub statement: StatementId,
    /// How many parameters it has.
    pub parameter_count: u16,
    /// How many columns its rows have; none if it gives no rows.
    pub column_count: u16,
    /// How many warnings there were.
    pub warning_count: u16,
    /// What is known of its parameters, and `None` if the server left that out. MariaDB knows
    /// nothing but their number.
    pub parameters: Option<Arc<Columns>>,
    /// The columns of its rows, and `None` if the server left them out.
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

    /// Whether its request is done with it.
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
