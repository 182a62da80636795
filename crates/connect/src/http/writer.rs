//! The thread of a sink: collects messages into batches, and sends each until it is delivered.

use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tracing::{debug, info, warn};

use super::client::Client;
use super::message::Outgoing;
use super::target::{BatchOutcome, MessageOutcome, Target};
use crate::write_queue::WriteState;

/// The limits of the time between two attempts.
const BACKOFF: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(10);

/// How many messages a batch has at most. A block of rows that ClickHouse writes at once has more.
const BATCH_COUNT: usize = 100_000;

/// What the thread does next.
pub(super) enum Command {
    /// Send messages of a size, together with others.
    Send(Vec<Outgoing>, usize),
    /// Send what was collected, as the run waits for it.
    Flush,
}

/// Messages that are sent together.
#[derive(Default)]
struct Batch {
    messages: Vec<Outgoing>,
    size: usize,
    /// When it is sent if it is not full before.
    deadline: Option<Instant>,
}

/// Sends batches.
pub(super) struct Writer {
    client: Client,
    target: Arc<dyn Target>,
    shared: Arc<WriteState>,
    batch_bytes: usize,
    batch_time: Duration,
    /// The time until the next attempt.
    backoff: Duration,
    is_away: bool,
    /// The memory of bodies.
    body: Vec<u8>,
}

impl Writer {
    pub(super) fn new(
        client: Client,
        target: Arc<dyn Target>,
        shared: Arc<WriteState>,
        batch_bytes: usize,
        batch_time: Duration,
    ) -> Self {
        Self {
            client,
            target,
            shared,
            batch_bytes,
            batch_time,
            backoff: *BACKOFF.start(),
            is_away: false,
            body: Vec::new(),
        }
    }

    /// Sends until the sink is dropped, or the server refuses everything.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        if let Err(reason) = self.send_all(commands) {
            self.shared.fail(reason);
        }
    }

    fn send_all(&mut self, commands: &Receiver<Command>) -> Result<(), String> {
        let mut batch = Batch::default();
        loop {
            let command = match batch.deadline {
                Some(deadline) => commands.recv_deadline(deadline),
                None => commands.recv().map_err(RecvTimeoutError::from),
            };
            match command {
                Ok(Command::Send(messages, size)) => {
                    if batch.size + size > self.batch_bytes {
                        self.send(mem::take(&mut batch))?;
                    }
                    batch.add(messages, size, self.batch_time);
                    if batch.size < self.batch_bytes && batch.messages.len() < BATCH_COUNT {
                        continue;
                    }
                }
                Ok(Command::Flush) | Err(RecvTimeoutError::Timeout) => {}
                // A sink that is dropped without a flush does not want the rest.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.send(mem::take(&mut batch))?;
        }
    }

    /// Sends a batch until each message is delivered or refused. The error is the reason why no
    /// message can be written.
    fn send(&mut self, batch: Batch) -> Result<(), String> {
        // The parts of the batch that are left, the first one last.
        let mut parts = vec![batch.messages];
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.attempt(&part) {
                BatchOutcome::Delivered => part.iter().for_each(Outgoing::deliver),
                BatchOutcome::Retry(reason, after) => {
                    self.wait(&reason, after)?;
                    parts.push(part);
                    continue;
                }
                BatchOutcome::Refused(reason) if part.len() == 1 => {
                    let refused = part.into_iter().map(|it| it.into_refused(reason.clone()));
                    refused.for_each(|refused| self.shared.refuse(refused));
                }
                BatchOutcome::Refused(_) => {
                    let second = part.split_off(part.len() / 2);
                    parts.extend([second, part]);
                }
                BatchOutcome::Each(outcomes) => {
                    let (left, reason) = self.settle(part, outcomes);
                    parts.push(left);
                    if let Some(reason) = reason {
                        self.wait(&reason, None)?;
                        continue;
                    }
                }
                BatchOutcome::Failed(reason) => return Err(reason),
            }
            self.record_response();
        }
        self.shared.end(batch.size);
        Ok(())
    }

    fn attempt(&mut self, messages: &[Outgoing]) -> BatchOutcome {
        self.body.clear();
        let path = self.target.request(messages, &mut self.body);
        let kind = self.target.content_type();
        match self.client.post(&path, kind, &self.body) {
            Ok(response) => self.target.classify(&response, messages),
            Err(reason) => BatchOutcome::Retry(reason, None),
        }
    }

    /// Returns the messages that are sent again, with the reason of the first.
    fn settle(
        &self,
        messages: Vec<Outgoing>,
        outcomes: Vec<MessageOutcome>,
    ) -> (Vec<Outgoing>, Option<String>) {
        let mut left = Vec::new();
        let mut first_reason = None;
        for (message, outcome) in messages.into_iter().zip(outcomes) {
            match outcome {
                MessageOutcome::Delivered => message.deliver(),
                MessageOutcome::Refused(reason) => self.shared.refuse(message.into_refused(reason)),
                MessageOutcome::Retry(reason) => {
                    first_reason.get_or_insert(reason);
                    left.push(message);
                }
            }
        }
        (left, first_reason)
    }

    /// Waits until the next attempt.
    ///
    /// # Errors
    /// When the sink is dropped meanwhile.
    fn wait(&mut self, reason: &str, after: Option<Duration>) -> Result<(), String> {
        let connector = self.client.name();
        match (after, mem::replace(&mut self.is_away, true)) {
            (Some(after), _) if after > *BACKOFF.end() => {
                let seconds = after.as_secs();
                warn!(
                    connector,
                    reason, seconds, "writing is interrupted, as Retry-After requires"
                );
            }
            (_, false) => warn!(connector, reason, "writing is interrupted"),
            (_, true) => debug!(connector, reason, "writing is interrupted"),
        }
        let deadline = Instant::now() + after.unwrap_or(self.backoff);
        self.backoff = (self.backoff * 2).min(*BACKOFF.end());
        let mut state = self.shared.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.is_closing {
                return Err("the sink is closed".to_owned());
            }
            if left.is_zero() {
                return Ok(());
            }
            state = self.shared.wait(state, left);
        }
    }

    /// Notes that the server has processed a request.
    fn record_response(&mut self) {
        self.backoff = *BACKOFF.start();
        if mem::take(&mut self.is_away) {
            info!(connector = self.client.name(), "messages are written again");
        }
    }
}

impl Batch {
    fn add(&mut self, messages: Vec<Outgoing>, size: usize, time: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + time);
        self.size += size;
        match self.messages.is_empty() {
            true => self.messages = messages,
            false => self.messages.extend(messages),
        }
    }
}
