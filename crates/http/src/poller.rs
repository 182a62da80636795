//! Interests and readiness of descriptors.

use rustix::event::epoll;

use crate::slab::Key;

/// The events of a descriptor to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };

    /// The epoll flags for a descriptor of the service, of a listener or of the mailbox.
    pub(crate) fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags
    }

    /// The epoll flags for a connection. One that waits for requests is edge-triggered: with level
    /// triggering, the kernel would check each socket again in the next call, after it was read,
    /// which costs a twentieth of a small request's CPU time. The end of input has its own flag,
    /// since it could otherwise go unnoticed after the bytes before it. It is always requested,
    /// also while nothing is read or written until an answer is available, which may take long.
    pub(crate) fn connection_flags(self) -> epoll::EventFlags {
        match self {
            Self::READ => epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET,
            Self {
                read: false,
                write: false,
            } => epoll::EventFlags::RDHUP | epoll::EventFlags::ET,
            other => other.flags(),
        }
    }
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// It can be read; the read may return the end or an error.
    pub read: bool,
    /// It can be written.
    pub write: bool,
    /// The other side has closed.
    pub closed: bool,
}

impl Readiness {
    pub(crate) fn from_flags(flags: epoll::EventFlags) -> Self {
        let closed = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        Self {
            read: closed || flags.contains(epoll::EventFlags::IN),
            write: closed || flags.contains(epoll::EventFlags::OUT),
            closed,
        }
    }
}

/// The source of an event: a tag and a key.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Connection(Key),
    Watch(Key),
    Listener(usize),
    Mailbox,
}

const TAG_SHIFT: u32 = 56;

impl Source {
    pub(crate) fn to_data(self) -> epoll::EventData {
        let (tag, bits) = match self {
            Self::Connection(key) => (0, key.to_bits()),
            Self::Watch(key) => (1, key.to_bits()),
            Self::Listener(index) => (2, index as u64),
            Self::Mailbox => (3, 0),
        };
        epoll::EventData::new_u64(tag << TAG_SHIFT | bits)
    }

    pub(crate) fn from_data(data: epoll::EventData) -> Self {
        let bits = data.u64();
        match bits >> TAG_SHIFT {
            0 => Self::Connection(Key::from_bits(bits)),
            1 => Self::Watch(Key::from_bits(bits)),
            2 => Self::Listener((bits & 0xffff) as usize),
            _ => Self::Mailbox,
        }
    }
}
