//! Connections for event loops: they never block, and are driven by their caller's poller.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::driver::{Driver, Fitness, Protocol, Target};
use crate::net::{Attempt, CANCEL_TIMEOUT, MaybeTls, READ_SIZE, Stream};
use crate::{Error, Host, Reply, Request, Result, TargetSession, Ticket};

/// The number of consecutive reads, so that other descriptors have their turn.
const READ_COUNT_MAX: usize = 16;

/// The polling interval of a cancellation. It is rare and takes a round trip or two, so its socket
/// is not registered with the caller's poller.
const CANCEL_PERIOD: Duration = Duration::from_millis(5);

/// A connection that is driven by the caller's event loop.
///
/// The owner registers [`as_fd`](AsFd::as_fd), level-triggered, for reading, and for writing while
/// [`wants_write`](Self::wants_write) returns true. Whenever one of them is ready, or
/// [`deadline`](Self::deadline) has come, or requests were submitted, it calls [`turn`](Self::turn)
/// and takes the replies. Requests of one iteration of the loop are sent together.
///
/// Each kind of server has an alias for it:
/// [`postgres::poll::Connection`](crate::postgres::poll::Connection).
pub struct Connection<D: Driver> {
    stream: Stream,
    driver: MaybeTls<D>,
    entry: Entry,
    cancel: Option<Cancel<MaybeTls<D::Auxiliary>>>,
    wants_write: bool,
    /// Whether any byte was received from the server.
    has_received: bool,
}

/// A connection of either kind of server.
pub(crate) trait Polled: AsFd + Send {
    fn submit(&mut self, request: Request) -> Result<Ticket>;
    fn abandon(&mut self, ticket: Ticket);
    fn cancel(&mut self, ticket: Ticket);
    fn next_reply(&mut self) -> Option<Reply>;
    fn wants_write(&self) -> bool;
    fn deadline(&self) -> Option<Instant>;
    fn query_count(&self) -> usize;
    fn is_idle(&self) -> bool;
    fn end(&self) -> Option<&Error>;
    fn turn(&mut self, now: Instant);
    fn flush(&mut self, now: Instant);
    fn wait(&self, until: Option<Instant>) -> io::Result<()>;
}

/// The progress of establishing the session.
enum Entry {
    /// Logging in.
    LogIn(Attempt),
    /// Checking whether the session is suitable.
    Check(Attempt, Ticket),
    Done,
}

/// A connection that sends a cancel request.
struct Cancel<E> {
    stream: Stream,
    auxiliary: E,
    /// When it is polled again.
    next: Instant,
    /// When it is given up.
    end: Instant,
}

