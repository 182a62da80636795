//! A cache in two layers over a feed: entries, flights of misses, and who may take which answer.

use std::collections::HashMap;

use lookaside_verify::history::{Contract, Layer};

use super::feed::{Feed, Stamp};
use super::protocol::Switches;

/// The time to live of an entry.
pub(crate) const TTL: u64 = 1_000_000_000;

/// The number of a flight, in the order of sending.
pub(crate) type FlightId = u64;

/// What a reader wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: u32,
    pub(crate) contract: Contract,
    pub(crate) layer: Layer,
    /// 0 without a token.
    pub(crate) token: u64,
}

/// A request to the database.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) key: u32,
    sent: u64,
    stamp: Option<Stamp>,
    /// What the database answered.
    pub(crate) version: Option<u32>,
    /// The readers that wait for it, with what they want and when they began.
    pub(crate) waiters: Vec<(usize, Wanted, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    version: Option<u32>,
    flight: FlightId,
    sent: u64,
    stamp: Option<Stamp>,
    completed: u64,
    /// What its age is counted from.
    aged_from: u64,
}

/// What a session got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) version: Option<u32>,
    pub(crate) fresh_as_of: u64,
}

/// The last flight of each key whose answer a session got, and when it was completed.
#[derive(Default)]
pub(crate) struct SessionMemory(HashMap<u32, (FlightId, u64)>);

impl SessionMemory {
    /// Whether an answer cannot be older than the last one: it is the same, or its question was sent
    /// after the last answer had arrived.
    fn allows(&self, key: u32, flight: FlightId, sent: u64) -> bool {
        self.0
            .get(&key)
            .is_none_or(|&(last, completed)| last == flight || sent >= completed)
    }
}

pub(crate) struct Cache {
    switches: Switches,
    pub(crate) feed: Feed,
    shared: HashMap<u32, Entry>,
    bodies: HashMap<u32, Entry>,
    pub(crate) flights: HashMap<FlightId, Flight>,
    /// The last flight that was sent for a key, as long as it is open.
    latest: HashMap<u32, FlightId>,
    flight_count: u64,
    sessions: Vec<SessionMemory>,
}

impl Cache {
    pub(crate) fn new(switches: Switches, key_count: usize, session_count: usize) -> Self {
        Self {
            switches,
            feed: Feed::new(switches, key_count),
            shared: HashMap::new(),
            bodies: HashMap::new(),
            flights: HashMap::new(),
            latest: HashMap::new(),
            flight_count: 0,
            sessions: (0..session_count)
                .map(|_| SessionMemory::default())
                .collect(),
        }
    }

    /// An answer from memory.
    pub(crate) fn lookup(&mut self, session: usize, wanted: Wanted, now: u64) -> Option<Taken> {
        let key = wanted.key;
        let mut entry = None;
        if wanted.layer == Layer::L0 {
            entry = self.usable(self.bodies.get(&key), session, wanted, now);
        }
        if entry.is_none() {
            entry = self.usable(self.shared.get(&key), session, wanted, now);
            if let Some(entry) = entry
                && wanted.layer == Layer::L0
            {
                self.bodies.insert(key, entry);
            }
        }
        let entry = entry?;
        self.sessions[session]
            .0
            .insert(key, (entry.flight, entry.completed));
        let horizon = self.feed.fresh_as_of.filter(|_| self.is_fed(key, &entry));
        Some(Taken {
            version: entry.version,
            fresh_as_of: entry.aged_from.max(horizon.unwrap_or(0)),
        })
    }

    fn is_fed(&self, key: u32, entry: &Entry) -> bool {
        entry.stamp == Some(self.feed.current(key))
    }

    fn usable(
        &self,
        entry: Option<&Entry>,
        session: usize,
        wanted: Wanted,
        now: u64,
    ) -> Option<Entry> {
        let entry = entry?;
        let age = now - entry.aged_from;
        let is_fed = self.is_fed(wanted.key, entry);
        let is_ordered = !self.switches.orders_sessions
            || self.sessions[session].allows(wanted.key, entry.flight, entry.sent);
        let is_valid = is_ordered && (is_fed || entry.stamp.is_none());
        let is_enough = match wanted.contract {
            _ if !self.switches.has_contracts => age < TTL,
            Contract::Any => age < TTL,
            Contract::Within(duration) => {
                let within = duration.as_nanos() as u64;
                let horizon = self.feed.fresh_as_of.filter(|_| is_fed);
                age <= within || horizon.is_some_and(|horizon| now - horizon <= within)
            }
            Contract::After => is_fed && self.feed.position >= wanted.token,
            _ => false,
        };
        (is_valid && is_enough).then_some(*entry)
    }

    /// Joins an open flight, or returns a new one, which the caller sends.
    pub(crate) fn ask(&mut self, reader: usize, wanted: Wanted, now: u64) -> Option<FlightId> {
        let key = wanted.key;
        if let Some(id) = self.latest.get(&key)
            && let Some(flight) = self.flights.get_mut(id)
        {
            let may_join = match wanted.contract {
                _ if !self.switches.has_contracts => true,
                Contract::Any => true,
                Contract::Within(duration) => now - flight.sent <= duration.as_nanos() as u64,
                Contract::After => self.switches.after_joins,
                _ => false,
            };
            let is_ordered = !self.switches.orders_sessions
                || self.sessions[reader].allows(key, *id, flight.sent);
            if may_join && is_ordered {
                flight.waiters.push((reader, wanted, now));
                return None;
            }
        }
        self.flight_count += 1;
        let flight = Flight {
            key,
            sent: now,
            stamp: self.feed.stamp(key),
            version: None,
            waiters: vec![(reader, wanted, now)],
        };
        self.flights.insert(self.flight_count, flight);
        self.latest.insert(key, self.flight_count);
        Some(self.flight_count)
    }

    /// Completes a flight: fills the caches and returns the readers, with what they got.
    pub(crate) fn complete(&mut self, id: FlightId, now: u64) -> (Flight, Taken) {
        let flight = self.flights.remove(&id).expect("a flight completes once");
        let key = flight.key;
        let stamp = match self.switches.has_lease {
            true => flight.stamp,
            false => flight.stamp.and(self.feed.stamp(key)),
        };
        let entry = Entry {
            version: flight.version,
            flight: id,
            sent: flight.sent,
            stamp,
            completed: now,
            aged_from: flight.sent,
        };
        fill(&mut self.shared, key, entry);
        for (reader, wanted, _) in &flight.waiters {
            self.sessions[*reader].0.insert(key, (id, now));
            if wanted.layer == Layer::L0 {
                let aged_from = match self.switches.body_age_from_completion {
                    true => now,
                    false => flight.sent,
                };
                fill(&mut self.bodies, key, Entry { aged_from, ..entry });
            }
        }
        let taken = Taken {
            version: flight.version,
            fresh_as_of: flight.sent,
        };
        (flight, taken)
    }
}

/// Of two answers, the one that was asked for later stays.
fn fill(entries: &mut HashMap<u32, Entry>, key: u32, entry: Entry) {
    let is_later = |before: &Entry| before.sent <= entry.sent;
    if entries.get(&key).is_none_or(is_later) {
        entries.insert(key, entry);
    }
}
