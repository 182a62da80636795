//! The face for tokio: a handle for any number of tasks, and one task that owns the socket.

use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use lookaside_value::{ParamBatch, Value};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::intake::{Ask, Command, Order};
use super::lock::Lock;
use super::task::{End, Task};
use crate::drive::{Drive, Target};
use crate::error::Sent;
use crate::net::{Address, tune_tcp};
use crate::{Answer, Description, Error, Host, Request, Result, Syncs};

/// How many requests wait for the task before those who ask wait themselves.
const INBOX_COUNT_MAX: usize = 1024;

/// A connection that any number of tasks share. A clone is another handle of the same.
///
/// What they ask goes out at once, without waiting for what others have asked. A future that is
/// dropped costs nothing but a discarded answer; what it asked may be done all the same. The
/// connection ends when the last handle is gone and everything is answered.
///
/// Each kind of server has a name for it: [`postgres::Client`](crate::postgres::Client).
pub struct Client<D: Drive> {
    inbox: mpsc::Sender<Command>,
    end: End,
    /// What the task that owns the socket owns as well.
    driver: PhantomData<fn() -> D>,
}

impl<D: Drive> Clone for Client<D> {
    fn clone(&self) -> Self {
        Self {
            inbox: self.inbox.clone(),
            end: Arc::clone(&self.end),
            driver: PhantomData,
        }
    }
}

impl<D: Drive> Client<D> {
    /// Connects to the first host that can be reached, and logs in. The task that owns the socket
    /// runs on the runtime that this is called on.
    ///
    /// # Errors
    ///
    /// When none can be reached (the error is the last one's), or the first that can refuses.
    pub async fn connect(config: &D::Config, options: D::Options) -> Result<Self> {
        let (client, _) = Self::connect_watched(config, options).await?;
        Ok(client)
    }

    /// The same, for who has to know when it ends.
    pub(crate) async fn connect_watched(
        config: &D::Config,
        options: D::Options,
    ) -> Result<(Self, Watch)> {
        let mut last = None;
        for host in config.hosts() {
            let connecting = Self::connect_host(config, host, options.clone());
            let connected = match config.connect_timeout() {
                Some(timeout) => timeout_at(Instant::now() + timeout, connecting)
                    .await
                    .unwrap_or_else(|_| {
                        let error = io::ErrorKind::TimedOut.into();
                        Err(Error::cannot_connect(host, error))
                    }),
                None => connecting.await,
            };
            match connected {
                // Nothing was asked yet, so nothing can be done twice.
                Err(error) if error.is_retryable() || error.is_connection_lost() => {
                    last = Some(error);
                }
                result => return result,
            }
        }
        Err(last.expect("a configuration has a host"))
    }

    async fn connect_host(
        config: &D::Config,
        host: &Host,
        options: D::Options,
    ) -> Result<(Self, Watch)> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in lookup::<D::Config>(host).await? {
            let driver = D::begin(config, host, options.clone())?;
            let (inbox, receiver) = mpsc::channel(INBOX_COUNT_MAX);
            let (ready, is_ready) = oneshot::channel();
            let end = Arc::new(OnceLock::new());
            let task_end = Arc::clone(&end);
            let task = match &address {
                Address::Tcp(socket) => match TcpStream::connect(socket).await {
                    Ok(stream) => {
                        tune_tcp(&stream, &config.keepalives()).map_err(Error::socket)?;
                        let task = Task::new(stream, address, driver, receiver, ready, task_end);
                        tokio::spawn(task)
                    }
                    Err(error) => {
                        last = error;
                        continue;
                    }
                },
                Address::Unix(path) => match UnixStream::connect(path).await {
                    Ok(stream) => {
                        let task = Task::new(stream, address, driver, receiver, ready, task_end);
                        tokio::spawn(task)
                    }
                    Err(error) => {
                        last = error;
                        continue;
                    }
                },
            };
            is_ready.await.unwrap_or_else(|_| Err(Error::closed()))?;
            let watch = Watch {
                task,
                end: Arc::clone(&end),
            };
            let client = Self {
                inbox,
                end,
                driver: PhantomData,
            };
            return Ok((client, watch));
        }
        Err(Error::cannot_connect(host, last))
    }

    /// Asks and waits for the answer; `$1`, `$2`, … stand for the values.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit, or the connection is lost.
    pub async fn query(&self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<Answer> {
        let mut answers = self.request(Request::new(sql, params)).await?;
        answers.pop().expect("a query has an answer")
    }

    /// Asks the same with each parameter set, all in one flight.
    ///
    /// # Errors
    ///
    /// When nothing was sent. What happens to a query later is its own result.
    pub async fn query_many(
        &self,
        sql: impl Into<Arc<str>>,
        params: ParamBatch,
        syncs: Syncs,
    ) -> Result<Vec<Result<Answer>>> {
        self.request(Request::many(sql, params).syncs(syncs)).await
    }

    /// The names and types of a statement's columns and parameters. It is prepared for that, and
    /// not run.
    ///
    /// # Errors
    ///
    /// When the server refuses the statement, or the connection is lost.
    pub async fn describe(&self, sql: impl Into<Arc<str>>) -> Result<Arc<Description>> {
        let answers = self.request(Request::describe(sql)).await?;
        Answer::into_description(answers)
    }

    /// Sends a request and waits for its answers.
    ///
    /// # Errors
    ///
    /// As [`query_many`](Self::query_many).
    pub async fn request(&self, request: Request) -> Result<Vec<Result<Answer>>> {
        let (answers, received) = oneshot::channel();
        let command = Command::Ask(Ask {
            request,
            answers: Some(answers),
            order: Order::Any,
        });
        if self.inbox.send(command).await.is_err() {
            return Err(self.ended().of_query(Sent::Nothing));
        }
        // Without an answer, the task ended with its runtime.
        let answers = received.await;
        answers.unwrap_or_else(|_| Err(self.ended().of_query(Sent::Something)))
    }

    /// The connection for oneself, as soon as all that others have asked is answered.
    ///
    /// # Errors
    ///
    /// When the connection is lost.
    pub async fn lock(&self) -> Result<Lock<D>> {
        let (granted, inbox) = oneshot::channel();
        if self.inbox.send(Command::Lock(granted)).await.is_err() {
            return Err(self.ended().of_query(Sent::Nothing));
        }
        match inbox.await {
            Ok(inbox) => Ok(Lock::new(inbox, self.clone())),
            Err(_) => Err(self.ended().of_query(Sent::Nothing)),
        }
    }

    /// Whether the connection can be used no more.
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    pub(super) fn ended(&self) -> Error {
        self.end.get().cloned().unwrap_or_else(Error::closed)
    }
}

/// Sees the end of a connection, and can bring it about. It is no handle: without it, and while it
/// is there, the connection ends as it would.
pub(crate) struct Watch {
    task: JoinHandle<()>,
    end: End,
}

impl Watch {
    /// Waits until the socket is closed.
    pub(crate) async fn ended(&mut self) {
        // Aborted, or done: it is gone.
        let _ = (&mut self.task).await;
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

/// The addresses of a host. A look-up may block, and so happens elsewhere.
async fn lookup<T: Target>(host: &Host) -> Result<Vec<Address>> {
    let owned = host.clone();
    let found = tokio::task::spawn_blocking(move || Address::of::<T>(&owned)).await;
    found.unwrap_or_else(|_| {
        // The runtime ends.
        let error = io::ErrorKind::Interrupted.into();
        Err(Error::cannot_connect(host, error))
    })
}
