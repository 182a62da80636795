//! Runs the planner against a simulated world that executes its steps with random events.
#![expect(
    clippy::print_stderr,
    reason = "a seed is said, so that it can be given again"
)]

use std::collections::{HashMap, VecDeque};

use fastrand::Rng;

use super::*;

const WORLD_COUNT: usize = 1_000;
const EVENT_COUNT: usize = 400;

/// One connection, from the server's view.
#[derive(Debug, Default)]
struct Connection {
    is_open: bool,
    is_locked: bool,
    is_ending: bool,
    lease_count: usize,
    abandoned_count: usize,
    /// How many abandoned requests there were when the check was sent.
    checked: Option<usize>,
}

struct World {
    random: Rng,
    limits: Limits,
    planner: PoolPlanner,
    now: Instant,
    connections: HashMap<PoolSlotId, Connection>,
    /// The waiters, in their order.
    waiting: VecDeque<(Waiter, Usage, Instant)>,
    leases: Vec<PoolSlotId>,
    locks: Vec<PoolSlotId>,
    refused_count: usize,
    served_count: usize,
    /// Since when there are no more failures.
    calm_since: Option<Instant>,
}

fn rng(name: &str) -> Rng {
    let seed = std::env::var("LOOKASIDE_TEST_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    eprintln!("{name}: LOOKASIDE_TEST_SEED={seed}");
    Rng::with_seed(seed)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn limits() -> Limits {
    Limits {
        count_max: 4,
        count_min: 0,
        depth: 2,
        stall: ms(50),
        idle_timeout: Some(ms(60_000)),
        lifetime_max: None,
        check_after: ms(5_000),
        check_timeout: ms(5_000),
    }
}

impl World {
    fn new(limits: Limits, random: Rng) -> Self {
        let now = Instant::now();
        Self {
            random,
            planner: PoolPlanner::new(limits.clone(), now),
            limits,
            now,
            connections: HashMap::new(),
            waiting: VecDeque::new(),
            leases: Vec::new(),
            locks: Vec::new(),
            refused_count: 0,
            served_count: 0,
            calm_since: None,
        }
    }

    fn take(&mut self, usage: Usage, timeout: Duration) -> Take {
        let until = self.now + timeout;
        let take = self.planner.take(usage, until, self.now);
        match take {
            Take::Now(slot_id) => self.hold(usage, slot_id),
            Take::Wait(waiter) => self.waiting.push_back((waiter, usage, until)),
            Take::Refused(_) => self.refused_count += 1,
        }
        self.obey();
        take
    }

    fn hold(&mut self, usage: Usage, slot_id: PoolSlotId) {
        self.served_count += 1;
        let connection = self.connections.get_mut(&slot_id).expect("it was opened");
        assert!(connection.is_open && !connection.is_ending);
        assert!(
            !connection.is_locked,
            "a locked connection has no other user"
        );
        match usage {
            Usage::Shared => {
                connection.lease_count += 1;
                self.leases.push(slot_id);
            }
            Usage::Exclusive => {
                assert_eq!(connection.lease_count + connection.abandoned_count, 0);
                assert_eq!(connection.checked, None);
                connection.is_locked = true;
                self.locks.push(slot_id);
            }
        }
    }

    /// Executes the planner's steps.
    fn obey(&mut self) {
        while let Some(step) = self.planner.next_step() {
            match step {
                Step::Open(slot_id) => {
                    let before = self.connections.insert(slot_id, Connection::default());
                    assert!(before.is_none(), "a slot_id is named once");
                }
                Step::Check(slot_id) => {
                    let connection = self.connections.get_mut(&slot_id).unwrap();
                    assert!(connection.is_open && connection.checked.is_none());
                    connection.checked = Some(connection.abandoned_count);
                }
                Step::Close(slot_id) => {
                    let connection = self.connections.get_mut(&slot_id).unwrap();
                    assert_eq!(connection.lease_count + connection.abandoned_count, 0);
                    assert!(!connection.is_locked && !connection.is_ending);
                    connection.is_ending = true;
                }
                Step::Abort(slot_id) => {
                    let connection = self.connections.get_mut(&slot_id).unwrap();
                    assert_eq!(
                        connection.lease_count, 0,
                        "no answer is given up that a caller waits for"
                    );
                    assert!(!connection.is_ending);
                    connection.is_ending = true;
                }
                Step::Serve(waiter, slot_id) => {
                    let usage = self.forget(waiter);
                    self.hold(usage, slot_id);
                }
                Step::Reject(waiter, refusal) => {
                    let is_late = refusal == Refusal::Late;
                    if let (true, Some(since)) = (is_late, self.calm_since) {
                        let until = self.waiting.iter().find(|entry| entry.0 == waiter);
                        let until = until.expect("a waiter is answered once").2;
                        assert!(
                            until < since + ms(1_000),
                            "no waiter starves in a calm world"
                        );
                    }
                    self.forget(waiter);
                }
            }
        }
        self.check();
    }

    /// A waiter gives up.
    fn forget(&mut self, waiter: Waiter) -> Usage {
        let position = self.waiting.iter().position(|entry| entry.0 == waiter);
        let position = position.expect("a waiter is answered once");
        let (_, usage, _) = self.waiting.remove(position).unwrap();
        usage
    }

    /// Checks the invariants.
    fn check(&self) {
        assert!(self.connections.len() <= self.limits.count_max);
        let counts = self.planner.counts();
        let connections = self.connections.values();
        let in_flight = connections.map(|one| one.lease_count + one.abandoned_count);
        assert_eq!(counts.in_flight, in_flight.sum::<usize>());
        assert_eq!(counts.waiting, self.waiting.len());
        let total = counts.opening + counts.open + counts.locked + counts.closing;
        assert_eq!(total, self.connections.len());
        let is_fresh = self.limits.check_after > ms(100_000);
        if is_fresh && counts.waiting > 0 {
            assert_eq!(counts.idle, 0, "no request waits beside an idle connection");
        }
        if let Some(first) = self.waiting.iter().map(|entry| entry.2).min() {
            let deadline = self.planner.deadline(self.now);
            assert!(deadline.is_some_and(|deadline| deadline <= first));
        }
    }

    fn pass(&mut self, duration: Duration) {
        self.now += duration;
        self.planner.advance(self.now);
        self.obey();
        let deadline = self.planner.deadline(self.now);
        assert!(
            deadline.is_none_or(|deadline| deadline > self.now),
            "what is due was done"
        );
        assert!(self.waiting.iter().all(|entry| entry.2 > self.now));
    }

    fn give_back(&mut self, index: usize, outcome: AcquireOutcome) {
        let slot_id = self.leases.swap_remove(index);
        // It may have been lost meanwhile.
        if let Some(connection) = self.connections.get_mut(&slot_id) {
            connection.lease_count -= 1;
            connection.abandoned_count += usize::from(outcome == AcquireOutcome::GivenUp);
        }
        self.planner.give_back(slot_id, outcome, self.now);
        self.obey();
    }

    fn unlock(&mut self, index: usize, outcome: AcquireOutcome) {
        let slot_id = self.locks.swap_remove(index);
        if let Some(connection) = self.connections.get_mut(&slot_id) {
            connection.is_locked = false;
            connection.abandoned_count += usize::from(outcome == AcquireOutcome::GivenUp);
        }
        self.planner.unlock(slot_id, outcome, self.now);
        self.obey();
    }

    fn discard(&mut self, index: usize) {
        let slot_id = self.locks.swap_remove(index);
        if let Some(connection) = self.connections.get_mut(&slot_id) {
            connection.is_locked = false;
        }
        self.planner.discard(slot_id, self.now);
        self.obey();
    }

    /// A random connection that meets the condition.
    fn any(&mut self, is_meant: impl Fn(&Connection) -> bool) -> Option<PoolSlotId> {
        let found = self.connections.iter().filter(|(_, one)| is_meant(one));
        let mut found: Vec<PoolSlotId> = found.map(|(&slot_id, _)| slot_id).collect();
        found.sort_by_key(|slot_id| (slot_id.index, slot_id.generation));
        self.random.choice(found)
    }

    fn opened(&mut self, slot_id: PoolSlotId) {
        self.connections.get_mut(&slot_id).unwrap().is_open = true;
        let jitter = self.random.u32(..);
        self.planner
            .opened(slot_id, Duration::ZERO, jitter, self.now);
        self.obey();
    }

    fn open_failed(&mut self, slot_id: PoolSlotId, why: Failure) {
        self.connections.remove(&slot_id);
        let jitter = self.random.u32(..);
        self.planner.open_failed(slot_id, why, jitter, self.now);
        self.obey();
    }

    fn checked(&mut self, slot_id: PoolSlotId) {
        let connection = self.connections.get_mut(&slot_id).unwrap();
        connection.abandoned_count -= connection.checked.take().unwrap();
        self.planner.checked(slot_id, self.now);
        self.obey();
    }

    fn ended(&mut self, slot_id: PoolSlotId) {
        self.connections.remove(&slot_id);
        let jitter = self.random.u32(..);
        assert!(self.planner.ended(slot_id, jitter, self.now));
        // Both ends may report it.
        assert!(!self.planner.ended(slot_id, jitter, self.now));
        self.obey();
    }

    /// Triggers a random event.
    fn wake_all(&mut self) {
        match self.random.u32(0..100) {
            0..25 => drop(self.take(Usage::Shared, ms(10_000))),
            25..29 => drop(self.take(Usage::Exclusive, ms(10_000))),
            29..55 if !self.leases.is_empty() => {
                let index = self.random.usize(0..self.leases.len());
                let outcome = match self.random.u32(0..10) {
                    0 => AcquireOutcome::GivenUp,
                    1 => AcquireOutcome::Unused,
                    _ => AcquireOutcome::Answered,
                };
                self.give_back(index, outcome);
            }
            55..60 if !self.locks.is_empty() => {
                let index = self.random.usize(0..self.locks.len());
                match self.random.u32(0..5) {
                    0 => self.unlock(index, AcquireOutcome::GivenUp),
                    1 => self.discard(index),
                    _ => self.unlock(index, AcquireOutcome::Answered),
                }
            }
            60..64 if !self.waiting.is_empty() => {
                let index = self.random.usize(0..self.waiting.len());
                let (waiter, ..) = self.waiting.remove(index).unwrap();
                self.planner.leave(waiter, self.now);
                self.obey();
            }
            64..76 => {
                if let Some(slot_id) = self.any(|one| !one.is_open && !one.is_ending) {
                    match self.random.u32(0..10) {
                        0 => self.open_failed(slot_id, Failure::Lasting),
                        1..3 => self.open_failed(slot_id, Failure::Passing),
                        3 => self.open_failed(slot_id, Failure::Unreachable),
                        _ => self.opened(slot_id),
                    }
                }
            }
            76..82 => {
                if let Some(slot_id) = self.any(|one| one.checked.is_some() && !one.is_ending) {
                    self.checked(slot_id);
                }
            }
            82..84 => {
                if let Some(slot_id) = self.any(|one| one.is_open) {
                    self.ended(slot_id);
                }
            }
            84..92 => {
                if let Some(slot_id) = self.any(|one| one.is_ending) {
                    self.ended(slot_id);
                }
            }
            _ => {
                let duration = [1, 30, 300, 6_000][self.random.usize(0..4)];
                self.pass(ms(duration));
            }
        }
    }

    /// Runs without failures until nothing is left to do.
    fn calm_down(&mut self) {
        self.calm_since = Some(self.now);
        for _ in 0..10_000 {
            if let Some(slot_id) = self.any(|one| one.is_ending) {
                self.ended(slot_id);
            } else if let Some(slot_id) = self.any(|one| !one.is_open) {
                self.opened(slot_id);
            } else if let Some(slot_id) = self.any(|one| one.checked.is_some()) {
                self.checked(slot_id);
            } else if !self.leases.is_empty() {
                self.give_back(0, AcquireOutcome::Answered);
            } else if !self.locks.is_empty() {
                self.unlock(0, AcquireOutcome::Answered);
            } else if self.waiting.is_empty() {
                return;
            } else {
                let deadline = self.planner.deadline(self.now).expect("a request waits");
                self.pass(deadline.saturating_duration_since(self.now));
            }
        }
        panic!(
            "{} wait without end: {:?}",
            self.waiting.len(),
            self.planner
        );
    }
}

#[test]
fn whatever_happens_the_rules_hold_and_everybody_is_served() {
    let mut random = rng("the pool's planner");
    for _ in 0..WORLD_COUNT {
        let count_max = random.usize(1..5);
        let limits = Limits {
            count_max,
            count_min: random.usize(0..=count_max),
            depth: random.usize(1..5),
            stall: ms(random.u64(1..100)),
            idle_timeout: random.bool().then_some(ms(10_000)),
            lifetime_max: random.bool().then_some(ms(20_000)),
            check_after: [ms(5_000), ms(1_000_000)][random.usize(0..2)],
            check_timeout: ms(5_000),
        };
        let mut world = World::new(limits.clone(), random.fork());
        for _ in 0..EVENT_COUNT {
            world.wake_all();
        }
        world.calm_down();
        assert!(world.served_count > 0);

        // Unneeded connections are closed, and no others.
        for _ in 0..200 {
            world.pass(ms(1_000));
            world.calm_down();
        }
        let counts = world.planner.counts();
        assert_eq!(counts.in_flight, 0);
        if limits.idle_timeout.is_some() {
            assert_eq!(counts.open, limits.count_min);
        }
        assert!(counts.open >= limits.count_min);

        world.planner.close_all(world.now);
        world.obey();
        world.calm_down();
        assert!(world.planner.is_closed());
        assert_eq!(
            world.take(Usage::Shared, ms(1)),
            Take::Refused(Refusal::Closed)
        );
    }
}

fn calm(limits: Limits) -> World {
    World::new(limits, Rng::with_seed(1))
}

#[test]
fn waiters_are_served_in_order() {
    let mut world = calm(Limits {
        count_max: 1,
        ..limits()
    });
    let usages = [
        Usage::Exclusive,
        Usage::Shared,
        Usage::Exclusive,
        Usage::Shared,
        Usage::Shared,
    ];
    for usage in usages {
        world.take(usage, ms(10_000));
    }
    let slot_id = world.any(|_| true).unwrap();
    world.opened(slot_id);
    let mut order = Vec::new();
    while world.served_count < usages.len() || !world.leases.is_empty() {
        order.push((world.locks.len(), world.leases.len()));
        match world.locks.len() {
            0 => world.give_back(0, AcquireOutcome::Answered),
            _ => world.unlock(0, AcquireOutcome::Answered),
        }
    }
    assert_eq!(order, [(1, 0), (0, 1), (1, 0), (0, 2), (0, 1)]);
}

#[test]
fn requests_fill_a_connection_before_another_is_opened() {
    let mut world = calm(limits());
    world.take(Usage::Shared, ms(100));
    let first = world.any(|_| true).unwrap();
    world.opened(first);
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(first));
    assert_eq!(world.connections.len(), 1);
    // It is full, and takes one more while the next is opened.
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(first));
    let second = world.any(|one| !one.is_open).unwrap();
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(first));
    assert_eq!(world.connections.len(), 2, "one is on its way");
    world.opened(second);
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(second));
}

