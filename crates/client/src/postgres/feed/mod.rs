//! A change feed: the committed changes of the tables of publications, by logical replication.
//!
//! ```text
//!   Streaming ─► { Message(Begin, Relation, Insert, …, Commit), Keepalive } ─► Lost ─► Streaming …
//! ```
//!
//! A [`ChangeFeed`] has its own connection and a temporary slot, which ends with the connection. It
//! leaves nothing on the server, so it cannot make a server keep its log; and what happens while
//! there is no connection is missed. A program that keeps a copy of some data treats everything
//! that it knows as doubtful from [`Lost`](FeedEvent::Lost) on, until it has read it again after
//! the next [`Streaming`](FeedEvent::Streaming).
//!
//! The server needs `wal_level = logical`, the user the right to replicate, and the database the
//! publications. If something is missing, the error of [`Lost`](FeedEvent::Lost) names it with the
//! command that adds it.
//!
//! A change is sent once its commit is on disk, and other sessions see it only after that: a
//! program that reads the row again at once may still read the old one.

mod connection;
mod options;
mod protocol;
mod requirement;
mod session;
mod setup;
mod slot;
mod transaction_order;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::back_off::{BackOff, PAUSE_MAX};
use crate::net::watch_peer;
use crate::timer::{Sleep, sleep_until};
use crate::{Error, PostgresConfig, Result};

pub use lookaside_wire::postgres::replication::{
    Begin, Commit, DataType, Delete, Insert, LogicalDecodingMessage, LogicalReplicationMessage,
    Lsn, OldTuple, Origin, ParseLsnError, Relation, RelationColumn, RelationColumns,
    ReplicaIdentity, SlotName, SystemId, Timeline, Timestamp, Truncate, Tuple, TupleField,
    TupleFields, Update, Xid,
};
pub use options::FeedOptions;
use session::{FeedSession, Received};
use setup::Source;

/// Receives the committed changes of a PostgreSQL database, over a dedicated connection that is
/// re-established when it is lost. See the [module](self).
///
/// Everything happens in [`next`](Self::next), which has to be called again soon: a server ends a
/// session that does not respond for its `wal_sender_timeout`, 60 s by default. A vanished server
/// is detected within half a minute, unless the URL sets other keepalives, and one that does not
/// respond within [`FeedOptions::reply_timeout`]. When this is dropped, its connection is closed,
/// and the server drops the slot.
///
/// ```no_run
/// # async fn example(config: &lookaside_client::PostgresConfig) -> lookaside_client::Result<()> {
/// use lookaside_client::postgres::feed::LogicalReplicationMessage as Message;
/// use lookaside_client::postgres::{ChangeFeed, FeedEvent, FeedOptions};
///
/// let mut feed = ChangeFeed::new(config, ["shop"], FeedOptions::default())?;
/// loop {
///     let done = match feed.next().await {
///         FeedEvent::Streaming(start) => {
///             println!("read all goods, changes come from {} on", start.consistent_point);
///             continue;
///         }
///         FeedEvent::Message(Message::Insert(insert)) => {
///             println!("a new row in {}: {:?}", insert.relation.0, insert.new);
///             continue;
///         }
///         // Everything up to here was processed.
///         FeedEvent::Message(Message::Commit(commit)) => commit.end,
///         FeedEvent::Keepalive { end } => end,
///         FeedEvent::Lost(error) => {
///             eprintln!("what is known may be old: {error}");
///             continue;
///         }
///         _ => continue,
///     };
///     feed.confirm(done);
/// }
/// # }
/// ```
pub struct ChangeFeed {
    link: Link,
    /// The payload of the last message. A copy, since the buffer of the connection cannot be
    /// borrowed across the wait for it.
    message: Vec<u8>,
}

/// An event of a [`ChangeFeed`]; it borrows from the feed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FeedEvent<'a> {
    /// A stream has begun: all transactions that commit after the slot's consistent point are
    /// received. Changes before may have been missed, also between two streams.
    Streaming(FeedStart),
    /// A part of a transaction. Transactions come whole and one after the other, in the order of
    /// their commits, from a Begin to the Commit with the same position; changes come within
    /// these only.
    Message(LogicalReplicationMessage<'a>),
    /// The server has sent all transactions that committed before `end`. It sends this by itself
    /// from time to time, and after [`request_keepalive`](ChangeFeed::request_keepalive).
    Keepalive {
        /// How far the server has decoded its log.
        end: Lsn,
    },
    /// The connection was lost, or a connection attempt has failed, which is repeated with the next
    /// event, after a pause. Nothing is received up to the next `Streaming`, and a transaction
    /// without its Commit is void.
    Lost(Error),
}

/// The beginning of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedStart {
    /// The cluster. Positions of different clusters cannot be compared.
    pub system_id: SystemId,
    /// The cluster's history, which a promotion of a standby changes.
    pub timeline: Timeline,
    /// The temporary slot, which no other stream has had.
    pub slot: SlotName,
    /// Where the slot begins: transactions that commit later are received.
    pub consistent_point: Lsn,
    /// The version that the server reports, such as `18.6`.
    pub server_version: String,
}

/// The connection, or what becomes one.
struct Link {
    source: Arc<Source>,
    /// Of the stream, or of the attempt to begin one.
    slot: Option<SlotName>,
    state: State,
    back_off: BackOff,
}

type Connecting = Pin<Box<dyn Future<Output = Result<(FeedSession, FeedStart)>> + Send>>;

