//! Explicit cancellation of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Cancels requests: all that were given a clone of it by
/// [`Request::cancel_token`](crate::Request::cancel_token), now and later.
///
/// A request that is canceled fails with [`ErrorKind::Canceled`](crate::ErrorKind::Canceled). If
/// nothing of it was sent, nothing is; else the server is asked over a connection of its own to stop
/// working on it, which takes effect where the server looks for such requests. What was done before
/// that, as by a statement outside of a transaction that was just committed, stays done.
///
/// ```no_run
/// # async fn example(pool: &lookaside_client::Pool) -> lookaside_client::Result<()> {
/// use lookaside_client::{CancelToken, Request};
///
/// let token = CancelToken::new();
/// let report = tokio::spawn({
///     let (pool, token) = (pool.clone(), token.clone());
///     async move {
///         let request = Request::new("select * from report()", &[]).cancel_token(&token);
///         pool.request(request).await
///     }
/// });
/// token.cancel();
/// # let _ = report;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_canceled: AtomicBool,
    canceled: Notify,
}

impl CancelToken {
    /// A token that is not canceled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels all requests that were given this token, and those that will be.
    pub fn cancel(&self) {
        // Release, paired with the load in `is_canceled`; `Notify` orders the waiters.
        self.0.is_canceled.store(true, Ordering::Release);
        self.0.canceled.notify_waiters();
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_canceled(&self) -> bool {
        self.0.is_canceled.load(Ordering::Acquire)
    }

    /// Waits until the token is canceled; never returns without a token.
    pub(crate) async fn canceled_of(token: Option<&Self>) {
        match token {
            Some(token) => token.canceled().await,
            None => std::future::pending().await,
        }
    }

    async fn canceled(&self) {
        let mut notified = std::pin::pin!(self.0.canceled.notified());
        // Registered before the flag is read, so that a call in between is not missed.
        notified.as_mut().enable();
        if !self.is_canceled() {
            notified.await;
        }
    }
}
