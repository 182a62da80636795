//! The limits and deadlines of a server.

use std::time::Duration;

use crate::{CaughtPanic, Error, Result};

/// The most headers that [`Options::header_count_max`] may allow.
pub(crate) const HEADER_COUNT_LIMIT: usize = 256;

/// The most that [`Options::connection_count_max`] may allow: the width of the index in a ticket.
const CONNECTION_COUNT_LIMIT: usize = (1 << 24) - 1;

/// The limits and timeouts of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of I/O threads; 0 means one for each processor that the process may run on.
    pub threads: usize,
    /// The request line and all headers, in bytes; more is 431. 32 KiB hold the cookies and
    /// tokens of real clients several times over.
    pub head_size_max: usize,
    /// The number of headers, 256 at most; more is 431. Browsers behind proxies send about 30.
    pub header_count_max: usize,
    /// The request target in bytes; more is 414. 8,000 is the minimum that RFC 9110 recommends.
    pub target_size_max: usize,
    /// The body of a route without its own limit, in bytes; more is 413. The default is what most
    /// servers accept for JSON.
    pub body_size_max: usize,
    /// How many pipelined requests of a connection wait for answers before no more are read.
    /// Load generators send 16, and each costs a buffer when they are answered later.
    pub pipeline_count_max: usize,
    /// How many of those may be deferred at once, by [`Reply::defer`](crate::Reply::defer) and
    /// similar methods: while this many have no answer, no more requests of the connection are
    /// begun. An answer may be large, and counts for `output_size_max` only once it exists.
    pub deferred_count_max: usize,
    /// While more than this many bytes of replies wait to be sent on a connection, no more requests
    /// are read from it. Enough for one send to fill the pipe, small enough for thousands of slow
    /// readers.
    pub output_size_max: usize,
    /// The number of connections of a thread; others wait in the backlog.
    pub connection_count_max: usize,
    /// The time from the first byte of a request, or from the start of the connection, to the end
    /// of the head. After that: 408, or a plain close if no byte has arrived. 15 s: ten times what
    /// slow mobile connections take, and less than the 20 s after which test suites consider a
    /// server vulnerable to slow headers.
    pub header_timeout: Duration,
    /// How long a body may take, in addition to the time that its size allows by `body_rate_min`.
    pub body_timeout: Duration,
    /// The minimum rate of a body after its `body_timeout`, in bytes per second: a slow connection
    /// may take as long as it needs, but a client that trickles bytes may not.
    pub body_rate_min: u64,
    /// How long a body of a [live](crate::Route::live) route may pause; the other time limits of
    /// bodies do not apply to those. 5 minutes: enough for the pauses of a log, and less than the
    /// hours for which a vanished client would occupy its slot.
    pub stream_idle_timeout: Duration,
    /// The minimum rate of such a body after its `stream_idle_timeout`, in bytes per second; 0, the
    /// default, disables the check.
    pub stream_rate_min: u64,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// How long a client may receive no byte while output is pending.
    pub write_timeout: Duration,
    /// How long [`Server::stop`](crate::Server::stop) waits for requests that are being answered.
    pub drain_timeout: Duration,
    /// Where the serial stage runs; `None` gives it a thread if there are more processors than I/O
    /// threads.
    pub serial_place: Option<SerialPlace>,
    /// Called on the I/O thread for each contained panic of a connection or a request, for example
    /// to log it. Panics of a [`SerialStage`](crate::SerialStage) are only counted.
    pub on_panic: Option<fn(&CaughtPanic<'_>)>,
    /// Called on the I/O thread with the status of each request that the server itself refuses, for
    /// example to count it: a malformed, slow or too long one.
    pub on_refusal: Option<fn(u16)>,
    /// The value of the header `Server`; `None` omits it, which reveals less to attackers.
    pub server_name: Option<String>,
}

/// Where a [`SerialStage`](crate::SerialStage) runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SerialPlace {
    /// On its own thread. The right choice if the thread has its own processor, or if the end of
    /// its batches takes long.
    Thread,
    /// On the I/O threads, one at a time: a thread that submits requests while no other thread runs
    /// the stage processes the requests of all threads. No thread is woken for it.
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
            on_refusal: None,
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
        // Offsets in the path are 16-bit numbers, and a head is received in one buffer.
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
