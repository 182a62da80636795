//! The options of a pool.

use std::time::Duration;

use super::planner::Limits;
use crate::{Syncs, mysql, postgres};

/// The limit of timeouts: adding longer ones to the clock could overflow.
pub(super) const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How many connections a pool has, how long they live, and how they begin.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The maximum number of connections.
    ///
    /// The default of 8 leaves most of a server's usual hundred to others. It is only a limit: see
    /// [`pipeline_depth`](Self::pipeline_depth) for when connections are opened. 0 counts as 1.
    pub connection_count_max: usize,

    /// The minimum number of connections that are kept open after the first request. 0 by default.
    pub connection_count_min: usize,

    /// The number of requests in flight on a connection before another one is used or opened.
    ///
    /// Few connections with many requests have a higher throughput than many with few: requests
    /// that wait for the same socket share one write and one read. But one connection uses only one
    /// core of the server: with the default of 32, 64 tasks use two connections, which was faster
    /// than one connection for all of them and than eight with 8 each.
    ///
    /// If most requests take long on the server, 1 is better: then each request has its own
    /// connection as long as there are enough.
    pub pipeline_depth: usize,

    /// How long an answer may be outstanding on a connection, beyond a round trip to the server,
    /// before the connection is stalled and requests prefer other connections.
    ///
    /// Answers arrive in the order of the requests, so a slow one delays those after it. While
    /// another connection can be opened, no request is queued after a query that is older than
    /// this: it waits for the new connection, which takes milliseconds, or for the outstanding
    /// answer, whichever is first. The default of 3 ms is longer than a lookup, and about the time
    /// to open a connection. The round trip is measured when connections are opened, so it need not
    /// be included.
    pub stall: Duration,

    /// How queries are separated from each other, unless their [`Request`](crate::Request) sets it.
    ///
    /// The default is a Sync each. [`Syncs::Shared`] promises that **all** of those queries are
    /// read-only, including functions that they call; requests that write must set [`Syncs::Each`]
    /// themselves. The text of a statement is not analyzed, except that one that evidently writes
    /// gets its own Sync nevertheless.
    pub syncs: Syncs,

    /// How long a request without a deadline may take, waiting for a connection included. After
    /// that it fails with [`ErrorKind::Deadline`](crate::ErrorKind::Deadline), and is cancelled on
    /// the server. It applies to each request of a [`PoolLock`](crate::PoolLock) as well, including
    /// the begin and the end of its transactions. A streamed COPY may take as long as its caller
    /// needs; there, it bounds each wait for the server.
    ///
    /// The default is 30 seconds: longer than any lookup. `None` waits without a limit; a vanished
    /// server is still detected, unless its machine continues to acknowledge.
    pub query_timeout: Option<Duration>,

    /// Whether a request is canceled whose future is dropped before it is answered, as by
    /// [`Request::cancel_on_drop`](crate::Request::cancel_on_drop). It holds for the requests of a
    /// [`PoolLock`](crate::PoolLock) and of its transactions as well, where PostgreSQL refuses all that
    /// follows one that was canceled; not for the begin and the end of transactions, for COPY and for
    /// row streams, which end as they would. By default it is not, because each cancellation opens a
    /// connection to the server.
    pub cancel_on_drop: bool,

    /// The limit for waiting for a connection. The default is 10 seconds.
    ///
    /// It also bounds the time to open a connection: if a URL has several hosts, each is tried for
    /// an equal part of that time, or for the URL's own `connect_timeout` if that is less.
    pub acquire_timeout: Duration,

    /// The idle time after which a connection is closed. The default is a minute.
    pub idle_timeout: Option<Duration>,

    /// The age at which a connection is replaced, minus a random part of up to a tenth so that not
    /// all are replaced at once. By default never.
    pub lifetime_max: Option<Duration>,

    /// The idle time after which a connection is checked before it is used again.
    ///
    /// A closed connection is detected in any case; a check detects a server that vanished, and
    /// costs the first request after a pause a round trip. The default is 5 seconds.
    pub check_after: Duration,

    /// The limit for the answer to a check, and for requests that a dropped
    /// [`PoolLock`](crate::PoolLock) leaves in flight, including the end of its transaction. After
    /// that, the connection is closed. The default is 5 seconds.
    pub check_timeout: Duration,

    /// SQL that each connection runs before it is used, such as `set jit = off`. If one fails, the
    /// connection is not used.
    pub session: Vec<String>,

    /// The options of connections to PostgreSQL.
    pub postgres: postgres::Options,

    /// The options of connections to MySQL or MariaDB. A connection with as many requests in flight
    /// as its [`window`](mysql::Options::window) is full, whatever the `pipeline_depth`.
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
    /// The limits of a pool whose connections may have `depth_max` requests in flight.
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
