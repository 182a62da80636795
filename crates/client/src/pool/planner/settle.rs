//! Matches waiters and connections after an event.

use std::time::Instant;

use super::slot::{Check, Load, Slot, SlotState};
use super::{PoolPlanner, Refusal, Step, Usage};

impl PoolPlanner {
    /// Serves the waiters that can be served, reserves connections for those that cannot, and opens
    /// missing connections.
    pub(super) fn settle(&mut self, now: Instant) {
        self.is_changed = true;
        if self.is_closing {
            return;
        }
        if self.is_refused(now) {
            self.reject_all(Refusal::Failed);
        }
        loop {
            self.trim_reserved();
            self.serve(now);
            // The waiter may have got another connection than the reserved one.
            if self.reserved_count() <= self.queue.exclusive_count() {
                break;
            }
        }
        self.open(0, now);
        debug_assert!(
            self.reserved_count() <= self.queue.exclusive_count(),
            "each reserved connection has a waiter"
        );
        self.check();
    }

    /// Handles the end of a request or a check of this connection.
    pub(super) fn after_return(&mut self, index: usize, now: Instant) {
        let check_end = now + self.limits.check_timeout;
        let slot = &mut self.slots[index];
        if slot.state != SlotState::Open {
            return;
        }
        match &mut slot.check {
            None if slot.abandoned_count > 0 => self.begin_check(index, false, now),
            Some(check) if slot.lease_count == 0 && check.until.is_none() => {
                check.until = Some(check_end);
            }
            _ => {}
        }
        self.close_if_done(index);
    }

    pub(super) fn close_if_done(&mut self, index: usize) {
        let slot = &self.slots[index];
        if slot.is_retiring && slot.is_idle() {
            self.close(index);
        }
    }

    /// The connection that takes the next shared request, and its load. `None` if the request
    /// should wait for another connection.
    pub(super) fn choose(&self, now: Instant) -> Option<(usize, Load)> {
        let mut best = None;
        for (index, slot) in self.slots.iter().enumerate() {
            if !slot.is_shareable(&self.limits, now) || slot.is_stale(&self.limits, now) {
                continue;
            }
            let busy_count = slot.busy_count();
            let load = slot.load(&self.limits, now);
            // The fullest that is not full, or else the least full. Among stalled connections, one
            // that has not been stalled for much longer than others, since a query that has taken
            // long may take as long again.
            let rank = match load {
                Load::Free => (load, 0, usize::MAX - busy_count),
                Load::Full => (load, 0, busy_count),
                Load::Stalled => (load, slot.debt_size(now), busy_count),
            };
            if best.is_none_or(|(best_rank, _)| rank < best_rank) {
                best = Some((rank, index));
            }
        }
        let ((load, ..), index) = best?;
        if load == Load::Stalled && self.is_another_coming(now) {
            return None;
        }
        Some((index, load))
    }

    /// Whether another connection will be available soon: one that is or can be opened, or one that
    /// only has to be checked. Not if the server has just refused one.
    fn is_another_coming(&self, now: Instant) -> bool {
        let is_tried = self.failure_count > 0;
        self.slots.iter().any(|slot| match slot.state {
            SlotState::Empty | SlotState::Opening => !is_tried,
            SlotState::Open => {
                let is_checked = slot.check.is_some_and(|check| check.is_before_use);
                is_checked || slot.is_stale(&self.limits, now)
            }
            SlotState::Locked | SlotState::Closing => false,
        })
    }

    /// Opens connections for the waiters, for the minimum, and for `pressure` more.
    pub(super) fn open(&mut self, pressure: usize, now: Instant) {
        for _ in 0..self.open_wish(pressure) {
            if self.failure_count > 0 {
                // After a failure, only one attempt at a time tests whether the server is back.
                if self.is_opening() || self.retry_at.is_some_and(|retry_at| now < retry_at) {
                    return;
                }
                self.retry_at = None;
            }
            let mut slots = self.slots.iter();
            let index = slots.position(|slot| slot.state == SlotState::Empty);
            let index = index.expect("no more is wished for than there is room for");
            self.slots[index].state = SlotState::Opening;
            self.steps.push_back(Step::Open(self.slot_id(index)));
        }
    }

    /// How many connections are missing, as far as there is room for them.
    pub(super) fn open_wish(&self, pressure: usize) -> usize {
        if self.is_closing {
            return 0;
        }
        let missing = self.limits.count_min.saturating_sub(self.kept_count());
        let reserved_count = self.reserved_count();
        let exclusive_count = self.queue.exclusive_count().saturating_sub(reserved_count);
        let shared_count = self.queue.shared_count().div_ceil(self.limits.depth);
        let wanted = exclusive_count + shared_count + pressure;
        let wanted = wanted.saturating_sub(self.coming_count());
        missing.max(wanted).min(self.count(SlotState::Empty))
    }