enum State {
    /// The next attempt is not due.
    Paused(Sleep),
    /// An attempt is running. It is stored here, so that it continues if the wait for an event is
    /// cancelled.
    Connecting(Connecting),
    Streaming(Box<FeedSession>),
}

/// What an event is made of.
enum Step {
    Started(FeedStart),
    Received(Received),
    Failed(Error),
}

impl ChangeFeed {
    /// Prepares the feed of these publications. The first call of [`next`](Self::next) connects.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if there is no publication, or a name cannot
    /// be one.
    pub fn new<P: Into<String>>(
        config: &PostgresConfig,
        publications: impl IntoIterator<Item = P>,
        options: FeedOptions,
    ) -> Result<Self> {
        let publications: Vec<String> = publications.into_iter().map(Into::into).collect();
        if publications.is_empty() {
            return Err(Error::no_publications());
        }
        if let Some(name) = publications.iter().find(|name| name.contains('\0')) {
            return Err(Error::bad_publication(name));
        }
        slot::check_prefix(&options.slot_prefix)?;
        let mut config = config.clone();
        watch_peer(&mut config.keepalives);
        config
            .connect_timeout
            .get_or_insert(options.connect_timeout);
        let source = Source {
            config,
            publications,
            options,
        };
        Ok(Self {
            link: Link {
                source: Arc::new(source),
                slot: None,
                state: State::Paused(sleep_until(Instant::now())),
                back_off: BackOff::default(),
            },
            message: Vec::new(),
        })
    }

    /// The next event. If it is dropped before it is done, none is lost. Outside of a tokio runtime
    /// each attempt to connect fails with [`ErrorKind::Misuse`](crate::ErrorKind::Misuse).
    ///
    /// # Panics
    ///
    /// In a runtime that has time or I/O disabled.
    pub async fn next(&mut self) -> FeedEvent<'_> {
        let Self { link, message } = self;
        let error = match poll_fn(|cx| link.poll_step(cx, message)).await {
            Step::Started(start) => return FeedEvent::Streaming(start),
            Step::Received(Received::Keepalive { end, .. }) => return FeedEvent::Keepalive { end },
            Step::Received(Received::Message) => match link.session_mut().accept(message) {
                Ok(message) => return FeedEvent::Message(message),
                Err(error) => error,
            },
            Step::Failed(error) => error,
        };
        link.pause();
        FeedEvent::Lost(error)
    }

    /// The slot of the stream, or the one that the attempt which is running will create, or is creating.
    /// `None` before [`next`](Self::next) has begun an attempt, and after it has failed.
    pub fn slot(&self) -> Option<&SlotName> {
        self.link.slot.as_ref()
    }

    /// Tells the server, with the next status, that everything up to this position was processed,
    /// so that it need not keep the log before.
    ///
    /// The position is that of a [`Commit`], its `end`, or of a [`Keepalive`](FeedEvent::Keepalive)
    /// of the current stream; a later one than was received counts as the last received one, and
    /// an earlier one than was confirmed is ignored. Without a stream, nothing happens. A status is
    /// sent each [`FeedOptions::status_interval`], and at once when the server requests one.
    pub fn confirm(&mut self, lsn: Lsn) {
        if let State::Streaming(session) = &mut self.link.state {
            session.confirm(lsn);
        }
    }

    /// Requests a [`Keepalive`](FeedEvent::Keepalive) from the server, at once: it tells how far the
    /// server has decoded its log. Without a stream, nothing happens.
    pub fn request_keepalive(&mut self) {
        if let State::Streaming(session) = &mut self.link.state {
            session.request_keepalive();
        }
    }
}

impl Link {
    fn poll_step(&mut self, cx: &mut Context<'_>, message: &mut Vec<u8>) -> Poll<Step> {
        loop {
            match &mut self.state {
                State::Paused(sleep) => {
                    ready!(Pin::new(sleep).poll(cx));
                    let slot = match slot::unique_slot_name(&self.source.options.slot_prefix) {
                        Ok(slot) => slot,
                        Err(error) => return Poll::Ready(Step::Failed(error)),
                    };
                    self.slot = Some(slot.clone());
                    let connecting = setup::start(Arc::clone(&self.source), slot);
                    self.state = State::Connecting(Box::pin(connecting));
                }
                State::Connecting(connecting) => {
                    return Poll::Ready(match ready!(connecting.as_mut().poll(cx)) {
                        Ok((session, start)) => {
                            self.state = State::Streaming(Box::new(session));
                            Step::Started(start)
                        }
                        Err(error) => Step::Failed(error),
                    });
                }
                State::Streaming(session) => {
                    let received = ready!(session.poll_received(cx, message));
                    return Poll::Ready(match received {
                        Ok(received) => Step::Received(received),
                        Err(error) => Step::Failed(error),
                    });
                }
            }
        }
    }

    /// The session of a message that was just received.
    fn session_mut(&mut self) -> &mut FeedSession {
        match &mut self.state {
            State::Streaming(session) => session,
            State::Paused(_) | State::Connecting(_) => panic!("only a stream has messages"),
        }
    }

    /// Closes the connection. A stream that ended soon counts as a failure, so that one that always
    /// does is not begun ten times a second.
    fn pause(&mut self) {
        if let State::Streaming(session) = &self.state
            && session.age() >= PAUSE_MAX
        {
            self.back_off.reset();
        }
        self.slot = None;
        self.state = State::Paused(self.back_off.pause());
    }
}
