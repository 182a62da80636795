//! Explicit cancellation of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Cancels all requests, current and later ones, that got a clone of it by
/// [`Request::cancel_token`](crate::Request::cancel_token).
///
/// A canceled request fails with [`ErrorKind::Canceled`](crate::ErrorKind::Canceled). If nothing of
/// it was sent yet, nothing will be; otherwise a cancel request is sent to the server over a
/// separate connection, which takes effect when the server checks for interrupts. What was done
/// before, such as a statement that committed on its own, is not undone.
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
    /// Creates a token that is not canceled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels all requests with this token, current and later ones.
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
