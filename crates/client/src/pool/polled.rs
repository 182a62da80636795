//! A connection of a pool on its holder's own event loop.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::return_on_drop::ReturnOnDrop;
use crate::poll::Polled;
use crate::{Error, Reply, Request, Result, Ticket};

/// A connection of a [`Pool`](crate::Pool) that its holder drives, without a task of the pool
/// between a request and the socket.
///
/// It is one of the pool's [`connection_count_max`](crate::PoolOptions::connection_count_max)
/// connections until it is dropped, which closes it. The pool neither checks nor replaces it: its
/// holder should drop one that was idle for long, and one that has [ended](Self::end).
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
    /// The last field, so that the socket is closed when the slot is returned.
    _returned: ReturnOnDrop,
}

impl PolledConnection {
    pub(super) fn new(connection: Box<dyn Polled>, returned: ReturnOnDrop) -> Self {
        Self {
            connection,
            _returned: returned,
        }
    }

    /// Submits a request, which is sent by the next [`turn`](Self::turn) or [`flush`](Self::flush).
    /// These also enforce its deadline, see [`deadline`](Self::deadline).
    ///
    /// # Errors
    ///
    /// When too many requests wait already, or the connection has ended; nothing was sent.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        self.connection.submit(request)
    }

    /// Abandons a request whose answers are no longer needed; there will be no reply.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.connection.abandon(ticket);
    }

    /// Cancels a request: its reply is an error of
    /// [`ErrorKind::Canceled`](crate::ErrorKind::Canceled), and a cancel request is sent to the
    /// server. The following turns send that; until the server has received it, nothing else is
    /// sent.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.connection.cancel(ticket);
    }

    /// The next reply, in the order of arrival.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.connection.next_reply()
    }

    /// Whether there is output that the socket has not accepted.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// When a turn is due even if the socket is not ready.
    pub fn deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// How many queries wait for their answers, not counting those that were cancelled or timed
    /// out.
    pub fn query_count(&self) -> usize {
        self.connection.query_count()
    }

    /// Whether the server is idle, also regarding queries that were cancelled or timed out, and no
    /// cancel request is in flight.
    pub fn is_idle(&self) -> bool {
        self.connection.is_idle()
    }

    /// Why the connection has ended, if it has. All waiting requests have a reply then.
    pub fn end(&self) -> Option<&Error> {
        self.connection.end()
    }

    /// Sends and receives without blocking.
    pub fn turn(&mut self, now: Instant) {
        self.connection.turn(now);
    }

    /// As [`turn`](Self::turn), but without reading, which saves a system call if there is no
    /// input.
    pub fn flush(&mut self, now: Instant) {
        self.connection.flush(now);
    }

    /// Waits until a turn can send or receive, or until a deadline.
    ///
    /// # Errors
    ///
    /// When polling the socket fails.
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
