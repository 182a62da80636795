//! A pool of shared connections.
//!
//! - `planner` makes the decisions, without socket, task or clock;
//! - `state` is the lock around it, and wakes the waiters;
//! - `maintenance` has the tasks that connect and watch;
//! - `connection` has the kinds of servers.
//!
//! A prepared statement that becomes invalid on one connection is not evicted on the others: each
//! of them detects that by itself and prepares it again, which costs one round trip; a message
//! between them would not arrive before the next request.

mod connection;
mod lock;
mod maintenance;
mod options;
mod planner;
mod polled;
mod return_on_drop;
mod state;
mod status;
mod transaction;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::driver::Sealed;
use crate::error::Sent;
use crate::jitter::jitter;
use crate::nonblocking::passed;
use crate::queryable::query_methods;
use crate::request::{Clock, Goal};
use crate::{Answers, CancelToken, Config, Error, ErrorKind, Queryable, Request, Result};
use connection::{Connection, Connector};
use options::FOREVER;
use planner::{AcquireOutcome, PoolSlotId, Refusal, Usage, Waiter};
use return_on_drop::ReturnOnDrop;
use state::{Acquired, Acquisition, Maintenance, PoolState};

pub use lock::PoolLock;
pub use options::PoolOptions;
pub use polled::PolledConnection;
pub use status::PoolStatus;
pub use transaction::{PoolSavepoint, PoolTransaction};

/// Connections to one server that any number of tasks can share. Clones are handles of the same
/// pool.
///
/// Callers need not check connections out and in: a request is pipelined on a connection after
/// those of other callers, and more connections are opened only if that is not enough. Each request
/// may use another session, so the set-up of all sessions belongs into [`PoolOptions::session`],
/// and statements that begin a transaction or change the session are refused: use
/// [`lock`](Self::lock) for those. If a statement begins a transaction in a way that is not
/// detected before, such as in a procedure, its connection is closed: the statement fails, and so
/// do those sent after it, so that no write is acknowledged and then lost.
///
/// A lost connection is replaced. A request of which nothing was sent is moved to another
/// connection; one that was sent may have been executed, so its caller has to decide whether to
/// repeat it: see [`Error::is_retryable`] and [`Error::is_connection_lost`]. While the server is
/// starting, has no free connections or does not respond, requests wait for it, up to
/// [`PoolOptions::acquire_timeout`]. If the connection is refused, the host name is unknown, or the
/// server refuses for a lasting reason, such as a wrong password, they fail at once; the server is
/// tried again after a pause of up to half a second, or 15 seconds if it refused.
///
/// All waits are bounded: a request takes no longer than its deadline or
/// [`PoolOptions::query_timeout`].
///
/// No connection is opened before the first request. The connections run on the tokio runtime of
/// that request, which must have time and I/O enabled, since tokio panics in their tasks otherwise;
/// if that runtime ends, the next request opens new ones on its own runtime. A request from outside
/// of a runtime uses existing connections, and the pool's existing runtime for new ones; if there
/// is none, it fails with [`ErrorKind::Misuse`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lookaside_client::{Config, Environment, Pool, PoolOptions};
/// use lookaside_value::Value;
///
/// let config = Config::parse("postgres:///shop", &Environment::of_process())?;
/// let pool = Pool::new(config, PoolOptions {
///     connection_count_max: 4,
///     session: vec!["set jit = off".to_owned()],
///     ..PoolOptions::default()
/// });
/// let tasks: Vec<_> = (0..1000)
///     .map(|id| {
///         let pool = pool.clone();
///         tokio::spawn(async move {
///             pool.query("select name from goods where id = $1", &[Value::Int(id)]).await
///         })
///     })
///     .collect();
/// for task in tasks {
///     println!("{:?}", task.await??.rows);
/// }
/// println!("{} connections were enough", pool.status().connection_count);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

/// How late the pool's own task may be in reporting that no connection was available in time.
const MAINTENANCE_DELAY_MAX: Duration = Duration::from_secs(1);

struct Inner {
    state: PoolState<Connection, Mutex<state::GuardedState<Connection>>>,
    connector: Arc<Connector>,
    options: PoolOptions,
}

