//! Connections to PostgreSQL and MySQL servers.
//!
//! [`Config`] parses the usual connection URLs. A [`Pool`] shares connections between tasks;
//! [`postgres`] and [`mysql`] have single connections. [`types`] converts results of a server to
//! values, and values to the parameter types of a server.
//!
//! ```
//! use lookaside_client::{Config, Environment};
//!
//! let config = Config::parse("postgres://app:s%2Fcret@db1,db2/geo?sslmode=require", &Environment::empty())?;
//! assert_eq!(config.to_string(), "postgres://app@db1:5432,db2:5432/geo");
//! # Ok::<(), lookaside_client::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

mod answer;
mod answers;
pub mod blocking;
mod cancel;
mod config;
mod copy;
mod description;
mod driver;
mod error;
mod jitter;
pub mod mysql;
mod net;
pub mod nonblocking;
mod output;
pub mod poll;
mod pool;
pub mod postgres;
mod queryable;
mod raw_rows;
mod request;
mod script;
mod sync;
mod timer;
mod transaction;
pub mod types;

/// The guide's examples are run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/DRIVERS.md")]
struct Guide;

pub use answer::Answer;
pub use answers::{Answers, Reply};
pub use cancel::CancelToken;
pub use config::{
    ChannelBinding, ClientCertificate, Config, ConfigError, Environment, Host, HostAddress,
    Keepalives, LoadBalance, MysqlConfig, PostgresConfig, RootCertificates, Secret, ServerKey,
    SslMode, TargetSession, Tls, TlsNegotiation, passfile_password,
};
pub use description::Description;
pub use driver::{Check, Driver, Fitness, Protocol, Target, Transport, Trust, Upgrade};
pub use error::{Error, ErrorKind, Result};
pub use lookaside_value::{ParamBatch, Row, RowRef, RowSet, Value};
pub use pool::{
    PolledConnection, Pool, PoolLock, PoolOptions, PoolSavepoint, PoolStatus, PoolTransaction,
};
pub use queryable::Queryable;
pub use request::{Request, Syncs, Ticket};
pub use script::ScriptPart;
pub use transaction::{Isolation, TransactionOptions};
