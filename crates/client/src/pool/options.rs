//! What a pool may do.

use std::time::Duration;

use super::planner::Limits;
use crate::{Syncs, mysql, postgres};

/// What a longer time is taken for; a clock cannot count to the end of the longest.
pub(super) const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How many connections a pool has, how long they live, and how they begin.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// How many connections there are at most.
    ///
    /// The default of 8 leaves most of a server's usual hundred to others. It is a limit and not a
    /// wish: see [`pipeline_depth`](Self::pipeline_depth). Less than one is one.
    pub connection_count_max: usize,

    /// How many connections are kept open, from the first request on. By default none.
    pub connection_count_min: usize,

    /// How many requests may be under way on a connection before another is used or opened.
    ///
    /// Few connections with much under way answer more than many with little: what waits for the
    /// same socket travels in one write and is read at once. But one connection is one core of the
    /// server's: the default of 32 leaves 64 tasks two of them, which was faster than one connection
    /// for all of them and than eight with 8 each.
    ///
    /// Where most requests take long on the server, 1 is better: then each has a connection for
    /// itself as long as there are enough.
    pub pipeline_depth: usize,

    /// How long a connection may owe an answer, beyond a round trip to the server, before it is
    /// stalled and requests go elsewhere.
    ///
    /// Answers come in the order of the questions, so one that takes long holds up those after it.
    /// While another connection can be opened, no request goes after a query that is older than
    /// this: it waits for the new connection, which takes milliseconds, or for the answer that is
    /// owed, whichever is first. The default of 3 ms is beyond a lookup, and about what a connection
    /// takes. The round trip is measured when connections are made, so it need not be added.
    pub stall: Duration,

    /// How the queries are separated from each other whose [`Request`](crate::Request) does not say.
    ///
    /// The default is a Sync each. [`Syncs::Shared`] promises that **all** of those queries only
    /// read, functions that they call included; requests that write then say
    /// [`Syncs::Each`] themselves. Nothing is concluded from the text of a statement, except that
    /// one that is seen to write gets its own Sync all the same.
    pub syncs: Syncs,

    /// How long a request without a deadline may take, waiting for a connection
    /// included. Then it fails with [`ErrorKind::Deadline`](crate::ErrorKind::Deadline), and what
    /// the server does for it is cancelled. It holds for each request of a [`PoolLock`](crate::PoolLock)
    /// as well, the begin and the end of its transactions included. A COPY whose data comes or goes piece
    /// by piece takes as long as its caller likes; what it bounds there is each wait for the server.
    ///
    /// The default is 30 seconds: longer than any lookup. `None` waits for as long as the server
    /// takes; a server that is gone is noticed all the same, unless its machine goes on answering.
    pub query_timeout: Option<Duration>,

    /// Whether a request is canceled whose future is dropped before it is answered, as by
    /// [`Request::cancel_on_drop`](crate::Request::cancel_on_drop). It holds for the requests of a
    /// [`PoolLock`](crate::PoolLock) and of its transactions as well, where PostgreSQL refuses all that
    /// follows one that was canceled; not for the begin and the end of transactions, for COPY and for
    /// row streams, which end as they would. By default it is not, because each cancellation opens a
    /// connection to the server.
    pub cancel_on_drop: bool,

    /// How long a request waits for a connection. The default is 10 seconds.
    ///
    /// Making one takes no longer either: where a URL names several hosts, each is tried for its
    /// part of that time, or for the URL's own `connect_timeout` if that is less.
    pub acquire_timeout: Duration,

    /// After how long without a request a connection is closed. The default is a minute.
    pub idle_timeout: Option<Duration>,

    /// After how long a connection is replaced, less up to a tenth so that not all are replaced at
    /// once. By default never.
    pub lifetime_max: Option<Duration>,

    /// How long a connection may be idle and is used again without being checked.
    ///
    /// The end of a connection is noticed in any case; a check finds a server that vanished without
    /// a word, and costs the first request after a pause a round trip. The default is 5 seconds.
    pub check_after: Duration,

    /// How long a server may take to answer a check, and what a dropped [`PoolLock`](crate::PoolLock)
    /// leaves under way, the end of its transaction included. Then the connection is closed. The
    /// default is 5 seconds.
    pub check_timeout: Duration,

    /// SQL that each connection runs before it is used, such as `set jit = off`. A connection on
    /// which one fails is none.
    pub session: Vec<String>,

    /// What a connection to PostgreSQL may keep.
    pub postgres: postgres::Options,

    /// What a connection to MySQL or MariaDB may keep. One with as many requests under way as its
    /// [`window`](mysql::Options::window) is full, whatever the `pipeline_depth`.
    pub mysql: mysql::Options,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            connection_count_max: 8,
            connection_count_min: 0,
            pipeline_depth: 32,
            stall: Duration::from_millis(3),
            syncs: Syncs::Each,
            query_timeout: Some(Duration::from_secs(30)),
            cancel_on_drop: false,
            acquire_timeout: Duration::from_secs(10),
            idle_timeout: Some(Duration::from_secs(60)),
            lifetime_max: None,
            check_after: Duration::from_secs(5),
            check_timeout: Duration::from_secs(5),
            session: Vec::new(),
            postgres: postgres::Options::default(),
            mysql: mysql::Options::default(),
        }
    }
}

impl PoolOptions {
    /// The limits of a pool on whose connections so many requests are under way at once.
    pub(super) fn limits(&self, depth_max: usize) -> Limits {
        let count_max = self.connection_count_max.max(1);
        Limits {
            count_max,
            count_min: self.connection_count_min.min(count_max),
            depth: self.pipeline_depth.min(depth_max).max(1),
            stall: self.stall.min(FOREVER),
            idle_timeout: self.idle_timeout.map(|time| time.min(FOREVER)),
            lifetime_max: self.lifetime_max.map(|time| time.min(FOREVER)),
            check_after: self.check_after.min(FOREVER),
            check_timeout: self.check_timeout.min(FOREVER),
        }
    }
}
