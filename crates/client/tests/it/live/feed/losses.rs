//! Streams that end, and the ones after them.

use lookaside_client::postgres::{FeedEvent, FeedOptions};
use lookaside_client::{ErrorKind, Result};
use lookaside_testing::wait_until;

use super::{VERSIONS, config, connect, database, databases, feed, feed_of};
use super::{lost, next, said, shown, slots, started, transaction};
use crate::live::restart::Server;
use crate::live::tls::server::{Authority, Server as TlsServer, setting};
use crate::live::tokio::block_on;

#[test]
fn a_session_that_is_ended_is_replaced() {
    for postgres in databases() {
        block_on(async {
            let mut feed = feed(&postgres);
            let mut start = started(&mut feed).await;
            for id in 0..3 {
                let insert = format!("insert into goods values ({id}, 'tea')");
                postgres.execute(&insert).unwrap();
                assert_eq!(
                    transaction(&mut feed).await.0,
                    format!("R goods I {id},tea")
                );
                postgres
                    .execute("select pg_terminate_backend(active_pid) from pg_replication_slots")
                    .unwrap();
                let error = lost(&mut feed).await;
                assert_eq!(error.sqlstate().unwrap().to_string(), "57P01", "{error:?}");
                assert!(error.is_connection_lost());
                // What happens meanwhile is missed.
                postgres.execute("delete from goods").unwrap();
                let again = started(&mut feed).await;
                assert_ne!(again.slot, start.slot);
                assert_eq!(again.system_id, start.system_id);
                assert_eq!(again.timeline, start.timeline);
                assert!(again.consistent_point > start.consistent_point);
                wait_until("only the new slot is left", || {
                    slots(&postgres) == again.slot.as_str()
                });
                start = again;
            }
        });
    }
}

#[test]
fn a_server_that_is_stopped_is_awaited() {
    for version in VERSIONS {
        if super::Binaries::find(version.parse().unwrap(), &()).is_err() {
            continue;
        }
        block_on(async {
            let mut server =
                Server::start_with(version, "feed", |builder| builder.logical_replication());
            let sql = "create table goods (id int primary key, name text); \
                       create publication shop for table goods";
            server.execute(sql);
            let config = config(&server.url());
            let mut feed = feed_of(&config, FeedOptions::default());
            started(&mut feed).await;
            let stopping = tokio::join!(server.stop(), lost(&mut feed));
            assert!(stopping.1.is_connection_lost(), "{:?}", stopping.1);
            // There is none to connect to.
            lost(&mut feed).await;
            server.start_again().await;
            loop {
                match next(&mut feed).await {
                    FeedEvent::Streaming(_) => break,
                    FeedEvent::Lost(_) => {}
                    event => panic!("{event:?}"),
                }
            }
            server.execute("insert into goods values (7, 'tea')");
            assert_eq!(transaction(&mut feed).await.0, "R goods I 7,tea");
        });
    }
}

/// PostgreSQL 15 fails at the next change, and 18 warns and leaves the publication out.
#[test]
fn a_publication_that_is_dropped_ends_the_stream() {
    for postgres in databases() {
        block_on(async {
            let mut feed = feed(&postgres);
            started(&mut feed).await;
            postgres
                .execute("drop publication shop; insert into goods values (7, 'tea')")
                .unwrap();
            let error = lost(&mut feed).await;
            assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
            assert!(said(&error).contains("shop"), "{error:?}");
            let error = lost(&mut feed).await;
            assert!(said(&error).contains("create publication"), "{error:?}");
            postgres
                .execute("create publication shop for table goods")
                .unwrap();
            loop {
                match next(&mut feed).await {
                    FeedEvent::Streaming(_) => break,
                    FeedEvent::Lost(_) => {}
                    event => panic!("{event:?}"),
                }
            }
            postgres
                .execute("insert into goods values (8, 'milk')")
                .unwrap();
            assert_eq!(transaction(&mut feed).await.0, "R goods I 8,milk");
        });
    }
}

