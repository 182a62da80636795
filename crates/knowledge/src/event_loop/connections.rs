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

use crate::remote::{
    Direct, DirectConnections, Pooled, Remote, SETTLE_TIMEOUT, Transport, resend_lost,
};

/// Descriptors that are looked at together.
const EVENT_COUNT_MAX: usize = 64;

type Answers = Vec<Result<Answer>>;

/// All connections of one event loop, whatever server they lead to. There are a few of them.
pub(super) struct Connections {
    /// The loop's own, so that its owner watches one descriptor.
    epoll: OwnedFd,
    thread_count: usize,
    lines: RefCell<Lines>,
}

#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    opened_count: u64,
}

/// A connection and the requests that it was sent.
struct Line {
    id: u64,
    direct: Direct,
    of: Arc<DirectConnections>,
    /// In the order in which they were sent, which is that of the answers nearly always.
    sent: VecDeque<Sent>,
    /// The shortest time that an answer took, about a round trip; none before the first.
    answer_time_min: Option<Duration>,
    /// Since when the server works on a query that was given up, and on nothing else.
    lingers_since: Option<Instant>,
    /// Whether there is something to send.
    is_due: bool,
    is_watched_for_writing: bool,
}

struct Sent {
    ticket: Ticket,
    at: Instant,
    answers: oneshot::Sender<Answers>,
}

impl Connections {
    pub(super) fn new(thread_count: usize) -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            thread_count: thread_count.max(1),
            lines: RefCell::default(),
        })
    }

    /// Reads what has come.
    pub(super) fn receive(&self, now: Instant) {
        let mut events = Vec::with_capacity(EVENT_COUNT_MAX);
        // It fails only where a signal came.
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut events),
            Some(&Timespec::default()),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("an epoll instance cannot be waited for: {error}"),
        }
        let lines = &mut self.lines.borrow_mut().lines;
        for event in events {
            let id = event.data.u64();
            if let Some(line) = lines.iter_mut().find(|line| line.id == id) {
                line.is_due = false;
                line.direct.connection.turn(now);
                line.hand_out(now);
            }
        }
    }

    /// Sends what was submitted, ends requests whose time is over, and lets go of connections that have
    /// ended or were idle for too long.
    pub(super) fn send(&self, now: Instant) {
        let lines = &mut self.lines.borrow_mut().lines;
        for line in lines.iter_mut() {
            let deadline = line.direct.connection.deadline();
            if std::mem::take(&mut line.is_due) || deadline.is_some_and(|deadline| deadline <= now)
            {
                line.direct.connection.flush(now);
                line.hand_out(now);
            }
        }
        lines.retain_mut(|line| {
            let is_idle = line.direct.connection.is_idle();
            let is_lingering = !is_idle && line.sent.is_empty();
            line.lingers_since = is_lingering.then(|| line.lingers_since.unwrap_or(now));
            let is_kept = line.direct.connection.end().is_none()
                && !(is_idle && line.is_retired(now))
                && line.settles().is_none_or(|end| end > now)
                && line.watch(&self.epoll).is_ok();
            if !is_kept {
                // One that cannot be taken off leaves with its descriptor.
                let _ = epoll::delete(&self.epoll, &line.direct.connection);
            }
            is_kept
        });
    }

    /// When something has to be sent, ended or closed even if nothing comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let lines = &self.lines.borrow().lines;
        let deadlines = lines.iter().flat_map(|line| {
            let is_idle = line.direct.connection.is_idle();
            let expires = is_idle.then(|| line.of.expires(&line.direct)).flatten();
            [line.direct.connection.deadline(), expires, line.settles()]
        });
        deadlines.flatten().min()
    }

    /// Has a request sent with the next turn, if a connection is there that can take it.
    fn submit(&self, remote: &Remote, request: Request) -> Option<oneshot::Receiver<Answers>> {
        let now = Instant::now();
        let lines = &mut *self.lines.borrow_mut();
        let of = remote.direct();
        let limits = of.limits();
        let is_of_server = |line: &&Line| Arc::ptr_eq(&line.of, of);
        let count = lines.lines.iter().filter(is_of_server).count();
        // The first that can: packed, they travel in fewer writes.
        let position = lines.lines.iter().position(|line| {
            is_of_server(&line)
                && line.sent.len() < limits.depth
                && line.lingers_since.is_none()
                && !line.is_stalled(limits.stall, now)
                && !line.is_retired(now)
        });
        let line = match position {
            Some(position) => &mut lines.lines[position],
            None if count < (limits.count_max / self.thread_count).max(1) => {
                let Some(direct) = of.take() else {
                    remote.open_direct();
                    return None;
                };
                lines.open(&self.epoll, direct, Arc::clone(of))?
            }
            None => return None,
        };
        // One that has ended, or is full, takes none.
        let ticket = line.direct.connection.submit(request).ok()?;
        let (answers, received) = oneshot::channel();
        line.sent.push_back(Sent {
            ticket,
            at: now,
            answers,
        });
        line.direct.used_at = now;
        line.is_due = true;
        Some(received)
    }
}

impl Lines {
    fn open(
        &mut self,
        epoll: &OwnedFd,
        direct: Direct,
        of: Arc<DirectConnections>,
    ) -> Option<&mut Line> {
        let id = self.opened_count;
        let data = EventData::new_u64(id);
        epoll::add(epoll, &direct.connection, data, EventFlags::IN).ok()?;
        self.opened_count += 1;
        self.lines.push(Line {
            id,
            direct,
            of,
            sent: VecDeque::new(),
            answer_time_min: None,
            lingers_since: None,
            is_due: false,
            is_watched_for_writing: false,
        });
        self.lines.last_mut()
    }
}

impl Line {
    /// Gives the answers that came to those who wait for them.
    fn hand_out(&mut self, now: Instant) {
        while let Some(reply) = self.direct.connection.next_reply() {
            let mut sent = self.sent.iter();
            let place = sent.position(|sent| sent.ticket == reply.ticket);
            if let Some(sent) = place.and_then(|place| self.sent.remove(place)) {
                let time = now.saturating_duration_since(sent.at);
                self.answer_time_min = Some(self.answer_time_min.map_or(time, |min| min.min(time)));
                // Its caller may be gone.
                let _ = sent.answers.send(reply.answers.into_vec());
            }
        }
    }

    /// Whether an answer takes so long that a request would wait behind it; see
    /// [`PoolOptions::stall`](lookaside_client::PoolOptions::stall).
    fn is_stalled(&self, stall: Duration, now: Instant) -> bool {
        let limit = stall.saturating_add(self.answer_time_min.unwrap_or_default());
        let oldest = self.sent.front();
        oldest.is_some_and(|oldest| now.saturating_duration_since(oldest.at) > limit)
    }

    /// Until when a query that was given up has to end on the server, or the connection is closed.
    fn settles(&self) -> Option<Instant> {
        self.lingers_since.map(|since| since + SETTLE_TIMEOUT)
    }

    /// Whether it takes nothing more.
    fn is_retired(&self, now: Instant) -> bool {
        self.of.is_closed() || self.of.is_expired(&self.direct, now)
    }

    /// Watches for what the connection waits for.
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
                // Its connection was given up.
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
