//! Connections that block the calling thread.

mod queryable;
mod transaction;

use std::io;
use std::time::Instant;

use crate::driver::{Driver, Fitness, Protocol, Sealed, Target};
use crate::net::{Address, Attempt, CANCEL_TIMEOUT, MaybeTls, READ_SIZE, Search, Stream, part};
use crate::{Answers, Error, Host, Request, Result, Ticket};

pub use queryable::Queryable;
pub(crate) use queryable::blocking_query_methods;
pub use transaction::{RowStream, Transaction};

/// A connection whose calls block.
///
/// Each kind of server has an alias for it:
/// [`postgres::blocking::Connection`](crate::postgres::blocking::Connection).
pub struct Connection<D: Driver> {
    stream: Stream,
    driver: MaybeTls<D>,
    /// The number of portals that were named so far.
    portal_count: u64,
}

impl<D: Driver> Connection<D> {
    /// Connects to the server of a URL, with the default options; missing parts come from the
    /// environment variables of this process, as with `libpq` and the `mysql` client.
    ///
    /// # Errors
    ///
    /// When the URL is invalid, and as [`connect_with`](Self::connect_with).
    pub fn connect(url: &str) -> Result<Self>
    where
        D::Options: Default,
    {
        let config = url.parse().map_err(Error::config)?;
        Self::connect_with(&config, D::Options::default())
    }

    /// Connects to the first suitable host, and logs in.
    ///
    /// # Errors
    ///
    /// When no host is suitable, or the first reachable one refuses.
    pub fn connect_with(config: &D::Config, options: D::Options) -> Result<Self> {
        let mut search = Search::new(config)?;
        while let Some(attempt) = search.next(Instant::now()) {
            match Self::attempt(search.config(), &attempt, options.clone()) {
                Ok(connection) => return Ok(connection),
                Err(error) => search.failed(attempt, error)?,
            }
        }
        Err(search.into_error())
    }

    fn attempt(config: &D::Config, attempt: &Attempt, options: D::Options) -> Result<Self> {
        let resolved_host = attempt.prepare(config)?;
        let stream = connect(&attempt.host, &resolved_host.addresses, attempt.deadline)?;
        stream.tune(&config.keepalives()).map_err(Error::socket)?;
        let driver = D::begin(config, &attempt.host, attempt.transport, options)?;
        let mut connection = Self {
            stream,
            driver: MaybeTls::new(driver, resolved_host.peer),
            portal_count: 0,
        };
        while !connection.driver.is_ready() {
            connection.step_before(attempt)?;
        }
        match connection.driver.fitness(attempt.target) {
            Fitness::Fit => {}
            Fitness::Unfit => return Err(Error::unfit_session(attempt.target)),
            Fitness::Ask(sql) => connection.check(sql, attempt)?,
        }
        Ok(connection)
    }

    /// A step of a connection attempt, within its deadline.
    fn step_before(&mut self, attempt: &Attempt) -> Result<()> {
        if let Some(end) = self.driver.end() {
            return Err(end.clone());
        }
        if attempt.deadline.is_some_and(|end| end <= Instant::now()) {
            return Err(Error::host_timeout(&attempt.host));
        }
        self.step(attempt.deadline);
        Ok(())
    }

    /// Checks whether the session is suitable.
    fn check(&mut self, sql: &'static str, attempt: &Attempt) -> Result<()> {
        self.driver.submit(Request::new(sql, &[]))?;
        let reply = loop {
            match self.driver.next_reply() {
                Some(reply) => break reply,
                None => self.step_before(attempt)?,
            }
        };
        if reply.into_answer()?.is_true() {
            Ok(())
        } else {
            Err(Error::unfit_session(attempt.target))
        }
    }

    blocking_query_methods!();

    /// Resets the session to its state after the log-in; see
    /// [`Lock::reset`](crate::nonblocking::Lock::reset).
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection is lost.
    pub fn reset(&mut self) -> Result<()> {
        self.answers(D::reset_request())?.into_one()?;
        Ok(())
    }

    /// Waits for the answers to a request, which is the only one, unless a COPY was leaked.
    pub(crate) fn reply(&mut self, ticket: Ticket) -> Answers {
        loop {
            match self.driver.next_reply() {
                Some(reply) if reply.ticket == ticket => return reply.answers,
                Some(_) => {}
                None => self.step(None),
            }
        }
    }

    /// Closes a connection whose transaction cannot be ended in another way.
    fn leave_transaction(&mut self) {
        if self.driver.is_in_transaction() {
            self.driver.fail(Error::still_in_transaction());
        }
    }

    pub(crate) fn driver(&self) -> &D {
        &self.driver
    }

