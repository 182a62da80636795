//! What a query costs once it is warm: a piece of memory for the rows of its answer.

use std::sync::Arc;
use std::time::Duration;

use lookaside_client::{Driver, Protocol, Reply, Request};
use lookaside_value::Value;

use super::{Pair, all_shown};

const ROUNDS: u64 = 1_000;

fn round(pair: &mut Pair, sql: &Arc<str>, answer: &[u8]) -> Reply {
    let request = Request::new(Arc::clone(sql), &[Value::Int(7)]);
    // Those of a pool have one.
    let request = request.deadline(pair.now + Duration::from_secs(30));
    pair.driver.submit(request).unwrap();
    pair.driver.advance(pair.now);
    let size = pair.driver.output().len();
    pair.driver.written(size);
    pair.receive(answer);
    pair.driver.next_reply().expect("an answer")
}

#[test]
fn a_warm_query_allocates_what_it_returns() {
    let mut pair = Pair::new();
    let sql: Arc<str> = "select $1".into();
    let request = || Request::new(Arc::clone(&sql), &[Value::Int(7)]);
    pair.ask(request());
    pair.driver.submit(request()).unwrap();
    pair.send();
    let answer = pair.server.answer();
    pair.receive(&answer);
    pair.replies();

    let reply = round(&mut pair, &sql, &answer);
    assert_eq!(all_shown(&reply.answers), "7");
    let counted = allocation_counter::measure(|| {
        for _ in 0..ROUNDS {
            round(&mut pair, &sql, &answer);
        }
    });
    assert_eq!(counted.count_total, ROUNDS);
    assert_eq!(counted.count_current, 0);
}