impl<D: Driver> Connection<D> {
    /// Begins to connect to one of the hosts. Resolving a name and reading certificates may block;
    /// the rest, including the log-in, happens in [`turn`](Self::turn).
    ///
    /// There is only one socket and one attempt: the second attempt of modes such as
    /// `sslmode=prefer` is not made.
    ///
    /// # Errors
    ///
    /// When the configuration is invalid, or the connection fails immediately.
    pub fn connect(config: &D::Config, host: &Host, options: D::Options) -> Result<Self> {
        let resolved = config.resolved()?;
        let index = config.hosts().iter().position(|other| other == host);
        let host = index.map_or(host, |index| &resolved.hosts()[index]);
        let attempt = Attempt::only(&resolved, host, Instant::now());
        let resolved_host = attempt.prepare(&resolved)?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in resolved_host.addresses {
            match Stream::begin_connect(&address) {
                Ok(stream) => {
                    stream.tune(&config.keepalives()).map_err(Error::socket)?;
                    let driver = D::begin(&resolved, host, attempt.transport, options)?;
                    return Ok(Self {
                        stream,
                        driver: MaybeTls::new(driver, resolved_host.peer),
                        entry: Entry::LogIn(attempt),
                        cancel: None,
                        wants_write: true,
                        has_received: false,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(Error::cannot_connect(host, last))
    }

    /// Creates a connection that is logged in and idle.
    pub(crate) fn open(stream: Stream, driver: MaybeTls<D>) -> Self {
        Self {
            stream,
            driver,
            entry: Entry::Done,
            cancel: None,
            wants_write: false,
            has_received: true,
        }
    }

    /// Submits a request, also before the log-in is done, unless the configuration requires
    /// particular session attributes. It is sent by the next [`turn`](Self::turn).
    ///
    /// # Errors
    ///
    /// When too many requests wait already, or the connection has ended; nothing was sent.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        match &self.entry {
            Entry::Done => {}
            Entry::LogIn(attempt) if attempt.target == TargetSession::Any => {}
            Entry::LogIn(_) | Entry::Check(..) => return Err(Error::too_early()),
        }
        self.driver.submit(request)
    }

    /// Abandons a request whose answer is no longer needed; there will be no reply.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.driver.abandon(ticket);
    }

    /// The next reply, in the order of arrival.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.driver.next_reply()
    }

    pub(crate) fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Whether there is output that the socket has not accepted.
    pub fn wants_write(&self) -> bool {
        self.wants_write
    }

    /// When a turn is due even if the socket is not ready.
    pub fn deadline(&self) -> Option<Instant> {
        let cancel = self.cancel.as_ref().map(|cancel| cancel.next);
        let entry = match &self.entry {
            Entry::LogIn(attempt) | Entry::Check(attempt, _) => attempt.deadline,
            Entry::Done => None,
        };
        [self.driver.deadline(), cancel, entry]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the log-in is done, and the session is suitable.
    pub fn is_ready(&self) -> bool {
        matches!(self.entry, Entry::Done)
    }

    /// How many queries wait for their answers.
    pub fn query_count(&self) -> usize {
        self.driver.query_count()
    }

    /// Why the connection has ended, if it has. All waiting requests have a reply then.
    pub fn end(&self) -> Option<&Error> {
        self.driver.end()
    }

    /// Sends and receives without blocking.
    pub fn turn(&mut self, now: Instant) {
        self.take_turn(now, true);
    }

    /// Like [`turn`](Self::turn), but without reading: for an iteration of the loop in which
    /// requests were submitted, or a deadline has passed, and the poller has not reported input. It
    /// saves a system call.
    pub fn flush(&mut self, now: Instant) {
        self.take_turn(now, false);
    }

    fn take_turn(&mut self, now: Instant, reads: bool) {
        if let Err(error) = self.exchange(now, reads) {
            // The server may have sent an error before it closed the connection, if it was ever
            // connected.
            if self.has_received {
                let _ = self.read();
            }
            self.driver.fail(error.into());
        }
    }

    fn exchange(&mut self, now: Instant, reads: bool) -> io::Result<()> {
        if self.driver.end().is_some() {
            return Ok(());
        }
        if reads {
            self.read()?;
        }
        self.driver.advance(now);
        self.enter(now);
        if let Some(auxiliary) = self.driver.take_auxiliary() {
            self.cancel = Cancel::begin(&self.stream, self.driver.pair(auxiliary), now).ok();
            if self.cancel.is_none() {
                // If the cancel request fails, the server continues, and the answer is awaited.
                self.auxiliary_done(now);
            }
        }
        if self
            .cancel
            .as_mut()
            .is_some_and(|cancel| cancel.is_done(now))
        {
            self.cancel = None;
            self.auxiliary_done(now);
        }
        self.wants_write = !self.stream.drain(&mut self.driver)?;
        Ok(())
    }

    /// Continues to establish the session.
    fn enter(&mut self, now: Instant) {
        match &self.entry {
            Entry::Done => return,
            Entry::LogIn(attempt) if self.driver.is_ready() => {
                let attempt = attempt.clone();
                self.entry = match self.driver.fitness(attempt.target) {
                    Fitness::Fit => Entry::Done,
                    Fitness::Unfit => {
                        self.driver.fail(Error::unfit_session(attempt.target));
                        Entry::Done
                    }
                    Fitness::Ask(sql) => match self.driver.submit(Request::new(sql, &[])) {
                        Ok(ticket) => {
                            self.driver.advance(now);
                            Entry::Check(attempt, ticket)
                        }
                        // The session may have ended at the same time.
                        Err(error) => {
                            self.driver.fail(error);
                            Entry::Done
                        }
                    },
                };
            }
            Entry::Check(attempt, ticket) => {
                if let Some(reply) = self.driver.next_reply() {
                    assert_eq!(reply.ticket, *ticket, "nothing else was asked");
                    let target = attempt.target;
                    self.entry = Entry::Done;
                    match reply.into_answer() {
                        Ok(answer) if answer.is_true() => {}
                        Ok(_) => self.driver.fail(Error::unfit_session(target)),
                        Err(error) => self.driver.fail(error),
                    }
                }
            }
            Entry::LogIn(_) => {}
        }
        if let Entry::LogIn(attempt) | Entry::Check(attempt, _) = &self.entry
            && attempt.deadline.is_some_and(|deadline| deadline <= now)
        {
            let error = Error::host_timeout(&attempt.host);
            self.driver.fail(error);
        }
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
                    self.has_received = true;
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

    fn auxiliary_done(&mut self, now: Instant) {
        self.driver.auxiliary_done();
        self.driver.advance(now);
    }
}

impl<E: Protocol> Cancel<E> {
    fn begin(stream: &Stream, auxiliary: E, now: Instant) -> io::Result<Self> {
        Ok(Self {
            stream: Stream::begin_connect(&stream.peer()?)?,
            auxiliary,
            next: now + CANCEL_PERIOD,
            end: now + CANCEL_TIMEOUT,
        })
    }

    /// Whether the auxiliary connection is done, or failed.
    fn is_done(&mut self, now: Instant) -> bool {
        self.next = now + CANCEL_PERIOD;
        now >= self.end || self.exchange(now).is_err() || self.auxiliary.is_over()
    }

    fn exchange(&mut self, now: Instant) -> io::Result<()> {
        let Self {
            stream, auxiliary, ..
        } = self;
        auxiliary.advance(now);
        if !stream.drain(auxiliary)? {
            return Ok(());
        }
        match stream.try_read(auxiliary.receive_space(READ_SIZE))? {
            Some(0) => auxiliary.end_of_input(),
            Some(size) => auxiliary.received(size),
            None => return Ok(()),
        }
        // The server may have to be answered.
        auxiliary.advance(now);
        stream.drain(auxiliary).map(drop)
    }
}

impl<D: Driver> Polled for Connection<D> {
    fn submit(&mut self, request: Request) -> Result<Ticket> {
        self.submit(request)
    }

    fn abandon(&mut self, ticket: Ticket) {
        self.abandon(ticket);
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.driver.cancel(ticket);
    }

    fn next_reply(&mut self) -> Option<Reply> {
        self.next_reply()
    }

    fn wants_write(&self) -> bool {
        self.wants_write()
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline()
    }

    fn query_count(&self) -> usize {
        self.query_count()
    }

    fn is_idle(&self) -> bool {
        self.driver.is_idle() && self.cancel.is_none()
    }

    fn end(&self) -> Option<&Error> {
        self.end()
    }

    fn turn(&mut self, now: Instant) {
        self.turn(now);
    }

    fn flush(&mut self, now: Instant) {
        self.flush(now);
    }

    fn wait(&self, until: Option<Instant>) -> io::Result<()> {
        self.stream.wait(self.wants_write, until)
    }
}

impl<D: Driver> AsFd for Connection<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl<D: Driver> Drop for Connection<D> {
    fn drop(&mut self) {
        self.driver.close();
        // If the server does not receive the terminate message, it gets the end of the stream
        // instead.
        let _ = self.stream.drain(&mut self.driver);
    }
}
