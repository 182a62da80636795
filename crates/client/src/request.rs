//! What a caller asks.

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
    /// None where the server finds all; never empty, as the empty slice is one for all threads,
    /// who would wait for each other's steps of its counter.
    pub(crate) parameter_types: Option<Arc<[Oid]>>,
    pub(crate) params: Params,
    /// None leaves it to the pool.
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
    pub(crate) form: Form,
    /// The data of a COPY, where it does not come whole.
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

/// What becomes of the rows of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Values.
    Values,
    /// What they are.
    Raw,
}

/// The parameter sets of a request; shared, as a request is cloned to be sent once more.
#[derive(Clone, Debug)]
pub(crate) enum Params {
    /// One set of one value, which is most requests: it is not allocated.
    Single(Value),
    /// One set, in one piece.
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
    /// The server says what they are.
    Described,
    /// The caller says that they are what they were.
    Pinned,
}

/// Where a request belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestScope {
    /// Wherever its author sends it.
    Anywhere,
    /// In a transaction: it is not done where that is gone.
    Transaction,
    /// Session set-up: the state after it is what a released lock restores.
    Session,
    /// On a session shared with independent callers: it begins no transaction, which theirs
    /// would become parts of, and changes nothing of the session.
    Shared,
}

/// What is to be done with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It is run.
    Run,
    /// It is described, and not run.
    Describe,
    /// It is any number of statements, whose rows come as text.
    Script {
        /// How many rows of each are kept.
        row_count_max: usize,
    },
    /// It moves data in a dialogue of its own; its only parameter is what the server shall get.
    Copy,
    /// Its first rows are fetched, through a portal that stays open for more.
    Open(Fetch),
    /// More rows are fetched through a portal that is open. There is no statement.
    Fetch(Fetch),
    /// A portal is closed. There is no statement.
    Close(Portal),
    /// The session becomes what it was after the log-in. There is no statement.
    Reset,
}

/// The most that the protocol can ask for.
pub(crate) const ROW_COUNT_MAX: u32 = i32::MAX as u32;

/// Names a portal of one connection, as long as the transaction lasts that it was opened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Portal(pub(crate) u64);

/// How many rows are fetched through a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) portal: Portal,
    /// Fewer only if there are no more.
    pub(crate) row_count: u32,
}

/// How the queries of a request are separated from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syncs {
    /// A Sync after each: each is a transaction by itself, as if sent alone. The default.
    #[default]
    Each,
    /// One Sync after many, which answers up to twice as many queries a second: after those of
    /// one request, and those of all requests that wait at the same time and say the same. Where
    /// one fails, those that it took along are sent again with a Sync each.
    ///
    /// The answers to all that share a Sync come with the last of them, so what takes long is
    /// better sent with one of its own.
    ///
    /// It is the caller's word that the queries only read, functions that they call included. A
    /// statement that says otherwise, or an open transaction, gets a Sync each all the same.
    Shared,
}

impl Request {
    /// One query; `$1`, `$2`, … stand for the values.
    pub fn new(sql: impl Into<Arc<str>>, params: &[Value]) -> Self {
        let params = match params {
            [value] => Params::Single(value.clone()),
            set => Params::One(set.into()),
        };
        Self::with(sql.into(), params)
    }

