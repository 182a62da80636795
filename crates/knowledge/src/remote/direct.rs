//! Connections that callers drive themselves, without another thread between a query and its
//! socket.
//!
//! They are at most half of the connections of the provider's pool, so that the others are left to
//! callers that cannot drive one, and all count against `pool_size`. A caller uses one only if it
//! is available and can take the query; in any other case, also if the server is unavailable, its
//! query goes to the pool, which waits, reports errors and reconnects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use lookaside_client::{Answer, PolledConnection, Pool, Request, Result, Ticket};

use crate::cancel::{CANCEL_CHECK_INTERVAL, CancelHandle};
use crate::runtime::Runtime;

/// The number of queries that go to the pool before the first direct connection is opened: a
/// program with only a few queries needs none.
const POOLED_QUERY_COUNT: u32 = 8;

/// The delay before the next attempt after a connection could not be opened.
const OPEN_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long a server may take to end an abandoned query before its connection is closed. Shorter
/// than that of an event loop's connection: there is one query, and the caller's thread is blocked
/// meanwhile.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(1);

/// How often idle connections are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The connections of one provider that callers drive.
pub(crate) struct DirectConnections {
    limits: Limits,
    state: Mutex<State>,
    /// Whether no connection may be used any more. Written under the lock.
    is_closed: AtomicBool,
}

/// Limits of the connections that callers drive; see
/// [`PoolOptions`](lookaside_client::PoolOptions).
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) count_max: usize,
    /// The most requests in flight on one connection.
    pub(crate) depth: usize,
    pub(crate) stall: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) lifetime_max: Option<Duration>,
}

#[derive(Default)]
struct State {
    /// The idle connections, with the one used last at the end.
    idle: Vec<Direct>,
    /// The number of connections that are idle, in use, or being opened.
    count: usize,
    /// The number of queries that found no connection, up to [`POOLED_QUERY_COUNT`].
    pooled_count: u32,
    /// No connection is opened before this time.
    retry_at: Option<Instant>,
    is_swept: bool,
}

/// A connection that its holder drives.
pub(crate) struct Direct {
    pub(crate) connection: PolledConnection,
    opened_at: Instant,
    pub(crate) used_at: Instant,
    _counted: Counted,
}

/// Counts a connection; dropping it decrements the count.
struct Counted(Weak<DirectConnections>);

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(connections) = self.0.upgrade() {
            let mut state = connections.state();
            state.count -= 1;
            if state.count == 0 {
                // Queries have become rare.
                state.pooled_count = 0;
            }
        }
    }
}

impl Limits {
    fn is_expired(&self, direct: &Direct, now: Instant) -> bool {
        let passed = |since: Instant, limit: Option<Duration>| {
            limit.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
        };
        passed(direct.used_at, self.idle_timeout) || passed(direct.opened_at, self.lifetime_max)
    }
}

impl DirectConnections {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Takes an idle connection.
    pub(crate) fn take(&self) -> Option<Direct> {
        let now = Instant::now();
        loop {
            // The lock is released before a connection is closed.
            let direct = self.state().idle.pop()?;
            if !self.is_expired(&direct, now) {
                return Some(direct);
            }
        }
    }

    /// Returns a connection for the next caller, if it is still usable.
    pub(crate) fn put(&self, mut direct: Direct) {
        direct.used_at = Instant::now();
        if direct.connection.end().is_some() || !direct.connection.is_idle() {
            return;
        }
        let mut state = self.state();
        if !self.is_closed() {
            state.idle.push(direct);
        }
    }

    /// Whether a connection has been open, or idle, for too long.
    pub(crate) fn is_expired(&self, direct: &Direct, now: Instant) -> bool {
        self.limits.is_expired(direct, now)
    }

    /// Whether no connection may be used any more.
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: using a connection a little longer does no harm, and `put` takes the lock.
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// When an unused connection expires, by its age or its idle time.
    pub(crate) fn expires(&self, direct: &Direct) -> Option<Instant> {
        let idle = self.limits.idle_timeout.map(|limit| direct.used_at + limit);
        let old = self
            .limits
            .lifetime_max
            .map(|limit| direct.opened_at + limit);
        [idle, old].into_iter().flatten().min()
    }

    /// Closes idle connections, and those in use when they are returned.
    pub(super) fn close(&self) {
        let mut state = self.state();
        self.is_closed.store(true, Ordering::Relaxed);
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(idle);
    }

