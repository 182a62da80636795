//! The thread that does what nobody waits for: databases made ahead, dropped, and swept.

use std::sync::Mutex;
use std::sync::Weak;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, Kind, lock};

/// A copy takes the server some 8 ms of work; whoever was just handed a database connects first.
const READY_DELAY: Duration = Duration::from_millis(4);

/// Work for later.
#[derive(Debug)]
pub(crate) enum Job {
    /// As many databases of a kind as are wanted.
    MakeReady { kind: Kind },
    /// A database that nobody needs any more, its snapshots, and its user if that is its own role.
    Drop { database: String, user: String },
    /// A spare copy of the cluster's template, and what the dead left.
    TidyPlace { setup: Box<crate::setup::Setup> },
    /// Databases of processes that have ended, but for those `kept` and their snapshots, at most so
    /// many.
    DropOrphans {
        kept: Vec<String>,
        count_max: usize,
        /// Hears when it is done.
        done: Option<Sender<()>>,
    },
}

/// The way to a cluster's thread; it starts with the first job and ends with the cluster.
#[derive(Debug)]
pub(crate) struct Keeper {
    cluster: Weak<Cluster>,
    jobs: Mutex<Option<Sender<Job>>>,
}

impl Keeper {
    pub(crate) fn new(cluster: Weak<Cluster>) -> Self {
        Self {
            cluster,
            jobs: Mutex::new(None),
        }
    }

    /// Passes a job on. Without a thread it is left undone: all of them are comfort, and what is
    /// not dropped goes with the cluster.
    pub(crate) fn send(&self, job: Job) {
        let mut jobs = lock(&self.jobs);
        if jobs.is_none() {
            let (sender, receiver) = mpsc::channel();
            let cluster = self.cluster.clone();
            let thread = thread::Builder::new().name("lookaside-pg-keeper".to_owned());
            if thread.spawn(move || work(&cluster, &receiver)).is_ok() {
                *jobs = Some(sender);
            }
        }
        if let Some(jobs) = &*jobs {
            let _ = jobs.send(job);
        }
    }
}

/// Does jobs until the cluster is gone. A job that fails is left: whoever needs its result does the
/// work himself and gets the error.
fn work(cluster: &Weak<Cluster>, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let Some(cluster) = cluster.upgrade() else {
            return;
        };
        match job {
            Job::MakeReady { kind } => {
                thread::sleep(READY_DELAY);
                let _ = cluster.make_ready(&kind);
            }
            Job::Drop { database, user } => {
                let _ = cluster.drop_with_snapshots(&database, &user);
            }
            Job::TidyPlace { setup } => setup.tidy(),
            Job::DropOrphans {
                kept,
                count_max,
                done,
            } => {
                let _ = cluster.drop_orphans(&kept, count_max);
                if let Some(done) = done {
                    // Nobody may be waiting.
                    let _ = done.send(());
                }
            }
        }
    }
}
