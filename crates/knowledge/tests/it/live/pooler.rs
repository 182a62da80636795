//! A provider that is reached through PgBouncer in transaction mode, where the session changes with
//! each transaction.

use std::thread;

use lookaside_embedded::Postgres;
use lookaside_knowledge::{Knowledge, Policy, Value, params};
use lookaside_testing::Pooler;
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, Text};

use super::{TEN_THOUSAND, open, project, skip};

const BY_ID: &str = "select name from t where id = :id";

#[test]
fn answers_are_right_in_whichever_session() {
    let postgres = match Postgres::builder()
        .version("18".parse().unwrap())
        .fresh_cluster()
        .tcp()
        .start()
    {
        Ok(postgres) => postgres,
        Err(error) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must have one: {error}"
            );
            return skip(&format!("no PostgreSQL 18 to test with: {error}"));
        }
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let Some(pooler) = Pooler::start(&postgres.tcp_url().unwrap()) else {
        return;
    };
    let url = pooler.url(postgres.database());
    let folder = project(&url, "pooler = true\npool_size = 4", "");
    let knowledge = open(&folder);
    // More callers than the pooler has sessions, with single queries and flights.
    thread::scope(|scope| {
        for first in 0..4 {
            let knowledge = &knowledge;
            scope.spawn(move || {
                check_alone(knowledge, first * 100 + 1);
                check_flight(knowledge, first * 1_000 + 1);
            });
        }
    });
    // A session of the server is given to other clients at any time, so no statements may be left
    // in it.
    let left = "select count(*) as n from pg_prepared_statements";
    for _ in 0..4 {
        let rows = knowledge.query_first_with(left, &params! {}, Policy::Bypass);
        assert_eq!(rows.unwrap().unwrap()[0], Value::Int(0));
    }
    // A prepared statement on the server would not survive this.
    postgres
        .execute(
            "alter table t alter name type varchar(20); update t set name = 'new' where id = 1",
        )
        .unwrap();
    let rows = knowledge.query_first_with(BY_ID, &[Value::Int(1)][..], Policy::Bypass);
    assert_eq!(rows.unwrap().unwrap()[0], Value::from("new"));
}

fn check_alone(knowledge: &Knowledge, first: i64) {
    let statement = knowledge.prepare(BY_ID).unwrap();
    for id in first..first + 100 {
        let row = knowledge.query_first_with(&statement, &[Value::Int(id)][..], Policy::Bypass);
        assert_eq!(row.unwrap().unwrap()[0], Value::from(format!("n{id}")));
    }
}

fn check_flight(knowledge: &Knowledge, first: i64) {
    let mut session = knowledge.session();
    let statement = Lookup::prepare(&mut session, BY_ID, &[Text::from("id")]).unwrap();
    let mut batch = ParamBatch::new(1);
    for id in first..first + 1_000 {
        batch.push([Value::Int(id)]);
    }
    let mut answers = Answers::new();
    session.answer(BatchQuery::first(statement), &batch, &mut answers);
    for (index, id) in (first..first + 1_000).enumerate() {
        let row = answers.row(index).unwrap().unwrap();
        assert_eq!(row[0], Value::from(format!("n{id}")));
    }
}
