//! The api that tasks share.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lookaside_client::postgres::{Client, Options};
use lookaside_client::{
    Answer, CancelToken, Config, Driver, Environment, Error, ErrorKind, Pool, PoolOptions, Request,
    Result, Syncs, TransactionOptions,
};
use lookaside_embedded::Postgres;
use lookaside_testing::wait_until_async;
use lookaside_value::{ParamBatch, Value};
use tokio::task::JoinHandle;

use super::{config, database, databases, shown};

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(super) async fn connect(postgres: &Postgres) -> Client {
    let config = config(&postgres.url());
    Client::connect_with(&config, Options::default())
        .await
        .unwrap()
}

#[test]
fn ten_thousand_answers_reach_their_tasks() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let tasks: Vec<_> = (0..10_000)
                .map(|tag| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        // Errors and statements of different callers among them.
                        let sql = match tag % 10 {
                            0 => "select 10 / ($1::int8 - $1::int8)",
                            1 => "select $1::int8, repeat('x', 3000)",
                            _ => "select $1::int8",
                        };
                        let answer = client.query(sql, &[Value::Int(tag)]).await;
                        match tag % 10 {
                            0 => assert_eq!(shown(&answer), "22012"),
                            _ => assert_eq!(answer.unwrap().rows.row(0)[0], Value::Int(tag)),
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn a_large_flight_blocks_neither_side() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let mut params = ParamBatch::new(2);
            for tag in 0..2_000 {
                params.push([Value::Int(tag), Value::from("x".repeat(5_000))]);
            }
            let sql = "select $1::int8, repeat($2, 3)";
            let answers = client.query_many(sql, params, Syncs::Shared).await.unwrap();
            for (tag, answer) in (0..).zip(answers) {
                assert_eq!(answer.unwrap().rows.row(0)[0], Value::Int(tag));
            }
        });
    }
}

#[test]
fn statements_are_described() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let description = client.describe("select $1::int8 as n").await.unwrap();
            assert_eq!(description.columns[..], ["n"]);
            assert_eq!(description.parameter_types[..], ["int8"]);
        });
    }
}

#[test]
fn dropped_futures_cost_a_discarded_answer() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            for tag in 0..1_000 {
                {
                    let mut future = pin!(client.query("select $1::int8", &[Value::Int(-1)]));
                    let mut cx = Context::from_waker(Waker::noop());
                    // It may even be done already.
                    let _: Poll<_> = future.as_mut().poll(&mut cx);
                }
                if tag % 10 == 0 {
                    let answer = client.query("select $1::int8", &[Value::Int(tag)]).await;
                    assert_eq!(shown(&answer), tag.to_string());
                }
            }
        });
    }
}

#[test]
fn a_deadline_hits_only_its_own_query() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let started = Instant::now();
            let sleep = Request::new("select pg_sleep(600)", &[]);
            let sleep = sleep.deadline(started + Duration::from_millis(50));
            let late = client.request(sleep);
            let others = async {
                for tag in 0..100 {
                    let answer = client.query("select $1::int8", &[Value::Int(tag)]).await;
                    assert_eq!(shown(&answer), tag.to_string());
                }
            };
            let (late, ()) = tokio::join!(late, others);
            let error = late.unwrap().pop().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline);
            assert!(started.elapsed() < Duration::from_secs(120));
        });
    }
}

#[test]
fn a_killed_server_fails_everybody() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    block_on(async {
        let client = connect(&postgres).await;
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    loop {
                        if let Err(error) = client.query("select 7", &[]).await {
                            return error;
                        }
                    }
                })
            })
            .collect();
        client.query("select 7", &[]).await.unwrap();
        tokio::task::spawn_blocking(|| postgres.close().unwrap())
            .await
            .unwrap();
        for task in tasks {
            let error: Error = task.await.unwrap();
            assert!(error.is_connection_lost(), "{error:?}");
        }
        assert!(client.is_closed());
        let error = client.query("select 7", &[]).await.unwrap_err();
        assert!(error.is_connection_lost());
        assert!(error.is_retryable());
    });
}

#[test]
fn the_last_handle_ends_the_session() {
    for postgres in databases() {
        block_on(async {
            let client = connect(&postgres).await;
            let other = connect(&postgres).await;
            let answer = client.query("select pg_backend_pid()", &[]).await;
            let process = answer.unwrap().rows.row(0)[0].clone();
            drop(client);
            let sql = "select count(*) from pg_stat_activity where pid = $1";
            let started = Instant::now();
            while shown(&other.query(sql, std::slice::from_ref(&process)).await) != "0" {
                assert!(started.elapsed() < Duration::from_secs(120));
            }
        });
    }
}

