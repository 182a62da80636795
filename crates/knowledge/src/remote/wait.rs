//! Waiting for a future on a thread that runs no executor, or that runs one and may not be told.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::task::unconstrained;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Arc::new(Unpark(thread::current())).into();
}

/// Runs a future to its end, asleep while it waits. What it waits for must go on elsewhere.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    // On a thread of tokio's, its futures would soon ask for a turn of somebody else, which does not
    // come before this returns.
    let mut future = pin!(unconstrained(future));
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            // A wake-up that came before makes this return at once; one for another future that
            // this thread waited for before costs a needless look.
            thread::park();
        }
    })
}
