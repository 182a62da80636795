//! The connections that an event loop drives.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookaside_client::{Answer, Request, Result, Ticket};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::remote::{Direct, DirectConnections, Pooled, Remote, Transport, resend_lost};

/// The number of descriptors that one `epoll_wait` returns.
const EVENT_COUNT_MAX: usize = 64;

/// How long a server may take to end the abandoned queries of a connection before the connection is
/// closed. They are cancelled one after another, and the connection is not used meanwhile. Longer
/// than that of a [direct](crate::remote::Direct) connection, because there can be many queries and
/// no thread is blocked.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(5);

type Answers = Vec<Result<Answer>>;

/// All connections of one event loop, to any server. There are only a few.
pub(super) struct Connections {
    /// The loop's own epoll instance, so that its owner watches a single descriptor.
    epoll: OwnedFd,
    thread_count: usize,
    list: RefCell<ConnectionList>,
}

#[derive(Default)]
struct ConnectionList {
    connections: Vec<Connection>,
    opened_count: u64,
}

/// A connection and the requests that were sent on it.
struct Connection {
    id: u64,
    direct: Direct,
    owner: Arc<DirectConnections>,
    /// In the order in which they were sent, which is nearly always that of the answers.
    sent: VecDeque<PendingRequest>,
    /// The shortest time that an answer took, about a round trip; `None` before the first.
    answer_time_min: Option<Duration>,
    /// Since when the server has worked only on abandoned queries.
    abandoned_since: Option<Instant>,
    /// Whether there is something to send.
    is_due: bool,
    is_watched_for_writing: bool,
}

struct PendingRequest {
    ticket: Ticket,
    at: Instant,
    answers: oneshot::Sender<Answers>,
}

impl Connections {
    pub(super) fn new(thread_count: usize) -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            thread_count: thread_count.max(1),
            list: RefCell::default(),
        })
    }

    /// Reads the received data.
    pub(super) fn receive(&self, now: Instant) {
        let mut events = Vec::with_capacity(EVENT_COUNT_MAX);
        // It fails only if interrupted by a signal.
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut events),
            Some(&Timespec::default()),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("an epoll instance cannot be waited for: {error}"),
        }
        let connections = &mut self.list.borrow_mut().connections;
        for event in events {
            let id = event.data.u64();
            if let Some(connection) = connections
                .iter_mut()
                .find(|connection| connection.id == id)
            {
                connection.is_due = false;
                connection.direct.connection.turn(now);
                connection.deliver_replies(now);
            }
        }
    }

    /// Sends submitted requests, ends requests that timed out, and drops connections that have
    /// ended or were idle for too long.
    pub(super) fn send(&self, now: Instant) {
        let connections = &mut self.list.borrow_mut().connections;
        for connection in connections.iter_mut() {
            let deadline = connection.direct.connection.deadline();
            if std::mem::take(&mut connection.is_due)
                || deadline.is_some_and(|deadline| deadline <= now)
            {
                connection.direct.connection.flush(now);
                connection.deliver_replies(now);
            }
        }
        connections.retain_mut(|connection| {
            let is_idle = connection.direct.connection.is_idle();
            let is_abandoned = !is_idle && connection.sent.is_empty();
            connection.abandoned_since =
                is_abandoned.then(|| connection.abandoned_since.unwrap_or(now));
            let is_kept = connection.direct.connection.end().is_none()
                && !(is_idle && connection.is_retired(now))
                && connection.abandoned_until().is_none_or(|end| end > now)
                && connection.watch(&self.epoll).is_ok();
            if !is_kept {
                // If the removal fails, closing its descriptor removes it from epoll.
                let _ = epoll::delete(&self.epoll, &connection.direct.connection);
            }
            is_kept
        });
    }

    /// When something has to be sent, ended or closed even if nothing is received.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let connections = &self.list.borrow().connections;
        let deadlines = connections.iter().flat_map(|connection| {
            let is_idle = connection.direct.connection.is_idle();
            let expires = is_idle
                .then(|| connection.owner.expires(&connection.direct))
                .flatten();
            [
                connection.direct.connection.deadline(),
                expires,
                connection.abandoned_until(),
            ]
        });
        deadlines.flatten().min()
    }

    /// Submits a request, which is sent in the next turn; `None` if no connection can take it.
    fn submit(&self, remote: &Remote, request: Request) -> Option<oneshot::Receiver<Answers>> {
        let now = Instant::now();
        let list = &mut *self.list.borrow_mut();
        let owner = remote.direct();
        let limits = owner.limits();
        let is_of_server = |connection: &&Connection| Arc::ptr_eq(&connection.owner, owner);
        let count = list.connections.iter().filter(is_of_server).count();
        // The first connection that can take it: requests on one connection share a write.
        let position = list.connections.iter().position(|connection| {
            is_of_server(&connection)
                && connection.sent.len() < limits.depth
                && connection.abandoned_since.is_none()
                && !connection.is_stalled(limits.stall, now)
                && !connection.is_retired(now)
        });
        let connection = match position {
            Some(position) => &mut list.connections[position],
            None if count < (limits.count_max / self.thread_count).max(1) => {
                let Some(direct) = owner.take() else {
                    remote.open_direct();
                    return None;
                };
                list.open(&self.epoll, direct, Arc::clone(owner))?
            }
            None => return None,
        };
        // A connection that has ended or is full takes no request.
        let ticket = connection.direct.connection.submit(request).ok()?;
        let (answers, received) = oneshot::channel();
        connection.sent.push_back(PendingRequest {
            ticket,
            at: now,
            answers,
        });
        connection.direct.used_at = now;
        connection.is_due = true;
        Some(received)
    }
}