/// A lock is wanted and waits for the query before it, which only a cancellation ends.
#[test]
fn a_cancellation_does_not_wait_behind_a_lock() {
    for postgres in databases() {
        block_on(async {
            let (client, other) = (connect(&postgres).await, connect(&postgres).await);
            let token = CancelToken::new();
            let slow = Request::new("select pg_sleep(100000)", &[]);
            let requests = [slow.clone().cancel_token(&token), slow.cancel_on_drop()];
            let cancels: [fn(&CancelToken, &JoinHandle<_>); 2] =
                [|token, _| token.cancel(), |_, asked| asked.abort()];
            for (request, cancel) in requests.into_iter().zip(cancels) {
                let asked = tokio::spawn({
                    let client = client.clone();
                    async move { client.request(request).await }
                });
                let sql = "select count(*) from pg_stat_activity where state = 'active' \
                           and datname = current_database() \
                           and query like 'select pg_sleep%' and pid <> pg_backend_pid()";
                wait_until_async("the query runs", async || {
                    shown(&other.query(sql, &[]).await) == "1"
                })
                .await;
                let mut lock = pin!(client.lock());
                let waits = tokio::time::timeout(Duration::from_millis(100), lock.as_mut()).await;
                assert!(waits.is_err());
                cancel(&token, &asked);
                let locked = tokio::time::timeout(Duration::from_secs(120), lock).await;
                let lock = locked.expect("an end to the query").unwrap();
                assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
            }
        });
    }
}

/// Waits for a future on a thread that has no runtime.
pub(super) fn wait_outside<T>(future: impl Future<Output = T>) -> T {
    struct Thread(std::thread::Thread);
    impl std::task::Wake for Thread {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
    let mut future = pin!(future);
    let started = Instant::now();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(1)),
        }
        assert!(started.elapsed() < Duration::from_secs(120), "no end");
    }
}

#[test]
fn outside_of_a_runtime_connections_can_be_used_and_not_opened() {
    for postgres in databases().into_iter().take(1) {
        let config = config(&postgres.url());
        let connected = wait_outside(Client::connect_with(&config, Options::default()));
        let is_told = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
            assert!(
                error.to_string().contains("requires a tokio runtime"),
                "{error}"
            );
        };
        is_told(connected.map(drop).unwrap_err());
        let pool = Pool::new(Config::Postgres(config), PoolOptions::default());
        is_told(wait_outside(pool.query("select 1", &[])).unwrap_err());
        is_told(wait_outside(pool.lock()).map(drop).unwrap_err());
        wait_outside(Pool::close(&pool.clone()));
        let pool = Pool::new(
            Config::parse(&postgres.url(), &Environment::empty()).unwrap(),
            PoolOptions::default(),
        );
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(connect(&postgres));
        runtime.block_on(pool.query("select 1", &[])).unwrap();
        wait_outside(use_all(&client, &pool));
        let timeless = tokio::runtime::Builder::new_current_thread().build();
        timeless.unwrap().block_on(use_all(&client, &pool));
        drop(runtime);
        is_told(wait_outside(pool.query("select 1", &[])).unwrap_err());
        let error = wait_outside(client.query("select 1", &[])).unwrap_err();
        assert!(error.is_connection_lost(), "{error:?}");
    }
}

/// The connections' runtime exists and does not run.
#[test]
fn waits_outside_of_a_runtime_end() {
    for postgres in databases().into_iter().take(1) {
        let options = PoolOptions {
            connection_count_max: 2,
            acquire_timeout: Duration::from_secs(2),
            query_timeout: Some(Duration::from_secs(1)),
            ..PoolOptions::default()
        };
        let pool = Pool::new(Config::Postgres(config(&postgres.url())), options);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.unwrap();
        // As often as a busy machine takes longer.
        let lock = runtime.block_on(async {
            loop {
                if let Ok(lock) = pool.lock().await
                    && pool.query("select 7", &[]).await.is_ok()
                {
                    return lock;
                }
            }
        });
        let is_late = |error: Error| assert_eq!(error.kind(), ErrorKind::Deadline, "{error:?}");
        is_late(wait_outside(pool.query("select 7", &[])).unwrap_err());
        is_late(wait_outside(lock.query("select 7", &[])).unwrap_err());
        let error = wait_outside(pool.lock()).map(drop).unwrap_err();
        assert!(
            error.to_string().contains("`PoolOptions::acquire_timeout`"),
            "{error}"
        );
        runtime.block_on(async { while pool.query("select 7", &[]).await.is_err() {} });
    }
}

