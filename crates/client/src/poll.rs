//! Connections for event loops: they never block, and are driven by their caller's poller.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::driver::{Driver, Fitness, Protocol, Target};
use crate::net::{Attempt, CANCEL_TIMEOUT, MaybeTls, READ_SIZE, Stream};
use crate::{Error, Host, Reply, Request, Result, TargetSession, Ticket};

/// How many reads follow one another at most, so that other descriptors have their turn.
const READ_COUNT_MAX: usize = 16;

/// How often it is looked at. A cancellation is rare and takes a round trip or two, so its socket
/// is not worth a place on the caller's poller.
const CANCEL_PERIOD: Duration = Duration::from_millis(5);

/// A connection that its caller's event loop drives.
///
/// The owner registers [`as_fd`](AsFd::as_fd), level-triggered, for reading, and for writing as long as
/// [`wants_write`](Self::wants_write) says so. Whenever one of them is ready, or
/// [`deadline`](Self::deadline) has come, or requests were submitted, it calls
/// [`turn`](Self::turn) and takes the replies. Requests of one round of the loop go out together.
///
/// Each kind of server has a name for it: [`postgres::poll::Connection`](crate::postgres::poll::Connection).
pub struct Connection<D: Driver> {
    stream: Stream,
    driver: MaybeTls<D>,
    entry: Entry,
    cancel: Option<Cancel<MaybeTls<D::Auxiliary>>>,
    wants_write: bool,
    /// Whether the server has ever said anything.
    is_heard: bool,
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

/// How far the way into the session is gone.
enum Entry {
    /// The server lets us in, or not.
    LogIn(Attempt),
    /// It is asked whether the session will do.
    Check(Attempt, Ticket),
    Done,
}

/// A connection that asks to cancel something.
struct Cancel<E> {
    stream: Stream,
    auxiliary: E,
    /// When it is looked at again.
    next: Instant,
    /// When it is given up.
    end: Instant,
}

impl<D: Driver> Connection<D> {
    /// Begins to connect to one of the hosts. The look-up of a name and the reading of certificates
    /// may block; what follows, the log-in included, happens in [`turn`](Self::turn).
    ///
    /// There is one socket and so one try: where a mode such as `sslmode=prefer` tries a second
    /// way, it is not gone here.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used, or the host cannot be reached for a reason that is
    /// known at once.
    pub fn connect(config: &D::Config, host: &Host, options: D::Options) -> Result<Self> {
        let resolved = config.resolved()?;
        let index = config.hosts().iter().position(|other| other == host);
        let host = index.map_or(host, |index| &resolved.hosts()[index]);
        let attempt = Attempt::only(&resolved, host, Instant::now());
        let way = attempt.prepare(&resolved)?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in way.addresses {
            match Stream::begin_connect(&address) {
                Ok(stream) => {
                    stream.tune(&config.keepalives()).map_err(Error::socket)?;
                    let driver = D::begin(&resolved, host, attempt.transport, options)?;
                    return Ok(Self {
                        stream,
                        driver: MaybeTls::new(driver, way.peer),
                        entry: Entry::LogIn(attempt),
                        cancel: None,
                        wants_write: true,
                        is_heard: false,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(Error::cannot_connect(host, last))
    }

    /// A connection whose log-in is done, and that waits for nothing.
    pub(crate) fn open(stream: Stream, driver: MaybeTls<D>) -> Self {
        Self {
            stream,
            driver,
            entry: Entry::Done,
            cancel: None,
            wants_write: false,
            is_heard: true,
        }
    }

    /// Takes a request, before the log-in is done as well, unless the configuration wants certain
    /// sessions only. It goes out with the next [`turn`](Self::turn).
    ///
    /// # Errors
    ///
    /// When too many wait already, or the connection has ended: then nothing of it was sent.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        match &self.entry {
            Entry::Done => {}
            Entry::LogIn(attempt) if attempt.target == TargetSession::Any => {}
            Entry::LogIn(_) | Entry::Check(..) => return Err(Error::too_early()),
        }
        self.driver.submit(request)
    }

    /// Withdraws a request whose answer is not needed any more; there is no reply.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.driver.abandon(ticket);
    }

    /// The next answers, in the order in which they came.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.driver.next_reply()
    }

    pub(crate) fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Whether there is output that the socket did not take.
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

    /// Whether the log-in is done, and the session is one that will do.
    pub fn is_ready(&self) -> bool {
        matches!(self.entry, Entry::Done)
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
        self.take_turn(now, true);
    }

    /// As [`turn`](Self::turn), without looking for what has come: for a round of the loop in which
    /// requests were submitted, or a deadline has come, and the poller has not said that there is
    /// something to read. It saves a system call.
    pub fn flush(&mut self, now: Instant) {
        self.take_turn(now, false);
    }

    fn take_turn(&mut self, now: Instant, reads: bool) {
        if let Err(error) = self.exchange(now, reads) {
            // The server may have said why it does not listen; who was never there has not.
            if self.is_heard {
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
                // A server that cannot be asked goes on, and is waited for.
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

    /// Goes on with the way into the session.
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
                        // The session may have ended in the same breath.
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
                    self.is_heard = true;
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
        // There may be an answer to it.
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
        // A server that does not take the farewell finds the end of the stream instead.
        let _ = self.stream.drain(&mut self.driver);
    }
}
