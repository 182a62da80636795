//! The connection for tokio: a handle for any number of tasks, and one task that owns the socket.

use std::future::{Future as _, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::activity::Activity;
use super::claim::{self, Claim};
use super::command_queue::{Command, CommandQueue, LockRequest, Order, Submission};
use super::dial::{Socket, dial, first_session};
use super::inbox::{Rejected, Sender, inbox};
use super::task::{End, Report, Task};
use crate::driver::{Driver, Fitness, Sealed};
use crate::error::Sent;
use crate::net::{Address, Attempt, IntoStream, MaybeTls};
use crate::queryable::query_methods;
use crate::{Answers, Error, Queryable, Request, Result, TargetSession};

/// The capacity of the task's queue; callers wait when it is full.
const INBOX_COUNT_MAX: usize = 1024;

/// A connection that any number of tasks can share. Clones are handles of the same connection.
///
/// Requests are sent at once (pipelined), without waiting for the answers to others. If a future is
/// dropped, its answer is discarded, but the request may be executed nevertheless. The connection
/// ends when the last handle is dropped and everything is answered.
///
/// Each kind of server has an alias for it: [`postgres::Client`](crate::postgres::Client).
pub struct Client<D: Driver> {
    shared: Arc<Shared>,
    /// The driver, which the task that owns the socket owns as well.
    driver: PhantomData<fn() -> D>,
}

/// The state that all handles of a connection share.
struct Shared {
    inbox: Sender<Command>,
    cancels: Sender<Claim>,
    end: End,
    /// Set by the task while the connection is locked, or requests of a dropped lock are in flight.
    is_locked: Arc<AtomicBool>,
    activity: Arc<Activity>,
    /// The runtime of the task.
    runtime: Id,
}

impl<D: Driver> Sealed for Client<D> {}

impl<D: Driver> Queryable for Client<D> {
    async fn answers(&self, request: Request) -> Result<Answers> {
        self.ask(request).await
    }
}

impl<D: Driver> Clone for Client<D> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            driver: PhantomData,
        }
    }
}

impl<D: Driver> Client<D> {
    /// Connects to the server of a URL, with the default options; missing parts come from the
    /// environment variables of this process, as with `libpq` and the `mysql` client. See
    /// [`connect_with`](Self::connect_with).
    ///
    /// # Errors
    ///
    /// When the URL is invalid, and as [`connect_with`](Self::connect_with).
    ///
    /// # Panics
    ///
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect(url: &str) -> Result<Self>
    where
        D::Options: Default,
    {
        let config = url.parse().map_err(Error::config)?;
        Self::connect_with(&config, D::Options::default()).await
    }

    /// Connects to the first suitable host, and logs in. The task that owns the socket runs on the
    /// runtime of tokio that this is called on, which must have time and I/O enabled. The handles
    /// can be used from anywhere.
    ///
    /// # Errors
    ///
    /// When no host is suitable, when the first host that can be reached refuses, or without a runtime.
    ///
    /// # Panics
    ///
    /// When the runtime has time or I/O disabled.
    pub async fn connect_with(config: &D::Config, options: D::Options) -> Result<Self> {
        let (client, _) = Self::connect_watched(config, options).await?;
        Ok(client)
    }

    /// The same, with a handle that observes the end of the connection.
    pub(crate) async fn connect_watched(
        config: &D::Config,
        options: D::Options,
    ) -> Result<(Self, ConnectionWatch)> {
        first_session(config, |config, attempt| {
            Self::attempt(config, attempt, options.clone())
        })
        .await
    }

    async fn attempt(
        config: Arc<D::Config>,
        attempt: Attempt,
        options: D::Options,
    ) -> Result<(Self, ConnectionWatch)> {
        let driver = D::begin(&config, &attempt.host, attempt.transport, options)?;
        let dialed = dial(&config, &attempt).await?;
        let driver = MaybeTls::new(driver, dialed.peer);
        let (address, target) = (dialed.address, attempt.target);
        let (client, mut watch, fitness) = match dialed.socket {
            Socket::Tcp(stream) => Self::start(stream, address, driver, target),
            Socket::Unix(stream) => Self::start(stream, address, driver, target),
        };
        watch.round_trip = dialed.round_trip;
        let fitness = fitness.await.unwrap_or_else(|_| Err(Error::closed()))?;
        client.check(fitness, target).await?;
        Ok((client, watch))
    }

