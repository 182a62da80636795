//! Progress of a download: a bar on a terminal, one line otherwise.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lookaside_embedded::Progress;

/// The interval of the spinner while no bytes are counted.
const TICK: Duration = Duration::from_millis(120);

/// The approximate size of a server's program archive, within a few MB; the real size is not known
/// before the download.
const ARCHIVE_SIZE: u64 = 15_000_000;

/// A bar while the server's programs are downloaded. It draws nothing before the download starts
/// and is cleared when it ends: its owner may outlive the start of the server.
pub(crate) struct DownloadBar(ProgressBar);

impl DownloadBar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, target());
        Self(bar.with_style(style_of("{spinner} fetching {msg}")))
    }
}

impl Progress for DownloadBar {
    fn download(&self, what: &str, bytes_done: u64, bytes_total: Option<u64>) {
        if !io::stderr().is_terminal() {
            if bytes_done == 0 {
                // The line shows in a build log what takes the time; a failure to write it is
                // ignored.
                let _ = writeln!(io::stderr(), "{}", begin_line(what, bytes_total));
            }
            return;
        }
        if bytes_total.is_some_and(|total| bytes_done >= total) {
            return self.0.finish_and_clear();
        }
        match bytes_total {
            Some(total) => {
                let style = "fetching {msg} {wide_bar} {bytes}/{total_bytes} {eta}";
                self.0.set_style(style_of(style));
                self.0.set_length(total);
            }
            None => turn(&self.0),
        }
        self.0.set_message(what.to_owned());
        self.0.set_position(bytes_done);
    }

    fn step(&self, what: &str) {
        self.0.finish_and_clear();
        if io::stderr().is_terminal() {
            // A failure to write to standard error is ignored.
            let _ = writeln!(io::stderr(), "{what}");
        } else {
            tracing::info!("{what}");
        }
    }

    fn warning(&self, what: &str) {
        self.0.finish_and_clear();
        tracing::warn!("{what}");
    }
}

/// The one line of a download where no bar is drawn.
fn begin_line(what: &str, bytes_total: Option<u64>) -> String {
    let (about, size) = match bytes_total {
        Some(size) => ("", size),
        None => ("some ", ARCHIVE_SIZE),
    };
    format!("fetching {what} ({about}{} MB)", size.div_ceil(1_000_000))
}

/// Starts the spinner; a hidden bar needs no thread for it.
fn turn(bar: &ProgressBar) {
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
}

fn target() -> ProgressDrawTarget {
    if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}

fn style_of(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_is_a_line_where_no_bar_is_drawn() {
        for (bytes_total, expected) in [
            (None, "fetching PostgreSQL 17.11 (some 15 MB)"),
            (Some(15_400_000), "fetching PostgreSQL 17.11 (16 MB)"),
        ] {
            assert_eq!(begin_line("PostgreSQL 17.11", bytes_total), expected);
        }
    }
}
