//! Database protocols without I/O: bytes in, bytes and events out.
//!
//! The connection state machines of this crate use no sockets, clocks, threads or randomness. Their
//! owner moves bytes between them and a server in any way: blocking, on an event loop, or from a
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
//! - No input causes a panic. Counts and lengths from a peer do not reserve memory before the bytes
//!   are received, and everything that can grow has a limit in [`Limits`].
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
