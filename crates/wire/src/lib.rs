//! Database protocols without I/O: bytes in, bytes and events out.
//!
//! A machine of this crate knows no socket, clock, thread or source of randomness. Its owner moves
//! bytes between it and a server, in whatever way suits: blocking, on an event loop, or from a
//! file in a test.
//!
//! ```text
//!   queue(request) ──► ┌────────────┐ ──► take_output(&mut bytes) ──► socket
//!                      │ Connection │
//!   next_event()   ◄── └────────────┘ ◄── feed(&bytes)            ◄── socket
//! ```
//!
//! - Requests are answered in the order in which they were queued; events carry the [`RequestId`].
//! - Rows are read in place, in the receive buffer: an event borrows the connection.
//! - No input panics. What a peer counts or measures reserves no memory before its bytes are here,
//!   and whatever can grow has a limit in [`Limits`].
#![forbid(unsafe_code)]

mod error;
mod input;
mod limits;
mod read;
mod receive;
mod request_id;

pub mod mysql;
pub mod postgres;

pub use error::{ErrorKind, ProtocolError, RequestError};
pub use limits::Limits;
pub use request_id::{RequestId, RequestIds};
