//! Requests that end before they are answered: by their deadline, or by cancellation.
//!
//! Once a request is submitted, the driver enforces its deadline. Before that, while it waits after
//! other requests or for the end of a lock, only its caller can.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::inbox::Sender;
use crate::error::Sent;
use crate::request::Clock;
use crate::timer::sleep_until;
use crate::{CancelToken, Error, Request, Result, Ticket};

/// How long to wait for the driver's reply to a request that has ended. It comes at once, unless the
/// task does not run because its runtime is not driven.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// Decides a race: the request is submitted, or it ends before.
#[derive(Clone, Debug)]
pub(super) struct Claim(Arc<AtomicU64>);

/// The states of a claim; any other value is the ticket of the request.
const WAITING: u64 = 0;
const TAKEN: u64 = u64::MAX;

impl Claim {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(WAITING)))
    }

    /// Tries to win the race; false if the other side has won.
    pub(super) fn take(&self) -> bool {
        // It synchronizes nothing else: all other data goes through channels.
        let taken = self
            .0
            .compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok()
    }

    /// Waits for the answer to a request with a deadline, which the driver does not enforce before the
    /// request is submitted.
    pub(super) async fn bounded<T>(
        &self,
        deadline: Instant,
        mut answer: impl Future<Output = T> + Unpin,
    ) -> Result<T> {
        tokio::select! {
            biased;
            answer = &mut answer => return Ok(answer),
            () = passed(Some(deadline)) => {}
        }
        if self.take() {
            return Err(Error::deadline(Sent::Nothing));
        }
        reply(answer)
            .await
            .ok_or_else(|| Error::deadline(Sent::Something))
    }

    /// Stores the request's ticket. Only the task that won the claim calls this.
    pub(super) fn submitted(&self, ticket: Ticket) {
        assert!(
            ticket.0 != WAITING && ticket.0 != TAKEN,
            "tickets are small"
        );
        self.0.store(ticket.0, Ordering::Release);
    }

    /// The request's ticket, if it was submitted.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        let ticket = self.0.load(Ordering::Acquire);
        (ticket != WAITING && ticket != TAKEN).then_some(Ticket(ticket))
    }
}

/// Watches for events other than the answer that end a request.
pub(super) struct RequestWatch {
    pub(super) claim: Claim,
    deadline: Option<Instant>,
    token: Option<CancelToken>,
    is_canceled_on_drop: bool,
}

impl RequestWatch {
    /// `None` if only the answer can end it.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let deadline = match request.clock {
            Clock::Caller => request.deadline,
            Clock::Driver => None,
        };
        let token = request.cancel.clone();
        let is_canceled_on_drop = request.is_canceled_on_drop;
        if deadline.is_none() && token.is_none() && !is_canceled_on_drop {
            return None;
        }
        Some(Self {
            claim: Claim::new(),
            deadline,
            token,
            is_canceled_on_drop,
        })
    }

    /// Waits for the answers, or until the request ends without them.
    pub(super) async fn answers<T>(
        self,
        cancels: &Sender<Claim>,
        answers: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Self {
            claim,
            deadline,
            token,
            is_canceled_on_drop,
        } = self;
        if token.as_ref().is_some_and(CancelToken::is_canceled) {
            return Err(Error::canceled(Sent::Nothing));
        }
        let mut drop_guard = CancelOnDrop {
            cancels,
            claim: is_canceled_on_drop.then(|| claim.clone()),
        };
        let mut answers = pin!(answers);
        let why = tokio::select! {
            biased;
            answers = &mut answers => {
                drop_guard.claim = None;
                return answers;
            }
            () = CancelToken::canceled_of(token.as_ref()) => Error::canceled as fn(Sent) -> Error,
            () = passed(deadline) => Error::deadline,
        };
        drop_guard.claim = None;
        if claim.take() {
            return Err(why(Sent::Nothing));
        }
        if token.is_some_and(|token| token.is_canceled()) {
            // If the push fails, the connection has ended, which the answer reports.
            let _ = cancels.push(claim);
        }
        let late = reply(answers).await;
        late.unwrap_or_else(|| Err(why(Sent::Something)))
    }
}

/// Waits for the driver's reply to a request that has ended, with a short timeout.
async fn reply<T>(mut reply: impl Future<Output = T> + Unpin) -> Option<T> {
    let until = Instant::now() + REPLY_TIMEOUT;
    tokio::select! {
        biased;
        reply = &mut reply => Some(reply),
        () = passed(Some(until)) => None,
    }
}

/// Waits until a time, on a runtime or outside of one; without a time, forever.
pub(crate) async fn passed(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Cancels a request whose future is dropped before it is answered.
struct CancelOnDrop<'a> {
    cancels: &'a Sender<Claim>,
    claim: Option<Claim>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take()
            && !claim.take()
        {
            let _ = self.cancels.push(claim);
        }
    }
}
