//! Servers die, and are told to.

use std::time::{Duration, Instant};

use lookaside_client::mysql::Options;
use lookaside_client::{ErrorKind, Request};
use lookaside_testing::{Brand, Server};
use lookaside_value::{ParamBatch, Value};

use super::{connect_to, run, shown, sites};

#[test]
fn a_server_is_killed() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(mut server) = Server::start(brand, &[]) else {
            continue;
        };
        let options = Options {
            window: 16,
            ..Options::default()
        };
        let mut connection = connect_to(&server.url(""), options).unwrap();
        run(&mut connection, "select 1");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut params = ParamBatch::new(1);
                (0..100).for_each(|_| params.push([Value::Int(60)]));
                connection
                    .request(Request::many("select sleep(?)", params))
                    .unwrap()
            });
            // The first is at work, so a whole window was sent.
            let mut watcher = connect_to(&server.url(""), Options::default()).unwrap();
            let count = "select count(*) from information_schema.processlist \
                         where info like 'select sleep%'";
            let begun = Instant::now();
            while shown(&watcher.query(count, &[])) != "1" {
                assert!(begun.elapsed() < Duration::from_secs(120), "it never asks");
            }
            server.kill();
            let answers = waiting.join().unwrap();
            assert_eq!(answers.len(), 100);
            for (index, answer) in answers.into_iter().enumerate() {
                let error = answer.unwrap_err();
                assert!(error.is_connection_lost(), "{error:?}");
                // Beyond the window nothing was sent. On MariaDB a guard behind the Prepare is in it
                // until it is answered, which the server may or may not have done.
                if index != 15 || brand == Brand::MySql {
                    assert_eq!(error.is_retryable(), index >= 16, "{index}");
                }
            }
        });
        assert!(connection.is_closed());
        let error = connection.query("select 1", &[]).unwrap_err();
        assert!(error.is_connection_lost() && error.is_retryable());
        let error = connect_to(&server.url(""), Options::default())
            .map(drop)
            .unwrap_err();
        assert!(
            error.is_connection_lost() && error.is_retryable(),
            "{error:?}"
        );
        server.start_again();
        let mut connection = connect_to(&server.url(""), Options::default()).unwrap();
        assert_eq!(shown(&connection.query("select 2", &[])), "2");
    }
}

#[test]
fn a_session_is_ended_by_somebody_else() {
    for site in sites() {
        let mut connection = site.connect();
        let id = shown(&connection.query("select connection_id()", &[]));
        site.execute(&[&format!("kill {id}")]);
        let error = connection.query("select 1", &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connection, "{error:?}");
        assert!(error.is_connection_lost());
    }
}

#[test]
fn connections_leave_nothing_behind() {
    for site in sites() {
        let mut watcher = site.connect();
        let count = "select count(*) from information_schema.processlist where db = database()";
        for _ in 0..200 {
            let mut connection = site.connect();
            run(&mut connection, "select 1");
        }
        let deadline = Instant::now() + Duration::from_secs(120);
        while shown(&watcher.query(count, &[])) != "1" {
            assert!(Instant::now() < deadline, "connections stay");
        }
    }
}
