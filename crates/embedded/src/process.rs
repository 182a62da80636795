//! Processes by their pid: whether one is running, and waiting for its end.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Whether a process is running, also one of another user. A zombie is not: in a container without
/// an init process, it may never be reaped.
pub(crate) fn is_alive(pid: Pid) -> bool {
    matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)) && !is_zombie(pid)
}

fn is_zombie(pid: Pid) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state == "Z")
}

/// The parent of a process.
pub(crate) fn parent_of(pid: Pid) -> Option<Pid> {
    let (_, parent) = state_and_parent(pid)?;
    Pid::from_raw(parent.parse().ok()?)
}

/// The two fields that follow the program's name in parentheses: see proc_pid_stat(5).
fn state_and_parent(pid: Pid) -> Option<(String, String)> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').map(ToOwned::to_owned);
    fields.next().zip(fields.next())
}

pub(crate) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

/// Waits until a process has ended.
pub(crate) fn wait_until_gone(pid: Pid, timeout: Duration) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < timeout {
        if !is_alive(pid) {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

#[cfg(test)]
mod tests {
    use lookaside_testing::wait_until;

    use super::*;

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        // It has not been reaped yet.
        wait_until("it ends", || !is_alive(pid));
        assert!(test_kill_process(pid).is_ok());
        child.wait().unwrap();
        assert!(!is_alive(pid));
    }
}
