//! Waiting for a future on a thread that runs no executor, or that runs one and may not be told.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::task::unconstrained;

use crate::cancel::{CANCEL_CHECK_INTERVAL, CancelHandle};

/// The outputs of futures that all go on at once, in their order.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut joined = Poll::Ready(());
        let waiting = running.iter_mut().zip(&mut outputs);
        for (future, output) in waiting.filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(ended) => *output = Some(ended),
                Poll::Pending => joined = Poll::Pending,
            }
        }
        joined
    })
    .await;
    let outputs = outputs.into_iter();
    outputs
        .map(|output| output.expect("all have ended"))
        .collect()
}

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
    let output = run(future, || {
        thread::park();
        false
    });
    output.expect("this wait cannot be cancelled")
}

/// As [`block_on`], until the caller cancels: then the future is dropped, and there is no output.
pub(crate) fn block_on_unless<T>(
    cancel: &CancelHandle,
    future: impl Future<Output = T>,
) -> Option<T> {
    run(future, || {
        thread::park_timeout(CANCEL_CHECK_INTERVAL);
        cancel.is_cancelled()
    })
}

/// Polls a future until it is ready, or until `sleep`, which is called in between, says that there
/// is nothing left to wait for.
fn run<T>(future: impl Future<Output = T>, sleep: impl Fn() -> bool) -> Option<T> {
    // On a thread of tokio's, its futures would soon ask for a turn of somebody else, which does not
    // come before this returns.
    let mut future = pin!(unconstrained(future));
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            // A wake-up that came before makes this return at once; one for another future that
            // this thread waited for before costs a needless look.
            if sleep() {
                return None;
            }
        }
    })
}