impl ConnectionList {
    fn open(
        &mut self,
        epoll: &OwnedFd,
        direct: Direct,
        owner: Arc<DirectConnections>,
    ) -> Option<&mut Connection> {
        let id = self.opened_count;
        let data = EventData::new_u64(id);
        epoll::add(epoll, &direct.connection, data, EventFlags::IN).ok()?;
        self.opened_count += 1;
        self.connections.push(Connection {
            id,
            direct,
            owner,
            sent: VecDeque::new(),
            answer_time_min: None,
            abandoned_since: None,
            is_due: false,
            is_watched_for_writing: false,
        });
        self.connections.last_mut()
    }
}

impl Connection {
    /// Delivers received answers to the waiting queries.
    fn deliver_replies(&mut self, now: Instant) {
        while let Some(reply) = self.direct.connection.next_reply() {
            let mut sent = self.sent.iter();
            let position = sent.position(|sent| sent.ticket == reply.ticket);
            if let Some(sent) = position.and_then(|position| self.sent.remove(position)) {
                let time = now.saturating_duration_since(sent.at);
                self.answer_time_min = Some(self.answer_time_min.map_or(time, |min| min.min(time)));
                // The caller may have dropped the receiver.
                let _ = sent.answers.send(reply.answers.into_vec());
            }
        }
    }

    /// Whether an answer is so late that a new request would wait for it; see
    /// [`PoolOptions::stall`](lookaside_client::PoolOptions::stall).
    fn is_stalled(&self, stall: Duration, now: Instant) -> bool {
        let limit = stall.saturating_add(self.answer_time_min.unwrap_or_default());
        let oldest = self.sent.front();
        oldest.is_some_and(|oldest| now.saturating_duration_since(oldest.at) > limit)
    }

    /// Until when abandoned queries have to end on the server; then the connection is closed.
    fn abandoned_until(&self) -> Option<Instant> {
        self.abandoned_since.map(|since| since + ABANDONED_TIMEOUT)
    }

    /// Whether it accepts no more requests.
    fn is_retired(&self, now: Instant) -> bool {
        self.owner.is_closed() || self.owner.is_expired(&self.direct, now)
    }

    /// Updates the events for which the connection is watched.
    fn watch(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        let writes = self.direct.connection.wants_write();
        if writes != self.is_watched_for_writing {
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, writes);
            let data = EventData::new_u64(self.id);
            epoll::modify(epoll, &self.direct.connection, data, flags)?;
            self.is_watched_for_writing = writes;
        }
        Ok(())
    }
}

impl Transport for Rc<Connections> {
    const BLOCKS: bool = false;

    async fn request(&self, remote: &Remote, request: Request) -> Result<Answers> {
        let sent = self.submit(remote, request.clone());
        match sent {
            Some(answers) => match answers.await {
                Ok(answers) => Ok(resend_lost(remote, &request, answers).await),
                // The connection was dropped.
                Err(_) => Pooled.request(remote, request).await,
            },
            None => Pooled.request(remote, request).await,
        }
    }
}

impl AsFd for Connections {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