/// One connection with one request in flight, for 51 ms with a limit of 50.
fn stalled(limits: Limits) -> (World, PoolSlotId) {
    let mut world = calm(limits);
    world.take(Usage::Shared, ms(100));
    let first = world.any(|_| true).unwrap();
    world.opened(first);
    world.pass(ms(51));
    (world, first)
}

#[test]
fn requests_wait_for_a_new_connection_beside_a_stalled_one() {
    let (mut world, first) = stalled(Limits {
        depth: 32,
        ..limits()
    });
    // Another connection is opened, and all wait for it.
    for _ in 0..20 {
        let take = world.take(Usage::Shared, ms(100));
        assert!(matches!(take, Take::Wait(_)), "{take:?}");
    }
    let second = world.any(|one| !one.is_open).unwrap();
    assert_eq!(world.connections.len(), 2, "one is enough for all of them");
    world.opened(second);
    assert_eq!(world.leases.len(), 21);
    assert_eq!(world.connections[&first].lease_count, 1);
    assert_eq!(world.connections[&second].lease_count, 20);
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(second));
}

#[test]
fn waiting_requests_use_a_stalled_connection_once_it_answers() {
    let (mut world, first) = stalled(Limits {
        depth: 32,
        ..limits()
    });
    world.take(Usage::Shared, ms(100));
    assert_eq!(world.waiting.len(), 1);
    world.give_back(0, AcquireOutcome::Answered);
    assert_eq!(world.leases, [first]);
}

