//! The client side of the PostgreSQL protocol, versions 3.0 and 3.2.
//!
//! A [`Connection`] begins with the log-in, which is its request 0, and then accepts requests. The
//! owner of the socket sends the output of [`take_output`](Connection::take_output), feeds received
//! bytes, and takes the events:
//!
//! ```
//! use lookaside_wire::postgres::{
//!     Connection, Credentials, Event, Request, Startup, TransactionStatus,
//! };
//! use lookaside_wire::{Limits, RequestId};
//!
//! let credentials = Credentials::new([7; 18]); // 18 random bytes
//! let startup = Startup::new("amy").database("shop");
//! let mut connection = Connection::new(&startup, credentials, Limits::default())?;
//! let mut output = Vec::new();
//! connection.take_output(&mut output); // goes to the socket
//!
//! // The answer of a server with `trust` authentication.
//! connection.feed(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
//! assert!(matches!(connection.next_event()?, Some(Event::Authentication(_))));
//! assert!(matches!(
//!     connection.next_event()?,
//!     Some(Event::Ready { id: RequestId::STARTUP, status: TransactionStatus::Idle })
//! ));
//!
//! let query = connection.queue(Request::Query("select 7"))?;
//! connection.take_output(&mut output);
//! connection.feed(b"T\0\0\0\x21\0\x01?column?\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0");
//! connection.feed(b"D\0\0\0\x0b\0\x01\0\0\0\x017C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
//! while let Some(event) = connection.next_event()? {
//!     if let Event::DataRow { id, row } = event {
//!         assert_eq!(id, query);
//!         assert_eq!(row.fields().next(), Some(Some(&b"7"[..])));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Pipelining
//!
//! Any number of requests may be queued before the first is answered. Those of the extended query
//! protocol up to a [`Request::Sync`] are a batch: they are one transaction, if none is open. If
//! one of them fails, the server skips the rest, up to that Sync and never further: the failed one
//! gets [`Event::Failed`], later ones are listed by [`Event::Skipped`], and earlier ones are rolled
//! back although they were answered. So unrelated requests should have a Sync each, unless they are
//! read-only: then one Sync for all is faster, and skipped requests can be queued again.
//!
//! # COPY
//!
//! A COPY from the client must be the last pending request when it starts, except for Syncs: a
//! server that waits for data treats any other message as fatal. See [`Connection::copy_data`].
//! A COPY in both directions is a stream of [`replication`].
//!
//! The protocol: <https://www.postgresql.org/docs/current/protocol.html>

mod auth;
mod backend;
mod cancel_key;
mod connection;
mod frame;
mod frontend;
mod fuzz;
mod tls;
mod types;
mod version;

pub mod replication;

pub use auth::{ChannelBinding, Credentials};
pub use backend::{
    Authentication, Column, Columns, CommandTag, CopyResponse, DataRow, ErrorResponse, Fields,
    Mechanisms, NegotiateProtocolVersion, NoticeResponse, NotificationResponse,
    ParameterDescription, ParameterStatus, RowDescription, SqlState, TransactionStatus,
};
pub use cancel_key::CancelKey;
pub use connection::{Connection, Event};
pub use frontend::{Bind, Execution, ExecutionOptions, Parse, Request, Startup};
#[doc(hidden)]
pub use fuzz::fuzz_postgres;
pub use tls::{SSL_REQUEST, SslAnswer};
pub use types::{Format, Formats, Oid};
pub use version::ProtocolVersion;
