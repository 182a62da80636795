//! What a pool may do.

use std::time::Duration;

use super::plan::Limits;
use crate::{mysql, postgres};

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

    /// How long a connection may owe an answer before requests go elsewhere if they can.
    ///
    /// Answers come in the order of the questions, so one that takes long holds up those behind it.
    /// The default of 20 ms is far beyond a lookup, and far below what a report takes.
    pub stall: Duration,

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

    /// How long a server may take to answer a check. The default is 5 seconds.
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
            stall: Duration::from_millis(20),
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
