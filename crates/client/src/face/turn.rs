//! Requests with a deadline that wait for their turn.
//!
//! Once it is submitted, a driver sees to a request's deadline. Before, it waits behind others, or
//! for one who has the connection for himself, and nobody but its caller looks at the clock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::time::sleep_until;

use crate::error::Sent;
use crate::{Error, Request, Result};

/// What comes first: that a request is submitted, or that its deadline passes.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    deadline: Instant,
    is_over: Arc<AtomicBool>,
}

impl Turn {
    /// None where a request has no deadline.
    pub(super) fn of(request: &Request) -> Option<Self> {
        request.deadline.map(|deadline| Self {
            deadline,
            is_over: Arc::default(),
        })
    }

    /// Says that this has come; false if the other was first.
    pub(super) fn take(&self) -> bool {
        !self.is_over.swap(true, Ordering::AcqRel)
    }
}

/// Waits for answers, and no longer than until the deadline for the request to be submitted.
pub(super) async fn in_time<T>(turn: Turn, answers: impl Future<Output = Result<T>>) -> Result<T> {
    let mut answers = pin!(answers);
    tokio::select! {
        biased;
        answers = &mut answers => return answers,
        () = sleep_until(turn.deadline.into()) => {}
    }
    if turn.take() {
        return Err(Error::deadline(Sent::Nothing));
    }
    answers.await
}
