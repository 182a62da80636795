//! Resource usage of processes: CPU time, memory and context switches of a process and its
//! descendants, and the memory of this process, from /proc.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// The usage of a process and its descendants, such as PostgreSQL and its backends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Of running processes, and of those that ended and were waited for.
    pub cpu: Duration,
    /// The largest resident sizes, added up: pages that processes share count in each.
    pub resident_max: u64,
    /// Voluntary and involuntary, of running threads.
    pub switches: u64,
}

impl Usage {
    /// Reads the usage of a process and its descendants so far; `None` if the process does not
    /// exist.
    pub fn of(pid: u32) -> Option<Self> {
        let processes: Vec<Process> = fs::read_dir("/proc")
            .ok()?
            .filter_map(|entry| Process::read(entry.ok()?.file_name().to_str()?.parse().ok()?))
            .collect();
        let root = processes.iter().find(|process| process.pid == pid)?;
        let mut family = vec![root];
        let mut usage = Self::default();
        while let Some(process) = family.pop() {
            usage.cpu += process.cpu;
            let (resident_max, switches) = status(process.pid);
            usage.resident_max += resident_max;
            usage.switches += switches;
            family.extend(processes.iter().filter(|child| child.parent == process.pid));
        }
        Some(usage)
    }
}

/// The memory of this process in bytes, as Linux reports it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The resident size, mapped files included.
    pub resident: u64,
    /// The part of the resident size that does not belong to a file.
    pub anonymous: u64,
    /// The largest resident size since the start of the process, or since [`Memory::reset_peak`].
    pub resident_max: u64,
}

impl Memory {
    /// Reads the memory that this process uses now; `None` without Linux's `/proc`.
    pub fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let bytes = |name| Some(figure(&status, name)? << 10);
        Some(Self {
            resident: bytes("VmRSS:")?,
            anonymous: bytes("RssAnon:")?,
            resident_max: bytes("VmHWM:")?,
        })
    }

    /// Makes the resident size of now the largest one so far.
    ///
    /// # Errors
    ///
    /// When the kernel does not allow it, as in some containers.
    pub fn reset_peak() -> io::Result<()> {
        // proc(5): 5 resets the peak resident set size.
        fs::write("/proc/self/clear_refs", "5")
    }
}

struct Process {
    pid: u32,
    parent: u32,
    cpu: Duration,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it may contain blanks and parentheses.
        let (_, figures) = stat.rsplit_once(')')?;
        // proc(5) counts from 1, and the first field after the name is the third.
        let figures: Vec<&str> = figures.split_ascii_whitespace().collect();
        let figure = |number: usize| figures.get(number - 3)?.parse::<u64>().ok();
        let ticks = figure(14)? + figure(15)? + figure(16)? + figure(17)?;
        Some(Self {
            pid,
            parent: u32::try_from(figure(4)?).ok()?,
            cpu: of_ticks(ticks),
        })
    }
}

/// The largest resident size in bytes, and the switches of all threads. Zero for a process that has
/// ended meanwhile.
fn status(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let resident_max = figure(&status, "VmHWM:").unwrap_or(0) << 10;
    let mut switches = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
    {
        let Ok(thread) = thread else { continue };
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        switches += figure(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        switches += figure(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
    }
    (resident_max, switches)
}

fn figure(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The CPU time that all processors have spent since boot, including stolen time.
pub fn machine_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests count as users as well.
    let figures: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|figure| figure.parse().ok())
        .collect();
    let (&[user, nice, system], rest) = figures.split_first_chunk()?;
    Some(of_ticks(
        user + nice + system + rest.iter().skip(2).take(3).sum::<u64>(),
    ))
}

fn of_ticks(ticks: u64) -> Duration {
    let seconds = ticks as f64 / clock_ticks_per_second() as f64;
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_is_charged_to_its_process() {
        let own = std::process::id();
        let before = (Usage::of(own).unwrap(), machine_cpu().unwrap());
        let started = Instant::now();
        // The kernel counts in hundredths of a second, and a busy machine gives us little CPU time.
        let after = loop {
            std::hint::black_box(fs::read("/proc/self/stat").unwrap());
            let after = (Usage::of(own).unwrap(), machine_cpu().unwrap());
            if after.0.cpu > before.0.cpu && after.1 > before.1 {
                break after;
            }
            assert!(started.elapsed() < Duration::from_secs(120), "{before:?}");
        };
        assert!(after.0.resident_max > 1 << 20, "{after:?}");
    }

    #[test]
    fn memory_grows_and_its_peak_is_reset() {
        const SIZE: usize = 64 << 20;
        let before = Memory::now().unwrap();
        let block = std::hint::black_box(vec![1_u8; SIZE]);
        let with_block = Memory::now().unwrap();
        drop(block);
        // Other tests of this process need little memory, and the kernel counts in batches of pages.
        let grown = |from: u64, to: u64| to >= from + SIZE as u64 / 2;
        assert!(
            grown(before.resident, with_block.resident),
            "{with_block:?}"
        );
        assert!(
            grown(before.anonymous, with_block.anonymous),
            "{with_block:?}"
        );
        assert!(
            with_block.resident_max >= with_block.resident,
            "{with_block:?}"
        );
        if Memory::reset_peak().is_ok() {
            let after = Memory::now().unwrap();
            assert!(
                grown(after.resident_max, with_block.resident_max),
                "{after:?}"
            );
        }
    }

    #[test]
    fn children_count_while_they_live_and_afterwards() {
        // A shell with a child process.
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'read line; exit' & wait; read line"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let usage = Usage::of(shell.id()).unwrap();
        assert!(usage.resident_max > 0, "{usage:?}");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(Usage::of(shell.id()).is_none());
    }
}
