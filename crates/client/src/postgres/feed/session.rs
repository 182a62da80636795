//! A session that streams: what comes, and the statuses that are sent.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant, SystemTime};

use lookaside_wire::postgres::Event;
use lookaside_wire::postgres::replication::{StandbyStatus, StreamMessage};

use super::connection::FeedConnection;
use super::transaction_order::TransactionOrder;
use super::{FeedOptions, LogicalReplicationMessage, Lsn, Timestamp};
use crate::timer::{Sleep, sleep_until};
use crate::{Error, Result};

/// The shortest interval between two statuses.
const STATUS_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// How many statuses fit into the server's `wal_sender_timeout`, so that one may be late.
const STATUS_COUNT: u32 = 3;

/// The capacity that the buffer of a message keeps; enough for many ordinary rows.
const MESSAGE_SIZE_KEPT: usize = 256 * 1024;

/// What replaces a time that is too far in the future.
const FAR: Duration = Duration::from_secs(365 * 86_400);

/// A stream of changes.
pub(super) struct FeedSession {
    connection: FeedConnection,
    order: TransactionOrder,
    /// Up to where everything was received.
    received: Lsn,
    /// What the server may forget; at most `received`.
    confirmed: Lsn,
    status_interval: Duration,
    reply_timeout: Duration,
    /// When the next status is due.
    status_at: Instant,
    /// A status that is to be sent as soon as the one before is written, so that they do not pile
    /// up.
    status: Option<Reply>,
    /// Whether nothing was received since the last status.
    is_quiet: bool,
    /// The time of the first unanswered request for a reply.
    asked_at: Option<Instant>,
    alarm: Option<(Instant, Sleep)>,
    began_at: Instant,
}

/// Whether a status requests a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Unneeded,
    Requested,
}

/// What was received.
#[derive(Clone, Copy, Debug)]
pub(super) enum Received {
    /// The payload of a message is in the buffer.
    Message,
    /// The server has sent everything that committed before.
    Keepalive { end: Lsn, reply_requested: bool },
}

impl FeedSession {
    pub(super) fn new(
        connection: FeedConnection,
        consistent_point: Lsn,
        options: &FeedOptions,
        wal_sender_timeout: Duration,
    ) -> Self {
        let mut status_interval = options.status_interval;
        if !wal_sender_timeout.is_zero() {
            status_interval = status_interval.min(wal_sender_timeout / STATUS_COUNT);
        }
        let status_interval = status_interval.max(STATUS_INTERVAL_MIN);
        let now = Instant::now();
        Self {
            connection,
            order: TransactionOrder::default(),
            received: consistent_point,
            confirmed: consistent_point,
            status_interval,
            reply_timeout: options.reply_timeout,
            status_at: after(now, status_interval),
            status: None,
            is_quiet: false,
            asked_at: None,
            alarm: None,
            began_at: now,
        }
    }

    /// How long it has streamed.
    pub(super) fn age(&self) -> Duration {
        self.began_at.elapsed()
    }

