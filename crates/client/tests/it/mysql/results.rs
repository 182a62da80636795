//! What an answer has beside its rows, several results, and sessions that are reset.

use lookaside_client::mysql::Options;
use lookaside_client::{Config, Environment, ErrorKind, Pool, PoolOptions, Request};
use lookaside_value::Value;

use super::{run, shown, sites};

#[test]
fn a_procedure_has_several_results() {
    for site in sites() {
        site.execute(&[
            "create table t (k int primary key)",
            "create procedure p(n int) begin \
             select n; insert into t values (n), (n + 1); select k from t order by k; end",
            "create procedure fails() begin select 1; signal sqlstate '45000'; end",
        ]);
        for window in [1, 8] {
            let mut connection = site.connect_wide(window);
            run(&mut connection, "delete from t");
            let first = connection.query("call p(?)", &[Value::Int(7)]).unwrap();
            assert_eq!(shown(&Ok(first.clone())), "7");
            assert!(first.further_results.is_empty(), "they were not requested");
            let call = Request::new("call p(?)", &[Value::Int(10)]).all_results();
            let mut answers = connection.request(call.clone()).unwrap();
            let first = answers.pop().unwrap().unwrap();
            assert_eq!(first.row_count, Some(1));
            assert_eq!(shown(&Ok(first.clone())), "10");
            let further: Vec<_> = first.further_results.iter().cloned().map(Ok).collect();
            let [rows, call_itself] = &further[..] else {
                panic!("{further:?}");
            };
            assert_eq!(shown(rows), "7 8 10 11");
            assert_eq!(shown(call_itself), "");
            // The second time the rows of the first are there, and so is the error.
            let refused = connection.request(call).unwrap().pop().unwrap();
            assert_eq!(shown(&refused), "1062");
            let fails = Request::new("call fails()", &[]).all_results();
            let refused = connection.request(fails).unwrap().pop().unwrap();
            assert_eq!(shown(&refused), "1644");
            assert_eq!(shown(&connection.query("select 5", &[])), "5");
            let one = Request::new("select 6", &[]).all_results();
            let answer = connection.request(one).unwrap().pop().unwrap();
            assert!(answer.as_ref().unwrap().further_results.is_empty());
            assert_eq!(shown(&answer), "6");
        }
    }
}

