//! The feed of a cache: what the log delivered, what of it is visible, and how fresh that makes entries.

use super::database::{LogChange, LogRecord, Snapshot, Xid};
use super::protocol::Switches;

/// What an entry was valid for when it was stamped: the epoch of the feed and the version of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    epoch: u32,
    slot_version: u32,
}

/// A probe that showed more than the feed had received.
struct PendingHorizon {
    sent: u64,
    position: u64,
}

pub(crate) struct Feed {
    switches: Switches,
    /// A slot for each key.
    slots: Vec<u32>,
    epoch: u32,
    /// Counts connections; `None` while there is none.
    connection: Option<u32>,
    connection_count: u32,
    is_live: bool,
    /// The first transaction after the connection was made.
    barrier: Option<Xid>,
    fingerprint: Option<u32>,
    /// What is not visible yet.
    queue: Vec<LogRecord>,
    received: u64,
    snapshot: Option<Snapshot>,
    pending: Vec<PendingHorizon>,
    /// All that was acknowledged before this is applied.
    pub(crate) fresh_as_of: Option<u64>,
    /// All commits up to this position are applied.
    pub(crate) position: u64,
    event_count: u64,
}

impl Feed {
    pub(crate) fn new(switches: Switches, key_count: usize) -> Self {
        Self {
            switches,
            slots: vec![0; key_count],
            epoch: 0,
            connection: None,
            connection_count: 0,
            is_live: false,
            barrier: None,
            fingerprint: None,
            queue: Vec::new(),
            received: 0,
            snapshot: None,
            pending: Vec::new(),
            fresh_as_of: None,
            position: 0,
            event_count: 0,
        }
    }

    /// Connects to the log after a position, and returns the number of the connection.
    pub(crate) fn connect(&mut self, position: u64) -> u32 {
        self.connection_count += 1;
        self.connection = Some(self.connection_count);
        self.received = position;
        self.is_live = !self.switches.waits_on_connect;
        self.connection_count
    }

    pub(crate) fn connection(&self) -> Option<u32> {
        self.connection
    }

    pub(crate) fn lose_connection(&mut self) {
        self.connection = None;
        self.is_live = false;
        self.barrier = None;
        self.fingerprint = None;
        self.snapshot = None;
        self.queue.clear();
        self.pending.clear();
        if self.switches.ends_epoch_on_loss {
            self.epoch += 1;
            self.fresh_as_of = None;
            self.position = 0;
        }
    }

    /// The stamp of a fill whose question is sent now; `None` without a live feed.
    pub(crate) fn stamp(&self, key: u32) -> Option<Stamp> {
        self.is_live.then(|| self.current(key))
    }

    pub(crate) fn current(&self, key: u32) -> Stamp {
        Stamp {
            epoch: self.epoch,
            slot_version: self.slots[key as usize],
        }
    }

    /// Takes a record of the log. Returns whether it has to wait for a probe.
    pub(crate) fn receive(&mut self, connection: u32, record: LogRecord) -> bool {
        if self.connection != Some(connection) || record.position <= self.received {
            return false;
        }
        self.received = record.position;
        self.event_count += record.changes.len() as u64;
        let is_dropped = (self.switches.dropped_every)
            .is_some_and(|every| self.event_count.is_multiple_of(every));
        let is_visible = self
            .snapshot
            .as_ref()
            .is_some_and(|it| it.shows(record.xid));
        let mut waits = false;
        if is_visible || !self.switches.has_gate {
            self.apply(&record, is_dropped);
        } else if !is_dropped {
            self.queue.push(record);
            waits = true;
        }
        self.advance_horizon();
        waits
    }

    fn apply(&mut self, record: &LogRecord, is_dropped: bool) {
        if is_dropped {
            return;
        }
        for change in &record.changes {
            match *change {
                LogChange::Row(key) => self.slots[key as usize] += 1,
                LogChange::OldKey(key) => {
                    self.slots[key as usize] += u32::from(self.switches.applies_old_key);
                }
                LogChange::Truncate if self.switches.applies_truncate => {
                    self.slots.iter_mut().for_each(|slot| *slot += 1);
                }
                LogChange::Truncate => {}
            }
        }
    }

    /// Takes the answer of a probe that was sent at a moment, over a connection to the database that
    /// has nothing to do with the feed's. Returns whether changes still wait for another probe.
    pub(crate) fn take_probe(&mut self, connection: u32, sent: u64, snapshot: Snapshot) -> bool {
        if self.connection != Some(connection) {
            return false;
        }
        let is_unchanged = match self.fingerprint.replace(snapshot.fingerprint) {
            Some(before) if self.switches.compares_fingerprint => before == snapshot.fingerprint,
            _ => true,
        };
        if !is_unchanged {
            self.epoch += 1;
        }
        for record in std::mem::take(&mut self.queue) {
            if snapshot.shows(record.xid) {
                self.apply(&record, false);
            } else {
                self.queue.push(record);
            }
        }
        match self.barrier {
            None => self.barrier = Some(snapshot.xid_end),
            Some(barrier) if snapshot.is_past(barrier) => self.is_live = true,
            Some(_) => {}
        }
        if self.is_live && is_unchanged {
            self.pending.push(PendingHorizon {
                sent,
                position: snapshot.position,
            });
        }
        self.snapshot = Some(snapshot);
        self.advance_horizon();
        !self.queue.is_empty() || !self.is_live
    }

    /// Moves the horizon to the probes whose positions the feed has received.
    fn advance_horizon(&mut self) {
        let received = self.received;
        let reached = |it: &PendingHorizon| it.position <= received;
        for horizon in self.pending.extract_if(.., |it| reached(it)) {
            self.fresh_as_of = self.fresh_as_of.max(Some(horizon.sent));
            let first = self.queue.iter().map(|record| record.position).min();
            let below_first = first.map_or(u64::MAX, |first| first - 1);
            self.position = self.position.max(horizon.position.min(below_first));
        }
    }
}
