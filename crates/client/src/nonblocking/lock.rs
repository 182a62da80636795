//! An exclusive lock on a connection.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Client;
use super::claim::{Claim, RequestWatch, passed};
use super::command_queue::{Caller, Command, Order, Submission};
use super::inbox::Sender;
use crate::driver::{Driver, Sealed};
use crate::error::Sent;
use crate::poll::Polled;
use crate::queryable::query_methods;
use crate::request::Portal;
use crate::{Answer, Answers, Error, Queryable, Request, Result};

/// Exclusive use of a shared connection; requests of other handles wait.
///
/// The connection is shared again as soon as this is dropped and all its requests are answered. An
/// open transaction is rolled back. Other settings of the session stay as they are.
///
/// A request on the [`Client`] that this came from waits for the lock: a task that holds it and
/// awaits such a request deadlocks.
pub struct Lock<D: Driver> {
    inbox: Sender<Command>,
    /// The default timeout of requests without a deadline.
    timeout: Option<Duration>,
    /// Whether requests are canceled if their future is dropped before they are answered.
    is_canceled_on_drop: bool,
    /// The number of portals that were named so far.
    portal_count: AtomicU64,
    /// Keeps the connection open, and has the reason of its end.
    client: Client<D>,
}

/// Outstanding answers.
pub(crate) struct PendingAnswers<D: Driver> {
    received: oneshot::Receiver<Result<Answers>>,
    /// The deadline, if any.
    bound: Option<(Instant, Claim)>,
    /// The timeout, if the deadline results from that of the lock.
    timeout: Option<Duration>,
    client: Client<D>,
}

/// Bounds each wait of a multi-step operation: how long the connection may be inactive.
pub(crate) struct StepTimeout<D: Driver> {
    timeout: Option<Duration>,
    claim: Claim,
    client: Client<D>,
}

impl<D: Driver> Client<D> {
    /// Locks the connection, as soon as all requests before it are answered.
    ///
    /// # Errors
    ///
    /// When the connection is lost.
    pub async fn lock(&self) -> Result<Lock<D>> {
        self.lock_within(None).await
    }

    /// Like [`lock`](Self::lock); once the lock is dropped, the connection is free within
    /// `release_timeout`, or fails.
    pub(crate) async fn lock_within(&self, release_timeout: Option<Duration>) -> Result<Lock<D>> {
        let inbox = self.lock_inbox(release_timeout).await?;
        Ok(Lock::new(inbox, self.clone()))
    }
}

impl<D: Driver> Lock<D> {
    fn new(inbox: Sender<Command>, client: Client<D>) -> Self {
        Self {
            inbox,
            timeout: None,
            is_canceled_on_drop: false,
            portal_count: AtomicU64::new(0),
            client,
        }
    }

    /// Sets the timeout of requests without a deadline.
    pub(crate) fn within(self, timeout: Option<Duration>) -> Self {
        Self { timeout, ..self }
    }

    /// Cancels requests whose futures are dropped before they are answered, if
    /// `is_canceled_on_drop`.
    pub(crate) fn canceling_on_drop(self, is_canceled_on_drop: bool) -> Self {
        Self {
            is_canceled_on_drop,
            ..self
        }
    }

    query_methods!();

    /// Resets the session to its state after the log-in, without another log-in: settings,
    /// variables, temporary tables, locks and prepared statements are discarded. MySQL and MariaDB
    /// roll back an open transaction (`COM_RESET_CONNECTION`, since MySQL 5.7 and MariaDB 10.2);
    /// PostgreSQL refuses it in a transaction (`DISCARD ALL`).
    ///
    /// ```no_run
    /// # async fn example(client: &lookaside_client::mysql::Client) -> lookaside_client::Result<()> {
    /// let mut lock = client.lock().await?;
    /// lock.query("set @discount = 0.1", &[]).await?;
    /// lock.reset().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection is lost.
    pub async fn reset(&mut self) -> Result<()> {
        self.ask(D::reset_request(), Order::Alone).answer().await?;
        Ok(())
    }