#[test]
fn a_stalled_connection_takes_requests_if_there_can_be_no_other() {
    // There is room for no other.
    let (mut world, first) = stalled(Limits {
        count_max: 1,
        ..limits()
    });
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(first));
    // The server refuses another, which is tried again later.
    let (mut world, first) = stalled(limits());
    world.take(Usage::Shared, ms(10_000));
    assert_eq!(world.waiting.len(), 1);
    let second = world.any(|one| !one.is_open).unwrap();
    world.open_failed(second, Failure::Passing);
    assert_eq!(world.leases, [first, first]);
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(first));
    world.pass(ms(1_000));
    world.take(Usage::Shared, ms(100));
    assert!(world.any(|one| !one.is_open).is_some());
}

/// One connection has been stalled for eight seconds, the other, which has more requests, for 100
/// ms.
#[test]
fn of_stalled_connections_the_one_that_owes_for_the_shortest_time_is_used() {
    let (mut world, first) = stalled(Limits {
        count_max: 2,
        ..limits()
    });
    world.take(Usage::Shared, ms(100_000));
    let second = world.any(|one| !one.is_open).unwrap();
    world.opened(second);
    world.give_back(1, AcquireOutcome::Answered);
    world.pass(ms(3_000));
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(second));
    world.pass(ms(100));
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(second));
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(second));
    // Once they are about as long, the one with less to do.
    world.pass(ms(100_000));
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(first));
}

