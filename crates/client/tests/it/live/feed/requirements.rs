//! What a server lacks is named, with the command that adds it.

use std::time::Duration;

use lookaside_client::postgres::{ChangeFeed, FeedEvent, FeedOptions};
use lookaside_client::{Config, Environment, ErrorKind, PostgresConfig};
use lookaside_embedded::Postgres;
use lookaside_testing::{Pooler, wait_until};

use super::{VERSIONS, config, connect, database, databases, feed, feed_of};
use super::{lost, next, said, shown, slots, started};
use crate::live::tokio::block_on;

/// Checks what the error of the first attempt says, in itself.
async fn check(config: &PostgresConfig, expected: &[&str]) {
    let mut feed = feed_of(config, FeedOptions::default());
    check_of(&mut feed, expected).await;
}

async fn check_of(feed: &mut ChangeFeed, expected: &[&str]) {
    let error = lost(feed).await;
    for expected in expected {
        assert!(error.to_string().contains(expected), "{}", said(&error));
    }
}

/// The same server, as another user.
fn as_user(postgres: &Postgres, user: &str) -> PostgresConfig {
    let mut config = config(&postgres.url());
    config.user = user.to_owned();
    config
}

/// Until there is a stream.
async fn streaming(feed: &mut ChangeFeed) {
    while !matches!(next(feed).await, FeedEvent::Streaming(_)) {}
}

#[test]
fn a_role_has_to_be_permitted() {
    for postgres in databases() {
        block_on(async {
            postgres
                .execute("create role \"Odd \"\"one\" login password 's3cret'")
                .unwrap();
            let user = "Odd \"one";
            let url = postgres.tcp_url().unwrap();
            let rest = url.split_once('@').unwrap().1;
            let parsed = format!("postgres://x:s3cret@{rest}");
            let Ok(Config::Postgres(mut config)) = Config::parse(&parsed, &Environment::empty())
            else {
                panic!("{url} is a URL");
            };
            config.user = user.to_owned();
            let mut feed = feed_of(&config, FeedOptions::default());
            let mend = "alter role \"Odd \"\"one\" replication";
            check_of(&mut feed, &[mend, &postgres.port().to_string()]).await;
            postgres.execute(mend).unwrap();
            streaming(&mut feed).await;
            // A role that does not exist is nothing new.
            let error = lost(&mut feed_of(
                &as_user(&postgres, "nobody_at_all"),
                FeedOptions::default(),
            ))
            .await;
            assert!(error.is_log_in_refused(), "{error:?}");
            assert!(!said(&error).contains("alter role"), "{error:?}");
        });
    }
}

#[test]
fn the_log_has_to_be_logical() {
    for version in VERSIONS {
        let Some(postgres) = database(version, &[("wal_level", "replica")]) else {
            continue;
        };
        let config = config(&postgres.url());
        let expected = [
            "`replica`",
            "alter system set wal_level = logical",
            "restart",
        ];
        block_on(check(&config, &expected));
        assert_eq!(slots(&postgres), "");
    }
}

#[test]
fn there_has_to_be_a_slot() {
    for version in VERSIONS {
        for count in [0, 1] {
            let settings = [("max_replication_slots", count.to_string())];
            let settings = settings.each_ref().map(|(name, value)| (*name, &**value));
            let Some(postgres) = database(version, &settings) else {
                continue;
            };
            block_on(async {
                let mut taken = feed(&postgres);
                if count > 0 {
                    started(&mut taken).await;
                }
                let mut feed = feed(&postgres);
                check_of(
                    &mut feed,
                    &[
                        "no free replication slot",
                        "max_replication_slots = 20",
                        "pg_drop_replication_slot",
                    ],
                )
                .await;
                drop(taken);
                if count > 0 {
                    streaming(&mut feed).await;
                }
            });
        }
    }
}

