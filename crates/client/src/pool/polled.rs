//! A connection of a pool on its holder's own event loop.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::return_on_drop::ReturnOnDrop;
use crate::poll::Polled;
use crate::{Error, Reply, Request, Result, Ticket};

/// A connection of a [`Pool`](crate::Pool) that its holder drives: no task of the pool stands between
/// a request and the socket.
///
/// It is one of the pool's [`connection_count_max`](crate::PoolOptions::connection_count_max)
/// connections until it is dropped, which closes it. The pool neither checks nor replaces it: its holder
/// lets go of one that was idle for long, and of one that has [ended](Self::end).
///
/// The methods are those of [`postgres::poll::Connection`](crate::postgres::poll::Connection), except
/// that it is logged in from the start.
///
/// ```no_run
/// # async fn example(pool: &lookaside_client::Pool) -> lookaside_client::Result<()> {
/// use std::time::Instant;
///
/// use lookaside_client::Request;
/// use lookaside_value::Value;
///
/// let mut connection = pool.lock().await?.into_polled().await?;
/// let ticket = connection.submit(Request::new("select $1::int + 1", &[Value::Int(41)]))?;
/// connection.flush(Instant::now());
/// let reply = loop {
///     if let Some(reply) = connection.next_reply() {
///         break reply;
///     }
///     // Or on a poller, beside other descriptors.
///     connection.wait(None)?;
///     connection.turn(Instant::now());
/// };
/// assert_eq!(reply.ticket, ticket);
/// # Ok(())
/// # }
/// ```
pub struct PolledConnection {
    connection: Box<dyn Polled>,
    /// Last, so that the socket is closed when its place is given back.
    _returned: ReturnOnDrop,
}

impl PolledConnection {
    pub(super) fn new(connection: Box<dyn Polled>, returned: ReturnOnDrop) -> Self {
        Self {
            connection,
            _returned: returned,
        }
    }

    /// Takes a request, which goes out with the next [`turn`](Self::turn) or [`flush`](Self::flush).
    /// Its deadline is kept to by these as well, see [`deadline`](Self::deadline).
    ///
    /// # Errors
    ///
    /// When too many wait already, or the connection has ended: then nothing of it was sent.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        self.connection.submit(request)
    }

    /// Takes back a request whose answers are not wanted any more; there is no reply.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.connection.abandon(ticket);
    }

    /// Cancels a request: its reply is an error of [`ErrorKind::Canceled`](crate::ErrorKind::Canceled), and
    /// the server is asked to end what it does for it. The turns that follow send that; until the server
    /// has taken it, nothing else is sent.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.connection.cancel(ticket);
    }

    /// The next answers, in the order in which they came.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.connection.next_reply()
    }

    /// Whether there is output that the socket did not take.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// When a turn is due even if the socket is not ready.
    pub fn deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// How many queries wait for their answers, without those that were cancelled or were too late.
    pub fn query_count(&self) -> usize {
        self.connection.query_count()
    }

    /// Whether the server works on nothing, also not on queries that were cancelled or were too late, and
    /// no cancellation is under way.
    pub fn is_idle(&self) -> bool {
        self.connection.is_idle()
    }

    /// Why the connection has ended, if it has. Everything that waited has a reply then.
    pub fn end(&self) -> Option<&Error> {
        self.connection.end()
    }

    /// Moves what can be moved without waiting.
    pub fn turn(&mut self, now: Instant) {
        self.connection.turn(now);
    }

    /// As [`turn`](Self::turn), without reading, which saves a system call where nothing has come.
    pub fn flush(&mut self, now: Instant) {
        self.connection.flush(now);
    }

    /// Waits until a turn has something to move, or until then.
    ///
    /// # Errors
    ///
    /// When the socket cannot be waited for.
    pub fn wait(&self, until: Option<Instant>) -> Result<()> {
        self.connection.wait(until).map_err(Error::from)
    }
}

impl AsFd for PolledConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl fmt::Debug for PolledConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolledConnection")
            .field("query_count", &self.query_count())
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}