#[test]
fn an_idle_connection_is_checked_before_a_stalled_one_is_used() {
    let (mut world, first) = stalled(Limits {
        count_max: 2,
        depth: 1,
        check_after: ms(300),
        ..limits()
    });
    world.take(Usage::Shared, ms(10_000));
    let second = world.any(|one| !one.is_open).unwrap();
    world.opened(second);
    assert_eq!(world.leases, [first, second]);
    world.give_back(1, AcquireOutcome::Answered);
    world.pass(ms(301));
    world.take(Usage::Shared, ms(10_000));
    assert_eq!(world.waiting.len(), 1);
    assert!(world.connections[&second].checked.is_some());
    world.checked(second);
    assert_eq!(world.leases, [first, second]);
}

/// An answer of a distant server takes at least a round trip.
#[test]
fn a_round_trip_is_no_stall() {
    let mut world = calm(Limits {
        depth: 32,
        ..limits()
    });
    world.take(Usage::Shared, ms(10_000));
    let first = world.any(|_| true).unwrap();
    world.connections.get_mut(&first).unwrap().is_open = true;
    world.planner.opened(first, ms(30), 0, world.now);
    world.obey();
    world.pass(ms(79));
    assert_eq!(world.take(Usage::Shared, ms(100)), Take::Now(first));
    world.pass(ms(2));
    world.take(Usage::Shared, ms(100));
    assert_eq!(world.waiting.len(), 1);
    // The next connection shows that the first was slow for another reason.
    let second = world.any(|one| !one.is_open).unwrap();
    world.connections.get_mut(&second).unwrap().is_open = true;
    world.planner.opened(second, ms(1), 0, world.now);
    world.obey();
    world.pass(ms(52));
    world.take(Usage::Shared, ms(100));
    assert_eq!(world.waiting.len(), 1);
}