#[test]
fn all_results_together_are_no_larger_than_one() {
    for site in sites() {
        site.execute(&[
            "create procedure two() begin select repeat('x', 600); select repeat('y', 600); end",
        ]);
        let options = Options {
            result_size_max: 1000,
            ..Options::default()
        };
        let mut connection = site.connect_with(options);
        let call = || Request::new("call two()", &[]);
        let answer = connection.request(call()).unwrap().pop().unwrap();
        assert_eq!(answer.unwrap().rows.len(), 1);
        let answer = connection.request(call().all_results()).unwrap().pop();
        assert_eq!(answer.unwrap().unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(shown(&connection.query("select 5", &[])), "5");
    }
}

#[test]
fn numbers_that_were_given_and_warnings_are_told() {
    for site in sites() {
        site.execute(&["create table t (k int auto_increment primary key, v varchar(3))"]);
        let mut connection = site.connect();
        let insert = "insert into t (v) values (?), (?)";
        let values = ["a", "b"].map(Value::from);
        let answer = connection.query(insert, &values).unwrap();
        assert_eq!(
            (answer.last_insert_id, answer.row_count),
            (Some(1), Some(2))
        );
        let answer = connection.query(insert, &values).unwrap();
        assert_eq!((answer.last_insert_id, answer.warning_count), (Some(3), 0));
        let answer = run(&mut connection, "update t set v = 'c' where k = 1");
        assert_eq!((answer.last_insert_id, answer.row_count), (None, Some(1)));
        let answer = run(&mut connection, "select 7");
        assert_eq!((answer.last_insert_id, answer.warning_count), (None, 0));
        let sql = "insert ignore into t (v) values (?)";
        let answer = connection.query(sql, &[Value::from("too long")]).unwrap();
        assert_eq!(answer.warning_count, 1);
        let warnings = shown(&connection.query("show warnings", &[]));
        assert!(warnings.starts_with("Warning,1265,"), "{warnings}");
        let answer = run(&mut connection, "select cast('x' as signed)");
        assert_eq!(
            (shown(&Ok(answer.clone())), answer.warning_count),
            ("0".into(), 1)
        );
    }
}

#[test]
fn a_session_is_reset() {
    for site in sites() {
        for window in [1, 8] {
            let mut connection = site.connect_wide(window);
            for round in 0..3 {
                let answer = connection.query("select ? + 1", &[Value::Int(round)]);
                assert_eq!(shown(&answer), (round + 1).to_string());
                run(&mut connection, "set @a = 5, autocommit = 0");
                run(&mut connection, "create temporary table t (k int)");
                run(&mut connection, "insert into t values (1)");
                connection.reset().unwrap();
                let state = "select @a, @@autocommit, @@character_set_client, 'ä'";
                assert_eq!(shown(&connection.query(state, &[])), ",1,utf8mb4,ä");
                assert_eq!(shown(&connection.query("select * from t", &[])), "1146");
                // What was prepared is prepared again.
                let answer = connection.query("select ? + 1", &[Value::Int(7)]);
                assert_eq!(shown(&answer), "8");
            }
        }
    }
}

#[test]
fn a_reset_chooses_the_database_of_the_log_in() {
    for site in sites() {
        for window in [1, 8] {
            let mut connection = site.connect_wide(window);
            let sql = "select database()";
            let own = shown(&connection.query(sql, &[]));
            run(&mut connection, "use mysql");
            connection.reset().unwrap();
            assert_eq!(shown(&connection.query(sql, &[])), own);
        }
        let config = super::config(&site.server.url(""));
        crate::live::tokio::block_on(async {
            let pool = Pool::new(Config::Mysql(config), PoolOptions::default());
            let sql = "select database() is null";
            let mut lock = pool.lock().await.unwrap();
            lock.reset().await.unwrap();
            lock.query("use mysql", &[]).await.unwrap();
            let error = lock.reset().await.unwrap_err();
            assert!(error.is_connection_lost(), "{error:?}");
            drop(lock);
            assert_eq!(shown(&pool.query(sql, &[]).await), "1");
        });
    }
}

#[test]
fn a_session_of_a_pool_is_reset_to_what_the_pool_makes_of_it() {
    for site in sites() {
        crate::live::tokio::block_on(async {
            let config = Config::parse(&site.url(), &Environment::empty()).unwrap();
            let options = PoolOptions {
                connection_count_max: 1,
                session: vec!["set @a = 'ours'".to_owned()],
                ..PoolOptions::default()
            };
            let pool = Pool::new(config, options);
            let mut lock = pool.lock().await.unwrap();
            let sql = "select @a, @b";
            assert_eq!(shown(&lock.query(sql, &[]).await), "ours,");
            lock.query("set @a = 'mine', @b = 1", &[]).await.unwrap();
            assert_eq!(shown(&lock.query(sql, &[]).await), "mine,1");
            lock.reset().await.unwrap();
            assert_eq!(shown(&lock.query(sql, &[]).await), "ours,");
            drop(lock);
            assert_eq!(shown(&pool.query(sql, &[]).await), "ours,");
            assert_eq!(pool.status().opened_total, 1);
        });
    }
}

/// Results without rows take memory as well, and so there is an end to them.
#[test]
fn empty_results_are_counted() {
    for site in sites() {
        site.execute(&["create procedure gives_none(n int) begin \
             while n > 0 do select 1 as a from dual where n < 0; set n = n - 1; end while; end"]);
        let options = Options {
            result_size_max: 100_000,
            ..Options::default()
        };
        let mut connection = site.connect_with(options);
        let call = |count| Request::new("call gives_none(?)", &[Value::Int(count)]).all_results();
        let answer = connection.request(call(20)).unwrap().pop().unwrap();
        assert_eq!(answer.unwrap().further_results.len(), 20);
        let error = connection.request(call(5_000)).unwrap().pop().unwrap();
        let error = error
            .map(|answer| answer.further_results.len())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        // Without them all, there is no limit, and the connection goes on.
        let answer = connection.query("call gives_none(?)", &[Value::Int(5_000)]);
        assert!(answer.unwrap().rows.is_empty());
        let answer = connection.request(call(20)).unwrap().pop().unwrap();
        assert_eq!(answer.unwrap().further_results.len(), 20);
    }
}