    pub(crate) fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.driver.end().is_some()
    }

    /// Writes pending output and reads available input; waits for an event, up to `deadline`.
    pub(crate) fn step(&mut self, deadline: Option<Instant>) {
        self.step_until(deadline, || false);
    }

    /// Like [`step`](Self::step), but does not wait if `is_done` returns true once all output is
    /// written.
    pub(crate) fn step_until(&mut self, deadline: Option<Instant>, is_done: impl FnOnce() -> bool) {
        if let Err(error) = self.exchange(deadline, is_done) {
            // The server may have sent an error before it closed the connection.
            while let Ok(Some(size @ 1..)) =
                self.stream.try_read(self.driver.receive_space(READ_SIZE))
            {
                self.driver.received(size);
            }
            self.driver.fail(error.into());
        }
    }

    fn exchange(
        &mut self,
        deadline: Option<Instant>,
        is_done: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        let now = Instant::now();
        self.driver.advance(now);
        if let Some(auxiliary) = self.driver.take_auxiliary() {
            let end = now + CANCEL_TIMEOUT;
            // A probe of the server during the connect is bounded by its deadline.
            let end = match deadline {
                Some(deadline) if !self.driver.is_ready() => deadline.min(end),
                _ => end,
            };
            // If the server cannot be reached, nothing is cancelled, and the answer is awaited
            // instead.
            let _ = self.run(auxiliary, end);
            self.driver.auxiliary_done();
            self.driver.advance(now);
        }
        let is_written = self.stream.drain(&mut self.driver)?;
        if self.driver.has_reply() || self.driver.end().is_some() || is_done() {
            return Ok(());
        }
        // With a deadline, or with a server that does not read, polling is needed. Otherwise one
        // blocking read is enough.
        let deadline = [deadline, self.driver.deadline()]
            .into_iter()
            .flatten()
            .min();
        let size = if is_written && deadline.is_none() {
            self.stream.read(self.driver.receive_space(READ_SIZE))?
        } else {
            self.stream.wait(!is_written, deadline)?;
            self.stream.try_read(self.driver.receive_space(READ_SIZE))?
        };
        match size {
            Some(0) => self.driver.end_of_input(),
            Some(size) => self.driver.received(size),
            None => {}
        }
        // Without a deadline, the current time is not needed.
        let now = deadline.map_or(now, |_| Instant::now());
        self.driver.advance(now);
        Ok(())
    }

    /// Drives an auxiliary connection, and gives up at `end`.
    fn run(&self, auxiliary: D::Auxiliary, end: Instant) -> io::Result<()> {
        let mut auxiliary = self.driver.pair(auxiliary);
        let timeout = end.saturating_duration_since(Instant::now());
        if timeout.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let stream = Stream::connect(&self.stream.peer()?, Some(timeout))?;
        loop {
            let now = Instant::now();
            auxiliary.advance(now);
            let is_written = stream.drain(&mut auxiliary)?;
            if auxiliary.is_over() || now >= end {
                return Ok(());
            }
            stream.wait(!is_written, Some(end))?;
            match stream.try_read(auxiliary.receive_space(READ_SIZE))? {
                Some(0) => auxiliary.end_of_input(),
                Some(size) => auxiliary.received(size),
                None => {}
            }
        }
    }
}

impl<D: Driver> Sealed for Connection<D> {}

impl<D: Driver> Queryable for Connection<D> {
    fn answers(&mut self, request: Request) -> Result<Answers> {
        let ticket = self.driver.submit(request)?;
        Ok(self.reply(ticket))
    }
}

impl<D: Driver> Drop for Connection<D> {
    fn drop(&mut self) {
        self.driver.close();
        // If the server does not receive it, it gets the end of the stream instead.
        let _ = self.stream.drain(&mut self.driver);
    }
}

/// Connects to one of a host's addresses.
fn connect(host: &Host, addresses: &[Address], deadline: Option<Instant>) -> Result<Stream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for (index, address) in addresses.iter().enumerate() {
        let deadline = part(deadline, addresses.len() - index, Instant::now());
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Error::host_timeout(host));
        }
        match Stream::connect(address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(Error::cannot_connect(host, last))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::{Config, Environment};

    /// A host with several addresses, of which the first does not answer.
    #[test]
    fn a_silent_address_leaves_time_for_the_next() {
        let full = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let address = full.local_addr().unwrap();
        let short = Duration::from_millis(200);
        let mut kept = Vec::new();
        // Until the backlog is full.
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, short) {
            kept.push(stream);
        }
        let good = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [address, good.local_addr().unwrap()].map(Address::Tcp);
        let url = "postgres://amy@db/shop";
        let config = Config::parse(url, &Environment::empty()).unwrap();
        let deadline = Some(Instant::now() + Duration::from_secs(4));
        let stream = connect(&config.hosts()[0], &addresses, deadline).unwrap();
        let Address::Tcp(peer) = stream.peer().unwrap() else {
            panic!("it is on TCP");
        };
        assert_eq!(peer, good.local_addr().unwrap());
    }
}
