//! Progress of a command, drawn on a terminal only.

pub(crate) mod download;

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lookaside_connect::LagReader;
use lookaside_knowledge::{LoadProgress, Progress};
use lookaside_stream::{Latencies, Progress as RunProgress};

use crate::numbers::grouped;

/// The refresh interval of a run's bar. It is first drawn one interval after the start, so a run
/// that ends earlier draws nothing.
const RUN_BAR_INTERVAL: Duration = Duration::from_millis(200);

/// The time over which a rate is shown.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// A bar of the table that is being loaded. Without a terminal it draws nothing.
pub(crate) struct LoadBar(Mutex<Option<TableBar>>);

struct TableBar {
    table: String,
    begun: Instant,
    /// Drawn from [`RUN_BAR_INTERVAL`] on: most tables are loaded before.
    bar: ProgressBar,
    is_drawn: bool,
}

impl fmt::Debug for LoadBar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBar").finish_non_exhaustive()
    }
}

impl LoadBar {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }
}

impl TableBar {
    fn new(progress: LoadProgress<'_>) -> Self {
        let template =
            "loading {msg} {wide_bar} {bytes}/{total_bytes}, {binary_bytes_per_sec}, {eta}";
        let hidden = ProgressDrawTarget::hidden();
        Self {
            table: progress.table.to_owned(),
            begun: Instant::now(),
            bar: bar_on(hidden, template, progress.bytes_total),
            is_drawn: false,
        }
    }

    fn advance(&mut self, progress: LoadProgress<'_>) {
        let (table, rows) = (progress.table, grouped(progress.rows));
        self.bar.set_length(progress.bytes_total);
        self.bar.set_position(progress.bytes_read);
        self.bar.set_message(format!("{table}: {rows} rows"));
        if !self.is_drawn && self.begun.elapsed() >= RUN_BAR_INTERVAL {
            self.bar.set_draw_target(draw_target());
            self.is_drawn = true;
        }
    }
}

impl Progress for LoadBar {
    fn advanced(&self, progress: LoadProgress<'_>) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.bytes_read >= progress.bytes_total {
            if let Some(done) = current.take() {
                done.bar.finish_and_clear();
            }
            return;
        }
        match &mut *current {
            Some(bar) if bar.table == progress.table => bar.advance(progress),
            _ => *current = Some(TableBar::new(progress)),
        }
    }
}

/// A bar of the input's bytes while a run reads files, or a line of rates while it reads topics,
/// pipes or connections; dropping it clears it.
pub(crate) struct RunBar {
    /// Never sends; dropping it ends the thread.
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RunBar {
    /// Draws how many of `size` bytes the run has read, or the rate and the lag of a run whose size
    /// is not known. There is no bar without a terminal, or if its thread cannot be started: the run
    /// does not depend on it.
    pub(crate) fn start(
        progress: RunProgress,
        size: Option<u64>,
        lag: Option<Arc<Mutex<LagReader>>>,
    ) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (alive, end) = mpsc::channel();
        let thread = thread::Builder::new().name("progress".into());
        let thread = thread.spawn(move || match size {
            Some(size) => draw_size(&progress, size, &end),
            None => draw_rate(&progress, lag.as_deref(), &end),
        });
        Some(Self {
            alive: Some(alive),
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for RunBar {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            // A panic on that thread was already reported there, and nothing depends on it here.
            let _ = thread.join();
        }
    }
}

fn draw_size(progress: &RunProgress, size: u64, end: &Receiver<()>) {
    let bar = bar("{wide_bar} {bytes}/{total_bytes} {msg} {eta}", size);
    while end.recv_timeout(RUN_BAR_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let events = progress.figures().events_in;
        bar.set_position(progress.file_bytes());
        bar.set_message(format!("{} events", grouped(events)));
    }
    bar.finish_and_clear();
}

fn draw_rate(progress: &RunProgress, lag: Option<&Mutex<LagReader>>, end: &Receiver<()>) {
    let bar = bar("{spinner} {msg}", 0);
    let (mut begun, mut before) = (Instant::now(), 0);
    let mut latencies_before = progress.latencies();
    while end.recv_timeout(RATE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let lag = lag.map(|lag| {
            let mut lag = lag.lock().unwrap_or_else(PoisonError::into_inner);
            lag.read().iter().map(|lag| lag.messages).sum()
        });
        let events = progress.figures().events_in;
        let latencies = progress.latencies();
        let new = latencies.since(&latencies_before);
        let rate = describe_rate(events, events - before, begun.elapsed(), lag);
        bar.set_message(rate + &describe_latencies(&new));
        bar.tick();
        (begun, before, latencies_before) = (Instant::now(), events, latencies);
    }
    bar.finish_and_clear();
}

fn describe_rate(events: u64, new: u64, elapsed: Duration, lag: Option<u64>) -> String {
    let rate = (new as f64 / elapsed.as_secs_f64()).round() as u64;
    let lag = lag.map_or_else(String::new, |lag| format!(", {} to read", grouped(lag)));
    format!(
        "{} events, {} per second{lag}",
        grouped(events),
        grouped(rate)
    )
}

/// How long the last batches took from being read to being delivered.
fn describe_latencies(latencies: &Latencies) -> String {
    let milliseconds = |part| {
        let time = latencies.percentile(part)?;
        Some(time.as_secs_f64() * 1e3)
    };
    match (milliseconds(0.5), milliseconds(0.99)) {
        (Some(p50), Some(p99)) => format!(", delivered after {p50:.1} ms (p50), {p99:.1} ms (p99)"),
        _ => String::new(),
    }
}

/// A bar with indicatif's default refresh rate, hidden without a terminal.
fn bar(template: &str, size: u64) -> ProgressBar {
    bar_on(draw_target(), template, size)
}

fn bar_on(target: ProgressDrawTarget, template: &str, size: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    ProgressBar::with_draw_target(Some(size), target).with_style(style)
}

fn draw_target() -> ProgressDrawTarget {
    match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second() {
        let second = Duration::from_secs(1);
        for (events, new, elapsed, lag, expected) in [
            (0, 0, second, None, "0 events, 0 per second"),
            (
                12_500,
                2_500,
                second / 2,
                None,
                "12,500 events, 5,000 per second",
            ),
            (
                3,
                3,
                second * 2,
                Some(1_000),
                "3 events, 2 per second, 1,000 to read",
            ),
        ] {
            assert_eq!(describe_rate(events, new, elapsed, lag), expected);
        }
    }
}