    /// Serves waiters in one pass.
    fn serve(&mut self, now: Instant) {
        let mut coming_count = self.reliably_coming_count(now);
        let mut reserved_count = self.reserved_count();
        let mut has_shared = self.queue.shared_count() > 0;
        let mut has_exclusive = self.queue.exclusive_count() > 0;
        let mut position = 0;
        // Once there is no connection for one kind of waiter, there is none for later ones of the
        // kind.
        while has_shared || has_exclusive {
            let Some(usage) = self.queue.usage(position) else {
                return;
            };
            let found = match usage {
                Usage::Shared if has_shared => self.choose(now).map(|(index, _)| index),
                Usage::Exclusive if has_exclusive => self.choose_idle(now),
                _ => None,
            };
            if let Some(index) = found {
                reserved_count -= usize::from(self.slots[index].is_reserved);
                self.hand_over(position, usage, index, now);
                continue;
            }
            position += 1;
            match usage {
                Usage::Shared if has_shared => {
                    self.check_stale(now);
                    has_shared = false;
                }
                Usage::Exclusive if has_exclusive => {
                    if reserved_count > 0 {
                        reserved_count -= 1;
                    } else if self.check_stale(now) {
                        // An existing connection is better than one that is to be opened.
                    } else if coming_count > 0 {
                        coming_count -= 1;
                    } else {
                        has_exclusive = self.reserve(now);
                    }
                }
                _ => {}
            }
        }
    }

    fn hand_over(&mut self, position: usize, usage: Usage, index: usize, now: Instant) {
        let waiter = self.queue.remove_at(position);
        let waiter = waiter.expect("there is a waiter");
        let slot = &mut self.slots[index];
        match usage {
            Usage::Shared => slot.add_lease(now),
            Usage::Exclusive => {
                assert!(slot.is_idle(), "a connection is idle when it is locked");
                slot.is_reserved = false;
                slot.state = SlotState::Locked;
            }
        }
        self.steps
            .push_back(Step::Serve(waiter, self.slot_id(index)));
    }

    /// The connection for an exclusive user: the reserved one first.
    fn choose_idle(&self, now: Instant) -> Option<usize> {
        let is_free = |slot: &Slot| slot.is_idle() && !slot.is_stale(&self.limits, now);
        let found = self
            .slots
            .iter()
            .position(|slot| is_free(slot) && slot.is_reserved);
        found.or_else(|| self.slots.iter().position(is_free))
    }

    /// Begins to check a connection that was idle for long; returns whether there was one.
    fn check_stale(&mut self, now: Instant) -> bool {
        let mut slots = self.slots.iter();
        let Some(index) = slots.position(|slot| slot.is_stale(&self.limits, now)) else {
            return false;
        };
        self.begin_check(index, true, now);
        true
    }

    /// Reserves a connection for an exclusive waiter, until it is idle.
    fn reserve(&mut self, now: Instant) -> bool {
        let slots = self.slots.iter_mut();
        let open = slots.filter(|slot| slot.state == SlotState::Open && !slot.is_reserved);
        let usable = open.filter(|slot| !slot.is_retiring);
        let limits = &self.limits;
        let best = usable.min_by_key(|slot| (slot.is_stalled(limits, now), slot.busy_count()));
        best.map(|slot| slot.is_reserved = true).is_some()
    }

    /// Releases reserved connections whose waiters are gone.
    fn trim_reserved(&mut self) {
        for _ in self.queue.exclusive_count()..self.reserved_count() {
            let reserved = self.slots.iter_mut().filter(|slot| slot.is_reserved);
            let busiest = reserved.max_by_key(|slot| slot.busy_count());
            let busiest = busiest.expect("one more is reserved than is wanted");
            busiest.is_reserved = false;
        }
    }

    fn begin_check(&mut self, index: usize, is_before_use: bool, now: Instant) {
        let slot = &mut self.slots[index];
        assert_eq!(slot.state, SlotState::Open, "a checked connection is open");
        assert!(slot.check.is_none(), "there is one check at a time");
        let is_alone = slot.lease_count == 0;
        slot.check = Some(Check {
            abandoned_count: slot.abandoned_count,
            until: is_alone.then(|| now + self.limits.check_timeout),
            is_before_use,
        });
        self.steps.push_back(Step::Check(self.slot_id(index)));
    }

    fn reserved_count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_reserved).count()
    }

    fn count(&self, state: SlotState) -> usize {
        self.slots.iter().filter(|slot| slot.state == state).count()
    }

    /// The number of connections that will soon be available.
    fn coming_count(&self) -> usize {
        let checks = self.slots.iter().filter_map(|slot| slot.check);
        self.count(SlotState::Opening) + checks.filter(|check| check.is_before_use).count()
    }

    /// The same, and those that can be opened at once, unless the server has just refused one.
    fn reliably_coming_count(&self, now: Instant) -> usize {
        let is_tried = self.failure_count > 0 || self.retry_at.is_some_and(|at| now < at);
        if is_tried {
            return 0;
        }
        self.coming_count() + self.count(SlotState::Empty)
    }
}
