//! Requests of a caller.

use std::slice;
use std::sync::Arc;
use std::time::Instant;

use lookaside_value::{ParamBatch, Value};
use lookaside_wire::postgres::Oid;

use crate::CancelToken;
use crate::copy::CopyEnd;

/// One statement with any number of parameter sets, each of which is a query with its own answer.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) sql: Arc<str>,
    /// `None` if the server infers all; never empty, since all threads would contend for the
    /// reference counter of the shared empty slice.
    pub(crate) parameter_types: Option<Arc<[Oid]>>,
    pub(crate) params: Params,
    /// `None` leaves it to the pool.
    pub(crate) syncs: Option<Syncs>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) clock: Clock,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) is_canceled_on_drop: bool,
    pub(crate) goal: Goal,
    pub(crate) shape: Shape,
    pub(crate) scope: RequestScope,
    pub(crate) is_bulk: bool,
    pub(crate) keeps_results: bool,
    pub(crate) form: RowForm,
    /// The data of a COPY, if it is streamed.
    pub(crate) copy: Option<Arc<CopyEnd>>,
}

/// What enforces a request's deadline until it is submitted to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// A timer of its caller.
    Caller,
    /// Nothing, because it is submitted as soon as the driver's task runs: the connection is not
    /// locked.
    Driver,
}

/// The form of the rows of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowForm {
    /// Decoded values.
    Values,
    /// The wire format.
    Raw,
}

/// The parameter sets of a request; shared, as a request is cloned to be sent once more.
#[derive(Clone, Debug)]
pub(crate) enum Params {
    /// One set of one value, as for most requests, which avoids an allocation.
    Single(Value),
    /// One set.
    One(Arc<[Value]>),
    Many(Arc<ParamBatch>),
}

impl Params {
    /// How many values each set has.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Single(_) => 1,
            Self::One(set) => set.len(),
            Self::Many(batch) => batch.width(),
        }
    }

    /// How many sets there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Single(_) | Self::One(_) => 1,
            Self::Many(batch) => batch.len(),
        }
    }

    /// The values of one set.
    pub(crate) fn set(&self, index: usize) -> &[Value] {
        let set = match self {
            Self::Single(value) => slice::from_ref(value),
            Self::One(set) => set,
            Self::Many(batch) => return batch.set(index),
        };
        assert_eq!(index, 0, "there is one set");
        set
    }
}

/// Whether the columns of a result can change from one run to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The server describes them.
    Described,
    /// The caller promises that they are unchanged.
    Pinned,
}

/// Where a request may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestScope {
    /// On any connection that its caller sends it to.
    Anywhere,
    /// In a transaction: it is not run if that has ended.
    Transaction,
    /// Session set-up: the state after it is what a released lock restores.
    Session,
    /// On a session shared with independent callers: it begins no transaction, which theirs
    /// would become parts of, and changes nothing of the session.
    Shared,
}

/// What to do with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It is run.
    Run,
    /// It is described, but not run.
    Describe,
    /// It is any number of statements, whose rows are returned as text.
    Script {
        /// How many rows of each are kept.
        row_count_max: usize,
    },
    /// A COPY; its only parameter is the data for the server.
    Copy,
    /// Its first rows are fetched, through a portal that stays open for more.
    Open(Fetch),
    /// More rows are fetched through an open portal. There is no statement.
    Fetch(Fetch),
    /// A portal is closed. There is no statement.
    Close(Portal),
    /// The session is reset to its state after the log-in. There is no statement.
    Reset,
}

/// The maximum of the protocol.
pub(crate) const ROW_COUNT_MAX: u32 = i32::MAX as u32;

/// Identifies a portal of one connection, until the end of the transaction that it was opened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Portal(pub(crate) u64);

/// How many rows are fetched through a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) portal: Portal,
    /// Fewer are returned only if there are no more.
    pub(crate) row_count: u32,
}

/// How the queries of a request are separated from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syncs {
    /// A Sync after each query: each is a separate transaction, as if sent alone. The default.
    #[default]
    Each,
    /// One Sync after many queries, which allows up to twice as many queries per second: after
    /// those of one request, and of all requests that wait at the same time with this option. If
    /// one fails, the others that share its Sync are sent again with a Sync each.
    ///
    /// The answers to all queries that share a Sync arrive with the last of them, so a slow query
    /// should have its own Sync.
    ///
    /// The caller promises that the queries are read-only, including functions that they call.
    /// Statements that are evidently not read-only, and those in an open transaction, get a Sync
    /// each nevertheless.
    Shared,
}

impl Request {
    /// A request of one query; its parameters are `$1`, `$2`, … on PostgreSQL and `?` on MySQL and
    /// MariaDB.
    pub fn new(sql: impl Into<Arc<str>>, params: &[Value]) -> Self {
        let params = match params {
            [value] => Params::Single(value.clone()),
            set => Params::One(set.into()),
        };
        Self::with(sql.into(), params)
    }

