//! A thread for documents about the server itself, so that they do not wait for queries or batches.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crossbeam_channel::{Sender, unbounded};

type DocumentJob = Box<dyn FnOnce() + Send>;

/// The handle of the thread, which ends when this is dropped.
pub(crate) struct DocumentThread {
    jobs: Sender<DocumentJob>,
}

impl DocumentThread {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, jobs) = unbounded::<DocumentJob>();
        thread::Builder::new()
            .name("serve-tell".to_owned())
            .spawn(move || {
                for job in jobs {
                    // A panic fails only its own request, which gets 500.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                }
            })?;
        Ok(Self { jobs: sender })
    }

    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        // The thread does not end before the last sender is dropped.
        let _ = self.jobs.send(Box::new(job));
    }
}
