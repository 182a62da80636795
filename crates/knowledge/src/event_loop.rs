//! Queries on the caller's event loop: the loop sends them on connections that it drives itself;
//! other threads are involved only when one of them is already querying the answer.

mod connections;
mod notify;

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, Stream as _};
use hashbrown::HashMap;
use lookaside_value::{Extent, RowSet, Value};

use self::connections::Connections;
use self::notify::Notify;
use crate::Result;
use crate::freshness::Freshness;
use crate::provenance::Provenance;
use crate::session::{Backend, Session};
use crate::statement::{Query, Statement};

/// The result of a query: its answer, or the payload of its panic, as
/// [`JoinHandle::join`](std::thread::JoinHandle::join) returns it.
pub type QueryResult = std::result::Result<Result<(RowSet, Provenance)>, Box<dyn Any + Send>>;

/// The greatest size of the future of a query: it is moved into its box for each query. It was
/// 22 KiB once, and the copies took 7 % of a server's CPU time.
const FUTURE_SIZE_MAX: usize = 4096;

type Running = Pin<Box<dyn Future<Output = (u64, QueryResult)>>>;

/// Queries to providers on the event loop of the calling thread.
///
/// The caches, the single flight for each key and the stale answers are shared with all other
/// callers. Only the connections differ: the loop has its own pipelined connections, taken from the
/// provider's pool and counted in its `pool_size`, and sends the queries begun between two turns in
/// one write. A query for which there is no connection, or all are busy, uses the pool.
///
/// The owner watches [`as_fd`](AsFd::as_fd), level-triggered, for reading. Whenever it is ready,
/// the waker was called, queries were [begun](Self::begin) or the [`deadline`](Self::deadline) has
/// passed, it calls [`turn`](Self::turn) and receives the answers. No function blocks.
///
/// `T` is the owner's data for a query, returned with its answer.
///
/// ```no_run
/// use std::os::fd::AsFd as _;
/// use std::time::Instant;
///
/// use lookaside_knowledge::{EventLoop, Extent, Freshness, Knowledge, Value};
/// use rustix::event::{PollFd, PollFlags, poll};
///
/// let knowledge = Knowledge::open("shop")?;
/// let statement = knowledge.prepare("select name from pg.goods where id = :id")?;
/// let mut session = knowledge.session();
/// let owner = std::thread::current();
/// let mut event_loop = EventLoop::new(1, move || owner.unpark())?;
/// let id = [Value::Int(7)];
/// event_loop
///     .begin("request 1", &mut session, &statement, &id, Extent::First, Freshness::default())
///     .expect("a provider answers it");
/// // In the owner's loop, beside its other descriptors and timers:
/// let fd = event_loop.as_fd();
/// let is_ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)? > 0;
/// event_loop.turn(Instant::now(), is_ready, |request, result| match result {
///     Ok(Ok((rows, _))) => println!("{request}: {:?}", rows.first()),
///     Ok(Err(error)) => println!("{request}: {error}"),
///     Err(_) => println!("{request}: the query panicked"),
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoop<T> {
    connections: Rc<Connections>,
    running: FuturesUnordered<Running>,
    waiting: HashMap<u64, T, foldhash::fast::RandomState>,
    begun_count: u64,
    notify: Arc<Notify>,
    waker: Waker,
}

impl<T> EventLoop<T> {
    /// Creates a loop for this thread. It uses up to 1/`thread_count` of the connections to each
    /// provider that callers may drive, and at least one; `wake` is called on other threads when a
    /// turn is due.
    ///
    /// # Errors
    /// When no epoll instance can be created.
    pub fn new(thread_count: usize, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let notify = Arc::new(Notify::new(wake));
        Ok(Self {
            connections: Rc::new(Connections::new(thread_count)?),
            running: FuturesUnordered::new(),
            waiting: HashMap::default(),
            begun_count: 0,
            waker: Arc::clone(&notify).into(),
            notify,
        })
    }

    /// Begins a query; it is sent in the next [`turn`](Self::turn), which is due at once.
    /// `freshness` is as in [`Session::try_local`], which should be called first.
    ///
    /// Returns `user_data` if it is not known whether a provider answers the statement, or if the
    /// parameters do not fit it: use [`Knowledge::answer_async`](crate::Knowledge::answer_async)
    /// then.
    pub fn begin(
        &mut self,
        user_data: T,
        session: &mut Session,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        freshness: Freshness,
    ) -> std::result::Result<(), T> {
        let Ok(Backend::Provider(query)) = session.backend(Query::Statement(statement)) else {
            return Err(user_data);
        };
        if statement.0.check_count(params.len()).is_err() {
            return Err(user_data);
        }
        let (engine, transport) = (session.engine(), Rc::clone(&self.connections));
        let params = params.to_vec();
        let number = self.begun_count;
        let answer = async move {
            query
                .answer(&engine, &params, extent, freshness, &transport)
                .await
        };
        // A panic affects its query only, which is dropped with its state.
        let answer = AssertUnwindSafe(answer).catch_unwind();
        debug_assert!(
            size_of_val(&answer) <= FUTURE_SIZE_MAX,
            "a large future is copied for each query"
        );
        self.running
            .push(Box::pin(answer.map(move |answered| (number, answered))));
        self.waiting.insert(number, user_data);
        self.begun_count += 1;
        self.notify.set();
        Ok(())
    }

    /// Makes all progress that is possible without waiting, and passes the answers to `answered`.
    /// It reads from connections if `is_ready`, that is, if the descriptor is ready.
    pub fn turn(&mut self, now: Instant, is_ready: bool, mut answered: impl FnMut(T, QueryResult)) {
        let mut cx = Context::from_waker(&self.waker);
        if is_ready {
            self.connections.receive(now);
        }
        loop {
            self.notify.take();
            while let Poll::Ready(Some((number, answer))) =
                Pin::new(&mut self.running).poll_next(&mut cx)
            {
                // It is missing if it was cancelled.
                if let Some(user_data) = self.waiting.remove(&number) {
                    answered(user_data, answer);
                }
            }
            self.connections.send(now);
            if !self.notify.is_set() {
                break;
            }
        }
    }

    /// When a turn is due even if nothing else happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.connections.deadline()
    }

    /// Whether a turn is due although the descriptor is not ready. The owner must check this before
    /// it waits: it is not woken for what its own thread does.
    pub fn is_due(&self) -> bool {
        self.notify.is_set()
    }

    /// Cancels all queries and returns their user data.
    pub fn cancel_all(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        self.running.clear();
        self.waiting.drain().map(|(_, user_data)| user_data)
    }
}

impl<T> AsFd for EventLoop<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connections.as_fd()
    }
}

impl<T> fmt::Debug for EventLoop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop")
            .field("waiting_count", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
