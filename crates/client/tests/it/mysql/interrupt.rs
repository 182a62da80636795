//! Deadlines: what has no caller any more is stopped, and nothing else.

use std::time::{Duration, Instant};

use lookaside_client::{ErrorKind, Request, Syncs};
use lookaside_value::{ParamBatch, Value};

use super::{run, shown, sites};

/// Minutes of work that says when it is interrupted, which `sleep` does not.
const LONG: &str = "select count(*) from information_schema.collations a, \
                    information_schema.collations b, information_schema.collations c, \
                    information_schema.collations d where a.id + b.id + c.id + d.id < ?";

#[test]
fn a_deadline_stops_its_own_query() {
    for site in sites() {
        for window in [1, 16] {
            let mut connection = site.connect_wide(window);
            assert_eq!(shown(&connection.query("select ?", &[Value::Int(1)])), "1");
            let begin = Instant::now();
            let request = Request::new(LONG, &[Value::Int(5)]);
            let answers = connection.request(request.deadline(begin + Duration::from_secs(2)));
            let error = answers.unwrap().remove(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline);
            assert!(!error.is_retryable(), "it was sent");
            // The server is free again: what follows is answered at once, and right.
            for index in 0..20 {
                let answer = connection.query("select ?", &[Value::Int(index)]);
                assert_eq!(shown(&answer), index.to_string());
            }
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "{:?}",
                begin.elapsed()
            );
        }
    }
}

/// Queries whose deadlines are about as long as they take: whichever is hit, the others are right.
#[test]
fn deadlines_in_close_succession() {
    for site in sites() {
        site.execute(&["create table w(k int)"]);
        let mut connection = site.connect_wide(8);
        let (mut late_count, mut written) = (0, 0);
        for round in 0..60_u64 {
            let mut params = ParamBatch::new(1);
            for index in 0..8 {
                params.push([Value::Int(index)]);
            }
            let deadline = Instant::now() + Duration::from_micros(300 + 100 * (round % 30));
            let request = Request::many("select benchmark(2000, sha2(?, 256))", params.clone());
            for answer in connection.request(request.deadline(deadline)).unwrap() {
                match answer {
                    Ok(answer) => assert_eq!(shown(&Ok(answer)), "0"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Deadline, "{error:?}");
                        late_count += 1;
                    }
                }
            }
            let answers = connection
                .query_many("select ? + 1", params.clone(), Syncs::Each)
                .unwrap();
            let answers: Vec<_> = answers.iter().map(shown).collect();
            assert_eq!(answers, ["1", "2", "3", "4", "5", "6", "7", "8"], "{round}");
            let answers = connection.query_many("insert into w values (?)", params, Syncs::Each);
            written += answers
                .unwrap()
                .iter()
                .filter(|answer| answer.is_ok())
                .count();
        }
        assert!(late_count > 0);
        assert_eq!(
            written, 480,
            "a write behind a query that was stopped is not hit"
        );
        let answer = run(&mut connection, "select count(*) from w");
        assert_eq!(shown(&Ok(answer)), "480");
    }
}
