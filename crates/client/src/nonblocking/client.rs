//! The connection for tokio: a handle for any number of tasks, and one task that owns the socket.

use std::future::{Future as _, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use super::activity::Activity;
use super::claim::{self, Claim};
use super::command_queue::{Command, CommandQueue, LockRequest, Order, Submission};
use super::inbox::{Rejected, Sender, inbox};
use super::task::{End, Report, Task};
use crate::driver::{Driver, Fitness, Sealed, Target};
use crate::error::Sent;
use crate::net::{Address, Attempt, IntoStream, MaybeTls, Search, part, tune_tcp};
use crate::queryable::query_methods;
use crate::{Answers, Error, Queryable, Request, Result, TargetSession};

/// How many requests wait for the task before those who ask wait themselves.
const INBOX_COUNT_MAX: usize = 1024;

/// A connection that any number of tasks share. A clone is another handle of the same.
///
/// What they ask goes out at once, without waiting for what others have asked. A future that is
/// dropped costs nothing but a discarded answer; what it asked may be done all the same. The
/// connection ends when the last handle is gone and everything is answered.
///
/// Each kind of server has a name for it: [`postgres::Client`](crate::postgres::Client).
pub struct Client<D: Driver> {
    shared: Arc<Shared>,
    /// What the task that owns the socket owns as well.
    driver: PhantomData<fn() -> D>,
}

/// What all handles of a connection share.
struct Shared {
    inbox: Sender<Command>,
    cancels: Sender<Claim>,
    end: End,
    /// Set by the task while the connection is locked, or what a lock left is under way.
    is_locked: Arc<AtomicBool>,
    activity: Arc<Activity>,
    /// Where the task runs.
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
    /// Connects to the server of a URL, with the default options; what the URL leaves out comes from
    /// the variables of this process, as with `libpq` and the `mysql` client. See
    /// [`connect_with`](Self::connect_with).
    ///
    /// # Errors
    ///
    /// When the URL cannot be used, and as [`connect_with`](Self::connect_with).
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

    /// Connects to the first host that will do, and logs in. The task that owns the socket runs on
    /// the runtime of tokio that this is called on, which must have time and I/O enabled. What the
    /// handles ask may come from anywhere.
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

    /// The same, with a handle that sees when it ends.
    pub(crate) async fn connect_watched(
        config: &D::Config,
        options: D::Options,
    ) -> Result<(Self, ConnectionWatch)> {
        if Handle::try_current().is_err() {
            return Err(Error::no_runtime());
        }
        let config = config.clone();
        let mut search = spawn_blocking(move || Search::new(&config)).await?;
        while let Some(attempt) = search.next(std::time::Instant::now()) {
            let connecting = Self::attempt(search.config(), &attempt, options.clone());
            let connected = match attempt.deadline {
                Some(deadline) => timeout_at(deadline.into(), connecting)
                    .await
                    .unwrap_or_else(|_| Err(Error::host_timeout(&attempt.host))),
                None => connecting.await,
            };
            match connected {
                Ok(connected) => return Ok(connected),
                Err(error) => search.failed(attempt, error)?,
            }
        }
        Err(search.into_error())
    }

    async fn attempt(
        config: &Arc<D::Config>,
        attempt: &Attempt,
        options: D::Options,
    ) -> Result<(Self, ConnectionWatch)> {
        let way = {
            let (config, attempt) = (Arc::clone(config), attempt.clone());
            spawn_blocking(move || attempt.prepare(&*config)).await?
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let mut addresses = way.addresses.into_iter();
        while let Some(address) = addresses.next() {
            let left_count = addresses.len() + 1;
            let deadline = part(attempt.deadline, left_count, std::time::Instant::now());
            let driver = D::begin(config, &attempt.host, attempt.transport, options.clone())?;
            let driver = MaybeTls::new(driver, way.peer.clone());
            let began = std::time::Instant::now();
            let connected = match &address {
                Address::Tcp(socket) => match connect_tcp(*socket, deadline).await {
                    Ok(stream) => {
                        let round_trip = began.elapsed();
                        tune_tcp(&stream, &config.keepalives()).map_err(Error::socket)?;
                        let started = Self::start(stream, address, driver, attempt.target);
                        Ok((started, round_trip))
                    }
                    Err(error) => Err(error),
                },
                Address::Unix(path) => match UnixStream::connect(path).await {
                    Ok(stream) => {
                        let started = Self::start(stream, address, driver, attempt.target);
                        Ok((started, Duration::ZERO))
                    }
                    Err(error) => Err(error),
                },
            };
            match connected {
                Ok(((client, mut watch, fitness), round_trip)) => {
                    watch.round_trip = round_trip;
                    let fitness = fitness.await.unwrap_or_else(|_| Err(Error::closed()))?;
                    client.check(fitness, attempt.target).await?;
                    return Ok((client, watch));
                }
                Err(error) => last = error,
            }
        }
        Err(Error::cannot_connect(&attempt.host, last))
    }

    /// Starts the task; the last part hears of the log-in.
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
        // A request is canceled once, so there are no more than requests.
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
        // Mostly there is room, and then nothing is needed that can wait for some.
        let sent = match self.shared.inbox.try_send(command) {
            Err(Rejected::Full(command)) => self.shared.inbox.send(command).await.is_ok(),
            sent => sent.is_ok(),
        };
        if !sent {
            return Err(self.ended().of_query(Sent::Nothing));
        }
        // Without an answer, the task ended with its runtime.
        let answers = received.await;
        answers.unwrap_or_else(|_| Err(self.ended().of_query(Sent::Something)))
    }

    /// Where the holder of a lock asks, as soon as all that others have asked is answered. Once it is
    /// dropped, the connection is free within `release_timeout`, or fails.
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

    /// Where requests are canceled.
    pub(super) fn cancels(&self) -> &Sender<Claim> {
        &self.shared.cancels
    }

    /// When it last sent or received something.
    pub(super) fn activity(&self) -> &Activity {
        &self.shared.activity
    }

    /// Where its task runs.
    pub(crate) fn runtime(&self) -> Id {
        self.shared.runtime
    }

    /// Whether the connection is locked, or what a lock left is still under way: a request that is
    /// made now waits for the end of that.
    pub(crate) fn is_locked(&self) -> bool {
        // Written by `CommandQueue`.
        self.shared.is_locked.load(Ordering::Acquire)
    }

    /// Whether the connection can be used no more.
    pub fn is_closed(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    pub(super) fn ended(&self) -> Error {
        self.shared.end.get().cloned().unwrap_or_else(Error::closed)
    }
}

/// Sees the end of a connection, and can bring it about. It is not a handle: without it, and while it
/// is there, the connection ends as it would.
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

    /// The same; not to be asked again once it is so.
    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Aborted, or done: it is gone.
        Pin::new(&mut self.task).poll(cx).map(drop)
    }

    /// How long it took to reach the server and to hear of it, as the handshake of TCP does; no time
    /// at all on this machine's own sockets.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Why it ended, unless it was aborted.
    pub(crate) fn error(&self) -> Option<Error> {
        self.end.get().cloned()
    }

    /// Closes the socket, whatever is under way.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}

async fn connect_tcp(
    address: SocketAddr,
    deadline: Option<std::time::Instant>,
) -> io::Result<TcpStream> {
    let connecting = TcpStream::connect(address);
    match deadline {
        Some(deadline) => timeout_at(deadline.into(), connecting).await?,
        None => connecting.await,
    }
}

/// Runs what may block elsewhere.
async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    // It does not panic, so the runtime ends.
    done.unwrap_or_else(|_| Err(Error::closed()))
}
