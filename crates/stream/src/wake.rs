//! Waits for input that a stop can interrupt.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::StopFlag;

/// The flags that end a wait early: the caller's stop, and the run's own end (a failed sink, a
/// panic).
#[derive(Clone, Debug)]
pub(crate) struct Wake {
    pub(crate) stop: StopFlag,
    pub(crate) abort: StopFlag,
}

/// How long a read may wait for its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Without a limit.
    Forever,
    /// No longer than this.
    AtMost(Duration),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Ready,
    TimedOut,
    Stopped,
}

impl Wake {
    pub(crate) fn is_raised(&self) -> bool {
        self.stop.is_raised() || self.abort.is_raised()
    }

    /// Waits until `fd` can be read, or, without one, until the time has passed.
    pub(crate) fn wait(&self, fd: Option<BorrowedFd<'_>>, wait: Wait) -> io::Result<Waited> {
        let mut ready = Vec::new();
        self.wait_any(fd.as_slice(), wait, &mut ready)
    }

    /// Waits until any of `fds` can be read and lists the positions of all that can.
    pub(crate) fn wait_any(
        &self,
        fds: &[BorrowedFd<'_>],
        wait: Wait,
        ready: &mut Vec<usize>,
    ) -> io::Result<Waited> {
        ready.clear();
        let wakes = [self.stop.wake_fd(), self.abort.wake_fd()];
        let all = fds.iter().chain(&wakes);
        let mut polled: Vec<PollFd<'_>> = all
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        let timeout = match wait {
            Wait::Forever => None,
            Wait::AtMost(time) => Some(Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            }),
        };
        loop {
            match poll(&mut polled, timeout.as_ref()) {
                Ok(_) => break,
                // Interrupted by a signal; if it stops this run, the flag is raised and ends the
                // next poll.
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.is_raised() {
            return Ok(Waited::Stopped);
        }
        // Not only `IN`: a closed or broken descriptor is reported by the following read.
        let answered = |polled: &&PollFd<'_>| !polled.revents().is_empty();
        let events = polled[..fds.len()].iter().enumerate();
        ready.extend(
            events
                .filter(|(_, fd)| answered(fd))
                .map(|(index, _)| index),
        );
        Ok(match ready.is_empty() {
            true => Waited::TimedOut,
            false => Waited::Ready,
        })
    }
}
