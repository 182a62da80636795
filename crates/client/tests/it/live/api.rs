//! The three kinds of connections, to do the same with each.

use std::time::{Duration, Instant};

use lookaside_client::postgres::{Client, Options, blocking, poll};
use lookaside_client::{Answer, PostgresConfig, Request, Result};
use rustix::event::{PollFd, PollFlags, Timespec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Blocking,
    Tokio,
    Poll,
}

pub(crate) const APIS: [Api; 3] = [Api::Blocking, Api::Tokio, Api::Poll];

/// Longer than anything here may take.
const TIMEOUT: Duration = Duration::from_secs(120);

impl Api {
    /// Connects, asks one thing after the other, and closes.
    pub(crate) fn ask(
        self,
        config: &PostgresConfig,
        requests: Vec<Request>,
    ) -> Result<Vec<Result<Answer>>> {
        let started = Instant::now();
        let answers = match self {
            Self::Blocking => ask_blocking(config, requests),
            Self::Tokio => ask_tokio(config, requests),
            Self::Poll => ask_poll(config, requests),
        };
        assert!(started.elapsed() < TIMEOUT, "{self:?} took too long");
        answers
    }

    pub(crate) fn query(self, config: &PostgresConfig, sql: &str) -> Result<Answer> {
        let mut answers = self.ask(config, vec![Request::new(sql, &[])])?;
        answers.pop().unwrap()
    }
}

fn ask_blocking(config: &PostgresConfig, requests: Vec<Request>) -> Result<Vec<Result<Answer>>> {
    let mut connection = blocking::Connection::connect_with(config, Options::default())?;
    let mut answers = Vec::new();
    for request in requests {
        answers.extend(connection.request(request)?);
    }
    Ok(answers)
}

fn ask_tokio(config: &PostgresConfig, requests: Vec<Request>) -> Result<Vec<Result<Answer>>> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect_with(config, Options::default()).await?;
        let mut answers = Vec::new();
        for request in requests {
            answers.extend(client.request(request).await?);
        }
        Ok(answers)
    })
}

fn ask_poll(config: &PostgresConfig, requests: Vec<Request>) -> Result<Vec<Result<Answer>>> {
    let mut connection = poll::Connection::connect(config, &config.hosts[0], Options::default())?;
    loop {
        connection.turn(Instant::now());
        if connection.is_ready() && connection.end().is_none() {
            break;
        }
        wait(&connection)?;
    }
    let mut answers = Vec::new();
    for request in requests {
        let ticket = connection.submit(request)?;
        let reply = loop {
            connection.turn(Instant::now());
            match connection.next_reply() {
                Some(reply) => break reply,
                None => wait(&connection)?,
            }
        };
        assert_eq!(reply.ticket, ticket);
        answers.extend(reply.answers);
    }
    Ok(answers)
}

/// Waits for the next turn.
fn wait(connection: &poll::Connection) -> Result<()> {
    if let Some(end) = connection.end() {
        return Err(end.clone());
    }
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, connection.wants_write());
    let left = connection.deadline().map_or(TIMEOUT, |deadline| {
        deadline.saturating_duration_since(Instant::now())
    });
    let timeout = Timespec::try_from(left).unwrap();
    rustix::event::poll(&mut [PollFd::new(connection, flags)], Some(&timeout)).unwrap();
    Ok(())
}