impl Pool {
    /// Creates a pool, which opens its first connection on the first request.
    pub fn new(config: Config, options: PoolOptions) -> Self {
        let connector = Arc::new(Connector::new(config, &options));
        let state = PoolState::new(
            options.limits(connector.depth_max()),
            || Handle::try_current().is_ok(),
            Instant::now(),
        );
        let inner = Inner {
            state,
            connector,
            options,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    query_methods!();

    async fn ask(&self, mut request: Request) -> Result<Answers> {
        let options = &self.inner.options;
        request.syncs = request.syncs.or(Some(options.syncs));
        request.is_canceled_on_drop |= options.cancel_on_drop;
        let now = Instant::now();
        let timeout = options.query_timeout.filter(|_| request.deadline.is_none());
        let Some(timeout) = timeout.map(|timeout| timeout.min(FOREVER)) else {
            return self.ask_in_time(request, now).await;
        };
        request.deadline = Some(now + timeout);
        let answers = self.ask_in_time(request, now).await;
        match outcome(&answers) {
            AcquireOutcome::GivenUp => Answers::naming_timeout(answers, timeout),
            _ => answers,
        }
    }

    async fn ask_in_time(&self, request: Request, now: Instant) -> Result<Answers> {
        let deadline = request.deadline;
        let until = self.inner.until(now);
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        if let Goal::Script { .. } = request.goal {
            // It may leave a transaction open, or change the session.
            let token = request.cancel.as_ref();
            let lock = self.lock_until(until, deadline, token).await?;
            return lock.script(request).await.map(Answers::from);
        }
        let mut request = request.shared();
        loop {
            let token = request.cancel.as_ref();
            let acquired = self.acquire(Usage::Shared, until, deadline, token).await;
            let (slot_id, connection) = acquired?;
            let mut lease = Lease {
                inner: &self.inner,
                slot_id,
                outcome: AcquireOutcome::GivenUp,
            };
            // The task of a shared connection takes a request as soon as it runs. On the same
            // runtime it does run, so its driver enforces the deadline and no timer is needed here,
            // except after a dropped lock that has requests in flight.
            let is_driven =
                Handle::try_current().is_ok_and(|here| here.id() == connection.runtime());
            request.clock = match is_driven && !connection.is_locked() {
                true => Clock::Driver,
                false => Clock::Caller,
            };
            let answers = connection.ask(request.clone()).await;
            lease.outcome = outcome(&answers);
            let Some(error) = unsent(&answers) else {
                return answers;
            };
            if !self.may_go_on(slot_id, &connection, error, until) {
                return answers;
            }
        }
    }

    /// Locks a connection for exclusive use: for transactions, COPY, and settings of a session. No
    /// other requests use it until the lock is dropped. It is an idle connection or a new one; if
    /// the limit is reached, one is reserved, which takes no new requests and is locked once it is
    /// idle.
    ///
    /// # Errors
    ///
    /// When none is available in time.
    pub async fn lock(&self) -> Result<PoolLock> {
        let until = self.inner.until(Instant::now());
        self.lock_until(until, None, None).await
    }

    async fn lock_until(
        &self,
        until: Instant,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> Result<PoolLock> {
        let timeout = self.inner.options.query_timeout;
        let timeout = timeout.map(|timeout| timeout.min(FOREVER));
        let release_timeout = self.inner.options.check_timeout.min(FOREVER);
        let cancel_on_drop = self.inner.options.cancel_on_drop;
        loop {
            let acquired = self.acquire(Usage::Exclusive, until, deadline, token).await;
            let (slot_id, connection) = acquired?;
            let returned = ReturnOnDrop::new(&self.inner, slot_id);
            // It is idle, so this only waits for its task.
            let locked = tokio::select! {
                biased;
                locked = connection.lock(timeout, release_timeout, cancel_on_drop) => locked,
                () = passed(Some(until)) => {
                    return Err(self.inner.refused(Refusal::Late, until, deadline));
                }
            };
            match locked {
                Ok(exclusive) => return Ok(PoolLock::new(exclusive, returned)),
                Err(error) if !self.may_go_on(slot_id, &connection, &error, until) => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// The current state and the counters of the pool.
    pub fn status(&self) -> PoolStatus {
        let (counts, totals, last_error) = self.inner.state.look();
        PoolStatus {
            open_error: self.inner.state.last_failure(),
            ..PoolStatus::new(&counts, &totals, last_error)
        }
    }

    /// Closes the pool: refuses new requests, fails those that wait for a connection, waits for the
    /// answers to those in flight, and closes the connections. This affects all handles of the
    /// pool. It waits until each [`PoolLock`] is dropped, and needs the connections' runtime to
    /// run.
    pub async fn close(&self) {
        self.inner.state.close(Instant::now());
        poll_fn(|cx| {
            let (closed, maintenance) = self.inner.state.poll_closed(cx);
            match self.inner.maintain(maintenance) {
                Ok(()) => closed,
                // The runtime of the connections has ended, and the connections with it.
                Err(_) => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Records a connection that was lost before anything was sent on it; returns whether there is
    /// time to try another.
    fn may_go_on(
        &self,
        slot_id: PoolSlotId,
        connection: &Connection,
        error: &Error,
        until: Instant,
    ) -> bool {
        let now = Instant::now();
        if connection.is_closed() {
            // Its task will report that, too, but possibly after the next request.
            let error = Some(error.clone());
            self.inner.state.ended(slot_id, error, jitter(), now);
        }
        now < until
    }

    async fn acquire(
        &self,
        usage: Usage,
        until: Instant,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> Result<(PoolSlotId, Connection)> {
        let inner = &self.inner;
        let (ask, maintenance) = inner.state.take(usage, until, Instant::now());
        let kept = inner.maintain(maintenance);
        let refusal = match ask {
            Acquisition::Ready(found) => return Ok(found),
            Acquisition::Wait(waiter) => {
                let waiter_state = WaiterState {
                    inner,
                    waiter,
                    usage,
                };
                kept?;
                // The pool's own task does this, unless its runtime is not driven.
                let served = tokio::select! {
                    biased;
                    served = waiter_state => served?,
                    () = CancelToken::canceled_of(token) => return Err(Error::canceled(Sent::Nothing)),
                    () = passed(Some(until + MAINTENANCE_DELAY_MAX)) => Err(Refusal::Late),
                };
                match served {
                    Ok(found) => return Ok(found),
                    Err(refusal) => refusal,
                }
            }
            Acquisition::Refused(refusal) => refusal,
        };
        Err(inner.refused(refusal, until, deadline))
    }
}

impl Sealed for Pool {}

impl Queryable for Pool {
    async fn answers(&self, request: Request) -> Result<Answers> {
        self.ask(request).await
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.status()).finish()
    }
}

impl Inner {
    /// Spawns the maintenance task if there is none.
    fn maintain(self: &Arc<Self>, maintenance: Maintenance) -> Result<()> {
        match maintenance {
            Maintenance::Running => {}
            Maintenance::Missing => {
                tokio::spawn(maintenance::maintain(Arc::downgrade(self)));
            }
            Maintenance::NoRuntime => return Err(Error::no_runtime()),
        }
        Ok(())
    }

    /// The deadline for a new request's wait for a connection.
    fn until(&self, now: Instant) -> Instant {
        now + self.options.acquire_timeout.min(FOREVER)
    }

    fn refused(&self, refusal: Refusal, until: Instant, deadline: Option<Instant>) -> Error {
        match refusal {
            Refusal::Closed => Error::pool_closed(),
            Refusal::Late if deadline == Some(until) => Error::deadline(Sent::Nothing),
            Refusal::Late => {
                let counts = self.state.look().0;
                let is_first = counts.open + counts.locked == 0 && counts.opening > 0;
                let unanswered = || is_first.then(Error::not_opened);
                let why = self.state.last_failure().or_else(unanswered);
                Error::no_connection(self.options.acquire_timeout, why)
            }
            Refusal::Failed => {
                let error = self.state.last_refusal();
                error.expect("a refusal that lasts has its reason")
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.state.wake_maintenance();
    }
}

/// A lease of a shared connection, until the request is over.
struct Lease<'a> {
    inner: &'a Inner,
    slot_id: PoolSlotId,
    outcome: AcquireOutcome,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        self.inner.state.give_back(self.slot_id, self.outcome, now);
    }
}

/// A waiter for a connection.
struct WaiterState<'a> {
    inner: &'a Arc<Inner>,
    waiter: Waiter,
    usage: Usage,
}

impl Future for WaiterState<'_> {
    type Output = Result<Acquired<Connection>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (answer, maintenance) = self.inner.state.poll_waiter(self.waiter, cx);
        match (answer, self.inner.maintain(maintenance)) {
            (Poll::Ready(served), _) => Poll::Ready(Ok(served)),
            (Poll::Pending, kept) => {
                kept.map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending)
            }
        }
    }
}

impl Drop for WaiterState<'_> {
    fn drop(&mut self) {
        let state = &self.inner.state;
        state.leave(self.waiter, self.usage, Instant::now());
    }
}

/// Whether the server may still execute a request that has its answers.
fn outcome(answers: &Result<Answers>) -> AcquireOutcome {
    // Even if the query was not sent: the Prepare of its statement may be in flight.
    let is_late = |error: &Error| matches!(error.kind(), ErrorKind::Deadline | ErrorKind::Canceled);
    let is_given_up = match answers {
        Ok(answers) => answers
            .iter()
            .any(|answer| answer.as_ref().is_err_and(is_late)),
        Err(error) => is_late(error),
    };
    if is_given_up {
        AcquireOutcome::GivenUp
    } else {
        AcquireOutcome::Answered
    }
}

/// The error, if nothing of the request was sent and another connection may succeed.
fn unsent(answers: &Result<Answers>) -> Option<&Error> {
    let is_unsent = |error: &&Error| error.is_connection_lost() && error.is_retryable();
    match answers {
        Ok(answers) => {
            let mut errors = answers.iter().map(|answer| answer.as_ref().err());
            let first = errors.next()??;
            let is_all = errors.all(|error| error.as_ref().is_some_and(is_unsent));
            Some(first).filter(is_unsent).filter(|_| is_all)
        }
        Err(error) => Some(error).filter(is_unsent),
    }
}