    /// Detaches the connection from its task, as soon as all requests are answered. The task stays
    /// without a connection until it is aborted.
    pub(crate) async fn detach(&self) -> Result<Box<dyn Polled>> {
        let (detached, connection) = oneshot::channel();
        // If the push fails, the connection has ended, which the wait below reports.
        let _ = self.inbox.push(Command::Detach(detached));
        let connection = connection.await;
        connection.map_err(|_| self.client.ended().of_query(Sent::Nothing))
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Returns an unused portal: those of earlier lock holders ended with their transactions.
    pub(super) fn new_portal(&self) -> Portal {
        // Relaxed, because only the number is shared.
        Portal(self.portal_count.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a request; it is queued when this returns.
    pub(super) fn ask(&self, request: Request, order: Order) -> PendingAnswers<D> {
        let timeout = self.timeout.filter(|_| request.deadline.is_none());
        let request = self.bounded(request);
        let bound = request.deadline.map(|deadline| (deadline, Claim::new()));
        let claim = bound.as_ref().map(|(_, claim)| claim.clone());
        let (answers, waiting) = self.waiting();
        self.send(request, Some(answers), order, claim);
        PendingAnswers {
            bound,
            timeout,
            ..waiting
        }
    }

    /// Like [`ask`](Self::ask), but the timeout bounds each wait for the server, not the whole request.
    pub(crate) fn send_with_step_timeout(
        &self,
        request: Request,
    ) -> (PendingAnswers<D>, StepTimeout<D>) {
        let (answers, waiting) = self.waiting();
        let step_timeout = StepTimeout {
            timeout: self.timeout,
            claim: Claim::new(),
            client: self.client.clone(),
        };
        let claim = step_timeout.claim.clone();
        self.send(request, Some(answers), Order::Any, Some(claim));
        (waiting, step_timeout)
    }

    /// Adds the deadline of the lock to a request, if there is one.
    fn bounded(&self, request: Request) -> Request {
        match self.timeout {
            Some(timeout) if request.deadline.is_none() => {
                request.deadline(Instant::now() + timeout)
            }
            _ => request,
        }
    }

    fn waiting(&self) -> (Caller, PendingAnswers<D>) {
        let (answers, received) = oneshot::channel();
        let client = self.client.clone();
        let waiting = PendingAnswers {
            received,
            bound: None,
            timeout: None,
            client,
        };
        (answers, waiting)
    }

    /// Sends a request without waiting for its answer, after all before it are answered.
    pub(super) fn send_detached(&self, request: Request) {
        self.send(request, None, Order::Alone, None);
    }

    fn send(&self, request: Request, answers: Option<Caller>, order: Order, claim: Option<Claim>) {
        let ask = Box::new(Submission {
            request,
            answers,
            order,
            claim,
        });
        // If the push fails, the connection has ended, which the wait for the answer reports.
        let _ = self.inbox.push(Command::Submit(ask));
    }
}

impl<D: Driver> Sealed for Lock<D> {}

impl<D: Driver> Queryable for Lock<D> {
    async fn answers(&self, request: Request) -> Result<Answers> {
        let bound = request.deadline.is_none().then_some(self.timeout).flatten();
        let mut request = self.bounded(request);
        request.is_canceled_on_drop |= self.is_canceled_on_drop;
        let watch = RequestWatch::of(&request);
        let (answers, waiting) = self.waiting();
        let claim = watch.as_ref().map(|watch| watch.claim.clone());
        self.send(request, Some(answers), Order::Any, claim);
        let answers = match watch {
            None => waiting.answers().await,
            Some(watch) => {
                let cancels = self.client.cancels();
                watch.answers(cancels, waiting.answers()).await
            }
        };
        match bound {
            Some(timeout) => Answers::naming_timeout(answers, timeout),
            None => answers,
        }
    }
}

impl<D: Driver> PendingAnswers<D> {
    pub(super) async fn answers(mut self) -> Result<Answers> {
        self.wait().await
    }

    /// Waits for the answers, once. If it is dropped before, it can be called again.
    pub(crate) async fn wait(&mut self) -> Result<Answers> {
        let answers = match &self.bound {
            None => Ok((&mut self.received).await),
            Some((deadline, claim)) => claim.bounded(*deadline, &mut self.received).await,
        };
        let ended = |_| Err(self.client.ended().of_query(Sent::Something));
        let answers = answers.and_then(|answers| answers.unwrap_or_else(ended));
        match self.timeout {
            Some(timeout) => Answers::naming_timeout(answers, timeout),
            None => answers,
        }
    }

    pub(crate) async fn answer(self) -> Result<Answer> {
        self.answers().await?.into_one()
    }
}

impl<D: Driver> StepTimeout<D> {
    /// Waits for a step. The timeout restarts whenever bytes are sent or received. If a step takes
    /// too long, the request is canceled.
    ///
    /// # Errors
    ///
    /// When the step took too long.
    pub(crate) async fn step<T>(&self, step: impl Future<Output = T>) -> Result<T> {
        let mut step = pin!(step);
        let late = async {
            let timeout = self.timeout?;
            let mut since = Instant::now();
            loop {
                passed(Some(since + timeout)).await;
                let active = self.client.activity().last();
                if active <= since {
                    return Some(timeout);
                }
                since = active;
            }
        };
        let late = tokio::select! {
            biased;
            done = &mut step => return Ok(done),
            late = late => late,
        };
        let Some(timeout) = late else {
            return Ok(step.await);
        };
        let sent = match self.claim.take() {
            true => Sent::Nothing,
            false => {
                // The push fails only if the connection has ended.
                let _ = self.client.cancels().push(self.claim.clone());
                Sent::Something
            }
        };
        Err(Error::deadline(sent).naming_timeout(timeout))
    }
}
