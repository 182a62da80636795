//! The options of a driver.

use std::time::Duration;

/// The limits and options of one connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of statements that stay prepared on the server.
    ///
    /// Beyond that, the least recently used one is closed. A server has a limit for all of its
    /// connections together, `max_prepared_stmt_count`, 16,382 by default; if it is reached, this
    /// connection closes all of its own and tries again. On MariaDB there is one more, a no-op. The
    /// default of 256 is an estimate of what a service uses at most.
    pub statement_count_max: usize,

    /// The number of queries that may wait for their answers.
    ///
    /// Further queries are refused with [`ErrorKind::Limit`](crate::ErrorKind::Limit), and can be
    /// sent again. The default of 262,144 only stops a runaway loop.
    pub query_count_max: usize,

    /// The number of queries in flight.
    ///
    /// MySQL and MariaDB themselves support pipelining of any number of queries, and 32 give nearly
    /// all of the gain. But that is undocumented, and some proxies break on it: so the default is
    /// 1; use more only if there is no proxy in between.
    pub window: usize,

    /// The largest result, in bytes as the server sends it.
    ///
    /// A larger one is discarded while it comes, and answered with
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit). The default is 1 GiB.
    pub result_size_max: usize,

    /// Lets MySQL (since 8.0.3) omit the definitions of a result's columns if the request
    /// [promises](crate::Request::pinned_columns) that they do not change; they are sent again
    /// after this time.
    ///
    /// **Dangerous.** The server does not report that a table has changed. A row of the wrong size,
    /// or another number of columns, is detected; swapped columns are not, until the next check.
    /// `None`, the default, requests them always, and compares them before parsing, which costs
    /// little except bandwidth. MariaDB omits them by itself, and safely.
    pub pinned_check_after: Option<Duration>,

    /// How received column definitions are handled. The default compares them.
    pub definitions: Definitions,

    /// The limits of the wire protocol.
    pub wire: lookaside_wire::Limits,
}

/// How the definitions of a result's columns are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Definitions {
    /// They are compared with the last ones, and parsed if they differ. MariaDB omits them if they
    /// do not.
    #[default]
    Compare,
    /// They are sent with each answer and parsed each time, as in most drivers: to measure the cost
    /// of that.
    Read,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            statement_count_max: 256,
            query_count_max: 1 << 18,
            window: 1,
            result_size_max: 1 << 30,
            pinned_check_after: None,
            definitions: Definitions::Compare,
            wire: lookaside_wire::Limits::default(),
        }
    }
}
