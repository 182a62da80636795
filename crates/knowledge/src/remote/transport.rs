//! How queries are sent to a provider's server, and answers are received.

use std::future;

use lookaside_client::{Answer, Error, Request, Result};

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
        let sending = Box::pin(send(remote, request));
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
    let lost = lost(&answers, Error::is_connection_lost);
    if !lost.is_empty() {
        // A server that closed one connection may have closed those of the pool, too.
        let again = Pooled.request(remote, request.only(&lost)).await;
        replace(&mut answers, &lost, again);
    }
    answers
}

/// Sends lost queries again: they are read-only, and a server that is available again, or another
/// connection, may answer them.
///
/// Once only, since a query may be the cause of the loss; but as often as there are connections if
/// the server ended the session for another reason, as it may have ended those of all connections.
async fn send(remote: &Remote, request: Request) -> Result<Vec<Result<Answer>>> {
    let pool = &remote.pool;
    let mut answers = match pool.request(request.clone()).await {
        Ok(answers) => answers,
        // For unsent queries the pool has already retried within the time limit.
        Err(error) if error.is_connection_lost() && !error.is_retryable() => {
            return pool.request(request).await;
        }
        Err(error) => return Err(error),
    };
    let mut lost = lost(&answers, Error::is_connection_lost);
    for _ in 0..remote.config.pool_size {
        if lost.is_empty() {
            break;
        }
        let again = pool.request(request.only(&lost)).await;
        let is_sent = again.is_ok();
        replace(&mut answers, &lost, again);
        if !is_sent {
            break;
        }
        lost = self::lost(&answers, is_session_terminated);
    }
    Ok(answers)
}

/// Whether the server ended the session because an administrator told it to, or another session
/// failed, so that the query was not the cause. PostgreSQL only: MySQL and MariaDB do not say why.
fn is_session_terminated(error: &Error) -> bool {
    let state = error.sqlstate();
    let state = state.as_ref().map(|state| state.as_bytes());
    // `admin_shutdown` and `crash_shutdown`.
    error.is_connection_lost() && matches!(state, Some(b"57P01" | b"57P02"))
}

/// The positions of queries that were lost, by their errors.
fn lost(answers: &[Result<Answer>], is_lost: impl Fn(&Error) -> bool) -> Vec<usize> {
    let is_lost = |at: &usize| answers[*at].as_ref().is_err_and(&is_lost);
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
