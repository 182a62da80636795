//! A connection that is opened again when it is lost.

use std::time::Duration;

use redis::{Cmd, Connection, ErrorKind, RedisError, RedisResult, Value};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a reply may take. A server that is busy with a long script or with its disk is not given
/// up early, as what has no reply is sent again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of the time between two attempts.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(2);

/// A client of a server.
pub(super) struct Client {
    name: String,
    client: redis::Client,
    connection: Option<Connection>,
    /// How many connections there were.
    generation: u64,
    backoff: Duration,
}

/// Why the server did not do what it should.
#[derive(Debug)]
pub(super) enum Failure {
    /// It cannot be reached, or cannot do it at the moment; it may later.
    Away(String),
    /// The consumer group does not exist.
    NoGroup,
    /// It never will.
    Refused(String),
}

impl Client {
    pub(super) fn new(name: &str, client: redis::Client) -> Self {
        Self {
            name: name.to_owned(),
            client,
            connection: None,
            generation: 0,
            backoff: *BACKOFF.start(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Connects unless connected, and returns the number of the connection.
    pub(super) fn connect(&mut self) -> Result<u64, Failure> {
        if self.connection.is_none() {
            self.connection = Some(self.open().map_err(|error| Failure::of(&error))?);
            self.generation += 1;
        }
        Ok(self.generation)
    }

    fn open(&self) -> RedisResult<Connection> {
        let connection = self.client.get_connection_with_timeout(CONNECT_TIMEOUT)?;
        connection.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        connection.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
        Ok(connection)
    }

    /// The result of a command.
    pub(super) fn call(&mut self, command: &Cmd) -> Result<Value, Failure> {
        let packed = command.get_packed_command();
        let mut reply = Value::Nil;
        self.call_all(&packed, 1, |_, value| {
            reply = value?;
            Ok(())
        })?;
        Ok(reply)
    }

    /// Sends several commands at once, and calls `take` with each reply in their order until it
    /// fails.
    pub(super) fn call_all(
        &mut self,
        packed: &[u8],
        count: usize,
        mut take: impl FnMut(usize, Result<Value, Failure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.connect()?;
        // It is put back if it can be used further.
        let mut connection = self.connection.take().expect("there is a connection");
        let mut result = Ok(());
        let mut lost = connection.send_packed_command(packed).err();
        let mut is_closed = false;
        for index in 0..count {
            // Replies that the server sent before it closed the connection are still there.
            let reply = match connection.recv_response().and_then(Value::extract_error) {
                Ok(value) => Ok(value),
                Err(error) if is_reply(&error) => Err(Failure::of(&error)),
                Err(error) => {
                    lost.get_or_insert(error);
                    break;
                }
            };
            is_closed |= matches!(&reply, Err(failure) if failure.closes());
            if result.is_ok() {
                result = take(index, reply);
            }
            if is_closed {
                break;
            }
        }
        match lost {
            None if is_closed => {}
            None => self.connection = Some(connection),
            Some(error) => result = result.and(Err(Failure::Away(error.to_string()))),
        }
        if result.is_ok() {
            self.backoff = *BACKOFF.start();
        }
        result
    }

    /// The time until the next attempt.
    pub(super) fn next_backoff(&mut self) -> Duration {
        let backoff = self.backoff;
        self.backoff = (backoff * 2).min(*BACKOFF.end());
        backoff
    }
}

/// Whether an error is a reply of the server, after which the connection can be used.
fn is_reply(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

impl Failure {
    fn of(error: &RedisError) -> Self {
        let text = error.to_string();
        if error.kind() == ErrorKind::AuthenticationFailed {
            return Self::Refused(text);
        }
        if !is_reply(error) {
            return Self::Away(text);
        }
        match error.code() {
            // The second one says that the stream was removed during a read that waited.
            Some("NOGROUP" | "UNBLOCKED") => Self::NoGroup,
            Some(
                "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS"
                | "OOM" | "READONLY" | "TRYAGAIN",
            ) => Self::Away(text),
            _ if text.contains("max number of clients") => Self::Away(text),
            _ => Self::Refused(text),
        }
    }

    /// Whether the server refuses the bytes of a command, after which it closes the connection.
    pub(super) fn is_protocol_error(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.contains("Protocol error"))
    }

    /// Whether the connection is of no further use. A server that became a replica stays one, while
    /// its name may lead to another server.
    fn closes(&self) -> bool {
        self.is_protocol_error()
            || matches!(self, Self::Away(reason) if reason.contains("READONLY"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_attempts_grows_to_a_limit() {
        let mut client = Client::new("redis://a", redis::Client::open("redis://a").unwrap());
        let times: Vec<_> = (0..8).map(|_| client.next_backoff().as_millis()).collect();
        assert_eq!(times, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }
}
