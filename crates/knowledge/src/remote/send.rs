//! Sends the queries of a caller at once, and those that a lost connection did not answer once more.

use lookaside_client::{Answer, Error, Pool, Request, Result};

/// Queries that were lost are sent again: they only read, and a server that came back
/// meanwhile, or another connection, may answer them.
///
/// # Errors
/// When nothing was sent.
pub(super) async fn send(pool: &Pool, request: Request) -> Result<Vec<Result<Answer>>> {
    let mut answers = match pool.request(request.clone()).await {
        Ok(answers) => answers,
        // Of what was not sent the pool has tried all that there is time for.
        Err(error) if error.is_connection_lost() && !error.is_retryable() => {
            return pool.request(request).await;
        }
        Err(error) => return Err(error),
    };
    let lost: Vec<usize> = (0..answers.len())
        .filter(|at| answers[*at].as_ref().is_err_and(Error::is_connection_lost))
        .collect();
    if !lost.is_empty()
        && let Ok(again) = pool.request(request.only(&lost)).await
    {
        for (index, answer) in lost.into_iter().zip(again) {
            answers[index] = answer;
        }
    }
    Ok(answers)
}
