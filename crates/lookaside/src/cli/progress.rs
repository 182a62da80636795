//! How far the loading of tables is, drawn on a terminal and nowhere else.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lookaside_knowledge::Progress;

/// A bar for the table that is being loaded. Without a terminal it draws nothing.
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
        // `stderr` at indicatif's usual rate; a load that is done before the first draw shows none.
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = "loading {msg} {wide_bar} {bytes}/{total_bytes} {eta}";
        let style = ProgressStyle::with_template(style).expect("the template is well formed");
        let bar = ProgressBar::with_draw_target(Some(0), target).with_style(style);
        Self {
            bar,
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
