//! The client side of the protocol of MySQL 5.7 and later and of MariaDB 10.2 and later.
//!
//! A [`Connection`] begins with the log-in, which is its request 0, and then accepts requests. The
//! server sends the first message. The owner of the socket feeds received bytes, takes the events,
//! and sends the output of [`take_output`](Connection::take_output):
//!
//! ```
//! use lookaside_wire::mysql::{Connection, Credentials, Event, Request, Startup};
//! use lookaside_wire::{Limits, RequestId};
//!
//! let credentials = Credentials::new([7; 20]); // 20 random bytes
//! let startup = Startup::new("amy").database("shop");
//! let mut connection = Connection::new(&startup, credentials, Limits::default())?;
//! let mut output = Vec::new();
//!
//! // The greeting of a server, and its answer to a log-in without a password.
//! connection.feed(b"\x4a\0\0\0\x0a9.7.4\0\x09\0\0\0\x1b{+(!zj-\0\xff\xff\xff\x02\0\xff\xdf\x15");
//! connection.feed(b"\0\0\0\0\0\0\0\0\0\0h`6P.F^8qK)a\x1d\0mysql_native_password\0");
//! assert!(matches!(connection.next_event()?, Some(Event::Greeting(_))));
//! connection.take_output(&mut output); // goes to the socket
//! connection.feed(b"\x07\0\0\x02\0\0\0\x02\0\0\0");
//! assert!(matches!(
//!     connection.next_event()?,
//!     Some(Event::Ok { id: RequestId::STARTUP, .. })
//! ));
//!
//! let query = connection.queue(Request::Query("select 7 as n"))?;
//! output.clear();
//! connection.take_output(&mut output);
//! connection.feed(b"\x01\0\0\x01\x01");
//! connection.feed(b"\x17\0\0\x02\x03def\0\0\0\x01n\0\x0c?\0\x01\0\0\0\x08\x81\0\0\0\0");
//! connection.feed(b"\x02\0\0\x03\x017\x07\0\0\x04\xfe\0\0\x02\0\0\0");
//! while let Some(event) = connection.next_event()? {
//!     if let Event::Row { id, row } = event {
//!         assert_eq!(id, query);
//!         assert_eq!(row.cells().next(), Some(Some(&b"7"[..])));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # TLS
//!
//! TLS begins in the middle of the log-in. If [`Connection::wants_tls`] returns true, the owner
//! sends the output, does the TLS handshake, and calls [`Connection::tls_started`]; from then on,
//! output and input are the plaintext within TLS.
//!
//! # Pipelining
//!
//! Any number of requests may be queued before the first is answered. Servers process them one by
//! one: each has its own answer, and an error in one does not affect the next. Some proxies do not
//! support pipelining, so an owner that may be connected to one should wait for each answer.
//!
//! # Columns
//!
//! A server describes the columns of each result again, which can be many times as long as the
//! rows. This is reduced as follows:
//!
//! - MariaDB leaves the descriptions out as long as they are unchanged.
//! - Received descriptions are compared with the known ones of the same statement, and decoded only
//!   if they differ. Otherwise, [`Event::Columns`] returns the same [`Columns`] and reports that
//!   they are unchanged.
//! - MySQL leaves them out on demand, without reporting changes: [`Startup::optional_metadata`]
//!   describes the danger.
//!
//! The protocol: <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol>

mod auth;
mod capabilities;
mod commands;
mod connection;
mod frame;
mod fuzz;
mod lenenc;
mod packets;
mod types;

pub use auth::{AuthPlugin, Authentication, Credentials, PublicKey, PublicKeyError, Transport};
pub use capabilities::Capabilities;
pub use commands::{
    BulkWriter, Cursor, Execute, ParameterType, ParameterWriter, Request, Startup, TlsMode,
};
pub use connection::{Connection, Event, Prepared};
#[doc(hidden)]
pub use fuzz::fuzz_mysql;
pub use packets::{
    Cells, Column, Columns, ColumnsIter, ErrPacket, Greeting, OkPacket, Row, RowFormat,
    SessionChange, SessionChanges,
};
pub use types::{ColumnFlags, ColumnType, StatementId, StatusFlags};
