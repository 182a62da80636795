//! When requests are due at a fixed rate: the times do not depend on answers, so if a server
//! stalls, the wait of every request that became due meanwhile is counted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

const SECOND_NS: u64 = 1_000_000_000;

/// One thread's share of the requests.
#[derive(Debug)]
pub(super) struct Schedule {
    rate: u64,
    /// The request that is due next, counted over all threads, which take turns.
    next: u64,
    step: u64,
    /// More precise than the timeout of epoll, which is in milliseconds.
    timer: OwnedFd,
}

impl Schedule {
    pub(super) fn new(rate: u64, index: usize, thread_count: usize) -> rustix::io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self {
            rate,
            next: index as u64,
            step: thread_count as u64,
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
        })
    }

    pub(super) fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// When the next request is due.
    pub(super) fn due_ns(&self) -> u64 {
        let due = u128::from(self.next) * u128::from(SECOND_NS) / u128::from(self.rate);
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// Takes the next request, and returns when it was due.
    pub(super) fn take(&mut self) -> u64 {
        let due_ns = self.due_ns();
        self.next += self.step;
        due_ns
    }

    /// How many requests are due.
    pub(super) fn late(&self, now_ns: u64) -> u64 {
        let due = u128::from(now_ns) * u128::from(self.rate) / u128::from(SECOND_NS);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        due.saturating_sub(self.next) / self.step + 1
    }

    /// Sets the timer.
    pub(super) fn wake_in(&mut self, wait_ns: u64) -> rustix::io::Result<()> {
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: (wait_ns / SECOND_NS).cast_signed(),
                tv_nsec: (wait_ns % SECOND_NS).cast_signed(),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_at_even_times() {
        let mut all = Vec::new();
        for index in 0..3 {
            let mut schedule = Schedule::new(3000, index, 3).unwrap();
            all.extend((0..4).map(|_| schedule.take()));
        }
        all.sort_unstable();
        let expected: Vec<u64> = (0..12).map(|turn| turn * SECOND_NS / 3000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_late_is_counted() {
        let mut schedule = Schedule::new(1000, 0, 2).unwrap();
        assert_eq!(schedule.late(0), 1);
        assert_eq!(schedule.late(10_000_000), 6);
        schedule.take();
        assert_eq!(schedule.late(10_000_000), 5);
    }
}