#[test]
fn a_connection_of_abandoned_requests_is_closed() {
    let mut world = calm(Limits {
        count_max: 1,
        ..limits()
    });
    world.take(Usage::Shared, ms(100));
    let first = world.any(|_| true).unwrap();
    world.opened(first);
    world.give_back(0, AcquireOutcome::GivenUp);
    world.pass(ms(4_999));
    assert!(matches!(
        world.take(Usage::Shared, ms(10_000)),
        Take::Wait(_)
    ));
    assert!(!world.connections[&first].is_ending);
    world.pass(ms(1));
    assert!(world.connections[&first].is_ending);
    world.ended(first);
    let second = world.any(|_| true).unwrap();
    world.opened(second);
    assert_eq!(world.leases, [second]);
}

#[test]
fn a_wrong_password_is_tried_once_a_while() {
    let mut world = calm(limits());
    world.take(Usage::Shared, ms(10_000));
    world.take(Usage::Exclusive, ms(10_000));
    while let Some(slot_id) = world.any(|_| true) {
        world.open_failed(slot_id, Failure::Lasting);
    }
    assert!(world.waiting.is_empty(), "all were dismissed at once");
    let refused = Take::Refused(Refusal::Failed);
    assert_eq!(world.take(Usage::Shared, ms(10_000)), refused);
    assert!(world.connections.is_empty());
    let mut attempt_count = 0;
    for _ in 0..1_000 {
        world.pass(ms(60));
        world.take(Usage::Shared, ms(10_000));
        if let Some(slot_id) = world.any(|_| true) {
            attempt_count += 1;
            world.open_failed(slot_id, Failure::Lasting);
        }
    }
    assert!(
        (4..=12).contains(&attempt_count),
        "{attempt_count} in a minute"
    );
}