    /// As many queries as there are parameter sets.
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
            form: Form::Values,
            copy: None,
        }
    }

    /// The same with some of its parameter sets only, those at `indexes`.
    ///
    /// # Panics
    ///
    /// When there is no set at an index.
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

    /// Asks for a statement's [`Description`](crate::Description) instead of running it: the answer
    /// has no rows.
    pub fn describe(sql: impl Into<Arc<str>>) -> Self {
        Self {
            goal: Goal::Describe,
            ..Self::new(sql, &[])
        }
    }

    /// A `COPY … FROM STDIN`, and all of its data, in the format that the statement says. The
    /// answer counts the rows. PostgreSQL only.
    ///
    /// What does not fit in memory is written piece by piece: see
    /// [`Lock::copy_in`](crate::nonblocking::Lock::copy_in).
    pub fn copy_in(sql: impl Into<Arc<str>>, data: impl Into<Arc<[u8]>>) -> Self {
        Self {
            goal: Goal::Copy,
            ..Self::new(sql, &[Value::Bytes(data.into())])
        }
    }

    /// A `COPY … TO STDOUT`: the answer has a row for each row, with its bytes in the format that
    /// the statement says. PostgreSQL only. What does not fit in memory is read piece by piece: see
    /// [`Lock::copy_out`](crate::nonblocking::Lock::copy_out).
    pub fn copy_out(sql: impl Into<Arc<str>>) -> Self {
        Self {
            goal: Goal::Copy,
            ..Self::new(sql, &[])
        }
    }

    /// A script: any number of statements without parameters, as PostgreSQL's simple query protocol
    /// takes them. Those that stand outside of a transaction are one together.
    ///
    /// Each has an answer of its own, whose values are text as the server writes it, or bytes where
    /// that is not UTF-8. Of its rows, the first `row_count_max` are kept, and the others are
    /// counted. `COPY … TO STDOUT` leaves its data in the answer, and `COPY … FROM STDIN` is
    /// refused. An error ends the script and is the last answer; those before it stay, whatever
    /// becomes of what they did. [`Answer::script`](crate::Answer::script) has what is told of each.
    ///
    /// Nothing else is under way on the connection meanwhile. One of a [`Pool`](crate::Pool) whose future
    /// is dropped is cancelled. MySQL and MariaDB are asked none.
    pub fn script(sql: impl Into<Arc<str>>, row_count_max: usize) -> Self {
        Self {
            goal: Goal::Script { row_count_max },
            ..Self::new(sql, &[])
        }
    }

    /// Asks for the first rows of a result.
    pub(crate) fn open(sql: Arc<str>, params: &[Value], fetch: Fetch) -> Self {
        Self {
            goal: Goal::Open(fetch),
            scope: RequestScope::Transaction,
            ..Self::new(sql, params)
        }
    }

    /// Asks for the next rows of one.
    pub(crate) fn fetch(fetch: Fetch) -> Self {
        Self {
            goal: Goal::Fetch(fetch),
            scope: RequestScope::Transaction,
            ..Self::new("", &[])
        }
    }

    /// Says that no more of one are wanted.
    pub(crate) fn close(portal: Portal) -> Self {
        Self {
            goal: Goal::Close(portal),
            ..Self::new("", &[])
        }
    }

    /// A COPY whose data goes through `copy`.
    pub(crate) fn copy_stream(sql: impl Into<Arc<str>>, copy: CopyEnd) -> Self {
        Self {
            goal: Goal::Copy,
            copy: Some(Arc::new(copy)),
            ..Self::new(sql, &[])
        }
    }

    /// Makes a session of MySQL's what it was after the log-in.
    pub(crate) fn reset() -> Self {
        Self {
            goal: Goal::Reset,
            ..Self::new("", &[])
        }
    }

    /// The types of the first parameters, instead of those that the server finds.
    #[must_use]
    pub fn parameter_types(self, types: impl Into<Arc<[Oid]>>) -> Self {
        let types = types.into();
        Self {
            parameter_types: (!types.is_empty()).then_some(types),
            ..self
        }
    }

    /// How its queries are separated from each other. Without it, as
    /// [`PoolOptions::syncs`](crate::PoolOptions::syncs) says, or by a Sync each.
    #[must_use]
    pub fn syncs(self, syncs: Syncs) -> Self {
        Self {
            syncs: Some(syncs),
            ..self
        }
    }

    /// Promises that its queries only read, functions that they call included, so that they may
    /// share a Sync with those of others: [`Syncs::Shared`].
    #[must_use]
    pub fn read_only(self) -> Self {
        self.syncs(Syncs::Shared)
    }

    /// Lets a token cancel it; see [`CancelToken`].
    #[must_use]
    pub fn cancel_token(self, token: &CancelToken) -> Self {
        Self {
            cancel: Some(token.clone()),
            ..self
        }
    }

    /// Cancels it if its future is dropped before it is answered: what was not sent is not sent, and
    /// the server is asked to stop working on what was. Without this option, the server completes the
    /// query, and the answer is discarded.
    #[must_use]
    pub fn cancel_on_drop(self) -> Self {
        Self {
            is_canceled_on_drop: true,
            ..self
        }
    }

    /// Says that the columns of this statement and their types are what they were, whatever happens
    /// to its tables: that each is a cast, say, or that tables change only while there are no queries. MySQL
    /// then need not send their definitions, which for wide rows are most of an answer.
    ///
    /// **Dangerous, and without effect** unless
    /// [`mysql::Options::pinned_check_after`](crate::mysql::Options::pinned_check_after) allows it,
    /// and with other servers. If it is not so, values can be wrong and nothing tells: a number that
    /// became wider is read with bytes of its neighbour, and columns that were exchanged are read
    /// the one for the other.
    #[must_use]
    pub fn pinned_columns(self) -> Self {
        Self {
            shape: Shape::Pinned,
            ..self
        }
    }

    /// Lets MariaDB take many parameter sets of an `INSERT`, `REPLACE`, `UPDATE` or `DELETE` with one
    /// command, which is several times as fast. Other servers, and other statements, get them one by
    /// one as ever.
    ///
    /// The caller accepts what comes with it. Each set still has an answer,
    /// but of those that went together:
    ///
    /// - the last one's [`row_count`](crate::Answer::row_count) is that of all, and the others have
    ///   none, so that the sum is right;
    /// - outside of a transaction they commit together. If one fails, none is done, where the tables
    ///   know transactions, and all have its error, which does not say whose it is;
    /// - in a transaction, those before the one that failed may be done: to have none of them, go back
    ///   to a savepoint.
    ///
    /// About half a mebibyte of values goes together, and sets whose parameters have the same types
    /// but for NULL.
    #[must_use]
    pub fn in_bulk(self) -> Self {
        Self {
            is_bulk: true,
            ..self
        }
    }

    /// Keeps all results of a statement, which is what a procedure of MySQL or MariaDB may have:
    /// the answer is the first of them, rows or not, and its
    /// [`further_results`](crate::Answer::further_results) are the others, in their order. Otherwise
    /// the first with rows is the answer, and the rest is left out.
    ///
    /// All of them together are no larger than one result may be. PostgreSQL has one result a
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

    /// Leaves the rows as the server sent them: the answer's [`raw`](crate::Answer::raw) has them,
    /// and its [`rows`](crate::Answer::rows) have none. No value is made for each field, which is
    /// most of the work where rows are many and each is read once.
    ///
    /// PostgreSQL only, and for queries whose rows come all at once; where others come, they are values
    /// as ever.
    #[must_use]
    pub fn raw_rows(self) -> Self {
        Self {
            form: Form::Raw,
            ..self
        }
    }

    /// Says that it is part of a transaction, and not to be done where that is gone.
    pub(crate) fn of_transaction(self) -> Self {
        Self {
            scope: RequestScope::Transaction,
            ..self
        }
    }

    /// Says that others who know nothing of it use the same session.
    pub(crate) fn shared(self) -> Self {
        Self {
            scope: RequestScope::Shared,
            ..self
        }
    }

    /// Says that it is a part of how the session begins.
    pub(crate) fn of_session(self) -> Self {
        Self {
            scope: RequestScope::Session,
            ..self
        }
    }

    /// What is not answered by then gets an error, and what the server is doing for it is
    /// cancelled.
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }
}

/// Names a request of one driver until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);
