//! The API of an I/O thread for its service.

mod body;
mod contain;
mod output;
mod presence;
mod reply;
mod stream;
mod submit;
mod timer;
mod watch;

pub use body::BodySink;
pub use presence::Presence;
pub(crate) use reply::FILE_COPY_SIZE_MAX;
pub use reply::Reply;
pub use stream::BodyStream;
pub(crate) use timer::Due;
pub use timer::Timer;
pub use watch::Watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll;

use crate::clock::Clock;
use crate::connection::{self, Pending};
use crate::counters::{Counters, Unsent};
use crate::listener::Listener;
use crate::mailbox::{Mailbox, Waker};
use crate::parse::{HeadLimits, Header};
use crate::poller::{Interest, Source};
use crate::pool::Pool;
use crate::remote::Deferred;
use crate::slab::{Key, Slab};
use crate::ticket::SEQUENCE_MASK;
use crate::wheel::Wheel;
use crate::{Options, Ticket, Tls};
use submit::Submissions;
use watch::Watched;

/// The poller, the connections and the timers of a thread. A [`Service`](crate::Service) may add
/// its own descriptors and timers, so that a database connection is driven by the same thread as
/// the requests that wait for it.
pub struct Io {
    pub(crate) index: usize,
    pub(crate) epoll: OwnedFd,
    pub(crate) options: Arc<Options>,
    pub(crate) head_limits: HeadLimits,
    pub(crate) clock: Clock,
    pub(crate) connections: Slab<Connection>,
    pub(crate) listeners: Vec<Listener>,
    watches: Slab<Watched>,
    pub(crate) wheel: Wheel<Due>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// The mailboxes of all threads, for connections that are accepted for others.
    pub(crate) mailboxes: Arc<[Arc<Mailbox>]>,
    pub(crate) pool: Pool,
    /// The TLS configuration of each listener.
    pub(crate) tls: Arc<[Option<Tls>]>,
    /// The receive buffer; empty while it is in use.
    pub(crate) read_buffer: Vec<u8>,
    /// The header index of a request; empty while it is in use.
    pub(crate) headers: Vec<Header>,
    /// Connections that got output, or room, outside of their own events.
    pub(crate) dirty: Vec<Key>,
    /// The tickets of streamed replies that have room again.
    pub(crate) writable: Vec<u64>,
    /// The submissions to the serial stage.
    pub(crate) submissions: Submissions,
    /// The last batch reached the limit of rounds, and the service's `batch_end` has not been
    /// called for its last round.
    pub(crate) is_batch_cut: bool,
    /// The sequence number of the last deferred reply.
    pub(crate) sequence: u64,
    pub(crate) counters: Counters,
    /// The unsent bytes of all threads.
    pub(crate) unsent: Arc<Unsent>,
    pub(crate) is_draining: bool,
    /// The drain timeout has passed: all connections are closed.
    pub(crate) is_drained: bool,
    /// The thread that got the last connection of a shared socket.
    pub(crate) turn: usize,
}

/// A connection of the thread.
pub(crate) type Connection = connection::Connection<Box<dyn BodySink>>;

/// A body that a connection of the thread receives.
pub(crate) type Receiving = connection::Receiving<Box<dyn BodySink>>;

impl Drop for Io {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

impl Io {
    /// The time at which the current batch of events began, which is used for everything in the
    /// batch.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Which of the server's threads this is, from 0 on.
    pub fn thread_index(&self) -> usize {
        self.index
    }

    /// The options of the server.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Converts a ticket to a [`Deferred`], which can be answered from any thread.
    pub fn remote(&self, ticket: Ticket) -> Deferred {
        Deferred::new(Arc::clone(&self.mailbox), ticket)
    }

    /// Returns a number that no waiting request has.
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence = (self.sequence + 1) & SEQUENCE_MASK;
        self.sequence
    }

