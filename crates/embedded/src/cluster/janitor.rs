//! The thread for work in the background: databases are prepared in advance, dropped, and swept.

use std::sync::Mutex;
use std::sync::Weak;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::orphans::SWEEP_COUNT_MAX;
use super::{Cluster, DatabaseKind, lock};

/// The delay before a copy, which takes the server some 8 ms: the caller that just got a database
/// connects first.
const PREWARM_DELAY: Duration = Duration::from_millis(4);

/// The idle time after which the thread of a shared cluster checks for databases of ended
/// processes: short at first, since processes that end at once leave more than later ones drop, and
/// doubled each time that there are none, since a check costs the server a session.
const SWEEP_DELAY_MIN: Duration = Duration::from_secs(1);
const SWEEP_DELAY_MAX: Duration = Duration::from_secs(64);

/// A background job.
pub(crate) enum JanitorJob {
    /// Prepare databases of a kind in advance.
    Prewarm { kind: DatabaseKind },
    /// Drop a database, its snapshots, and its user if that is its own role.
    Drop { database: String, user: String },
    /// Make a spare copy of the cluster's template, and remove stale files.
    CleanUp { clean_up: Box<dyn FnOnce() + Send> },
    /// Drop databases of ended processes, except those `kept` and their snapshots, up to a number.
    DropOrphans {
        kept: Vec<String>,
        count_max: usize,
        /// Receives a message when it is done.
        done: Option<Sender<()>>,
    },
}

/// The handle of a cluster's background thread; it starts with the first job and ends with the cluster.
#[derive(Debug)]
pub(super) struct Janitor {
    cluster: Weak<Cluster>,
    jobs: Mutex<Option<Sender<JanitorJob>>>,
}

impl Janitor {
    pub(super) fn new(cluster: Weak<Cluster>) -> Self {
        Self {
            cluster,
            jobs: Mutex::new(None),
        }
    }

    /// Queues a job. If the thread cannot be started, it is skipped: all jobs are best-effort, and
    /// databases that are not dropped end with the cluster.
    pub(super) fn send(&self, job: JanitorJob) {
        let mut jobs = lock(&self.jobs);
        if jobs.is_none() {
            let (sender, receiver) = mpsc::channel();
            let cluster = self.cluster.clone();
            let thread = thread::Builder::new().name("lookaside-pg-janitor".to_owned());
            if thread.spawn(move || work(&cluster, &receiver)).is_ok() {
                *jobs = Some(sender);
            }
        }
        if let Some(jobs) = &*jobs {
            let _ = jobs.send(job);
        }
    }
}

/// The delay of the next sweep after one that dropped `swept_count` databases: none if there may be
/// more.
fn next_sweep_delay(delay: Duration, swept_count: usize) -> Duration {
    match swept_count {
        0 => (delay * 2).clamp(SWEEP_DELAY_MIN, SWEEP_DELAY_MAX),
        SWEEP_COUNT_MAX => Duration::ZERO,
        _ => SWEEP_DELAY_MIN,
    }
}

/// Runs jobs until the cluster is gone. Failures are ignored: a caller that needs the result does
/// the work itself and gets the error.
fn work(cluster: &Weak<Cluster>, jobs: &Receiver<JanitorJob>) {
    let mut sweep_delay = SWEEP_DELAY_MIN;
    loop {
        let job = jobs.recv_timeout(sweep_delay);
        let Some(cluster) = cluster.upgrade() else {
            return;
        };
        let job = match job {
            Ok(job) => job,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let swept_count = match cluster.is_shared() {
                    true => cluster.drop_orphans(&[], SWEEP_COUNT_MAX).unwrap_or(0),
                    false => 0,
                };
                sweep_delay = next_sweep_delay(sweep_delay, swept_count);
                continue;
            }
        };
        sweep_delay = SWEEP_DELAY_MIN;
        match job {
            JanitorJob::Prewarm { kind } => {
                thread::sleep(PREWARM_DELAY);
                let _ = cluster.prewarm(&kind);
            }
            JanitorJob::Drop { database, user } => {
                let _ = cluster.drop_with_snapshots(&database, &user);
            }
            JanitorJob::CleanUp { clean_up } => clean_up(),
            JanitorJob::DropOrphans {
                kept,
                count_max,
                done,
            } => {
                let _ = cluster.drop_orphans(&kept, count_max);
                if let Some(done) = done {
                    // The receiver may be gone.
                    let _ = done.send(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_without_a_find_become_rare_also_after_one_at_once() {
        let mut delay = SWEEP_DELAY_MIN;
        let mut seconds = Vec::new();
        for swept_count in [0, 5, 5, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0] {
            delay = next_sweep_delay(delay, swept_count);
            seconds.push(delay.as_secs());
        }
        assert_eq!(seconds, [2, 0, 0, 1, 2, 1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
