//! What a feed says to the server: how far it is, and that it is alive.

use std::time::{Duration, Instant};

use lookaside_client::postgres::feed::Lsn;
use lookaside_client::postgres::{ChangeFeed, FeedEvent, FeedOptions};
use lookaside_embedded::Postgres;
use lookaside_testing::WAIT_MAX;
use tokio::time::timeout;

use super::{VERSIONS, config, connect, database, databases, feed, feed_of};
use super::{next, shown, started, transaction};
use crate::live::tokio::block_on;

/// Much longer than a test takes, so that what is prompt is not due to a timer.
const NEVER: Duration = Duration::from_secs(100_000);

/// A position of the log, by a function of the server.
fn position(postgres: &Postgres, sql: &str) -> Lsn {
    let position = shown(&connect(postgres).query(sql, &[]));
    position.parse().unwrap()
}

/// The end of the next keepalive.
async fn keepalive(feed: &mut ChangeFeed) -> Lsn {
    loop {
        match next(feed).await {
            FeedEvent::Keepalive { end } => return end,
            FeedEvent::Message(_) => {}
            event => panic!("{event:?}"),
        }
    }
}

#[test]
fn a_keepalive_comes_when_it_is_requested() {
    let options = FeedOptions {
        status_interval: NEVER,
        ..FeedOptions::default()
    };
    for version in VERSIONS {
        // The server asks for nothing by itself.
        let Some(postgres) = database(version, &[("wal_sender_timeout", "0")]) else {
            continue;
        };
        block_on(async {
            let mut feed = feed_of(&config(&postgres.url()), options.clone());
            // Without a stream, this does nothing.
            feed.request_keepalive();
            feed.confirm(Lsn(u64::MAX));
            started(&mut feed).await;
            for _ in 0..20 {
                // What is not published is passed over.
                postgres
                    .execute("create table if not exists t (a int); insert into t values (1)")
                    .unwrap();
                let flushed = position(&postgres, "select pg_current_wal_flush_lsn()::text");
                feed.request_keepalive();
                loop {
                    let end = keepalive(&mut feed).await;
                    if end >= flushed {
                        break;
                    }
                    // It had not read that far.
                    feed.request_keepalive();
                }
            }
        });
    }
}

#[test]
fn what_is_confirmed_is_not_kept() {
    for postgres in databases() {
        block_on(async {
            let options = FeedOptions {
                status_interval: Duration::from_millis(50),
                ..FeedOptions::default()
            };
            let mut feed = feed_of(&config(&postgres.url()), options);
            let start = started(&mut feed).await;
            let confirmed = || {
                position(
                    &postgres,
                    "select confirmed_flush_lsn::text from pg_replication_slots",
                )
            };
            assert!(confirmed() <= start.consistent_point);
            postgres
                .execute("insert into goods values (7, 'tea')")
                .unwrap();
            let (_, end) = transaction(&mut feed).await;
            // Statuses are sent, and confirm nothing that was not processed.
            for _ in 0..3 {
                feed.request_keepalive();
                keepalive(&mut feed).await;
                assert!(confirmed() < end);
            }
            feed.confirm(end);
            // An earlier position takes nothing back.
            feed.confirm(start.consistent_point);
            let begun = Instant::now();
            while confirmed() < end {
                assert!(begun.elapsed() < WAIT_MAX, "{} < {end}", confirmed());
                // The feed works while it is waited for.
                let _ = timeout(Duration::from_millis(10), feed.next()).await;
            }
            // What was not received cannot be confirmed.
            let received = keepalive(&mut feed).await;
            feed.confirm(Lsn(u64::MAX));
            feed.request_keepalive();
            let received = keepalive(&mut feed).await.max(received);
            assert!(confirmed() <= received);
        });
    }
}

/// The server ends a session from which it hears nothing for a second.
#[test]
fn an_idle_stream_stays() {
    for version in VERSIONS {
        let Some(postgres) = database(version, &[("wal_sender_timeout", "1s")]) else {
            continue;
        };
        block_on(async {
            // By its own timer, which is shorter here than the option, and as the server asks.
            let mut one = feed(&postgres);
            let mut other = feed(&postgres);
            started(&mut one).await;
            started(&mut other).await;
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(4) {
                for feed in [&mut one, &mut other] {
                    // Dropped at any place, it loses nothing.
                    if let Ok(event) = timeout(Duration::from_millis(7), feed.next()).await {
                        assert!(matches!(event, FeedEvent::Keepalive { .. }), "{event:?}");
                    }
                }
            }
            postgres
                .execute("insert into goods values (7, 'tea')")
                .unwrap();
            assert_eq!(transaction(&mut one).await.0, "R goods I 7,tea");
            assert_eq!(transaction(&mut other).await.0, "R goods I 7,tea");
        });
    }
}
