//! The thread of a source: reads, acknowledges, renews and claims entries.

use std::io;
use std::time::{Duration, Instant};

use lookaside_stream::Messages;
use redis::{Cmd, cmd};
use tracing::{debug, info, warn};

use super::client::{Client, Failure};
use super::entry::{Entry, EntryId, claim_reply, read_reply};
use super::options::SourceOptions;
use super::stream::{Stream, size_of};
use crate::read_queue::{READ_COUNT, READ_SIZE, ReadQueue};

/// How long a read waits for new entries, and the run may take to accept them, before the thread
/// looks after those under way.
const WAIT: Duration = Duration::from_millis(100);

/// How long the thread waits if it may not read more.
const FULL_WAIT: Duration = Duration::from_millis(10);

/// How often entries are acknowledged: what a killed process delivers twice is at most the entries
/// of this time and those under way.
const ACK_INTERVAL: Duration = Duration::from_millis(100);

/// How many entries a command names, so that no command occupies the server for long.
const ID_COUNT_MAX: usize = 1000;

/// The assumed size of an entry before any was read.
const FIRST_SIZE: usize = 1024;

/// A consumer of a group.
pub(super) struct Consumer {
    client: Client,
    options: SourceOptions,
    streams: Vec<Stream>,
    /// The connection whose backlog is being read.
    generation: u64,
    acknowledged: Instant,
    renewed: Instant,
    /// When entries of other consumers were looked for.
    claimed: Option<Instant>,
    /// The size of an entry, which determines how many are read at once.
    entry_size: usize,
    /// Whether the connection is known to be lost.
    is_away: bool,
}

impl Consumer {
    pub(super) fn new(client: Client, options: SourceOptions) -> Self {
        let streams = options.streams.iter().cloned().map(Stream::new).collect();
        Self {
            client,
            options,
            streams,
            generation: 0,
            acknowledged: Instant::now(),
            renewed: Instant::now(),
            claimed: None,
            entry_size: FIRST_SIZE,
            is_away: false,
        }
    }

    /// Creates the groups that do not exist.
    pub(super) fn create_groups(&mut self) -> Result<(), Failure> {
        let start = self.options.start.clone();
        self.create_groups_at(&start)
    }

    fn create_groups_at(&mut self, start: &str) -> Result<(), Failure> {
        for stream in &self.streams {
            let mut command = cmd("XGROUP");
            let command = command.arg("CREATE").arg(&stream.key);
            let command = command.arg(&self.options.group).arg(start).arg("MKSTREAM");
            match self.client.call(command) {
                Err(Failure::Refused(reason)) if reason.contains("BUSYGROUP") => {}
                result => _ = result?,
            }
        }
        Ok(())
    }