    pub(crate) fn pending(&self, ticket: Ticket) -> Option<&Pending> {
        let key = self.connections.key_at(ticket.index())?;
        let connection = self.connections.get(key)?;
        let position = connection.position(ticket.sequence())?;
        connection.pending.get(position)
    }

    /// Creates a waker, which calls [`Service::woken`](crate::Service::woken) on this thread from
    /// any other.
    pub fn waker(&self, token: u64) -> Waker {
        Waker {
            mailbox: Arc::clone(&self.mailbox),
            token,
        }
    }

    pub(crate) fn new(
        index: usize,
        options: Arc<Options>,
        listeners: Vec<Listener>,
        tls: Arc<[Option<Tls>]>,
        mailboxes: Arc<[Arc<Mailbox>]>,
        unsent: Arc<Unsent>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mailbox = Arc::clone(&mailboxes[index]);
        let data = Source::Mailbox.to_data();
        epoll::add(&epoll, mailbox.as_fd(), data, Interest::READ.flags())?;
        let mut io = Self {
            index,
            head_limits: HeadLimits {
                head_size_max: options.head_size_max,
                header_count_max: options.header_count_max,
                target_size_max: options.target_size_max,
            },
            clock: Clock::new(options.server_name.as_deref()),
            epoll,
            options,
            connections: Slab::new(),
            listeners,
            watches: Slab::new(),
            wheel: Wheel::new(),
            mailbox,
            mailboxes,
            pool: Pool::new(),
            tls,
            read_buffer: Vec::new(),
            headers: Vec::new(),
            dirty: Vec::new(),
            writable: Vec::new(),
            submissions: Submissions::default(),
            is_batch_cut: false,
            sequence: 0,
            counters: Counters::default(),
            unsent,
            is_draining: false,
            is_drained: false,
            turn: index,
        };
        io.listen(true)?;
        Ok(io)
    }

    /// Starts or stops accepting.
    pub(crate) fn listen(&mut self, is_wanted: bool) -> io::Result<()> {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if listener.is_polled == is_wanted {
                continue;
            }
            match is_wanted {
                true => {
                    let data = Source::Listener(index).to_data();
                    epoll::add(&self.epoll, &*listener, data, Interest::READ.flags())?;
                }
                false => epoll::delete(&self.epoll, &*listener)?,
            }
            listener.is_polled = is_wanted;
        }
        Ok(())
    }

    /// Registers a connection with the poller.
    pub(crate) fn poll_connection(&self, key: Key) -> io::Result<()> {
        let Some(connection) = self.connections.get(key) else {
            return Ok(());
        };
        let data = Source::Connection(key).to_data();
        let flags = connection.interest.connection_flags();
        Ok(epoll::add(&self.epoll, &connection.socket, data, flags)?)
    }

    /// Updates the interest in a connection if it has changed, or if the poller has to check the
    /// socket again.
    pub(crate) fn set_interest(&mut self, key: Key, interest: Interest) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(());
        };
        let looks_again = connection.is_unread && interest == Interest::READ;
        if connection.interest == interest && !looks_again {
            return Ok(());
        }
        connection.is_unread = false;
        let data = Source::Connection(key).to_data();
        let flags = interest.connection_flags();
        epoll::modify(&self.epoll, &connection.socket, data, flags)?;
        connection.interest = interest;
        Ok(())
    }

    /// Marks a connection to be processed before the batch ends.
    pub(crate) fn mark(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Closes a connection at once, which also removes its descriptor from the poller.
    pub(crate) fn close(&mut self, key: Key) {
        let Some(mut connection) = self.connections.remove(key) else {
            return;
        };
        self.counters.closed += 1;
        self.unsent.change(connection.unsent_size, 0);
        if let Some((timer, _)) = connection.timer.take() {
            self.wheel.cancel(timer);
        }
        self.pool.give(connection.input);
        self.pool.give(connection.output);
        for pending in connection.pending {
            self.pool.give(pending.bytes);
        }
    }
}
