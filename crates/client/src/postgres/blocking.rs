//! The face for callers that wait: a connection with a socket of its own.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use lookaside_value::{ParamBatch, Value};
use lookaside_wire::postgres::{CancelKey, TransactionStatus};

use super::stream::{Address, Stream};
use super::{Answer, Driver, Options, Request, Syncs, Ticket, login};
use crate::{Description, Error, Host, PostgresConfig, Result};

/// The least that is read at once: hundreds of short answers.
const READ_SIZE: usize = 16 * 1024;

/// A connection that is waited for.
///
/// ```no_run
/// use lookaside_client::postgres::{Options, blocking::Connection};
/// use lookaside_client::{Config, Environment};
/// use lookaside_value::Value;
///
/// let url = "postgres://amy@localhost/shop?sslmode=disable";
/// let Config::Postgres(config) = Config::parse(url, &Environment::of_process())? else {
///     unreachable!("the URL is PostgreSQL's");
/// };
/// let mut connection = Connection::connect(&config, Options::default())?;
/// let answer = connection.query("select name from goods where id = $1", &[Value::Int(7)])?;
/// println!("{:?}", answer.rows);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connection {
    stream: Stream,
    driver: Driver,
}

impl Connection {
    /// Connects to the first host that can be reached, and logs in.
    ///
    /// # Errors
    ///
    /// When none can be reached (the error is the last one's), or the first that can refuses.
    pub fn connect(config: &PostgresConfig, options: Options) -> Result<Self> {
        let mut last = None;
        for host in &config.hosts {
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

    fn connect_host(config: &PostgresConfig, host: &Host, options: Options) -> Result<Self> {
        login::refuse_tls(config, host)?;
        let deadline = config
            .connect_timeout
            .map(|timeout| Instant::now() + timeout);
        let stream = connect(host, deadline)?;
        stream.tune(&config.keepalives).map_err(Error::socket)?;
        let mut connection = Self {
            stream,
            driver: login::driver(config, host, options)?,
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

    /// Where the last query left the transaction.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.driver.transaction_status()
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
            self.driver.fail(error);
        }
    }

    fn exchange(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let now = Instant::now();
        self.driver.advance(now);
        if let Some(key) = self.driver.take_cancel() {
            // Whoever cannot be reached cannot cancel; the answer is awaited instead.
            let _ = self.cancel(&key);
            self.driver.cancel_done();
            self.driver.advance(now);
        }
        let is_written = self.write()?;
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

    fn cancel(&self, key: &CancelKey) -> io::Result<()> {
        let stream = Stream::connect(&self.stream.peer()?, Some(CANCEL_TIMEOUT))?;
        let mut request = Vec::new();
        key.cancel_request(&mut request);
        stream.try_write(&request)?;
        // The server closes once it has passed the request on.
        stream.wait(false, Some(Instant::now() + CANCEL_TIMEOUT))
    }
}

/// How long a server may take for a request to cancel. As long nothing else is sent.
const CANCEL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.close();
        // A server that does not take it finds the end of the stream instead.
        let _ = self.write();
    }
}

/// Connects to one of a host's addresses.
fn connect(host: &Host, deadline: Option<Instant>) -> Result<Stream> {
    let addresses: Vec<Address> = Address::of(host)?;
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