    /// The next thing that is received; the payload of a message replaces what is in `message`.
    pub(super) fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut Vec<u8>,
    ) -> Poll<Result<Received>> {
        loop {
            let size_max = self.connection.protocol().message_size_max;
            let received = self
                .connection
                .take_events(|event| take(event, message, size_max));
            if let Some(received) = received {
                if let Ok(Received::Keepalive {
                    end,
                    reply_requested,
                }) = received
                {
                    self.received = self.received.max(end);
                    if reply_requested {
                        self.want_status(Reply::Unneeded);
                        self.write(cx);
                    }
                }
                return Poll::Ready(received);
            }
            let now = Instant::now();
            if self.status_at <= now {
                self.want_status(match self.is_quiet {
                    true => Reply::Requested,
                    false => Reply::Unneeded,
                });
                self.is_quiet = true;
                self.status_at = after(now, self.status_interval);
            }
            self.write(cx);
            if let Poll::Ready(read) = self.connection.poll_read(cx) {
                if let Err(error) = read {
                    return Poll::Ready(Err(error));
                }
                self.is_quiet = false;
                self.asked_at = None;
                continue;
            }
            // Only now, since an answer may have waited while nothing was polled.
            let give_up_at = self.asked_at.map(|at| after(at, self.reply_timeout));
            if give_up_at.is_some_and(|at| at <= now) {
                return Poll::Ready(Err(Error::stream_silent(self.reply_timeout)));
            }
            let next_at = give_up_at.map_or(self.status_at, |at| at.min(self.status_at));
            ready!(self.poll_alarm(cx, next_at));
        }
    }

    /// Decodes a message, and checks that it may come here.
    pub(super) fn accept<'a>(
        &mut self,
        message: &'a [u8],
    ) -> Result<LogicalReplicationMessage<'a>> {
        let message = LogicalReplicationMessage::decode(message).map_err(Error::protocol)?;
        self.order.check(&message)?;
        if let LogicalReplicationMessage::Commit(commit) = &message {
            self.received = self.received.max(commit.end);
        }
        Ok(message)
    }

    pub(super) fn confirm(&mut self, lsn: Lsn) {
        self.confirmed = self.confirmed.max(lsn.min(self.received));
    }

    /// Sends a status that requests a reply, as soon as there is room for it.
    pub(super) fn request_keepalive(&mut self) {
        self.want_status(Reply::Requested);
        // What does not fit is written by the next poll.
        self.write(&mut Context::from_waker(Waker::noop()));
    }

    fn want_status(&mut self, reply: Reply) {
        if reply == Reply::Requested {
            self.asked_at.get_or_insert_with(Instant::now);
        }
        if self.status != Some(Reply::Requested) {
            self.status = Some(reply);
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        if !self.connection.write(cx) {
            return;
        }
        let Some(reply) = self.status.take() else {
            return;
        };
        let status = StandbyStatus {
            written: self.confirmed,
            flushed: self.confirmed,
            applied: self.confirmed,
            time: now(),
            reply_requested: reply == Reply::Requested,
        };
        self.connection.copy_data(&status.encode());
        self.connection.write(cx);
    }

    /// Ready at this time or earlier.
    fn poll_alarm(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        let is_set = self.alarm.as_ref().is_some_and(|(set, _)| *set == at);
        if !is_set {
            self.alarm = Some((at, sleep_until(at)));
        }
        let (_, sleep) = self.alarm.as_mut().expect("it was just set");
        Pin::new(sleep).poll(cx)
    }
}

/// What an event of a stream means, if anything.
fn take(event: Event<'_>, message: &mut Vec<u8>, size_max: usize) -> Option<Result<Received>> {
    match event {
        Event::CopyData { data, .. } => Some(match StreamMessage::decode(data) {
            Ok(StreamMessage::XLogData(piece)) => {
                message.clear();
                message.shrink_to(MESSAGE_SIZE_KEPT);
                message.extend_from_slice(piece.payload);
                Ok(Received::Message)
            }
            Ok(StreamMessage::PrimaryKeepalive(keepalive)) => Ok(Received::Keepalive {
                end: keepalive.end,
                reply_requested: keepalive.reply_requested,
            }),
            Ok(_) => return None,
            Err(error) => Err(Error::feed_protocol(error, size_max)),
        }),
        // Since PostgreSQL 18, a publication that was dropped is left out with a warning.
        Event::Notice(notice) => {
            let state = notice.sqlstate();
            let is_of_publication = state.is_some_and(|state| state.as_bytes() == b"55000");
            is_of_publication.then(|| Err(Error::publication_dropped(notice.into_owned())))
        }
        Event::Failed { error, .. } => Some(Err(Error::stream_failed(error.into_owned()))),
        Event::CopyDone { .. } | Event::CommandComplete { .. } | Event::Ready { .. } => {
            Some(Err(Error::stream_ended()))
        }
        _ => None,
    }
}

/// The time for a status, which the server only shows.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = since.unwrap_or_default().as_micros();
    Timestamp::from_unix_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

fn after(time: Instant, duration: Duration) -> Instant {
    time.checked_add(duration).unwrap_or_else(|| time + FAR)
}
