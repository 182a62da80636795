//! Statements that change the character set: texts would be stored wrongly from then on.

use lookaside_client::{ErrorKind, PoolOptions};
use lookaside_value::Value;

use super::pool;
use crate::live::tokio::block_on;
use crate::live::{databases, shown};

const SET: &str = "select set_config('client_encoding', 'LATIN1', false)";

#[test]
fn a_statement_that_changes_the_encoding_ends_its_connection() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = pool(&postgres, options);
            let error = pool.query(SET, &[]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
            assert!(error.to_string().contains("client_encoding"), "{error}");
            let text = [Value::from("ü€ß")];
            let read = pool.query("select $1::text, octet_length($1)", &text);
            assert_eq!(shown(&read.await), "ü€ß,7");

            let lock = pool.lock().await.unwrap();
            let error = lock.query("set client_encoding to latin1", &[]).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Misuse);
            assert!(lock.query("select 7", &[]).await.is_err());
            drop(lock);
            assert_eq!(shown(&pool.query("select 7", &[]).await), "7");
            assert_eq!(pool.status().lost_total, 2);
        });
    }
}

#[test]
fn a_pool_whose_sessions_begin_with_another_encoding_says_so() {
    for postgres in databases() {
        block_on(async {
            let options = PoolOptions {
                session: vec!["set client_encoding to latin1".to_owned()],
                ..PoolOptions::default()
            };
            let error = pool(&postgres, options).query("select 7", &[]).await;
            let error = format!("{:?}", error.unwrap_err());
            assert!(error.contains("client_encoding"), "{error}");
            assert!(error.contains("to latin1"), "{error}");
        });
    }
}
