//! A strict and fast HTTP/1.1 server library, independent of any database.
//!
//! Each I/O thread has its own poller, its own connections and its own value of a [`Service`]:
//! there are no locks, and a request that is answered at once needs no allocation. A [`Router`] is
//! a service made of closures.
//!
//! ```
//! use lookaside_http::{Listen, Options, Router, Server};
//!
//! let listen: Listen = "127.0.0.1:0".parse()?;
//! let server = Server::start(Options::default(), vec![listen], |_io| {
//!     let mut router = Router::new(0_u64); // the state of a thread
//!     router.get("/hello/{name}", |count, request, reply| {
//!         *count += 1;
//!         let name = request.param_decoded("name").unwrap_or_default();
//!         reply.header_number("X-Count", *count).text(&format!("Hello, {name}!\n"));
//!     });
//!     router
//! })?;
//! println!("listening on {}", server.addresses()[0]);
//! server.stop();
//! server.join()?;
//! # Ok::<(), lookaside_http::Error>(())
//! ```
//!
//! - **Strict.** An ambiguous request is refused, and nothing after a refused one is read. All
//!   sizes and times have a limit in [`Options`].
//! - **Now or later.** A [`Reply`] is written directly into the output, or deferred: a [`Ticket`]
//!   is answered on its thread, a [`Deferred`] from any other. Replies are sent in the order of the
//!   requests, whichever is ready first.
//! - **In pieces.** Bodies of [streamed](Route::streamed) routes go to a [`BodySink`] or, through a
//!   [`BodyReader`], to another thread; those of replies come from a [`BodyStream`], a
//!   [`BodyWriter`] or a [file](Reply::file). The faster side waits.
//! - **On one poller.** A service [watches](Io::watch) its own descriptors and starts
//!   [timers](Io::timer), so that a database connection is driven by the same thread as the
//!   requests that wait for it, and [`Service::batch_end`] sends the queries of a batch together.
//! - **In one order.** A [`SerialStage`] handles the requests of its routes from all threads one
//!   after another, and owns its state without a lock.
#![forbid(unsafe_code)]

mod caught;
mod channel;
mod clock;
mod connection;
mod counters;
pub mod encoding;
mod error;
mod fuzz;
mod http_date;
mod io;
mod listen;
mod listener;
mod mailbox;
mod method;
mod monitor;
pub mod negotiate;
mod options;
mod parse;
mod peer;
mod poller;
mod pool;
mod query;
mod remote;
mod render;
mod request;
mod response;
mod route;
mod router;
mod serial;
mod serial_executor;
mod server;
mod service;
mod slab;
mod static_files;
mod status;
mod ticket;
mod tls;
mod wheel;
mod worker;

pub use caught::{CaughtPanic, PanicStage};
pub use channel::SlowBody;
pub use counters::Counters;
pub use error::{Error, ErrorKind, Result};
#[doc(hidden)]
pub use fuzz::fuzz_requests;
pub use io::{BodySink, BodyStream, Io, Presence, Reply, Timer, Watch};
pub use listen::{Address, Listen};
pub use mailbox::Waker;
pub use method::Method;
pub use monitor::Monitor;
pub use options::{Options, SerialPlace};
pub use peer::Peer;
pub use poller::{Interest, Readiness};
pub use query::QueryPairs;
pub use remote::{BodyReader, BodyWriter, Deferred};
pub use request::Request;
pub use response::Response;
pub use route::{BodyMode, Route};
pub use router::Router;
pub use serial::{SerialReply, SerialRequest, SerialStage};
pub use server::{Builder, Server, Stopper};
pub use service::Service;
pub use static_files::{StaticFiles, StaticOptions};
pub use ticket::Ticket;
pub use tls::Tls;
#[doc(hidden)]
pub use tls::TlsFuzz;

/// The state of a serial stage's ring.
pub use lookaside_pipeline::Snapshot as RingSnapshot;
