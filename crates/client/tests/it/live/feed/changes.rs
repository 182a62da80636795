//! What changes is received, whole and in order.

use lookaside_client::postgres::FeedEvent;
use lookaside_client::postgres::feed::Lsn;
use lookaside_testing::wait_until;

use super::{connect, databases, feed, next, shown, slots, started, transaction};
use crate::live::tokio::block_on;

#[test]
fn changes_come_in_order() {
    for postgres in databases() {
        block_on(async {
            let mut feed = feed(&postgres);
            let start = started(&mut feed).await;
            assert_eq!(slots(&postgres), start.slot.as_str());
            let version = shown(&connect(&postgres).query("show server_version", &[]));
            assert!(version.starts_with(&start.server_version), "{start:?}");
            let sql = "select system_identifier::text from pg_control_system()";
            let system_id = shown(&connect(&postgres).query(sql, &[]));
            assert_eq!(start.system_id.0.to_string(), system_id);

            let mut last = start.consistent_point;
            for (sql, expected) in [
                (
                    "insert into goods values (7, 'tea'), (8, null)",
                    "R goods I 7,tea I 8,-",
                ),
                ("update goods set name = 'milk' where id = 8", "U 8,milk"),
                (
                    "begin; update goods set id = 9 where id = 8; delete from goods where id = 7; \
                     commit",
                    "U 8,->9,milk D 7,-",
                ),
                // What is rolled back, or not published, is not received.
                (
                    "begin; insert into goods values (1, 'x'); rollback; create table t (a int); \
                     insert into t values (1); insert into goods values (2, 'y')",
                    "I 2,y",
                ),
                ("truncate goods", "T 1"),
                (
                    "alter table goods add price int; insert into goods values (3, 'z', 5)",
                    "R goods I 3,z,5",
                ),
            ] {
                postgres.execute(sql).unwrap();
                let (changes, end) = transaction(&mut feed).await;
                // A server may describe a table more often than it has to.
                let changes = match expected.starts_with('R') {
                    true => changes.as_str(),
                    false => changes.trim_start_matches("R goods "),
                };
                assert_eq!(changes, expected, "{sql}");
                assert!(end > last, "commits are in order");
                last = end;
            }
            let flushed =
                shown(&connect(&postgres).query("select pg_current_wal_flush_lsn()::text", &[]));
            let flushed: Lsn = flushed.parse().unwrap();
            assert!(last <= flushed);
        });
    }
}

#[test]
fn a_dropped_feed_leaves_no_slot() {
    for postgres in databases() {
        block_on(async {
            let mut feed = feed(&postgres);
            started(&mut feed).await;
            assert_ne!(slots(&postgres), "");
            drop(feed);
            wait_until("the slot is dropped", || slots(&postgres).is_empty());
        });
    }
}

#[test]
fn a_large_transaction_comes_whole() {
    for postgres in databases() {
        block_on(async {
            let mut feed = feed(&postgres);
            started(&mut feed).await;
            postgres
                .execute(
                    "insert into goods select n, repeat('x', n % 300) from \
                     generate_series(1, 30000) n; insert into goods values (0, repeat('y', 3000000))",
                )
                .unwrap();
            let mut count = 0;
            while count < 30_001 {
                match next(&mut feed).await {
                    FeedEvent::Message(super::Message::Insert(insert)) => {
                        count += 1;
                        let size = insert.new.as_bytes().len();
                        assert!(count < 30_001 || size > 3_000_000);
                    }
                    FeedEvent::Message(_) | FeedEvent::Keepalive { .. } => {}
                    event => panic!("{event:?}"),
                }
            }
        });
    }
}
