//! Progress of a command, drawn on a terminal only.

pub(crate) mod download;

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lookaside_knowledge::Progress;
use lookaside_stream::Progress as RunProgress;

use crate::numbers::grouped;

/// The refresh interval of a run's bar. It is first drawn one interval after the start, so a run
/// that ends earlier draws nothing.
const RUN_BAR_INTERVAL: Duration = Duration::from_millis(200);

/// A bar of the table that is being loaded. Without a terminal it draws nothing.
pub(crate) struct LoadBar {
    bar: ProgressBar,
    table: Mutex<String>,
}

impl fmt::Debug for LoadBar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBar").finish_non_exhaustive()
    }
}

impl LoadBar {
    pub(crate) fn new() -> Self {
        Self {
            bar: bar("loading {msg} {wide_bar} {bytes}/{total_bytes} {eta}", 0),
            table: Mutex::default(),
        }
    }
}

impl Progress for LoadBar {
    fn advanced(&self, table: &str, bytes_read: u64, bytes_total: u64) {
        let mut current = self.table.lock().expect("nothing panics while it is held");
        if *current != table || self.bar.is_finished() {
            table.clone_into(&mut current);
            self.bar.set_message(table.to_owned());
            self.bar.reset();
        }
        self.bar.set_length(bytes_total);
        self.bar.set_position(bytes_read);
        if bytes_read >= bytes_total {
            self.bar.finish_and_clear();
        }
    }
}

/// A bar of the input's bytes while a run reads files; dropping it clears it.
pub(crate) struct RunBar {
    /// Never sends; dropping it ends the thread.
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RunBar {
    /// Draws how many of `size` bytes the run has read. There is no bar without a terminal, or if
    /// its thread cannot be started: the run does not depend on it.
    pub(crate) fn start(progress: RunProgress, size: u64) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (alive, end) = mpsc::channel();
        let thread = thread::Builder::new().name("progress".into());
        let thread = thread.spawn(move || {
            let template = "{wide_bar} {bytes}/{total_bytes} {msg} {eta}";
            let bar = bar(template, size);
            while end.recv_timeout(RUN_BAR_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let events = progress.figures().events_in;
                bar.set_position(progress.file_bytes());
                bar.set_message(format!("{} events", grouped(events)));
            }
            bar.finish_and_clear();
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

/// A bar with indicatif's default refresh rate, hidden without a terminal.
fn bar(template: &str, size: u64) -> ProgressBar {
    let target = if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    ProgressBar::with_draw_target(Some(size), target).with_style(style)
}
