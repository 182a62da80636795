//! Ends servers from outside, by signals.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::pidfile::server_pid;
use crate::process::wait_until_gone;
use crate::segment::Segment;

/// How long to wait for a server that lost its watching shells to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(6);

/// Stops the server in `data`, if there is one, and frees the shared memory of a killed server.
pub(crate) fn end_and_free(data: &Path) {
    let segment = Segment::of(data);
    end_server(data);
    if let Some(segment) = segment.filter(|_| server_pid(data).is_none()) {
        segment.remove();
    }
}

/// Stops the server in `data`, if there is one.
pub(crate) fn end_server(data: &Path) {
    let Some(pid) = server_pid(data) else { return };
    for signal in [Signal::QUIT, Signal::KILL] {
        let _ = kill_process(pid, signal);
        if wait_until_gone(pid, END_TIMEOUT) {
            return;
        }
    }
}