    /// A request with one query per parameter set.
    pub fn many(sql: impl Into<Arc<str>>, params: impl Into<Arc<ParamBatch>>) -> Self {
        Self::with(sql.into(), Params::Many(params.into()))
    }

    fn with(sql: Arc<str>, params: Params) -> Self {
        Self {
            sql,
            parameter_types: None,
            params,
            syncs: None,
            deadline: None,
            clock: Clock::Caller,
            cancel: None,
            is_canceled_on_drop: false,
            goal: Goal::Run,
            shape: Shape::Described,
            scope: RequestScope::Anywhere,
            is_bulk: false,
            keeps_results: false,
            form: RowForm::Values,
            copy: None,
        }
    }

    /// The same request with only the parameter sets at `indexes`.
    ///
    /// # Panics
    ///
    /// If an index is out of bounds.
    #[must_use]
    pub fn only(&self, indexes: &[usize]) -> Self {
        let mut params = ParamBatch::new(self.params.width());
        for &index in indexes {
            params.push(self.params.set(index).iter().cloned());
        }
        Self {
            params: Params::Many(Arc::new(params)),
            ..self.clone()
        }
    }

    /// A request for a statement's [`Description`](crate::Description) instead of running it: the
    /// answer has no rows.
    pub fn describe(sql: impl Into<Arc<str>>) -> Self {
        Self {
            goal: Goal::Describe,
            ..Self::new(sql, &[])
        }
    }

    /// A `COPY … FROM STDIN`, and all of its data, in the format that the statement specifies. The
    /// answer counts the rows. PostgreSQL only.
    ///
    /// Data that does not fit in memory can be written piece by piece: see
    /// [`Lock::copy_in`](crate::nonblocking::Lock::copy_in).
    pub fn copy_in(sql: impl Into<Arc<str>>, data: impl Into<Arc<[u8]>>) -> Self {
        Self {
            goal: Goal::Copy,
            ..Self::new(sql, &[Value::Bytes(data.into())])
        }
    }

    /// A `COPY … TO STDOUT`: the answer has a row for each row, with its bytes in the format that
    /// the statement specifies. PostgreSQL only. Data that does not fit in memory can be read piece
    /// by piece: see [`Lock::copy_out`](crate::nonblocking::Lock::copy_out).
    pub fn copy_out(sql: impl Into<Arc<str>>) -> Self {
        Self {
            goal: Goal::Copy,
            ..Self::new(sql, &[])
        }
    }

    /// A script: any number of statements without parameters, as PostgreSQL's simple query protocol
    /// takes them. Those outside of a transaction form one transaction together.
    ///
    /// Each has its own answer, whose values are text in the server's format, or bytes if that is
    /// not UTF-8. Of its rows, the first `row_count_max` are kept, and the others are counted.
    /// `COPY … TO STDOUT` leaves its data in the answer, and `COPY … FROM STDIN` is refused. An
    /// error ends the script and is the last answer; the answers before it are kept, even if their
    /// effects are rolled back. [`Answer::script`](crate::Answer::script) has further results of
    /// each.
    ///
    /// No other requests are in flight on the connection meanwhile. A script of a
    /// [`Pool`](crate::Pool) is cancelled if its future is dropped. Not supported for MySQL and
    /// MariaDB.
    pub fn script(sql: impl Into<Arc<str>>, row_count_max: usize) -> Self {
        Self {
            goal: Goal::Script { row_count_max },
            ..Self::new(sql, &[])
        }
    }

    /// Requests the first rows of a result.
    pub(crate) fn open(sql: Arc<str>, params: &[Value], fetch: Fetch) -> Self {
        Self {
            goal: Goal::Open(fetch),
            scope: RequestScope::Transaction,
            ..Self::new(sql, params)
        }
    }

    /// Requests the next rows of a portal.
    pub(crate) fn fetch(fetch: Fetch) -> Self {
        Self {
            goal: Goal::Fetch(fetch),
            scope: RequestScope::Transaction,
            ..Self::new("", &[])
        }
    }

    /// Closes a portal.
    pub(crate) fn close(portal: Portal) -> Self {
        Self {
            goal: Goal::Close(portal),
            ..Self::new("", &[])
        }
    }

    /// A COPY whose data is streamed through `copy`.
    pub(crate) fn copy_stream(sql: impl Into<Arc<str>>, copy: CopyEnd) -> Self {
        Self {
            goal: Goal::Copy,
            copy: Some(Arc::new(copy)),
            ..Self::new(sql, &[])
        }
    }

    /// Resets a MySQL session to its state after the log-in.
    pub(crate) fn reset() -> Self {
        Self {
            goal: Goal::Reset,
            ..Self::new("", &[])
        }
    }

    /// Sets the types of the first parameters, instead of those that the server infers.
    #[must_use]
    pub fn parameter_types(self, types: impl Into<Arc<[Oid]>>) -> Self {
        let types = types.into();
        Self {
            parameter_types: (!types.is_empty()).then_some(types),
            ..self
        }
    }