/// What uses timers.
async fn use_all(client: &Client, pool: &Pool) {
    let seven =
        || Request::new("select 7", &[]).deadline(Instant::now() + Duration::from_secs(600));
    assert_eq!(shown(&client.request(seven()).await.unwrap()[0]), "7");
    let request = seven().cancel_on_drop().cancel_token(&CancelToken::new());
    assert_eq!(shown(&client.request(request).await.unwrap()[0]), "7");
    let slow = Request::new("select pg_sleep(100000)", &[]);
    let late = slow
        .clone()
        .deadline(Instant::now() + Duration::from_millis(50));
    let error = client
        .request(late)
        .await
        .unwrap()
        .pop()
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    let token = CancelToken::new();
    token.cancel();
    let error = client.request(slow.cancel_token(&token)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Canceled);
    let mut lock = client.lock().await.unwrap();
    let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
    transaction.commit().await.unwrap();
    drop(lock);
    assert_eq!(shown(&pool.request(seven()).await.unwrap()[0]), "7");
    pool.request(Request::script("select 1; select 2", 10))
        .await
        .unwrap();
    let mut locks = Vec::new();
    for _ in 0..3 {
        locks.push(pool.lock().await.unwrap());
    }
    for mut lock in locks {
        assert_eq!(shown(&lock.query("select 7", &[]).await), "7");
        lock.reset().await.unwrap();
        let postgres = lock.as_postgres().unwrap();
        let transaction = postgres.begin(TransactionOptions::default()).await.unwrap();
        let mut rows = transaction.stream("select generate_series(1, 3)", &[], 2);
        while rows.next_chunk().await.unwrap().is_some() {}
        drop(rows);
        transaction.commit().await.unwrap();
        let mut copy = postgres.copy_out("copy (select 7) to stdout");
        assert_eq!(copy.next_chunk().await.unwrap().unwrap(), b"7\n");
    }
}

/// Rows that come after their future was dropped are not kept until the last of them has come.
#[test]
fn dropped_futures_keep_no_rows() {
    const LARGE: &str = "select repeat('x', 1000000) from generate_series(1, 200)";
    for postgres in databases() {
        // All on this thread, where memory is counted.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.unwrap();
        let client = runtime.block_on(connect(&postgres));
        let query = Request::new(LARGE, &[]);
        let many = Request::many(LARGE, {
            let mut sets = ParamBatch::new(0);
            sets.push([]);
            sets.push([]);
            sets
        });
        let copy = Request::copy_out(format!("copy ({LARGE}) to stdout"));
        let script = Request::script(format!("{LARGE}; {LARGE}"), usize::MAX);
        for request in [query.clone(), many, query.raw_rows(), copy, script] {
            let counted = allocation_counter::measure(|| {
                runtime.block_on(async {
                    drop_begun(client.request(request)).await;
                    assert_eq!(shown(&client.query("select 7", &[]).await), "7");
                });
            });
            assert!(counted.bytes_max < 50_000_000, "{counted:?}");
        }
        let counted = allocation_counter::measure(|| {
            runtime.block_on(async {
                let mut lock = client.lock().await.unwrap();
                let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
                let mut rows = transaction.stream(LARGE, &[], 1_000);
                drop_begun(rows.next_chunk()).await;
                drop(rows);
                transaction.commit().await.unwrap();
            });
        });
        assert!(counted.bytes_max < 50_000_000, "{counted:?}");
    }
}

/// Begins with it, and drops it when it is on its way.
pub(crate) async fn drop_begun(future: impl Future) {
    let mut future = pin!(future);
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// Asks for twenty inserts behind a query that takes until it is released, and drops all but two of
/// their futures meanwhile; then says what was inserted.
pub(crate) async fn asked_behind<D: Driver>(
    client: &lookaside_client::nonblocking::Client<D>,
    blocked: impl Future<Output = Result<Answer>>,
    release: impl AsyncFnOnce(),
    insert: &str,
    select: &str,
) -> String {
    let mut blocked = pin!(blocked);
    let values: Vec<_> = (0..20).map(|index| [Value::Int(index)]).collect();
    let inserts = values.iter().map(|values| client.query(insert, values));
    let mut inserts: Vec<_> = inserts.map(Box::pin).collect();
    poll_fn(|cx| {
        assert!(blocked.as_mut().poll(cx).is_pending());
        let mut polled = inserts.iter_mut().map(|insert| insert.as_mut().poll(cx));
        assert!(polled.all(|polled| polled.is_pending()));
        Poll::Ready(())
    })
    .await;
    // The task of the connection takes them.
    // sleep: which requests the task has taken cannot be observed, and either order is right
    tokio::time::sleep(Duration::from_millis(50)).await;
    let [third, twelfth] = [inserts.remove(3), inserts.remove(10)];
    drop(inserts);
    release().await;
    let (blocked, third, twelfth) = tokio::join!(blocked, third, twelfth);
    for answer in [blocked, third, twelfth] {
        answer.unwrap();
    }
    shown(&client.query(select, &[]).await)
}

/// What waits to be sent while another query takes long.
#[test]
fn nothing_is_sent_for_futures_that_were_dropped() {
    for postgres in databases() {
        postgres
            .execute("create table x(k int, at serial)")
            .unwrap();
        block_on(async {
            let holder = connect(&postgres).await;
            let take = "select pg_advisory_lock(7)";
            holder.query(take, &[]).await.unwrap();
            let options = Options {
                window: 1,
                ..Options::default()
            };
            let config = config(&postgres.url());
            let client = Client::connect_with(&config, options).await.unwrap();
            let rows = asked_behind(
                &client,
                client.query(take, &[]),
                async || {
                    drop(
                        holder
                            .query("select pg_advisory_unlock(7)", &[])
                            .await
                            .unwrap(),
                    )
                },
                "insert into x(k) values ($1)",
                "select k from x order by at",
            );
            assert_eq!(rows.await, "3 11");
        });
    }
}
