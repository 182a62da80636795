//! CPU time of threads and of processes of the server, in nanoseconds.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What the thread of the provider's connections and of the change feed is called. The kernel keeps 15
/// bytes of a name.
const PROVIDER_THREAD: &str = "lookaside-provi";

/// CPU time that the calling thread used so far.
pub(super) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time that the threads of all engines of this process used so far, which run change feeds; `None`
/// without /proc.
pub(super) fn feed_cpu() -> Option<Duration> {
    let mut total = Duration::ZERO;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let folder = thread.ok()?.path();
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if name.trim_end() == PROVIDER_THREAD {
            let schedule = fs::read_to_string(folder.join("schedstat")).ok()?;
            total += on_cpu(&schedule)?;
        }
    }
    Some(total)
}

/// CPU time of a process with a single thread, such as a backend of PostgreSQL; `None` if it is not of
/// this machine.
pub(super) fn process_cpu(pid: i64) -> Option<Duration> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    if name.trim_end() != "postgres" {
        return None;
    }
    on_cpu(&fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?)
}

/// The first number of a schedstat.
fn on_cpu(schedule: &str) -> Option<Duration> {
    let nanos = schedule.split_ascii_whitespace().next()?;
    Some(Duration::from_nanos(nanos.parse().ok()?))
}
