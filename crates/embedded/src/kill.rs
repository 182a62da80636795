//! Ends servers from outside, by signals.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::pidfile::server_pid;
use crate::process::wait_until_gone;
use crate::segment::Segment;

/// How long a server that lost its watch gets to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(6);

/// Ends the server that works in `data`, if one does, and frees the memory that a server which was
/// killed left.
pub(crate) fn end_and_free(data: &Path) {
    let segment = Segment::of(data);
    end_server(data);
    if let Some(segment) = segment.filter(|_| server_pid(data).is_none()) {
        segment.remove();
    }
}

/// Ends the server that works in `data`, if one does.
pub(crate) fn end_server(data: &Path) {
    let Some(pid) = server_pid(data) else { return };
    for signal in [Signal::QUIT, Signal::KILL] {
        let _ = kill_process(pid, signal);
        if wait_until_gone(pid, END_TIMEOUT) {
            return;
        }
    }
}
