//! Connections to MySQL and MariaDB.
//!
//! The [`MysqlDriver`] is the connection state machine, without a socket. Three kinds of connections own a
//! socket and drive it:
//!
//! - [`Client`] for tokio, which any number of tasks can share;
//! - [`blocking::Connection`], whose calls block the thread;
//! - [`poll::Connection`], which is driven by an event loop.

mod auxiliary;
pub mod driver;
mod kill;
mod login;
mod probe;
mod target;

pub use auxiliary::AuxiliaryConnection;
pub use driver::{Definitions, MysqlDriver, Options};
pub use kill::KillConnection;
pub use lookaside_wire::mysql::ErrPacket;
pub use probe::Probe;

/// A connection for tokio that any number of tasks can share.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lookaside_client::mysql::Client;
/// use lookaside_client::params;
///
/// let url = "mysql://amy@localhost/shop?socket=/run/mysqld/mysqld.sock";
/// let client = Client::connect(url).await?;
/// let sql = "select name from goods where id = ?";
/// let (tea, bread) = (params![7], params![8]);
/// let (a, b) = tokio::join!(client.query_one(sql, tea), client.query_opt(sql, bread));
/// println!("{:?} {:?}", a?, b?);
/// # Ok(())
/// # }
/// ```
pub type Client = crate::nonblocking::Client<MysqlDriver>;

/// Connections that block.
pub mod blocking {
    use super::MysqlDriver;

    /// A connection whose calls block the thread.
    ///
    /// ```no_run
    /// use lookaside_client::mysql::blocking::Connection;
    /// use lookaside_client::params;
    ///
    /// let url = "mysql://amy@localhost/shop?socket=/run/mysqld/mysqld.sock";
    /// let mut connection = Connection::connect(url)?;
    /// let answer = connection.query("select name from goods where id = ?", params![7])?;
    /// println!("{:?}", answer.rows);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub type Connection = crate::blocking::Connection<MysqlDriver>;
}

/// Connections for event loops.
pub mod poll {
    use super::MysqlDriver;

    /// A connection that never blocks, driven by the caller's event loop; see
    /// [`postgres::poll::Connection`](crate::postgres::poll::Connection) for a loop around one.
    pub type Connection = crate::poll::Connection<MysqlDriver>;
}
