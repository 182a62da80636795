//! The face for event loops: a connection that never waits, and lives on its caller's poller.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use lookaside_wire::postgres::CancelKey;

use super::stream::{Address, Stream};
use super::{Driver, Options, Reply, Request, Ticket, login};
use crate::{Error, Host, PostgresConfig, Result};

/// The least that is read at once: hundreds of short answers.
const READ_SIZE: usize = 16 * 1024;

/// How many reads follow one another at most, so that other descriptors have their turn.
const READ_COUNT_MAX: usize = 16;

/// How long a server may take for a request to cancel. As long nothing else is sent.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// How often it is looked at. A cancellation is rare and takes a round trip or two, so its socket
/// is not worth a place on the caller's poller.
const CANCEL_PERIOD: Duration = Duration::from_millis(5);

/// A connection on somebody's event loop.
///
/// The owner registers [`as_fd`](AsFd::as_fd), level-triggered, for reading, and for writing as long as
/// [`wants_write`](Self::wants_write) says so. Whenever one of them is ready, or
/// [`deadline`](Self::deadline) has come, or requests were submitted, it calls
/// [`turn`](Self::turn) and takes the replies. Requests of one round of the loop go out together.
///
/// ```no_run
/// use std::time::Instant;
///
/// use lookaside_client::postgres::{Options, Request, poll::Connection};
/// # use lookaside_client::PostgresConfig;
/// # fn example(config: &PostgresConfig) -> lookaside_client::Result<()> {
/// let mut connection = Connection::connect(config, &config.hosts[0], Options::default())?;
/// let ticket = connection.submit(Request::new("select 7", &[]))?;
/// loop {
///     connection.turn(Instant::now());
///     while let Some(reply) = connection.next_reply() {
///         println!("{:?} {:?}", reply.ticket == ticket, reply.answers);
///     }
///     // epoll_wait, with the connection among others
/// }
/// # }
/// ```
pub struct Connection {
    stream: Stream,
    driver: Driver,
    cancel: Option<Cancel>,
    wants_write: bool,
}

/// A connection that asks to cancel something.
struct Cancel {
    stream: Stream,
    /// What of the request is not written.
    request: Vec<u8>,
    /// When it is looked at again.
    next: Instant,
    /// When it is given up.
    end: Instant,
}

impl Connection {
    /// Begins to connect. The look-up of a name may block, and so an address is better here; what
    /// follows, the log-in included, happens in [`turn`](Self::turn).
    ///
    /// # Errors
    ///
    /// When the host cannot be reached for a reason that is known at once.
    pub fn connect(config: &PostgresConfig, host: &Host, options: Options) -> Result<Self> {
        login::refuse_tls(config, host)?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in Address::of(host)? {
            match Stream::begin_connect(&address) {
                Ok(stream) => {
                    stream.tune(&config.keepalives).map_err(Error::socket)?;
                    return Ok(Self {
                        stream,
                        driver: login::driver(config, host, options)?,
                        cancel: None,
                        wants_write: true,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(Error::cannot_connect(host, last))
    }

    /// Takes a request, before the log-in is done as well. It goes out with the next
    /// [`turn`](Self::turn).
    ///
    /// # Errors
    ///
    /// When too many wait already, or the connection has ended: then nothing of it was sent.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        self.driver.submit(request)
    }

    /// Takes a request back that nobody waits for any more; there is no reply.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.driver.abandon(ticket);
    }

    /// The next answers, in the order in which they came.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.driver.next_reply()
    }

    /// Whether there is output that the socket did not take.
    pub fn wants_write(&self) -> bool {
        self.wants_write
    }

    /// When a turn is due even if the socket is not ready.
    pub fn deadline(&self) -> Option<Instant> {
        let cancel = self.cancel.as_ref().map(|cancel| cancel.next);
        [self.driver.deadline(), cancel].into_iter().flatten().min()
    }

    /// Whether the log-in is done.
    pub fn is_ready(&self) -> bool {
        self.driver.is_ready()
    }

    /// How many queries wait for their answers.
    pub fn query_count(&self) -> usize {
        self.driver.query_count()
    }

    /// Why the connection has ended, if it has. Everything that waited has a reply then.
    pub fn end(&self) -> Option<&Error> {
        self.driver.end()
    }

    /// Moves what can be moved without waiting.
    pub fn turn(&mut self, now: Instant) {
        if let Err(error) = self.exchange(now) {
            // The server may have said why it does not listen.
            let _ = self.read();
            self.driver.fail(error);
        }
    }

    fn exchange(&mut self, now: Instant) -> io::Result<()> {
        if self.driver.end().is_some() {
            return Ok(());
        }
        self.read()?;
        self.driver.advance(now);
        if let Some(key) = self.driver.take_cancel() {
            self.cancel = Cancel::begin(&self.stream, &key, now).ok();
            if self.cancel.is_none() {
                // A server that cannot be asked goes on, and is waited for.
                self.cancel_done(now);
            }
        }
        if self
            .cancel
            .as_mut()
            .is_some_and(|cancel| cancel.is_done(now))
        {
            self.cancel = None;
            self.cancel_done(now);
        }
        self.wants_write = !self.write()?;
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        for _ in 0..READ_COUNT_MAX {
            let space = self.driver.receive_space(READ_SIZE);
            if space.is_empty() {
                return Ok(());
            }
            let space_size = space.len();
            match self.stream.try_read(space) {
                Ok(Some(0)) => {
                    self.driver.end_of_input();
                    return Ok(());
                }
                Ok(Some(size)) => {
                    self.driver.received(size);
                    if size < space_size {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn cancel_done(&mut self, now: Instant) {
        self.driver.cancel_done();
        self.driver.advance(now);
    }

    /// Writes as much as the socket takes; says whether that was all.
    fn write(&mut self) -> io::Result<bool> {
        loop {
            let output = self.driver.output();
            if output.is_empty() {
                return Ok(true);
            }
            match self.stream.try_write(output)? {
                Some(size) => self.driver.written(size),
                None => return Ok(false),
            }
        }
    }
}

impl Cancel {
    fn begin(stream: &Stream, key: &CancelKey, now: Instant) -> io::Result<Self> {
        let mut request = Vec::new();
        key.cancel_request(&mut request);
        Ok(Self {
            stream: Stream::begin_connect(&stream.peer()?)?,
            request,
            next: now + CANCEL_PERIOD,
            end: now + CANCEL_TIMEOUT,
        })
    }

    /// Whether the server has heard of it, or never will.
    fn is_done(&mut self, now: Instant) -> bool {
        self.next = now + CANCEL_PERIOD;
        while !self.request.is_empty() {
            match self.stream.try_write(&self.request) {
                Ok(Some(size)) => drop(self.request.drain(..size)),
                Ok(None) => return now >= self.end,
                Err(_) => return true,
            }
        }
        // The server closes once it has passed the request on.
        let is_open = matches!(self.stream.try_read(&mut [0]), Ok(None));
        !is_open || now >= self.end
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.close();
        // A server that does not take the farewell finds the end of the stream instead.
        let _ = self.write();
    }
}
