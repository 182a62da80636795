//! The tasks of a pool: the maintenance task, and one for each connection.
//!
//! They only hold weak references to the pool. When the last handle of a pool is dropped, the
//! maintenance task ends, and with it the connections' tasks and the connections.

use std::future::{Future as _, poll_fn};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::sleep_until;

use super::Inner;
use super::connection::Connection;
use super::planner::{Failure, PoolSlotId};
use super::state::MaintenanceJob;
use crate::jitter::jitter;
use crate::{Answers, Error, ErrorKind, Request};

/// Runs the jobs of the pool's state, as long as the pool and this runtime exist.
pub(super) async fn maintain(pool: Weak<Inner>) {
    let notice = EndNotice(pool);
    let pool = &notice.0;
    // Dropping or using the sender of a slot ends its connection.
    let mut enders: Vec<Option<oneshot::Sender<()>>> = Vec::new();
    loop {
        match next_job(pool).await {
            MaintenanceJob::Open(slot_id) => {
                let (ender, end) = oneshot::channel();
                if enders.len() <= slot_id.index {
                    enders.resize_with(slot_id.index + 1, || None);
                }
                enders[slot_id.index] = Some(ender);
                let leaving = Leaving(pool.clone(), slot_id);
                tokio::spawn(live(leaving, end));
            }
            MaintenanceJob::Check(slot_id, connection) => {
                tokio::spawn(check(pool.clone(), slot_id, connection));
            }
            MaintenanceJob::Abort(slot_id) => {
                let ender = enders.get_mut(slot_id.index).and_then(Option::take);
                // The connection may have ended by itself.
                ender.map(|ender| ender.send(()));
            }
            MaintenanceJob::Sleep(_) | MaintenanceJob::End => return,
        }
    }
}

/// The next job, or the end.
async fn next_job(pool: &Weak<Inner>) -> MaintenanceJob<Connection> {
    let mut alarm = None;
    poll_fn(|cx| {
        let Some(inner) = pool.upgrade() else {
            return Poll::Ready(MaintenanceJob::End);
        };
        loop {
            let deadline = match inner.state.next_job(cx, Instant::now()) {
                MaintenanceJob::Sleep(None) => return Poll::Pending,
                MaintenanceJob::Sleep(Some(deadline)) => deadline,
                job => return Poll::Ready(job),
            };
            let alarm = alarm.insert(Box::pin(sleep_until(deadline.into())));
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Opens a connection and waits for its end.
async fn live(leaving: Leaving, mut end: oneshot::Receiver<()>) {
    let Leaving(pool, slot_id) = &leaving;
    let Some(connector) = pool.upgrade().map(|inner| Arc::clone(&inner.connector)) else {
        return;
    };
    let connected = tokio::select! {
        biased;
        _ = &mut end => return,
        connected = connector.connect() => connected,
    };
    let Some(inner) = pool.upgrade() else { return };
    let now = Instant::now();
    let mut watch = match connected {
        Ok((connection, watch)) => {
            let round_trip = watch.round_trip();
            inner
                .state
                .opened(*slot_id, connection, round_trip, jitter(), now);
            watch
        }
        Err(error) => {
            let why = if error.is_unreachable() {
                Failure::Unreachable
            } else if error.is_retryable() || error.is_connection_lost() {
                Failure::Passing
            } else {
                Failure::Lasting
            };
            return inner.state.open_failed(*slot_id, why, error, jitter(), now);
        }
    };
    drop(inner);
    let error = tokio::select! {
        biased;
        ended = &mut end => {
            if ended.is_err() {
                // The pool is gone, and with it all handles of the connection.
                return;
            }
            watch.abort();
            return watch.ended().await;
        }
        () = watch.ended() => watch.error(),
    };
    // A connection that was closed on purpose was not lost.
    let error = error.filter(|error| error.kind() != ErrorKind::Closed);
    leaving.leave(error);
}

/// Sends a short query after all requests in flight.
async fn check(pool: Weak<Inner>, slot_id: PoolSlotId, connection: Connection) {
    let answers = connection.ask(Request::new("select 1", &[])).await;
    let answer = answers.and_then(Answers::into_one);
    let is_lost = answer.is_err_and(|error| error.is_connection_lost());
    // Any answer of the server is a sign of life. The end of the connection is handled by its own
    // task.
    if let Some(inner) = pool.upgrade().filter(|_| !is_lost) {
        inner.state.checked(slot_id, Instant::now());
    }
}

/// Notifies the pool that the maintenance task has ended, also if its runtime ends.
struct EndNotice(Weak<Inner>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.state.maintenance_ended();
        }
    }
}

/// Notifies the pool that a connection has ended, also if its runtime ends.
struct Leaving(Weak<Inner>, PoolSlotId);

impl Leaving {
    fn leave(&self, error: Option<Error>) {
        if let Some(inner) = self.0.upgrade() {
            inner.state.ended(self.1, error, jitter(), Instant::now());
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // Ignored if it was reported before.
        self.leave(None);
    }
}
