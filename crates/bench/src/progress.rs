//! Progress bars and spinners, drawn on a terminal only. Without one, a download is printed as a line.

use std::io::{self, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lookaside_embedded::Progress;

/// The interval of a spinner.
const TICK: Duration = Duration::from_millis(120);

/// A bar while the server's programs are fetched.
pub(crate) struct DownloadBar(ProgressBar);

impl DownloadBar {
    pub(crate) fn new() -> Self {
        Self(bar("{spinner} fetching {msg} {bytes}"))
    }
}

impl Progress for DownloadBar {
    fn download(&self, what: &str, bytes_done: u64, bytes_total: Option<u64>) {
        if self.0.is_hidden() {
            if bytes_done == 0 {
                // A failure to write to standard error is ignored.
                let _ = writeln!(io::stderr(), "fetching {what}");
            }
            return;
        }
        if bytes_total.is_some_and(|total| bytes_done >= total) {
            return self.0.finish_and_clear();
        }
        self.0.set_message(what.to_owned());
        self.0.set_position(bytes_done);
    }

    fn warning(&self, what: &str) {
        self.0.finish_and_clear();
        let _ = writeln!(io::stderr(), "warning: {what}");
    }
}

/// A spinner with a message.
pub(crate) fn spinner() -> ProgressBar {
    let bar = bar("{spinner} {msg}");
    // A hidden spinner needs no thread.
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

/// A bar of a template on standard error; hidden where that is not a terminal.
pub(crate) fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}
