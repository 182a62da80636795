//! Connections to MySQL and MariaDB.
//!
//! The [`MysqlDriver`] is the state machine, without a socket. Around it are connections: [`Client`],
//! [`blocking`] and [`poll`]
//! for different callers:
//!
//! - [`Client`] for tokio: any number of tasks share one connection;
//! - [`blocking::Connection`] for those that wait;
//! - [`poll::Connection`] for event loops, on their own poller.

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

/// A connection for tokio that any number of tasks share.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lookaside_client::mysql::{Client, Options};
/// use lookaside_client::{Config, Environment};
/// use lookaside_value::Value;
///
/// let url = "mysql://amy@localhost/shop?socket=/run/mysqld/mysqld.sock";
/// let Config::Mysql(config) = Config::parse(url, &Environment::of_process())? else {
///     unreachable!("the URL is MySQL's");
/// };
/// let client = Client::connect(&config, Options::default()).await?;
/// let sql = "select name from goods where id = ?";
/// let (a, b) = tokio::join!(
///     client.query(sql, &[Value::Int(7)]),
///     client.query(sql, &[Value::Int(8)]),
/// );
/// println!("{:?} {:?}", a?.rows, b?.rows);
/// # Ok(())
/// # }
/// ```
pub type Client = crate::nonblocking::Client<MysqlDriver>;

/// Connections that block.
pub mod blocking {
    use super::MysqlDriver;

    /// A connection that is waited for.
    ///
    /// ```no_run
    /// use lookaside_client::mysql::{Options, blocking::Connection};
    /// use lookaside_client::{Config, Environment};
    /// use lookaside_value::Value;
    ///
    /// let url = "mysql://amy@localhost/shop?socket=/run/mysqld/mysqld.sock";
    /// let Config::Mysql(config) = Config::parse(url, &Environment::of_process())? else {
    ///     unreachable!("the URL is MySQL's");
    /// };
    /// let mut connection = Connection::connect(&config, Options::default())?;
    /// let answer = connection.query("select name from goods where id = ?", &[Value::Int(7)])?;
    /// println!("{:?}", answer.rows);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub type Connection = crate::blocking::Connection<MysqlDriver>;
}

/// Connections for event loops.
pub mod poll {
    use super::MysqlDriver;

    /// A connection that never waits, and lives on its caller's poller; see
    /// [`postgres::poll::Connection`](crate::postgres::poll::Connection) for a loop around one.
    pub type Connection = crate::poll::Connection<MysqlDriver>;
}