    /// Sets how its queries are separated from each other. The default is
    /// [`PoolOptions::syncs`](crate::PoolOptions::syncs), or a Sync each.
    #[must_use]
    pub fn syncs(self, syncs: Syncs) -> Self {
        Self {
            syncs: Some(syncs),
            ..self
        }
    }

    /// Promises that its queries are read-only, including functions that they call, so that they
    /// may share a Sync with other requests: [`Syncs::Shared`].
    #[must_use]
    pub fn read_only(self) -> Self {
        self.syncs(Syncs::Shared)
    }

    /// Makes the request cancelable by a token; see [`CancelToken`].
    #[must_use]
    pub fn cancel_token(self, token: &CancelToken) -> Self {
        Self {
            cancel: Some(token.clone()),
            ..self
        }
    }

    /// Cancels the request if its future is dropped before it is answered: what was not sent yet is
    /// dropped, and a cancel request is sent to the server for the rest. Without this option, the
    /// server completes the query, and the answer is discarded.
    #[must_use]
    pub fn cancel_on_drop(self) -> Self {
        Self {
            is_canceled_on_drop: true,
            ..self
        }
    }

    /// Promises that the columns of this statement and their types never change, whatever happens
    /// to its tables: for example since each is a cast, or since tables change only while there are
    /// no queries. MySQL then need not send the column definitions, which for wide rows are most of
    /// an answer.
    ///
    /// **Dangerous, and without effect** unless
    /// [`mysql::Options::pinned_check_after`](crate::mysql::Options::pinned_check_after) allows it,
    /// and with other servers. If the promise is broken, values can be wrong without an error: a
    /// number that became wider is read with bytes of its neighbour, and swapped columns are
    /// confused.
    #[must_use]
    pub fn pinned_columns(self) -> Self {
        Self {
            shape: Shape::Pinned,
            ..self
        }
    }

    /// Lets MariaDB execute many parameter sets of an `INSERT`, `REPLACE`, `UPDATE` or `DELETE`
    /// with one command, which is several times as fast. For other servers and other statements,
    /// they are sent one by one as usual.
    ///
    /// The caller accepts the consequences. Each set still has an answer, but for those that are
    /// sent together:
    ///
    /// - the [`row_count`](crate::Answer::row_count) of the last one is that of all, and the others
    ///   have none, so that the sum is correct;
    /// - outside of a transaction they commit together. If one fails, none takes effect, provided
    ///   the tables are transactional, and all have its error, which does not identify the failed
    ///   set;
    /// - in a transaction, those before the failed one may have taken effect: to undo them, roll
    ///   back to a savepoint.
    ///
    /// Sets are sent together up to about half a mebibyte of values, if their parameters have the
    /// same types except for NULL.
    #[must_use]
    pub fn in_bulk(self) -> Self {
        Self {
            is_bulk: true,
            ..self
        }
    }

    /// Keeps all results of a statement, which is what a procedure of MySQL or MariaDB may have:
    /// the answer is the first of them, rows or not, and its
    /// [`further_results`](crate::Answer::further_results) are the others, in their order.
    /// Otherwise the first with rows is the answer, and the rest is dropped.
    ///
    /// The size limit of a result applies to all of them together. PostgreSQL has one result per
    /// statement.
    ///
    /// ```no_run
    /// # fn example(connection: &mut lookaside_client::mysql::blocking::Connection) -> lookaside_client::Result<()> {
    /// use lookaside_client::Request;
    ///
    /// let call = Request::new("call stock_and_prices()", &[]).all_results();
    /// for answer in connection.request(call)? {
    ///     let stock = answer?;
    ///     let [prices, call] = &stock.further_results[..] else { panic!("it has two selects") };
    ///     println!("{} {} {:?}", stock.rows.len(), prices.rows.len(), call.row_count);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn all_results(self) -> Self {
        Self {
            keeps_results: true,
            ..self
        }
    }

    /// Returns the rows in the server's wire format, in the answer's [`raw`](crate::Answer::raw);
    /// its [`rows`](crate::Answer::rows) are empty. This avoids to create a value for each field,
    /// which is most of the work if there are many rows and each is read once.
    ///
    /// PostgreSQL only, and only for queries whose rows are returned all at once; otherwise rows
    /// are values as usual.
    #[must_use]
    pub fn raw_rows(self) -> Self {
        Self {
            form: RowForm::Raw,
            ..self
        }
    }

    /// Marks it as a part of a transaction, not to be run if that has ended.
    pub(crate) fn of_transaction(self) -> Self {
        Self {
            scope: RequestScope::Transaction,
            ..self
        }
    }

    /// Marks it as running on a session that is shared with independent callers.
    pub(crate) fn shared(self) -> Self {
        Self {
            scope: RequestScope::Shared,
            ..self
        }
    }

    /// Marks it as a part of the session set-up.
    pub(crate) fn of_session(self) -> Self {
        Self {
            scope: RequestScope::Session,
            ..self
        }
    }

    /// Sets a deadline: queries that are not answered by then fail, and are cancelled on the
    /// server.
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }
}

/// Identifies a request of one driver until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);