    /// Reads until the queue is stopped or the server refuses, and then acknowledges what is
    /// delivered.
    pub(super) fn run(mut self, queue: &ReadQueue) -> io::Result<()> {
        let mut messages = Messages::new();
        while !queue.is_stopped() {
            let failure = match self.step(&mut messages, queue) {
                Ok(()) if self.is_away => {
                    self.is_away = false;
                    info!(connector = self.client.name(), "connected again");
                    continue;
                }
                Ok(()) => continue,
                Err(Failure::NoGroup) => {
                    // All that is in the stream now came after the group was lost, or was in it.
                    warn!(
                        connector = self.client.name(),
                        "the group is gone; it is created again"
                    );
                    match self.create_groups_at("0") {
                        Ok(()) => continue,
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            match failure {
                Failure::Refused(reason) => {
                    let _ = queue.reads.send(Err(io::Error::other(reason)));
                    break;
                }
                Failure::Away(reason) => self.wait(&reason, queue),
                Failure::NoGroup => self.wait("the group is gone", queue),
            }
        }
        self.finish()
    }

    /// Waits before the next attempt.
    fn wait(&mut self, reason: &str, queue: &ReadQueue) {
        let connector = self.client.name();
        match self.is_away {
            false => warn!(connector, reason, "reading is interrupted"),
            true => debug!(connector, reason, "reading is interrupted"),
        }
        self.is_away = true;
        let _ = queue.stopped.recv_timeout(self.client.next_backoff());
    }

    /// Does what is due, and reads if the run has taken what was read before.
    fn step(&mut self, messages: &mut Messages, queue: &ReadQueue) -> Result<(), Failure> {
        let is_passed_on = messages.is_empty() || queue.pass_on(messages, WAIT);
        let generation = self.client.connect()?;
        if generation != self.generation {
            // What the last connection has read may have been lost on its way.
            self.generation = generation;
            for stream in &mut self.streams {
                stream.backlog = Some(EntryId::ZERO);
            }
            self.renew()?;
        }
        if self.acknowledged.elapsed() >= ACK_INTERVAL {
            self.acknowledge()?;
        }
        if self.renewed.elapsed() >= self.options.claim_idle / 4 {
            self.renew()?;
        }
        if !is_passed_on {
            return Ok(());
        }
        let known: usize = self.streams.iter().map(Stream::known_count).sum();
        let Some(room @ 1..) = self.options.pending_max.checked_sub(known) else {
            let _ = queue.stopped.recv_timeout(FULL_WAIT);
            return self.acknowledge();
        };
        self.read(messages, room)?;
        if !messages.is_empty() {
            queue.pass_on(messages, Duration::ZERO);
        }
        Ok(())
    }

    /// Reads what was pending before, then what is pending for consumers that are gone, then what
    /// is new.
    fn read(&mut self, messages: &mut Messages, room: usize) -> Result<(), Failure> {
        let count = (READ_SIZE / self.entry_size.max(1))
            .clamp(1, READ_COUNT)
            .min(room);
        let idle = self.options.claim_idle;
        if self
            .claimed
            .is_none_or(|claimed| claimed.elapsed() >= idle / 2)
        {
            self.claimed = Some(Instant::now());
            for stream in &mut self.streams {
                stream.claim_from = Some(EntryId::ZERO);
            }
        }
        let mut streams = self.streams.iter();
        if let Some(index) = streams.position(|stream| stream.backlog.is_some()) {
            return self.read_backlog(index, count, messages);
        }
        let mut streams = self.streams.iter();
        match streams.position(|stream| stream.claim_from.is_some()) {
            Some(index) => self.claim(index, count, messages),
            None => self.read_new(count, messages),
        }
    }

    fn read_group(&self, count: usize) -> Cmd {
        let mut command = cmd("XREADGROUP");
        command
            .arg("GROUP")
            .arg(&self.options.group)
            .arg(&self.options.consumer);
        command.arg("COUNT").arg(count);
        command
    }

    fn read_backlog(
        &mut self,
        index: usize,
        count: usize,
        messages: &mut Messages,
    ) -> Result<(), Failure> {
        let stream = &self.streams[index];
        let after = stream.backlog.expect("it has a backlog").to_string();
        let mut command = self.read_group(count);
        command.arg("STREAMS").arg(&stream.key).arg(after);
        let reply = self.client.call(&command)?;
        let entries = read_reply(reply).ok_or_else(unexpected)?;
        let entries = entries
            .into_iter()
            .flat_map(|(_, entries)| entries)
            .collect::<Vec<_>>();
        self.streams[index].backlog = entries.last().map(|entry| entry.id);
        self.push(index, entries, messages);
        Ok(())
    }

    fn claim(
        &mut self,
        index: usize,
        count: usize,
        messages: &mut Messages,
    ) -> Result<(), Failure> {
        let stream = &self.streams[index];
        let from = stream
            .claim_from
            .expect("entries may be claimed")
            .to_string();
        let mut command = cmd("XAUTOCLAIM");
        command
            .arg(&stream.key)
            .arg(&self.options.group)
            .arg(&self.options.consumer);
        command.arg(self.options.claim_idle.as_millis() as u64);
        command.arg(from).arg("COUNT").arg(count);
        let reply = self.client.call(&command)?;
        let (next, entries) = claim_reply(reply).ok_or_else(unexpected)?;
        self.streams[index].claim_from = (next != EntryId::ZERO).then_some(next);
        if !entries.is_empty() {
            let connector = self.client.name();
            info!(
                connector,
                count = entries.len(),
                "entries of other consumers are claimed"
            );
        }
        self.push(index, entries, messages);
        Ok(())
    }

    fn read_new(&mut self, count: usize, messages: &mut Messages) -> Result<(), Failure> {
        let mut command = self.read_group(count);
        command
            .arg("BLOCK")
            .arg(WAIT.as_millis() as u64)
            .arg("STREAMS");
        for stream in &self.streams {
            command.arg(&stream.key);
        }
        for _ in &self.streams {
            command.arg(">");
        }
        let reply = self.client.call(&command)?;
        for (key, entries) in read_reply(reply).ok_or_else(unexpected)? {
            let mut streams = self.streams.iter();
            let index = streams.position(|stream| stream.key.as_bytes() == key);
            let index = index.ok_or_else(unexpected)?;
            self.push(index, entries, messages);
        }
        Ok(())
    }

    fn push(&mut self, index: usize, entries: Vec<Entry>, messages: &mut Messages) {
        if entries.is_empty() {
            return;
        }
        let sum: usize = entries.iter().map(size_of).sum();
        // A read of small entries does not make the next one huge.
        self.entry_size = (sum / entries.len()).max(self.entry_size / 4);
        for entry in entries {
            self.streams[index].push(entry, &self.options.payload_field, messages);
        }
    }

    /// Acknowledges the entries that are delivered.
    fn acknowledge(&mut self) -> Result<(), Failure> {
        for stream in &mut self.streams {
            while let count @ 1.. = stream.delivered().len().min(ID_COUNT_MAX) {
                let mut command = cmd("XACK");
                command.arg(&stream.key).arg(&self.options.group);
                for id in &stream.delivered()[..count] {
                    command.arg(id.to_string());
                }
                self.client.call(&command)?;
                stream.forget(count);
            }
        }
        self.acknowledged = Instant::now();
        Ok(())
    }

    /// Claims the entries under way for this consumer again, which resets their idle time.
    fn renew(&mut self) -> Result<(), Failure> {
        for stream in &mut self.streams {
            let mut ids = stream.under_way().peekable();
            while ids.peek().is_some() {
                let mut command = cmd("XCLAIM");
                command
                    .arg(&stream.key)
                    .arg(&self.options.group)
                    .arg(&self.options.consumer);
                command.arg(0);
                for id in ids.by_ref().take(ID_COUNT_MAX) {
                    command.arg(id.to_string());
                }
                self.client.call(command.arg("JUSTID"))?;
            }
        }
        self.renewed = Instant::now();
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let count: usize = self
            .streams
            .iter_mut()
            .map(|stream| stream.delivered().len())
            .sum();
        if count == 0 {
            return Ok(());
        }
        self.acknowledge().map_err(|failure| {
            let reason = match failure {
                Failure::Away(reason) | Failure::Refused(reason) => reason,
                Failure::NoGroup => "the group is gone".to_owned(),
            };
            io::Error::other(format!("{count} entries are not acknowledged: {reason}"))
        })
    }
}

fn unexpected() -> Failure {
    Failure::Refused("the server sent a reply of another form".to_owned())
}
