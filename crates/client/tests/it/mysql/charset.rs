//! Statements that change the character set: texts would be stored wrongly from then on.

use lookaside_client::{Config, Environment, ErrorKind, Pool, PoolOptions};
use lookaside_value::Value;

use super::{run, shown, sites};
use crate::live::tokio::block_on;

#[test]
fn a_statement_that_changes_the_character_set_ends_its_connection() {
    for site in sites() {
        run(
            &mut site.connect(),
            "create table t (v text) charset utf8mb4",
        );
        let create = "create procedure latin() begin set names latin1; end";
        run(&mut site.connect(), create);
        block_on(async {
            let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
            let options = PoolOptions {
                connection_count_max: 1,
                ..PoolOptions::default()
            };
            let pool = Pool::new(config, options);
            let error = pool.query("call latin()", &[]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
            assert!(error.to_string().contains("`latin1`"), "{error}");
            for sql in ["set names latin1", "set character_set_results = latin1"] {
                let lock = pool.lock().await.unwrap();
                let error = lock.query(sql, &[]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misuse, "{sql}: {error:?}");
                drop(lock);
            }
            let lock = pool.lock().await.unwrap();
            lock.query("set names utf8mb4", &[]).await.unwrap();
            drop(lock);
            let text = Value::from("ü€ß");
            let insert = pool.query("insert into t values (?)", &[text]).await;
            insert.unwrap();
            let read = pool.query("select v, length(v) from t", &[]).await;
            assert_eq!(shown(&read), "ü€ß,7");
        });
    }
}
