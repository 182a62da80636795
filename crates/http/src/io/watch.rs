//! Descriptors of a service that its thread polls.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::epoll;

use crate::poller::Source;
use crate::slab::Key;
use crate::{Interest, Io};

/// A descriptor that the service watches, see [`Io::watch`].
#[derive(Debug)]
pub struct Watch(Key);

/// A descriptor of the service.
pub(super) struct Watched {
    token: u64,
    interest: Interest,
}

impl Io {
    /// Watches a descriptor, level-triggered: [`Service::ready`](crate::Service::ready) is called
    /// with the token while it is ready for one of the interests.
    ///
    /// # Errors
    ///
    /// When the descriptor cannot be polled, or is watched already.
    pub fn watch(
        &mut self,
        fd: BorrowedFd<'_>,
        interest: Interest,
        token: u64,
    ) -> io::Result<Watch> {
        let key = self.watches.insert(Watched { token, interest });
        let data = Source::Watch(key).to_data();
        if let Err(error) = epoll::add(&self.epoll, fd, data, interest.flags()) {
            self.watches.remove(key);
            return Err(error.into());
        }
        Ok(Watch(key))
    }

    /// Changes the interest of a watch. Costs nothing if it is unchanged.
    ///
    /// # Errors
    ///
    /// When the descriptor is not that of the watch.
    pub fn rewatch(
        &mut self,
        watch: &Watch,
        fd: BorrowedFd<'_>,
        interest: Interest,
    ) -> io::Result<()> {
        let Some(watched) = self.watches.get_mut(watch.0) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if watched.interest == interest {
            return Ok(());
        }
        let data = Source::Watch(watch.0).to_data();
        epoll::modify(&self.epoll, fd, data, interest.flags())?;
        watched.interest = interest;
        Ok(())
    }

    /// Stops watching a descriptor. Must be called before the descriptor is closed.
    ///
    /// # Errors
    ///
    /// When the descriptor is not that of the watch.
    pub fn unwatch(&mut self, watch: Watch, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.watches.remove(watch.0);
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// The token of a watch, if it still exists.
    pub(crate) fn watch_token(&self, key: Key) -> Option<u64> {
        self.watches.get(key).map(|watched| watched.token)
    }
}
