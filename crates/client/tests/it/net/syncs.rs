//! Queries share a Sync if their request or their pool is configured so.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lookaside_client::{Config, Pool, PoolOptions, Request, Syncs};
use lookaside_value::Value;
use tokio::runtime::Builder;

use super::Site;
use crate::driver::server::Server;
use crate::live::shown;

/// A server that counts the Syncs that it gets.
fn counting() -> (Site, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let site = Site::serve(move |mut socket| {
        let mut server = Server::default();
        let mut space = [0; 4096];
        while let Ok(size @ 1..) = socket.read(&mut space) {
            server.receive(&space[..size]);
            let answer = server.answer();
            // Stored before the answer is sent.
            seen.store(server.sync_count, Ordering::SeqCst);
            if socket.write_all(&answer).is_err() {
                return;
            }
        }
    });
    (site, count)
}

/// How many Syncs it takes to answer ten queries that are sent at the same time.
fn sync_count(syncs: Syncs, request: impl Fn(Request) -> Request) -> usize {
    let (site, count) = counting();
    let options = PoolOptions {
        connection_count_max: 1,
        syncs,
        ..PoolOptions::default()
    };
    let pool = Pool::new(Config::Postgres(site.config("")), options);
    let ask = async |tag: i64| {
        let request = request(Request::new("select $1", &[Value::Int(tag)]));
        let answers = pool.request(request).await.unwrap();
        assert_eq!(shown(&answers[0]), tag.to_string());
    };
    // On one thread, all are sent before the connection's task runs.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // The statement is prepared.
        ask(1).await;
        let before = count.load(Ordering::SeqCst);
        tokio::join!(
            ask(1),
            ask(2),
            ask(3),
            ask(4),
            ask(5),
            ask(6),
            ask(7),
            ask(8),
            ask(9),
            ask(10)
        );
        count.load(Ordering::SeqCst) - before
    })
}

#[test]
fn syncs_are_shared_only_on_request() {
    assert_eq!(sync_count(Syncs::Each, |request| request), 10);
    assert_eq!(sync_count(Syncs::Shared, |request| request), 1);
    assert_eq!(sync_count(Syncs::Each, Request::read_only), 1);
    // A request overrides its pool.
    let each = |request: Request| request.syncs(Syncs::Each);
    assert_eq!(sync_count(Syncs::Shared, each), 10);
}
