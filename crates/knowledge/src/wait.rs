//! Waiting for a future on any thread, whether or not it runs an executor.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::task::unconstrained;

use crate::cancel::{CANCEL_CHECK_INTERVAL, CancelHandle};

/// Runs futures concurrently and returns their outputs in order.
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

/// Runs a future to completion, parking the thread while it waits. Its progress must not depend on
/// this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let output = run(future, || {
        thread::park();
        false
    });
    output.expect("this wait cannot be cancelled")
}

/// As [`block_on`], unless the caller cancels: then the future is dropped and `None` is returned.
pub(crate) fn block_on_unless<T>(
    cancel: &CancelHandle,
    future: impl Future<Output = T>,
) -> Option<T> {
    run(future, || {
        thread::park_timeout(CANCEL_CHECK_INTERVAL);
        cancel.is_cancelled()
    })
}

/// Polls a future until it is ready, or until `sleep`, which is called in between, returns that
/// waiting should end.
fn run<T>(future: impl Future<Output = T>, sleep: impl Fn() -> bool) -> Option<T> {
    // On a tokio thread, tokio's futures would exhaust their cooperative budget and return pending
    // forever, as the task does not yield before this returns.
    let mut future = pin!(unconstrained(future));
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            // An earlier wake-up makes this return at once; a stale one, for a future that this
            // thread waited for before, costs one unneeded poll.
            if sleep() {
                return None;
            }
        }
    })
}
