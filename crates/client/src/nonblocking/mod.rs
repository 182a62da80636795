//! Connections for tokio, for both protocols: any number of tasks share a [`Client`].
//!
//! [`postgres::Client`](crate::postgres::Client) and [`mysql::Client`](crate::mysql::Client) are
//! its two kinds. [`blocking`](crate::blocking) has connections that block, and
//! [`poll`](crate::poll) has those that an event loop drives.

mod activity;
mod claim;
mod client;
mod command_queue;
mod dial;
mod inbox;
mod lock;
mod task;
mod transaction;

pub(crate) use claim::passed;
pub use client::Client;
pub(crate) use client::ConnectionWatch;
pub(crate) use dial::{Dialed, Socket, dial, first_session};
pub use lock::Lock;
pub(crate) use lock::{PendingAnswers, StepTimeout};
pub use transaction::{RowStream, Transaction};
