//! A thread for what is told of the server itself, so that it waits for no query and no batch.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crossbeam_channel::{Sender, unbounded};

type Job = Box<dyn FnOnce() + Send>;

/// The way to the thread, which ends when this is dropped.
pub(crate) struct Teller {
    jobs: Sender<Job>,
}

impl Teller {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, jobs) = unbounded::<Job>();
        thread::Builder::new()
            .name("serve-tell".to_owned())
            .spawn(move || {
                for job in jobs {
                    // A panic is that of its request alone, which is answered with 500.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
            })?;
        Ok(Self { jobs: sender })
    }

    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        // The thread ends behind the last sender.
        let _ = self.jobs.send(Box::new(job));
    }
}
