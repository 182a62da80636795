//! The protocol of MySQL 5.7 and later and of MariaDB 10.2 and later, as a client speaks it.
//!
//! A [`Connection`] begins with the log-in, which is its request 0, and then takes requests. The
//! server speaks first. The one who owns the socket feeds what comes, takes the events, and sends
//! what [`take_output`](Connection::take_output) gives:
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
//! // What a server says first, and what it answers to somebody without a password.
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
//! It begins in the middle of the log-in. When [`Connection::wants_tls`] says so, the owner sends
//! the output, does the TLS handshake, and calls [`Connection::tls_started`]; from then on, what is
//! taken and fed is the inside of it.
//!
//! # Pipelining
//!
//! Any number of requests may be queued before the first is answered. Servers take them one by one:
//! each has its own answer, and an error in one does not touch the next. Some proxies do not stand
//! it, so an owner who may talk to one waits for each answer.
//!
//! # Columns
//!
//! A server describes the columns of each result anew, which can be many times as long as the rows.
//! What is done about it:
//!
//! - MariaDB leaves the descriptions out as long as they are the same, and says when they are not.
//! - The others are compared with what is known of the same statement, and read only if they are
//!   other ones. [`Event::Columns`] gives the same [`Columns`] again and says so.
//! - MySQL leaves them out on demand, without saying when they change:
//!   [`Startup::optional_metadata`] has the hazard.
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