#[test]
fn an_unreachable_server_fails_requests_at_once_and_is_tried_again() {
    let mut world = calm(limits());
    for _ in 0..100 {
        world.take(Usage::Shared, ms(10_000));
    }
    while let Some(slot_id) = world.any(|_| true) {
        world.open_failed(slot_id, Failure::Unreachable);
    }
    assert!(world.waiting.is_empty(), "all fail at once");
    let refused = Take::Refused(Refusal::Failed);
    assert_eq!(world.take(Usage::Shared, ms(10_000)), refused);
    let mut attempt_count = 0;
    for _ in 0..5_000 {
        world.pass(ms(1));
        world.take(Usage::Shared, ms(10_000));
        if let Some(slot_id) = world.any(|_| true) {
            attempt_count += 1;
            world.open_failed(slot_id, Failure::Unreachable);
        }
    }
    assert!(
        (10..=30).contains(&attempt_count),
        "{attempt_count} in five seconds"
    );
    world.pass(ms(500));
    let take = world.take(Usage::Shared, ms(10_000));
    assert!(
        matches!(take, Take::Wait(_)),
        "half a second is the longest pause"
    );
    let slot_id = world.any(|_| true).unwrap();
    world.opened(slot_id);
    assert_eq!(world.leases, [slot_id]);
}

#[test]
fn a_server_that_is_away_is_asked_less_and_less_often() {
    let mut world = calm(limits());
    for _ in 0..100 {
        world.take(Usage::Shared, ms(10_000));
    }
    let mut attempt_count = 0;
    for _ in 0..5_000 {
        while let Some(slot_id) = world.any(|_| true) {
            attempt_count += 1;
            world.open_failed(slot_id, Failure::Passing);
        }
        world.pass(ms(1));
    }
    assert!(
        (10..=30).contains(&attempt_count),
        "{attempt_count} in five seconds"
    );
    assert_eq!(world.waiting.len(), 100);
    for _ in 0..500 {
        world.pass(ms(1));
    }
    let slot_id = world
        .any(|_| true)
        .expect("half a second is the longest pause");
    world.opened(slot_id);
    assert_eq!(world.leases.len(), 100);
}
