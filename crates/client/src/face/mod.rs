//! The faces that a connection has, whatever protocol it speaks:
//!
//! - [`Client`] for tokio: any number of tasks share one connection;
//! - [`blocking::Connection`] for those that wait;
//! - [`poll::Connection`] for event loops, on their own poller.
//!
//! Each module of a server's kind has names of its own for them, such as
//! [`postgres::Client`](crate::postgres::Client).

mod activity;
pub mod blocking;
mod client;
mod inbox;
mod intake;
mod lock;
pub mod poll;
mod task;
mod transaction;
mod turn;

pub use client::Client;
pub(crate) use client::Watch;
pub use lock::Lock;
pub(crate) use lock::{StepTimeout, Waiting};
pub use transaction::{RowStream, Transaction};
pub(crate) use turn::passed;
