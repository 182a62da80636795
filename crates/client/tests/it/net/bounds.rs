//! Every wait is bounded: with servers that do not answer, and runtimes that are not driven.

use std::io::{Read as _, Write as _};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use lookaside_client::postgres::{Client, Options};
use lookaside_client::{
    CancelToken, Config, Error, ErrorKind, Pool, PoolOptions, Request, TransactionOptions,
};
use lookaside_testing::wait_until_async;
use lookaside_value::Value;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::{NO_CUT, Site};
use crate::live::shown;
use crate::live::tokio::block_on;

const ECHO: &str = "select $1";

/// Longer than anything here may take, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

/// More than a connection's queue has room for.
const CALLER_COUNT: i64 = 1_030;

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, future).await.expect("an end to it")
}

fn pool(site: &Site, options: PoolOptions) -> Pool {
    Pool::new(Config::Postgres(site.config("")), options)
}

/// Completes the log-in and answers nothing after it.
fn mute() -> Site {
    Site::serve(|mut socket| {
        let _ = socket.read(&mut [0; 1024]);
        let _ = socket.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        while matches!(socket.read(&mut [0; 1024]), Ok(1..)) {}
    })
}

/// A caller waits for room in a connection's queue, is woken, and is polled only after the connection
/// has ended.
#[test]
fn callers_that_wait_for_room_see_the_end_of_a_connection() {
    let (end, is_over) = mpsc::channel::<()>();
    let is_over = std::sync::Mutex::new(is_over);
    let site = Site::serve(move |mut socket| {
        let _ = socket.read(&mut [0; 1024]);
        let _ = socket.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        let _ = is_over.lock().unwrap().recv();
    });
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect_with(&site.config(""), Options::default()).await;
        let client = client.unwrap();
        let lock = client.lock().await.unwrap();
        let mut asked: Vec<_> = (0..CALLER_COUNT)
            .map(|tag| {
                let client = client.clone();
                Box::pin(async move { client.query(ECHO, &[Value::Int(tag)]).await })
            })
            .collect();
        let mut cx = Context::from_waker(Waker::noop());
        for query in &mut asked {
            assert!(query.as_mut().poll(&mut cx).is_pending());
        }
        drop(lock);
        end.send(()).unwrap();
        wait_until_async("the client is closed", async || client.is_closed()).await;
        for query in asked {
            let error = in_time(query).await.unwrap_err();
            assert!(error.is_connection_lost(), "{error:?}");
        }
    });
}

fn check_timeout(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(
        error.to_string().contains("PoolOptions::query_timeout"),
        "{error}"
    );
}

#[test]
fn a_server_that_does_not_answer_is_waited_for_until_the_timeout() {
    let site = mute();
    block_on(async {
        let options = PoolOptions {
            query_timeout: Some(Duration::from_millis(100)),
            check_timeout: Duration::from_millis(100),
            ..PoolOptions::default()
        };
        let pool = pool(&site, options);
        let error = in_time(pool.query(ECHO, &[Value::Int(7)]))
            .await
            .unwrap_err();
        check_timeout(&error);
        let mut lock = in_time(pool.lock()).await.unwrap();
        let error = in_time(lock.query(ECHO, &[Value::Int(7)]))
            .await
            .unwrap_err();
        check_timeout(&error);
        let postgres = lock.as_postgres().unwrap();
        let begun = in_time(postgres.begin(TransactionOptions::default())).await;
        let error = begun.map(drop).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Deadline || error.is_connection_lost(),
            "{error:?}"
        );
        drop(lock);
        // Nor does the end of the pool wait longer.
        in_time(pool.close()).await;
    });
}

/// A server that takes connections and says nothing is not a pool without a free connection.
#[test]
fn a_server_that_does_not_answer_the_log_in_is_named() {
    let site = Site::silent();
    let options = PoolOptions {
        acquire_timeout: Duration::from_secs(1),
        ..PoolOptions::default()
    };
    let pool = pool(&site, options);
    let error = block_on(async {
        in_time(pool.query(ECHO, &[Value::Int(7)]))
            .await
            .unwrap_err()
    });
    assert!(error.is_retryable(), "{error:?}");
    let cause = std::error::Error::source(&error).expect("it says why");
    // Whichever of the two limits of a second ends first.
    let cause = cause.to_string();
    let is_named = [
        "has not answered the first connection",
        "no connection was opened",
    ];
    assert!(is_named.iter().any(|text| cause.contains(text)), "{cause}");
}

/// The connections live on the runtime that the first request came from, which is not driven here.
#[test]
fn a_runtime_that_is_not_driven_is_waited_for_until_the_timeout() {
    let site = Site::start(NO_CUT);
    let still = Builder::new_current_thread().enable_all().build().unwrap();
    let options = PoolOptions {
        connection_count_max: 1,
        acquire_timeout: Duration::from_secs(3),
        query_timeout: Some(Duration::from_secs(3)),
        ..PoolOptions::default()
    };
    let pool = pool(&site, options);
    let answer = still.block_on(pool.query(ECHO, &[Value::Int(7)]));
    assert_eq!(shown(&answer), "7");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let query = async { in_time(pool.query(ECHO, &[Value::Int(8)])).await };
    let error = runtime.block_on(query).unwrap_err();
    check_timeout(&error);
    // The wait for a connection is bounded as well.
    let lock = async { in_time(pool.lock()).await.map(drop) };
    let error = runtime.block_on(lock).unwrap_err();
    assert!(error.to_string().contains("acquire_timeout"), "{error:?}");
    // The pool works again once that runtime is driven.
    let answers = still.block_on(async {
        let request = Request::new(ECHO, &[Value::Int(9)]).deadline(Instant::now() + TIMEOUT);
        pool.request(request).await
    });
    assert_eq!(shown(&answers.unwrap()[0]), "9");
}

/// A future that is polled for the first time after its token was canceled sends nothing.
#[test]
fn what_is_canceled_before_it_begins_is_not_sent() {
    let site = Site::start(NO_CUT);
    block_on(async {
        let pool = pool(&site, PoolOptions::default());
        let token = CancelToken::new();
        let request = Request::new(ECHO, &[Value::Int(7)]).cancel_token(&token);
        let asked = pin!(pool.request(request));
        token.cancel();
        let error = in_time(asked).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Canceled);
    });
}
