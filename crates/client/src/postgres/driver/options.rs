//! What a driver may keep.

use lookaside_wire::postgres::ErrorResponse;

use super::hook::{Hook, Notification};

/// What stands between us and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Nothing that matters: a session on the server is ours. The default.
    #[default]
    Direct,
    /// A pooler such as PgBouncer, in its transaction mode: each transaction may run in another
    /// session.
    ///
    /// No statement is kept there. Each query brings its own and is one unit up to its Sync, in
    /// one round trip after the first, and its rows are read as they were described with them: the
    /// server parses and plans each query anew. What a session keeps, settings and `LISTEN` say,
    /// cannot be relied on.
    Pooler,
}

/// The limits of one connection, and what happens there.
#[derive(Clone, Debug)]
pub struct Options {
    /// What stands between us and the server.
    pub route: Route,

    /// How many statements stay prepared on the server.
    ///
    /// One more, and the one that was not used for longest is forgotten; with 0 each is, and the
    /// server is told when the next one is prepared. The default of 256 is an estimate of what a
    /// service asks at most.
    pub statement_count_max: usize,

    /// How many queries may wait for their answers.
    ///
    /// One more is refused with [`ErrorKind::Limit`](crate::ErrorKind::Limit), and can be sent
    /// again. The default of 262,144 only stops a runaway loop.
    pub query_count_max: usize,

    /// How many queries may be on their way to the server and back.
    ///
    /// More stay here, where they cost nothing to give up. The default of 1,024 is beyond what
    /// makes a server faster: thirty-two gain nearly all there is.
    pub window: usize,

    /// The largest result, in bytes as the server sends it.
    ///
    /// A larger one is discarded while it comes, and answered with
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit). The default is 1 GiB.
    pub result_size_max: usize,

    /// Gets each remark of the server, `RAISE NOTICE` say, as soon as it comes, in place of
    /// `take_notices`.
    pub on_notice: Option<Hook<ErrorResponse<'static>>>,

    /// Gets each notification of the channels that the session listens to. Without it, they are
    /// forgotten. A [`Listener`](crate::postgres::Listener) does more.
    pub on_notification: Option<Hook<Notification>>,

    /// What the connection itself takes.
    pub wire: lookaside_wire::Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            route: Route::default(),
            statement_count_max: 256,
            query_count_max: 1 << 18,
            window: 1024,
            result_size_max: 1 << 30,
            on_notice: None,
            on_notification: None,
            wire: lookaside_wire::Limits::default(),
        }
    }
}
