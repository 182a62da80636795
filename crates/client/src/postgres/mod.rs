//! Connections to PostgreSQL.
//!
//! The [`Driver`] does all the thinking, without a socket. Around it are faces for different
//! callers:
//!
//! - [`Client`] for tokio: any number of tasks share one connection;
//! - [`blocking::Connection`] for those that wait;
//! - [`poll::Connection`] for event loops, on their own poller.

pub mod blocking;
mod client;
pub mod driver;
mod login;
pub mod poll;
mod request;
mod stream;
mod task;

pub use client::Client;
pub use driver::{Driver, Options};
pub use lookaside_wire::postgres::{ErrorResponse, Oid, SqlState, TransactionStatus};
pub use request::{Answer, Reply, Request, Syncs, Ticket};
