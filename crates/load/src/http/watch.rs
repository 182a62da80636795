//! The calling thread's part of a run: it begins and ends the measured time, reads the resource
//! usage of processes, and reports progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::plan::Clock;
use crate::measure::cpu_time;
use crate::processes::{Usage, machine_cpu};

/// The interval of checking for a stop and of reporting progress.
const STEP: Duration = Duration::from_millis(50);

/// The processes whose usage is measured in addition to this one, by their ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// The server, with its descendants.
    pub server: Option<u32>,
    /// Its database, with its descendants.
    pub database: Option<u32>,
}

/// The resources used within the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// The measured time.
    pub wall: Duration,
    /// CPU time of this process.
    pub client: Duration,
    /// By the server, if it is watched and still ran at the end.
    pub server: Option<Usage>,
    /// By the database, likewise.
    pub database: Option<Usage>,
    /// CPU time of everything else on the machine, if the kernel reports it.
    pub foreign: Option<Duration>,
}

/// The usage of all of them at one time.
struct Reading {
    at_ns: u64,
    client: Duration,
    server: Option<Usage>,
    database: Option<Usage>,
    machine: Option<Duration>,
}

impl Reading {
    fn now(clock: &Clock, watched: Watched) -> Self {
        Self {
            at_ns: clock.now_ns(),
            client: cpu_time(),
            server: watched.server.and_then(Usage::of),
            database: watched.database.and_then(Usage::of),
            machine: machine_cpu(),
        }
    }
}

/// Waits for the end of the run, or ends it once `stop` is set, and returns the usage. `progress`
/// is called with the time since the start and the answers so far.
pub(super) fn watch(
    clock: &Clock,
    watched: Watched,
    live: &[AtomicU64],
    stop: &AtomicBool,
    mut progress: impl FnMut(Duration, u64),
) -> Used {
    let mut wait_until = |until_ns: u64| {
        loop {
            let now_ns = clock.now_ns();
            // Relaxed: a signal handler or another thread sets it, and it synchronizes nothing
            // else.
            if now_ns >= until_ns || stop.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(STEP.min(Duration::from_nanos(until_ns - now_ns)));
            progress(Duration::from_nanos(clock.now_ns()), answers(live));
        }
    };
    wait_until(clock.from_ns);
    let before = Reading::now(clock, watched);
    wait_until(clock.end_ns());
    clock.stop();
    between(&before, &Reading::now(clock, watched))
}

fn answers(live: &[AtomicU64]) -> u64 {
    // Relaxed: only for display.
    live.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

fn between(before: &Reading, after: &Reading) -> Used {
    let usage = |before: Option<Usage>, after: Option<Usage>| {
        let (before, after) = before.zip(after)?;
        Some(Usage {
            cpu: after.cpu.saturating_sub(before.cpu),
            resident_max: after.resident_max,
            switches: after.switches.saturating_sub(before.switches),
        })
    };
    let cpu = |usage: Option<Usage>| usage.map_or(Duration::ZERO, |usage| usage.cpu);
    let client = after.client - before.client;
    let server = usage(before.server, after.server);
    let database = usage(before.database, after.database);
    let foreign = before.machine.zip(after.machine).map(|(before, after)| {
        let known = client + cpu(server) + cpu(database);
        after.saturating_sub(before).saturating_sub(known)
    });
    Used {
        wall: Duration::from_nanos(after.at_ns - before.at_ns),
        client,
        server,
        database,
        foreign,
    }
}
