//! What a driver may keep.

use std::time::Duration;

/// The limits of one connection, and what happens there.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many statements stay prepared on the server.
    ///
    /// One more, and the one that was not used for longest is forgotten. A server has a limit for
    /// all of its connections together, `max_prepared_stmt_count`, of 16,382 by default; where it
    /// is reached, this connection forgets all of its own and tries again. On MariaDB there is one
    /// more, which does nothing. The default of 256 is an estimate of what a service asks at most.
    pub statement_count_max: usize,

    /// How many queries may wait for their answers.
    ///
    /// One more is refused with [`ErrorKind::Limit`](crate::ErrorKind::Limit), and can be sent
    /// again. The default of 262,144 only stops a runaway loop.
    pub query_count_max: usize,

    /// How many queries may be on their way to the server and back.
    ///
    /// MySQL and MariaDB themselves answer any number of queries that come one after another, and
    /// 32 give nearly all that can be gained. But that is not documented, and proxies have been seen to
    /// lose their place: so the default is 1, and more is for those who know that no proxy is in
    /// between.
    pub window: usize,

    /// The largest result, in bytes as the server sends it.
    ///
    /// A larger one is discarded while it comes, and answered with
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit). The default is 1 GiB.
    pub result_size_max: usize,

    /// Lets MySQL (since 8.0.3) leave out the definitions of a result's columns where the request
    /// [says](crate::Request::pinned_columns) that they do not change, and has them sent all the
    /// same when so much time has passed since.
    ///
    /// **Dangerous.** The server says nothing when a table changes. A row that does not use up its
    /// bytes exactly, or another number of columns, is noticed; columns that were exchanged are not,
    /// until the next check. `None`, the default, has them sent always, and compared before they are
    /// read, which costs little but the network. MariaDB leaves them out by itself, and safely.
    pub pinned_check_after: Option<Duration>,

    /// What is done with the definitions of columns that come. The default compares them.
    pub definitions: Definitions,

    /// What the connection itself takes.
    pub wire: lookaside_wire::Limits,
}

/// What is done with the definitions of a result's columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Definitions {
    /// They are compared with those of the last time, and read if they differ. MariaDB leaves them out
    /// where they do not.
    #[default]
    Compare,
    /// They come with each answer and are read each time, as most drivers do it: to measure what that
    /// costs.
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