    /// Starts to open a connection for later callers, if the limit allows it. Does not block.
    pub(super) fn open(self: &Arc<Self>, pool: &Pool, runtime: &Runtime) {
        if !self.reserve() {
            return;
        }
        let connections = Arc::downgrade(self);
        let counted = Counted(connections.clone());
        let pool = pool.clone();
        runtime.start_task(async move {
            let opened = match pool.lock().await {
                Ok(lock) => lock.into_polled().await,
                Err(error) => Err(error),
            };
            drop(pool);
            keep(&connections, opened, counted);
            sweep(connections).await;
        });
    }

    /// Counts a connection that is to be opened, if the limit allows it.
    fn reserve(&self) -> bool {
        let mut state = self.state();
        if state.count >= self.limits.count_max || self.is_closed() {
            return false;
        }
        if state.pooled_count < POOLED_QUERY_COUNT {
            state.pooled_count += 1;
            return false;
        }
        if state.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        state.count += 1;
        true
    }

    /// A panic cannot leave the state inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores a connection that was opened, or records that it could not be.
fn keep(connections: &Weak<DirectConnections>, opened: Result<PolledConnection>, counted: Counted) {
    let Some(connections) = connections.upgrade() else {
        return;
    };
    let now = Instant::now();
    match opened {
        Ok(connection) => connections.put(Direct {
            connection,
            opened_at: now,
            used_at: now,
            _counted: counted,
        }),
        // The reason is reported by queries that go to the pool.
        Err(_) => connections.state().retry_at = Some(now + OPEN_RETRY_INTERVAL),
    }
}

/// Closes expired idle connections, for as long as there are connections.
async fn sweep(connections: Weak<DirectConnections>) {
    match connections.upgrade() {
        Some(connections) if !std::mem::replace(&mut connections.state().is_swept, true) => {}
        _ => return,
    }
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(connections) = connections.upgrade() else {
            return;
        };
        let now = Instant::now();
        let mut state = connections.state();
        let limits = connections.limits;
        let expired: Vec<_> = (state.idle)
            .extract_if(.., |direct| limits.is_expired(direct, now))
            .collect();
        // The connections that are dropped now are still counted until then.
        let is_last = state.count == expired.len();
        state.is_swept = !is_last;
        drop(state);
        drop(expired);
        if is_last {
            return;
        }
    }
}

impl Direct {
    /// Sends a request and waits for its answers on this thread; `None` if the caller cancels.
    pub(super) fn request(
        &mut self,
        request: Request,
        cancel: &CancelHandle,
    ) -> Option<Result<Vec<Result<Answer>>>> {
        let ticket = match self.connection.submit(request) {
            Ok(ticket) => ticket,
            Err(error) => return Some(Err(error)),
        };
        let mut now = Instant::now();
        self.connection.flush(now);
        loop {
            if let Some(answers) = self.answers(ticket) {
                if !self.connection.is_idle() {
                    // The request timed out, but the server works on it until it is cancelled.
                    self.wait_for_abandoned();
                }
                return Some(Ok(answers));
            }
            if cancel.is_cancelled() {
                self.connection.cancel(ticket);
                self.wait_for_abandoned();
                return None;
            }
            let next = now + CANCEL_CHECK_INTERVAL;
            let deadline = self.connection.deadline();
            let until = deadline.map_or(next, |deadline| deadline.min(next));
            // If waiting for the socket fails, the turn notices it, and the
            // connection ends with the reason.
            let _ = self.connection.wait(Some(until));
            now = Instant::now();
            self.connection.turn(now);
        }
    }

    fn answers(&mut self, ticket: Ticket) -> Option<Vec<Result<Answer>>> {
        // There are no other requests, except abandoned ones.
        std::iter::from_fn(|| self.connection.next_reply())
            .find(|reply| reply.ticket == ticket)
            .map(|reply| reply.answers.into_vec())
    }

    /// Waits a limited time until the server has ended abandoned queries.
    fn wait_for_abandoned(&mut self) {
        let end = Instant::now() + ABANDONED_TIMEOUT;
        loop {
            let now = Instant::now();
            self.connection.turn(now);
            while self.connection.next_reply().is_some() {}
            if self.connection.is_idle() || self.connection.end().is_some() || now >= end {
                return;
            }
            let deadline = self.connection.deadline();
            let until = deadline.map_or(end, |deadline| deadline.min(end));
            let _ = self.connection.wait(Some(until));
        }
    }
}
