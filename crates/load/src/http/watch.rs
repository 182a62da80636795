//! Stands beside the threads that send: begins and ends what counts, looks at the processes, and
//! draws how far it is.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lookaside_stream::StopFlag;

use super::plan::Clock;
use super::processes::{Usage, machine_cpu};
use crate::cli::bench::measure::cpu_time;
use crate::numbers::grouped;

/// How soon a signal is heeded, and how often the bar moves.
const STEP: Duration = Duration::from_millis(50);

/// Whose CPU time is counted beside our own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watched {
    pub(super) server: Option<u32>,
    pub(super) database: Option<u32>,
}

/// What was used within the run, between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) wall: Duration,
    pub(super) client: Duration,
    pub(super) server: Option<Usage>,
    pub(super) database: Option<Usage>,
    /// By everything else on the machine.
    pub(super) foreign: Option<Duration>,
}

/// A look at everybody.
struct Look {
    at_ns: u64,
    client: Duration,
    server: Option<Usage>,
    database: Option<Usage>,
    machine: Option<Duration>,
}

impl Look {
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

/// Waits for the end of the run, or has it end once `stop` is raised, and says what was used.
pub(super) fn watch(clock: &Clock, watched: Watched, live: &[AtomicU64], stop: &StopFlag) -> Used {
    let bar = bar(clock);
    let before = {
        wait(clock, clock.from_ns, live, stop, &bar);
        Look::now(clock, watched)
    };
    wait(clock, clock.end_ns(), live, stop, &bar);
    clock.stop();
    let after = Look::now(clock, watched);
    bar.finish_and_clear();
    between(&before, &after)
}

fn wait(clock: &Clock, until_ns: u64, live: &[AtomicU64], stop: &StopFlag, bar: &ProgressBar) {
    let (mut before_ns, mut before) = (clock.now_ns(), answers(live));
    loop {
        let now_ns = clock.now_ns();
        if now_ns >= until_ns || stop.is_raised() {
            return;
        }
        thread::sleep(STEP.min(Duration::from_nanos(until_ns - now_ns)));
        let now_ns = clock.now_ns();
        // A rate over the last second can be read; one over the last step cannot.
        if now_ns >= before_ns + 1_000_000_000 {
            let now = answers(live);
            let rate = (now - before) as f64 / (now_ns - before_ns) as f64 * 1e9;
            bar.set_message(format!("{} answers/s", grouped(rate as u64)));
            (before_ns, before) = (now_ns, now);
        }
        bar.set_position(now_ns / 1_000_000);
    }
}

fn answers(live: &[AtomicU64]) -> u64 {
    // Relaxed: only to be shown.
    live.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

fn between(before: &Look, after: &Look) -> Used {
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

fn bar(clock: &Clock) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{wide_bar} {elapsed} {msg}")
        .expect("the template is well formed");
    ProgressBar::with_draw_target(Some(clock.end_ns() / 1_000_000), target).with_style(style)
}
