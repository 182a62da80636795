//! The same answers for async callers, with any executor and with none.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use lookaside_knowledge::{CallCache, Knowledge, Policy, Value, params};

use crate::folder::{folder, rows};

const NATIVE: &str = "select generation from t where id = :id";
const SQLITE: &str = "select generation from t where id + 0 = :id";

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor, without a runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn answers_are_those_of_the_blocking_functions() {
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    for sql in [NATIVE, SQLITE] {
        for id in [1, 9, 1] {
            let named = params! {"id" => id};
            let first = block_on(knowledge.query_first_async(sql, &named)).unwrap();
            assert_eq!(first, knowledge.query_first(sql, &named).unwrap());
            let all = block_on(knowledge.query_all_async(sql, &named)).unwrap();
            assert_eq!(all, knowledge.query_all(sql, &named).unwrap());
        }
        let error = block_on(knowledge.query_first_async(sql, &params! {"x" => 1})).unwrap_err();
        assert!(error.to_string().contains("`x`"), "{error}");
    }
    assert!(block_on(knowledge.query_all_async("select", ())).is_err());
}

#[test]
fn what_is_at_hand_is_answered_at_the_first_poll() {
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let statements = [NATIVE, SQLITE].map(|sql| knowledge.prepare(sql).unwrap());
    let id = [Value::Int(2)];
    for statement in &statements {
        knowledge.query_first(statement, &id).unwrap();
        let mut future = pin!(knowledge.query_first_async(statement, &id));
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(Some(_)))));
    }
}

#[test]
fn a_callers_cache_comes_back_filled() {
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let mut own = CallCache::with_capacity(7);
    for hits in 0..3 {
        let policy = Policy::CallScope(&mut own);
        let named = params! {"id" => 1};
        let row = block_on(knowledge.query_first_async_with(SQLITE, &named, policy)).unwrap();
        assert_eq!(row.unwrap()[0], Value::Int(7));
        assert_eq!(knowledge.snapshot().counts.call_hits, hits);
    }
    assert_eq!((own.len(), own.capacity()), (1, 7));
}

#[test]
fn a_future_may_be_dropped_while_it_waits() {
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let mut own = CallCache::with_capacity(7);
    for id in 0..100 {
        let named = params! {"id" => id};
        let policy = Policy::CallScope(&mut own);
        let mut future = pin!(knowledge.query_first_async_with(SQLITE, &named, policy));
        // Its thread continues, or ends before this; in both cases the caller may be gone.
        let _ = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }
    let row = knowledge.query_first(SQLITE, &params! {"id" => 1}).unwrap();
    assert_eq!(row.unwrap()[0], Value::Int(7));
    assert_eq!(own.capacity(), 7);
    // Sessions that were dropped with their futures are not counted; idle ones are.
    let at_rest = 8 * thread::available_parallelism().unwrap().get();
    while knowledge.snapshot().session_count > at_rest {
        thread::yield_now();
    }
}

#[test]
fn futures_move_between_threads() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let folder = folder("", &rows(3, 7));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let mut own = CallCache::new();
    let policy = Policy::CallScope(&mut own);
    let future = is_send(knowledge.query_all_async_with(SQLITE, &[Value::Int(1)], policy));
    let row_count = thread::scope(|scope| scope.spawn(|| block_on(future)).join().unwrap());
    assert_eq!(row_count.unwrap().len(), 1);
}