    /// Starts the task; the returned receiver gets the result of the log-in.
    fn start<S: AsyncRead + AsyncWrite + IntoStream + Unpin + Send + 'static>(
        stream: S,
        address: Address,
        driver: MaybeTls<D>,
        target: TargetSession,
    ) -> (Self, ConnectionWatch, oneshot::Receiver<Result<Fitness>>) {
        let (sender, receiver) = inbox(INBOX_COUNT_MAX);
        let (ready, is_ready) = oneshot::channel();
        let end = Arc::new(OnceLock::new());
        let task_end = Arc::clone(&end);
        let is_locked = Arc::new(AtomicBool::new(false));
        // A request is canceled at most once, so the queue is bounded by the requests.
        let (cancels, canceled) = inbox(usize::MAX);
        let commands = CommandQueue::new(receiver, canceled, Arc::clone(&is_locked));
        let activity = Arc::new(Activity::new());
        let task = Task::new(
            stream,
            address,
            driver,
            target,
            commands,
            ready,
            Report {
                end: task_end,
                activity: Arc::clone(&activity),
            },
        );
        let watch = ConnectionWatch {
            task: tokio::spawn(task),
            end: Arc::clone(&end),
            round_trip: Duration::ZERO,
        };
        let shared = Shared {
            inbox: sender,
            cancels,
            end,
            is_locked,
            activity,
            runtime: Handle::current().id(),
        };
        let client = Self {
            shared: Arc::new(shared),
            driver: PhantomData,
        };
        (client, watch, is_ready)
    }

    async fn check(&self, fitness: Fitness, wanted: TargetSession) -> Result<()> {
        let is_fit = match fitness {
            Fitness::Fit => true,
            Fitness::Unfit => false,
            Fitness::Ask(sql) => self.query(sql, &[]).await?.is_true(),
        };
        if is_fit {
            Ok(())
        } else {
            Err(Error::unfit_session(wanted))
        }
    }

    query_methods!();

    /// Sends a request and waits for its answers.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answers> {
        let watch = claim::RequestWatch::of(&request);
        let (answers, received) = oneshot::channel();
        let command = Command::Submit(Box::new(Submission {
            request,
            answers: Some(answers),
            order: Order::Any,
            claim: watch.as_ref().map(|watch| watch.claim.clone()),
        }));
        let answers = self.wait_for(command, received);
        match watch {
            None => answers.await,
            Some(watch) => watch.answers(self.cancels(), answers).await,
        }
    }

    async fn wait_for(
        &self,
        command: Command,
        received: oneshot::Receiver<Result<Answers>>,
    ) -> Result<Answers> {
        // Usually there is room, and then no future that waits for room is needed.
        let sent = match self.shared.inbox.try_send(command) {
            Err(Rejected::Full(command)) => self.shared.inbox.send(command).await.is_ok(),
            sent => sent.is_ok(),
        };
        if !sent {
            return Err(self.ended().of_query(Sent::Nothing));
        }
        // If there is no answer, the task ended with its runtime.
        let answers = received.await;
        answers.unwrap_or_else(|_| Err(self.ended().of_query(Sent::Something)))
    }

    /// Locks the connection as soon as all earlier requests are answered, and returns the queue for
    /// the holder's requests. Once that is dropped, the connection is free within
    /// `release_timeout`, or fails.
    pub(super) async fn lock_inbox(
        &self,
        release_timeout: Option<Duration>,
    ) -> Result<Sender<Command>> {
        let (granted, inbox) = oneshot::channel();
        let command = Command::Lock(LockRequest {
            granted,
            release_timeout,
        });
        if self.shared.inbox.send(command).await.is_err() {
            return Err(self.ended().of_query(Sent::Nothing));
        }
        let inbox = inbox.await;
        inbox.map_err(|_| self.ended().of_query(Sent::Nothing))
    }

    /// The queue of cancellations.
    pub(super) fn cancels(&self) -> &Sender<Claim> {
        &self.shared.cancels
    }

    /// When it last sent or received something.
    pub(super) fn activity(&self) -> &Activity {
        &self.shared.activity
    }

    /// The runtime of its task.
    pub(crate) fn runtime(&self) -> Id {
        self.shared.runtime
    }

    /// Whether the connection is locked, or requests of a dropped lock are in flight: a new request
    /// has to wait for that.
    pub(crate) fn is_locked(&self) -> bool {
        // Written by `CommandQueue`.
        self.shared.is_locked.load(Ordering::Acquire)
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    pub(super) fn ended(&self) -> Error {
        self.shared.end.get().cloned().unwrap_or_else(Error::closed)
    }
}

/// Observes the end of a connection, and can abort it. It is not a handle: it does not keep the
/// connection open.
pub(crate) struct ConnectionWatch {
    task: JoinHandle<()>,
    end: End,
    round_trip: Duration,
}

impl ConnectionWatch {
    /// Waits until the socket is closed.
    pub(crate) async fn ended(&mut self) {
        poll_fn(|cx| self.poll_ended(cx)).await;
    }

    /// The same; must not be polled again after it is ready.
    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Ready if the task was aborted or has ended.
        Pin::new(&mut self.task).poll(cx).map(drop)
    }

    /// The round trip to the server, measured by the TCP handshake; zero for Unix sockets.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Why it ended, unless it was aborted.
    pub(crate) fn error(&self) -> Option<Error> {
        self.end.get().cloned()
    }

    /// Closes the socket, whatever is in flight.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}
