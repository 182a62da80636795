//! Scripts on a pool, whose connections others use as well.

use std::time::Instant;

use lookaside_client::{CancelToken, PoolOptions, Request};
use lookaside_testing::wait_until_async;
use tokio::time::timeout;

use super::cancel::{pools, slow_count};
use super::{ms, pool};
use crate::live::tokio::block_on;
use crate::live::{databases, shown};

/// What others ask would be asked in it.
#[test]
fn no_session_is_left_as_a_script_made_it() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                session: vec!["set application_name = 'ours'".to_owned()],
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let state = "select current_setting('search_path'), current_setting('application_name'), \
                         (select count(*) from pg_listening_channels())";
            let begun = shown(&pool.query(state, &[]).await);
            assert!(begun.ends_with(",ours,0"), "{begun}");
            for sql in [
                "set search_path = other",
                "set application_name = 'other'; listen a; select 1",
                "set search_path = other; select 1 / 0",
                "select 1; begin; set search_path = other",
            ] {
                pool.request(Request::script(sql, 5)).await.unwrap();
                assert_eq!(shown(&pool.query(state, &[]).await), begun, "{sql}");
            }
            // Only the one that left a transaction open cost its connection.
            assert_eq!(pool.status().opened_total, 2);
            let given_up = pool.request(Request::script(
                "set search_path = other; select pg_sleep(60)",
                5,
            ));
            assert!(timeout(ms(100), given_up).await.is_err());
            assert_eq!(shown(&pool.query(state, &[]).await), begun);
        });
    }
}

/// How a script ends before its answers.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Deadline,
    Token,
    Drop,
    CancelOnDrop,
}

/// The connection of such a script ends. Where the server were not asked to cancel it before, it would
/// run the rest, and commit it.
#[test]
fn a_script_that_is_given_up_is_canceled_on_the_server() {
    for postgres in databases() {
        postgres.execute("create table done(v int)").unwrap();
        for cut in [Cut::Deadline, Cut::Token, Cut::Drop, Cut::CancelOnDrop] {
            block_on(async {
                let (pool, other) = pools(&postgres, PoolOptions::default());
                // More than one, as it is a race where something is wrong.
                for _ in 0..4 {
                    let token = CancelToken::new();
                    let sql = "select pg_sleep(100000); insert into done values (1)";
                    let request = Request::script(sql, 5).cancel_token(&token);
                    let request = match cut {
                        Cut::Deadline => request.deadline(Instant::now() + ms(500)),
                        Cut::CancelOnDrop => request.cancel_on_drop(),
                        Cut::Token | Cut::Drop => request,
                    };
                    let asked = tokio::spawn({
                        let pool = pool.clone();
                        async move { pool.request(request).await }
                    });
                    match cut {
                        Cut::Deadline => {}
                        _ => {
                            wait_until_async("the script runs", async || {
                                slow_count(&other).await == "1"
                            })
                            .await
                        }
                    }
                    match cut {
                        Cut::Deadline => {}
                        Cut::Token => token.cancel(),
                        Cut::Drop | Cut::CancelOnDrop => asked.abort(),
                    }
                    let _ = asked.await;
                    wait_until_async("the script is cancelled", async || {
                        slow_count(&other).await == "0"
                    })
                    .await;
                    let count = other.query("select count(*) from done", &[]).await;
                    assert_eq!(shown(&count), "0", "{cut:?}");
                }
                assert_eq!(pool.status().lost_total, 0);
            });
        }
    }
}
