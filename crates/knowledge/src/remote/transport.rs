//! How queries are sent to a provider's server, and answers are received.

use std::future;

use lookaside_client::{Answer, Error, Pool, Request, Result};

use super::Remote;
use crate::cancel::CancelHandle;

/// The transport for one kind of caller.
pub(crate) trait Transport {
    /// Whether a request blocks the caller's thread until it is answered.
    const BLOCKS: bool;

    /// Sends all queries of a request, and sends those again that a lost connection did not answer.
    ///
    /// # Errors
    /// When nothing was sent.
    async fn request(&self, remote: &Remote, request: Request) -> Result<Vec<Result<Answer>>>;
}

/// Uses the pool, whose connections run on the thread for providers. The caller waits on its own
/// thread or task.
pub(crate) struct Pooled;

/// Uses a connection that the caller's thread drives while it waits, if there is one.
pub(crate) struct Blocking<'a>(pub(crate) &'a CancelHandle);

impl Transport for Pooled {
    const BLOCKS: bool = false;

    async fn request(&self, remote: &Remote, request: Request) -> Result<Vec<Result<Answer>>> {
        // The futures of the callers have several of these, and would be some kilobytes long, which are
        // moved for each query.
        let sending = Box::pin(send(&remote.pool, request));
        remote.runtime.within(sending).await
    }
}

impl Transport for Blocking<'_> {
    const BLOCKS: bool = true;

    async fn request(&self, remote: &Remote, request: Request) -> Result<Vec<Result<Answer>>> {
        let Some(mut direct) = remote.direct.take() else {
            remote.open_direct();
            return Pooled.request(remote, request).await;
        };
        let answers = direct.request(request.clone(), self.0);
        remote.direct.put(direct);
        match answers {
            Some(Ok(answers)) => Ok(resend_lost(remote, &request, answers).await),
            // Nothing was sent: the connection had ended.
            Some(Err(_)) => Pooled.request(remote, request).await,
            // Cancelled: the caller notices it and drops this future.
            None => future::pending().await,
        }
    }
}

/// Sends queries again by the pool that a direct connection lost.
pub(crate) async fn resend_lost(
    remote: &Remote,
    request: &Request,
    mut answers: Vec<Result<Answer>>,
) -> Vec<Result<Answer>> {
    let lost = lost(&answers);
    if !lost.is_empty() {
        // A server that closed one connection may have closed those of the pool, too.
        let again = Pooled.request(remote, request.only(&lost)).await;
        replace(&mut answers, &lost, again);
    }
    answers
}

/// Sends lost queries again: they are read-only, and a server that is available again, or another
/// connection, may answer them.
async fn send(pool: &Pool, request: Request) -> Result<Vec<Result<Answer>>> {
    let mut answers = match pool.request(request.clone()).await {
        Ok(answers) => answers,
        // For unsent queries the pool has already retried within the time limit.
        Err(error) if error.is_connection_lost() && !error.is_retryable() => {
            return pool.request(request).await;
        }
        Err(error) => return Err(error),
    };
    let lost = lost(&answers);
    if !lost.is_empty() {
        let again = pool.request(request.only(&lost)).await;
        replace(&mut answers, &lost, again);
    }
    Ok(answers)
}

/// The positions of queries whose connection was lost before they were answered.
fn lost(answers: &[Result<Answer>]) -> Vec<usize> {
    let is_lost = |at: &usize| answers[*at].as_ref().is_err_and(Error::is_connection_lost);
    (0..answers.len()).filter(is_lost).collect()
}

/// Replaces the answers of lost queries by those of the second attempt, if there are any.
fn replace(
    answers: &mut [Result<Answer>],
    positions: &[usize],
    again: Result<Vec<Result<Answer>>>,
) {
    for (position, answer) in positions.iter().zip(again.into_iter().flatten()) {
        answers[*position] = answer;
    }
}
