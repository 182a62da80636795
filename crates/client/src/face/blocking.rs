//! The face for callers that wait: a connection with a socket of its own.

mod transaction;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use lookaside_value::{ParamBatch, Value};

use crate::drive::{Drive, Talk, Target};
use crate::net::{Address, CANCEL_TIMEOUT, READ_SIZE, Stream};
use crate::{Answer, Description, Error, Host, Request, Result, Syncs, Ticket};

pub use transaction::Transaction;

/// A connection that is waited for.
///
/// Each kind of server has a name for it: [`postgres::blocking::Connection`](crate::postgres::blocking::Connection).
pub struct Connection<D: Drive> {
    stream: Stream,
    driver: D,
}

impl<D: Drive> Connection<D> {
    /// Connects to the first host that can be reached, and logs in.
    ///
    /// # Errors
    ///
    /// When none can be reached (the error is the last one's), or the first that can refuses.
    pub fn connect(config: &D::Config, options: D::Options) -> Result<Self> {
        let mut last = None;
        for host in config.hosts() {
            match Self::connect_host(config, host, options.clone()) {
                // Nothing was asked yet, so nothing can be done twice.
                Err(error) if error.is_retryable() || error.is_connection_lost() => {
                    last = Some(error);
                }
                result => return result,
            }
        }
        Err(last.expect("a configuration has a host"))
    }

    fn connect_host(config: &D::Config, host: &Host, options: D::Options) -> Result<Self> {
        let deadline = config
            .connect_timeout()
            .map(|timeout| Instant::now() + timeout);
        let stream = connect::<D::Config>(host, deadline)?;
        stream.tune(&config.keepalives()).map_err(Error::socket)?;
        let mut connection = Self {
            stream,
            driver: D::begin(config, host, options)?,
        };
        while !connection.driver.is_ready() {
            if let Some(end) = connection.driver.end() {
                return Err(end.clone());
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                let error = io::ErrorKind::TimedOut.into();
                return Err(Error::cannot_connect(host, error));
            }
            connection.turn(deadline);
        }
        Ok(connection)
    }

    /// Asks and waits for the answer; `$1`, `$2`, … stand for the values.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit, or the connection is lost.
    pub fn query(&mut self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<Answer> {
        let mut answers = self.request(Request::new(sql, params))?;
        answers.pop().expect("a query has an answer")
    }

    /// Asks the same with each parameter set, all in one flight.
    ///
    /// # Errors
    ///
    /// When nothing was sent. What happens to a query later is its own result.
    pub fn query_many(
        &mut self,
        sql: impl Into<Arc<str>>,
        params: ParamBatch,
        syncs: Syncs,
    ) -> Result<Vec<Result<Answer>>> {
        self.request(Request::many(sql, params).syncs(syncs))
    }

    /// The names and types of a statement's columns and parameters. It is prepared for that, and
    /// not run.
    ///
    /// # Errors
    ///
    /// When the server refuses the statement, or the connection is lost.
    pub fn describe(&mut self, sql: impl Into<Arc<str>>) -> Result<Arc<Description>> {
        let answers = self.request(Request::describe(sql))?;
        Answer::into_description(answers)
    }

    /// Sends a request and waits for its answers.
    ///
    /// # Errors
    ///
    /// As [`query_many`](Self::query_many).
    pub fn request(&mut self, request: Request) -> Result<Vec<Result<Answer>>> {
        let ticket = self.driver.submit(request)?;
        Ok(self.wait_for(ticket))
    }

    fn wait_for(&mut self, ticket: Ticket) -> Vec<Result<Answer>> {
        loop {
            if let Some(reply) = self.driver.next_reply() {
                // There is one request at a time.
                assert_eq!(reply.ticket, ticket, "an answer is to the last question");
                return reply.answers;
            }
            self.turn(None);
        }
    }

    pub(crate) fn driver(&self) -> &D {
        &self.driver
    }

    /// Whether the connection can be used no more.
    pub fn is_closed(&self) -> bool {
        self.driver.end().is_some()
    }

    /// Writes what there is and reads what comes; waits for something to happen, up to `deadline`.
    fn turn(&mut self, deadline: Option<Instant>) {
        if let Err(error) = self.exchange(deadline) {
            // The server may have said why it does not listen.
            while let Ok(Some(size @ 1..)) =
                self.stream.try_read(self.driver.receive_space(READ_SIZE))
            {
                self.driver.received(size);
            }
            self.driver.fail(error.into());
        }
    }

    fn exchange(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let now = Instant::now();
        self.driver.advance(now);
        if let Some(errand) = self.driver.take_cancel() {
            // Whoever cannot be reached cannot cancel; the answer is awaited instead.
            let _ = self.run(errand);
            self.driver.cancel_done();
            self.driver.advance(now);
        }
        let is_written = self.stream.drain(&mut self.driver)?;
        if self.driver.has_reply() || self.driver.end().is_some() {
            return Ok(());
        }
        // Both deadlines and a server that does not read make it necessary to look at more than
        // the next byte to come. Otherwise one call does it all.
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
        self.driver.advance(Instant::now());
        Ok(())
    }

    /// Runs an errand on a connection of its own.
    fn run(&self, mut errand: D::Errand) -> io::Result<()> {
        let end = Instant::now() + CANCEL_TIMEOUT;
        let stream = Stream::connect(&self.stream.peer()?, Some(CANCEL_TIMEOUT))?;
        loop {
            let now = Instant::now();
            errand.advance(now);
            let is_written = stream.drain(&mut errand)?;
            if errand.is_over() || now >= end {
                return Ok(());
            }
            stream.wait(!is_written, Some(end))?;
            match stream.try_read(errand.receive_space(READ_SIZE))? {
                Some(0) => errand.end_of_input(),
                Some(size) => errand.received(size),
                None => {}
            }
        }
    }
}

impl<D: Drive> Drop for Connection<D> {
    fn drop(&mut self) {
        self.driver.close();
        // A server that does not take it finds the end of the stream instead.
        let _ = self.stream.drain(&mut self.driver);
    }
}

/// Connects to one of a host's addresses.
fn connect<T: Target>(host: &Host, deadline: Option<Instant>) -> Result<Stream> {
    let addresses = Address::of::<T>(host)?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in &addresses {
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            last = io::ErrorKind::TimedOut.into();
            break;
        }
        match Stream::connect(address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(Error::cannot_connect(host, last))
}
