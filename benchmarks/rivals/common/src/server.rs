//! What a server on this machine has used of the CPU, with all its processes and threads.

use std::time::Duration;

/// A server by the process that all of its others descend from.
#[derive(Clone, Copy)]
pub struct Server {
    pub pid: u32,
}

impl Server {
    /// Of the processes that live and of those that ended; nothing if the kernel does not tell. The
    /// kernel counts in ticks of 10 ms, so a run takes seconds.
    pub fn cpu(self) -> Option<Duration> {
        let processes: Vec<Process> = std::fs::read_dir("/proc")
            .ok()?
            .filter_map(|entry| Process::read(entry.ok()?.file_name().to_str()?.parse().ok()?))
            .collect();
        let root = processes.iter().find(|process| process.pid == self.pid)?;
        let mut ticks = root.ticks_of_ended;
        let mut family = vec![root];
        while let Some(process) = family.pop() {
            ticks += process.ticks;
            family.extend(processes.iter().filter(|child| child.parent == process.pid));
        }
        let ticks_a_second = rustix::param::clock_ticks_per_second() as f64;
        Some(Duration::from_secs_f64(ticks as f64 / ticks_a_second))
    }
}

struct Process {
    pid: u32,
    parent: u32,
    ticks: u64,
    /// Of its children that ended.
    ticks_of_ended: u64,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it may hold spaces and parentheses.
        let (_, figures) = stat.rsplit_once(')')?;
        // proc(5) numbers the state, which is the first of these, 3.
        let figures: Vec<&str> = figures.split_whitespace().collect();
        let figure = |number: usize| figures.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: figure(4)? as u32,
            ticks: figure(14)? + figure(15)?,
            ticks_of_ended: figure(16)? + figure(17)?,
        })
    }
}
