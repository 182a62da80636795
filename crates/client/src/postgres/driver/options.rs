//! The options of a driver.

use lookaside_wire::postgres::ErrorResponse;

use super::hook::{Hook, Notification};

/// The route to the server: direct, or through a pooler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// A direct connection: the session on the server is exclusively ours. The default.
    #[default]
    Direct,
    /// A pooler such as PgBouncer, in its transaction mode: each transaction may run in a different
    /// session.
    ///
    /// Statements are not kept prepared. Each query includes its statement and is one unit up to
    /// its Sync, in one round trip after the first, and its rows are decoded by the description
    /// sent with them: the server parses and plans each query again. Session state, such as
    /// settings and `LISTEN`, is not reliable.
    Pooler,
}

/// The limits and options of one connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// The route to the server.
    pub route: Route,

    /// The number of statements that stay prepared on the server.
    ///
    /// Beyond that, the least recently used one is closed; with 0, each one is closed when the next
    /// one is prepared. The default of 256 is an estimate of what a service uses at most.
    pub statement_count_max: usize,

    /// The number of queries that may wait for their answers.
    ///
    /// Further queries are refused with [`ErrorKind::Limit`](crate::ErrorKind::Limit), and can be
    /// sent again. The default of 262,144 only stops a runaway loop.
    pub query_count_max: usize,

    /// The number of queries in flight.
    ///
    /// Further ones wait in the driver, where they can be cancelled at no cost. The default of
    /// 1,024 is more than enough: 32 give nearly all of the gain.
    pub window: usize,

    /// The largest result, in bytes as the server sends it.
    ///
    /// A larger one is discarded while it comes, and answered with
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit). The default is 1 GiB.
    pub result_size_max: usize,

    /// Called with each notice of the server, such as from `RAISE NOTICE`, as soon as it arrives;
    /// replaces `take_notices`.
    pub on_notice: Option<Hook<ErrorResponse<'static>>>,

    /// Called with each notification of the channels that the session listens to. Without it, they
    /// are dropped. See also [`Listener`](crate::postgres::Listener).
    pub on_notification: Option<Hook<Notification>>,

    /// The limits of the wire protocol.
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