#[test]
fn a_message_that_is_too_large_ends_the_stream() {
    for postgres in databases() {
        block_on(async {
            let options = FeedOptions {
                message_size_max: 1_000,
                ..FeedOptions::default()
            };
            let mut feed = feed_of(&config(&postgres.url()), options);
            started(&mut feed).await;
            postgres
                .execute("insert into goods values (1, repeat('x', 500))")
                .unwrap();
            transaction(&mut feed).await;
            postgres
                .execute("insert into goods values (2, repeat('x', 1000))")
                .unwrap();
            let error = lost(&mut feed).await;
            assert_eq!(error.kind(), ErrorKind::Limit, "{error:?}");
            assert!(error.to_string().contains("message_size_max"));
            started(&mut feed).await;
            postgres
                .execute("insert into goods values (3, 'milk')")
                .unwrap();
            assert_eq!(transaction(&mut feed).await.0, "R goods I 3,milk");
        });
    }
}

#[test]
fn a_stream_goes_through_tls() {
    let authority = Authority::new("issuer");
    for postgres in databases() {
        let pair = authority.issue(&["db"]);
        let server = TlsServer::on(postgres, &pair, &authority);
        block_on(async {
            let roots = setting("sslrootcert", &server.file("roots.crt", &authority.pem()));
            let url = server.url("anybody", "verify-full") + &roots + "&channel_binding=require";
            let mut feed = feed_of(&config(&url), FeedOptions::default());
            started(&mut feed).await;
            let sql = "select ssl from pg_stat_ssl join pg_stat_replication using (pid)";
            let is_encrypted = connect(&server.postgres).query(sql, &[]);
            assert_eq!(shown(&is_encrypted), "true");
            for id in 0..3 {
                let insert = format!("insert into goods values ({id}, repeat('x', 100000))");
                server.postgres.execute(&insert).unwrap();
                let (changes, _) = transaction(&mut feed).await;
                assert!(changes.len() > 100_000);
                feed.request_keepalive();
            }
            drop(feed);
            wait_until("the slot is dropped", || slots(&server.postgres).is_empty());
        });
        // A certificate that is not trusted.
        block_on(async {
            let other = Authority::new("other");
            let roots = setting("sslrootcert", &server.file("other.crt", &other.pem()));
            let url = server.url("anybody", "verify-full") + &roots;
            let mut feed = feed_of(&config(&url), FeedOptions::default());
            let error = lost(&mut feed).await;
            assert_eq!(error.kind(), ErrorKind::Tls, "{error:?}");
        });
    }
}

/// Not even the attempts need a runtime to fail.
#[test]
fn a_feed_without_a_runtime_fails() {
    let config = config("postgres://amy@127.0.0.1:1/shop");
    let mut feed = feed_of(&config, FeedOptions::default());
    for _ in 0..3 {
        let lost: Result<(), _> = match crate::live::tokio::wait_outside(feed.next()) {
            FeedEvent::Lost(error) => Err(error),
            _ => Ok(()),
        };
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::Misuse);
    }
}

/// The standby test has none that decodes; a port that nothing listens on is enough here.
#[test]
fn the_first_suitable_host_is_used() {
    let Some(postgres) = database("18", &[]) else {
        return;
    };
    let user = shown(&connect(&postgres).query("select current_user", &[]));
    let tcp_url = postgres.tcp_url().unwrap();
    let password = tcp_url.split_once(&format!("{user}:")).unwrap().1;
    let password = password.split_once('@').unwrap().0;
    let (port, name) = (postgres.port(), postgres.database());
    let url = |wanted: &str| {
        config(&format!(
            "postgres://{user}:{password}@127.0.0.1:1,127.0.0.1:{port}/{name}?sslmode=disable\
             &target_session_attrs={wanted}"
        ))
    };
    block_on(async {
        let mut feed = feed_of(&url("primary"), FeedOptions::default());
        started(&mut feed).await;
        let mut feed = feed_of(&url("standby"), FeedOptions::default());
        let error = lost(&mut feed).await;
        assert!(said(&error).contains("target_session_attrs"), "{error:?}");
    });
}
