//! The limits and deadlines of a server.

use std::time::Duration;

use crate::{CaughtPanic, Error, Result};

/// The most headers that [`Options::header_count_max`] may allow.
pub(crate) const HEADER_COUNT_LIMIT: usize = 256;

/// The most that [`Options::connection_count_max`] may allow: a ticket has so much room for an index.
const CONNECTION_COUNT_LIMIT: usize = (1 << 24) - 1;

/// What a server takes from its clients, and for how long it waits for them.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many I/O threads there are; 0 is one for each processor that the process may run on.
    pub threads: usize,
    /// The request line and all headers, in bytes; more is 431. 32 KiB hold the cookies and
    /// tokens of real clients several times over.
    pub head_size_max: usize,
    /// More headers are 431; 256 at most. Browsers behind proxies send about 30.
    pub header_count_max: usize,
    /// The request target in bytes; more is 414. 8,000 is what RFC 9110 asks for at least.
    pub target_size_max: usize,
    /// The body of a route that has no limit of its own, in bytes; more is 413. As much as most
    /// servers take for JSON.
    pub body_size_max: usize,
    /// How many pipelined requests of a connection wait for answers before no more are read.
    /// Load generators send 16, and each costs a buffer when they are answered later.
    pub pipeline_count_max: usize,
    /// How many of those may be put off at once, by [`Reply::defer`](crate::Reply::defer) and the
    /// like: while so many have no answer, no more requests of the connection are begun. An answer
    /// may be large, and is counted by `output_size_max` only once it is there.
    pub deferred_count_max: usize,
    /// A connection whose client leaves more bytes than this unread, or for which more wait behind
    /// a reply that is late, is not read any more.
    /// Enough for one send to fill the pipe, little enough for thousands of slow readers.
    pub output_size_max: usize,
    /// How many connections a thread holds; others wait in the system's queue.
    pub connection_count_max: usize,
    /// From the first byte of a request, or from the connection's begin, to the end of the head.
    /// Past it: 408, or nothing when not a byte has come. 15 s: ten times what slow mobile lines
    /// take, and clear of the 20 s after which test suites call a server open to slow headers.
    pub header_timeout: Duration,
    /// How long a body may take, beside the time that its size allows by `body_rate_min`.
    pub body_timeout: Duration,
    /// Bytes a second that a body has to bring from its `body_timeout` on: a slow line may take
    /// as long as it needs, a client that drips may not.
    pub body_rate_min: u64,
    /// How long a body of a [live](crate::Route::live) route may pause; the other limits of bodies
    /// are not for those. 5 minutes: the quiet times of a log, less than the hours for which a
    /// client that vanished would hold its place.
    pub stream_idle_timeout: Duration,
    /// Bytes a second that such a body has to bring from its `stream_idle_timeout` on; 0, the
    /// default, asks for none.
    pub stream_rate_min: u64,
    /// How long a connection may stay between two requests.
    pub idle_timeout: Duration,
    /// How long a client may take no byte of what is sent to it.
    pub write_timeout: Duration,
    /// How long [`Server::stop`](crate::Server::stop) waits for requests that are being answered.
    pub drain_timeout: Duration,
    /// Where the serial stage does its work; `None` gives it a thread when there is a processor
    /// for that beside those of the I/O threads.
    pub serial_place: Option<SerialPlace>,
    /// What is told of each panic that ended one connection or one request, on its I/O thread and at
    /// once: a line in a log. Those of a [`SerialStage`](crate::SerialStage) are only counted.
    pub on_panic: Option<fn(&CaughtPanic<'_>)>,
    /// The value of the header `Server`; `None` leaves it out, which tells attackers less.
    pub server_name: Option<String>,
}

/// Where a [`SerialStage`](crate::SerialStage) does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SerialPlace {
    /// On a thread of its own. Right where it has a processor of its own, and where the end of its
    /// batches takes long.
    Thread,
    /// On the I/O threads, one at a time: whichever has requests for it while nobody is at work
    /// does what all have. No thread is woken for it.
    IoThreads,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 0,
            head_size_max: 32 << 10,
            header_count_max: 100,
            target_size_max: 8_000,
            body_size_max: 1 << 20,
            pipeline_count_max: 64,
            deferred_count_max: 16,
            output_size_max: 256 << 10,
            connection_count_max: 100_000,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            body_rate_min: 16 << 10,
            stream_idle_timeout: Duration::from_secs(300),
            stream_rate_min: 0,
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            serial_place: None,
            on_panic: None,
            server_name: None,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [
            ("head_size_max", self.head_size_max),
            ("target_size_max", self.target_size_max),
            ("pipeline_count_max", self.pipeline_count_max),
            ("deferred_count_max", self.deferred_count_max),
            ("output_size_max", self.output_size_max),
            ("connection_count_max", self.connection_count_max),
            (
                "body_rate_min",
                usize::try_from(self.body_rate_min).unwrap_or(usize::MAX),
            ),
        ];
        for (name, value) in positive {
            if value == 0 {
                return Err(Error::bad_option(name, "more than 0"));
            }
        }
        // Parts of the path are kept as 16-bit numbers, and a head is received in one piece.
        if self.target_size_max > usize::from(u16::MAX) {
            return Err(Error::bad_option("target_size_max", "at most 65535"));
        }
        if self.connection_count_max > CONNECTION_COUNT_LIMIT {
            return Err(Error::bad_option("connection_count_max", "less than 2^24"));
        }
        if self.header_count_max == 0 || self.header_count_max > HEADER_COUNT_LIMIT {
            return Err(Error::bad_option("header_count_max", "1 to 256"));
        }
        if let Some(name) = &self.server_name
            && !name.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        {
            return Err(Error::bad_option("server_name", "printable ASCII"));
        }
        Ok(())
    }
}
