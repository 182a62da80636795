//! Connections to PostgreSQL.
//!
//! The [`PostgresDriver`] is the connection state machine, without a socket. Three kinds of connections own a
//! socket and drive it:
//!
//! - [`Client`] for tokio, which any number of tasks can share;
//! - [`blocking::Connection`], whose calls block the thread;
//! - [`poll::Connection`], which is driven by an event loop.
//!
//! Two others are re-established when they are lost: a [`Listener`] receives notifications, and a
//! [`ChangeFeed`] the changes of tables.

mod back_off;
mod cancel;
mod copy;
pub mod driver;
pub mod feed;
mod listener;
mod prologue;
mod target;

use std::sync::Arc;

use crate::{Answer, Request, Result};

pub use crate::raw_rows::{RawField, RawIter, RawRow, RawRows};
pub use cancel::CancelConnection;
pub use copy::{CopyIn, CopyOut};
pub use driver::{Hook, Notices, Notification, Options, PostgresDriver, Route};
pub use feed::{ChangeFeed, FeedEvent, FeedOptions, FeedStart};
pub use listener::{Listener, ListenerEvent, ListenerOptions};
pub use lookaside_wire::postgres::{ErrorResponse, Oid, SqlState, TransactionStatus};

/// A connection for tokio that any number of tasks can share.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lookaside_client::params;
/// use lookaside_client::postgres::Client;
///
/// let client = Client::connect("postgres:///shop").await?;
/// let sql = "select name from goods where id = $1";
/// let (tea, bread) = (params![7], params![8]);
/// let (a, b) = tokio::join!(client.query_one(sql, tea), client.query_opt(sql, bread));
/// println!("{:?} {:?}", a?, b?);
/// # Ok(())
/// # }
/// ```
pub type Client = crate::nonblocking::Client<PostgresDriver>;

impl Client {
    /// Runs a [script](Request::script), once all earlier requests are answered.
    ///
    /// # Errors
    ///
    /// When nothing was sent.
    pub async fn script(
        &self,
        sql: impl Into<Arc<str>>,
        row_count_max: usize,
    ) -> Result<Vec<Result<Answer>>> {
        self.request(Request::script(sql, row_count_max)).await
    }
}

/// Connections that block.
pub mod blocking {
    mod copy;

    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{Notices, PostgresDriver, TransactionStatus};
    use crate::driver::Driver as _;
    use crate::{Answer, Request, Result};

    pub use copy::{CopyIn, CopyOut};

    /// A connection whose calls block the thread.
    ///
    /// ```no_run
    /// use lookaside_client::params;
    /// use lookaside_client::postgres::blocking::Connection;
    ///
    /// let mut connection = Connection::connect("postgres://amy@localhost/shop?sslmode=disable")?;
    /// let answer = connection.query("select name from goods where id = $1", params![7])?;
    /// println!("{:?}", answer.rows);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub type Connection = crate::blocking::Connection<PostgresDriver>;

    impl Connection {
        /// The transaction status after the last query.
        pub fn transaction_status(&self) -> TransactionStatus {
            self.driver().transaction_status()
        }

        /// Runs a [script](Request::script): any number of statements, each with its own answer.
        ///
        /// ```no_run
        /// # use lookaside_client::postgres::blocking::Connection;
        /// # fn example(mut connection: Connection) -> lookaside_client::Result<()> {
        /// let sql = "create table t (a integer); insert into t values (7); select * from t";
        /// for answer in connection.script(sql, 100)? {
        ///     let answer = answer?;
        ///     println!("{:?} {:?}", answer.script.unwrap().tag, answer.rows);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// When nothing was sent. A later error is the last answer.
        pub fn script(
            &mut self,
            sql: impl Into<Arc<str>>,
            row_count_max: usize,
        ) -> Result<Vec<Result<Answer>>> {
            self.request(Request::script(sql, row_count_max))
        }

        /// The version that the server reports, such as `18.6`.
        pub fn server_version(&self) -> &str {
            self.driver().server_version()
        }

        /// The notices of the server since the last call.
        pub fn take_notices(&mut self) -> Notices {
            self.driver_mut().take_notices()
        }

        /// Waits for an unsolicited message of the server, such as a notification, which is passed
        /// to the [hooks](super::Hook). May return earlier; returns after `timeout` at the latest.
        ///
        /// ```no_run
        /// # fn example(config: &lookaside_client::PostgresConfig) -> lookaside_client::Result<()> {
        /// use std::sync::mpsc;
        /// use std::time::Duration;
        ///
        /// use lookaside_client::postgres::{Hook, Options, blocking::Connection};
        ///
        /// let (sender, said) = mpsc::channel();
        /// let options = Options {
        ///     on_notification: Some(Hook::new(move |notification| drop(sender.send(notification)))),
        ///     ..Options::default()
        /// };
        /// let mut connection = Connection::connect_with(config, options)?;
        /// connection.query("listen goods", &[])?;
        /// loop {
        ///     connection.wait(Duration::from_secs(1))?;
        ///     for notification in said.try_iter() {
        ///         println!("{}", notification.payload);
        ///     }
        /// }
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// When the connection is lost.
        pub fn wait(&mut self, timeout: Duration) -> Result<()> {
            self.step(Instant::now().checked_add(timeout));
            match self.driver().end() {
                Some(end) => Err(end.clone()),
                None => Ok(()),
            }
        }
    }
}

/// Connections for event loops.
pub mod poll {
    use super::{Notices, PostgresDriver};

    /// A connection that never blocks, driven by the caller's event loop.
    ///
    /// ```no_run
    /// use std::time::Instant;
    ///
    /// use lookaside_client::Request;
    /// use lookaside_client::postgres::{Options, poll::Connection};
    /// # use lookaside_client::PostgresConfig;
    /// # fn example(config: &PostgresConfig) -> lookaside_client::Result<()> {
    /// let mut connection = Connection::connect(config, &config.hosts[0], Options::default())?;
    /// let ticket = connection.submit(Request::new("select 7", &[]))?;
    /// loop {
    ///     connection.turn(Instant::now());
    ///     while let Some(reply) = connection.next_reply() {
    ///         println!("{:?} {:?}", reply.ticket == ticket, reply.answers);
    ///     }
    ///     // epoll_wait, with the connection among others
    /// }
    /// # }
    /// ```
    pub type Connection = crate::poll::Connection<PostgresDriver>;

    impl Connection {
        /// The notices of the server since the last call.
        pub fn take_notices(&mut self) -> Notices {
            self.driver_mut().take_notices()
        }
    }
}