#[test]
fn there_has_to_be_a_walsender() {
    for version in VERSIONS {
        let Some(postgres) = database(version, &[("max_wal_senders", "1")]) else {
            continue;
        };
        block_on(async {
            let mut taken = feed(&postgres);
            started(&mut taken).await;
            let mut feed = feed(&postgres);
            let error = lost(&mut feed).await;
            assert!(
                error.to_string().contains("max_wal_senders = 20"),
                "{error:?}"
            );
            // Not that of too many connections.
            assert_eq!(error.hint(), None);
            drop(taken);
            streaming(&mut feed).await;
        });
    }
}

#[test]
fn publications_have_to_exist() {
    for postgres in databases() {
        block_on(async {
            let config = config(&postgres.url());
            let odd = "Amy's \"odd\" \\one";
            let options = FeedOptions::default();
            let mut feed = ChangeFeed::new(&config, ["shop", "SHOP", odd], options).unwrap();
            let database = format!("`{}`", postgres.database());
            let expected = ["`SHOP`", odd, "create publication \"SHOP\"", &database];
            check_of(&mut feed, &expected).await;
            assert_eq!(slots(&postgres), "");
            postgres
                .execute(
                    "create publication \"SHOP\"; create publication \"Amy's \"\"odd\"\" \\one\"",
                )
                .unwrap();
            streaming(&mut feed).await;
        });
    }
}

/// The server waits for transactions that write, and may do so for hours.
#[test]
fn writers_have_to_end() {
    for postgres in databases() {
        block_on(async {
            let options = FeedOptions {
                slot_timeout: Duration::from_millis(100),
                ..FeedOptions::default()
            };
            let mut feed = feed_of(&config(&postgres.url()), options);
            let mut writer = connect(&postgres);
            writer.query("begin", &[]).unwrap();
            writer
                .query("insert into goods values (1, 'x')", &[])
                .unwrap();
            let expected = ["not created within 100ms", "backend_xid", "end them"];
            check_of(&mut feed, &expected).await;
            writer.query("commit", &[]).unwrap();
            streaming(&mut feed).await;
            let sql = "select count(*)::text from pg_stat_replication";
            wait_until("abandoned attempts end", || {
                shown(&connect(&postgres).query(sql, &[])) == "1"
            });
        });
    }
}

/// While a server waits for transactions before it creates a slot, it reads nothing from its client.
#[test]
fn issue_15_a_slot_that_is_being_created_ends_with_its_feed() {
    for postgres in databases() {
        let mut writer = connect(&postgres);
        for sql in ["begin", "insert into goods values (1, 'x')"] {
            writer.query(sql, &[]).unwrap();
        }
        let senders = |postgres: &Postgres| {
            let sql =
                "select count(*)::text from pg_stat_activity where backend_type = 'walsender'";
            shown(&connect(postgres).query(sql, &[]))
        };
        block_on(async {
            let mut feed = feed_of(&config(&postgres.url()), FeedOptions::default());
            let waiting = tokio::time::timeout(Duration::from_secs(2), feed.next());
            assert!(waiting.await.is_err());
        });
        wait_until("the session ends", || senders(&postgres) == "0");
        assert_eq!(slots(&postgres), "");
        writer.query("commit", &[]).unwrap();
    }
}

#[test]
fn a_pooler_is_not_a_server() {
    for postgres in databases() {
        let Some(pooler) = Pooler::start(&postgres.tcp_url().unwrap()) else {
            return;
        };
        let config = config(&pooler.url(postgres.database()));
        block_on(check(&config, &["pooler", "connect to the server itself"]));
    }
}

#[test]
fn misuse_is_refused_at_once() {
    let config = config("postgres://amy@127.0.0.1/shop");
    let error = |publications: &[&str], options: FeedOptions| {
        let feed = ChangeFeed::new(&config, publications.iter().copied(), options);
        feed.err().expect("it is misuse")
    };
    for (publications, prefix) in [
        (&[][..], "lookaside"),
        (&["a\0b"], "lookaside"),
        (&["shop"], "Look"),
        (&["shop"], &"x".repeat(36)),
    ] {
        let options = FeedOptions {
            slot_prefix: prefix.to_owned(),
            ..FeedOptions::default()
        };
        let error = error(publications, options);
        assert_eq!(error.kind(), ErrorKind::Misuse, "{publications:?} {prefix}");
    }
}
