//! The System V shared memory segment of a server: it is not in the file system, and remains when
//! the server is killed.
//!
//! PostgreSQL removes the segment of a killed server at the next start in the same folder. A
//! temporary folder has no next start, so its segment is removed with it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::pidfile::server_file;

/// How long to wait for the processes of a killed server to end by themselves.
const DETACH_TIMEOUT: Duration = Duration::from_secs(1);

/// A segment of a server, as the file in its data folder names it.
pub(crate) struct Segment {
    key: i32,
    id: i32,
    /// The server's process, which created the segment.
    maker: i32,
}

impl Segment {
    /// In the first and the seventh line; see `pidfile.h` in PostgreSQL's source.
    pub(crate) fn of(data: &Path) -> Option<Self> {
        let file = server_file(data)?;
        let maker = file.lines().next()?.trim().parse().ok()?;
        let mut numbers = file.lines().nth(6)?.split_whitespace();
        // Written as an unsigned number of 64 bits, whatever its sign.
        let mut number = || Some(numbers.next()?.parse::<u64>().ok()? as i32);
        Some(Self {
            key: number()?,
            id: number()?,
            maker,
        })
    }

    /// Removes it when no process uses it any more; without the program, or on systems other than
    /// Linux, it remains.
    pub(crate) fn remove(&self) {
        let begin = Instant::now();
        while let Some(user_count) = self.user_count() {
            if user_count == 0 {
                let mut command = Command::new("ipcrm");
                command.arg("-m").arg(self.id.to_string());
                let _ = command.stdin(Stdio::null()).output();
                return;
            }
            // The last processes of a server that was killed end by themselves.
            if begin.elapsed() > DETACH_TIMEOUT {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many processes have it attached, if it still exists.
    fn user_count(&self) -> Option<u64> {
        self.user_count_in(&fs::read_to_string("/proc/sysvipc/shm").ok()?)
    }

    /// Ids are reused, and a key may belong to another program: the creator must match as well.
    fn user_count_in(&self, table: &str) -> Option<u64> {
        table.lines().find_map(|line| {
            // key, shmid, perms, size, cpid, lpid, nattch: see proc(5).
            let fields: Vec<&str> = line.split_whitespace().take(7).collect();
            let &[key, id, _, _, maker, _, user_count] = fields.as_slice() else {
                return None;
            };
            let is = |text: &str, number| text.parse() == Ok(number);
            let is_it = is(key, self.key) && is(id, self.id) && is(maker, self.maker);
            is_it.then(|| user_count.parse().ok()).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_segment_that_the_server_made_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = "77\n/data\n1790000000\n5432\n/s\n\n18446744071562067969 5\nready   \n";
        fs::write(folder.path().join("postmaster.pid"), file).unwrap();
        let segment = Segment::of(folder.path()).unwrap();
        let table =
            |line: &str| format!("       key      shmid perms  size  cpid  lpid nattch\n{line}\n");
        for (line, expected) in [
            ("-2147483647 5 600 56 77 80 0 0 0 0 0 1 1 1 0 0", Some(0)),
            ("-2147483647 5 600 56 77 80 3 0 0 0 0 1 1 1 0 0", Some(3)),
            ("-2147483646 5 600 56 77 80 0 0 0 0 0 1 1 1 0 0", None),
            ("-2147483647 6 600 56 77 80 0 0 0 0 0 1 1 1 0 0", None),
            ("-2147483647 5 600 56 78 80 0 0 0 0 0 1 1 1 0 0", None),
            ("", None),
        ] {
            assert_eq!(segment.user_count_in(&table(line)), expected, "{line}");
        }
    }
}
