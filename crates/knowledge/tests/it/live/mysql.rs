//! Behaviour that is specific to MariaDB and MySQL servers.

use lookaside_knowledge::{ErrorKind, Policy, Value, params};
use lookaside_testing::{Brand, Server, wait_until};
use lookaside_value::{
    Answers, BatchQuery, Extent, Lookup, LookupErrorKind, ParamBatch, RowSet, Text,
};

use super::{mysql_database, open, project};

/// The available servers.
fn servers() -> Vec<&'static Server> {
    let brands = [Brand::MariaDb, Brand::MySql];
    brands.into_iter().filter_map(Server::shared).collect()
}

#[test]
fn parameters_are_bound_where_they_occur() {
    for server in servers() {
        let (mut connection, url) = mysql_database(server);
        let create =
            "create table `T:x` (id int unsigned primary key, name varchar(20), n decimal(9, 3))";
        connection.query(create, &[]).unwrap();
        let insert = "insert into `T:x` values (1, 'a:b', 1.5), (2, 'it''s', 2.25), (4294967295, 'max', null)";
        connection.query(insert, &[]).unwrap();
        let folder = project(&url, "", "");
        let knowledge = open(&folder);
        let sql = "select id, ':no' as s, 'it\\'s :no' as q, :word as w -- :no\n, 5--:one as n # :no\n\
            from my.`T:x` /* :no */ where id = :id or (:id is null and name = \"a:b\") order by id";
        let ask = |id: Value| {
            let params = params! {"id" => id, "word" => "é?", "one" => 1};
            let row = knowledge.query_first(sql, &params).unwrap().unwrap();
            row.iter()
                .map(|value| value.to_text().to_string())
                .collect::<Vec<_>>()
        };
        let rest = |id: &str| [id, ":no", "it's :no", "é?", "6"].map(str::to_owned);
        assert_eq!(ask(Value::Int(2)), rest("2"));
        // As text, as from a command line or a URL.
        assert_eq!(ask(Value::from("2")), rest("2"));
        assert_eq!(ask(Value::Null), rest("1"));
        assert_eq!(ask(Value::Int(4_294_967_295)), rest("4294967295"));
        let row = knowledge
            .query_first("select n from my.`T:x` where id = 1", ())
            .unwrap();
        assert_eq!(row.unwrap()[0], Value::Decimal("1.500".parse().unwrap()));
        assert!(
            knowledge
                .probe_provider("my")
                .unwrap()
                .starts_with(match server.brand() {
                    Brand::MySql => "MySQL ",
                    _ => "1",
                })
        );
    }
}

#[test]
fn a_batch_of_misses_is_one_flight_there_too() {
    for server in servers() {
        let (mut connection, url) = mysql_database(server);
        connection
            .query("create table t (id int primary key, name varchar(20))", &[])
            .unwrap();
        let rows: Vec<String> = (1..=1000).map(|id| format!("({id}, 'n{id}')")).collect();
        let insert = format!("insert into t values {}", rows.join(", "));
        connection.query(insert, &[]).unwrap();
        let folder = project(&url, "", "[cache]\ncapacity = 5000");
        let knowledge = open(&folder);
        let mut session = knowledge.session();
        let sql = "select name from t where id = :id";
        let statement = Lookup::prepare(&mut session, sql, &[Text::from("id")]).unwrap();
        let mut batch = ParamBatch::new(1);
        for id in (0..1000).chain(0..1000) {
            batch.push([Value::Int(id)]);
        }
        let mut answers = Answers::new();
        session.answer(BatchQuery::first(statement), &batch, &mut answers);
        for (index, id) in (0..1000).chain(0..1000).enumerate() {
            let expected = (id > 0).then(|| Value::from(format!("n{id}")));
            let row = answers.row(index).unwrap();
            assert_eq!(row.map(|row| row[0].clone()), expected);
        }
        let counts = knowledge.snapshot().counts;
        assert_eq!((counts.flights, counts.queries), (1, 1000));
        // All rows of each set, from the server and then from the cache.
        let sql = "select name from t where id >= :id order by id";
        let statement = Lookup::prepare(&mut session, sql, &[Text::from("id")]).unwrap();
        batch.reset(1);
        for id in [999, 1001, 1000, 990, 999] {
            batch.push([Value::Int(id)]);
        }
        let query = BatchQuery {
            extent: Extent::All,
            rows_max: 10,
            ..BatchQuery::first(statement)
        };
        for _ in 0..2 {
            session.answer(query, &batch, &mut answers);
            for (index, expected) in [(0, Some(2)), (1, None), (2, Some(1)), (4, Some(2))] {
                let rows = answers.all(index).unwrap();
                assert_eq!(rows.map(RowSet::len), expected);
            }
            let last = answers.all(0).unwrap().unwrap().row(1)[0].to_string();
            assert_eq!(last, "n1000");
            let error = answers.all(3).unwrap_err();
            assert_eq!(error.kind(), LookupErrorKind::LimitReached, "{error}");
        }
    }
}

#[test]
fn mistakes_and_changed_tables_are_said() {
    for server in servers() {
        let (mut connection, url) = mysql_database(server);
        connection
            .query("create table t (a int, b varchar(9))", &[])
            .unwrap();
        connection
            .query("insert into t values (1, 'x')", &[])
            .unwrap();
        let folder = project(&url, "", "");
        let knowledge = open(&folder);
        let refusal = |sql: &str| {
            let error = knowledge.query_all(sql, ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            error.to_string()
        };
        let text = refusal("select a from nowhere");
        assert!(text.contains("provider `my` refused it: "), "{text}");
        assert!(text.contains("nowhere"), "{text}");
        let text = refusal("select a from t into outfile '/nowhere'");
        assert!(text.contains("only queries"), "{text}");
        let text = refusal("select a from t where a = ?");
        assert!(text.contains("write parameters as `:name`"), "{text}");
        let all = knowledge.prepare("select * from t").unwrap();
        let first = || {
            let row = knowledge.query_first_with(&all, (), Policy::Bypass);
            row.map(|row| row.unwrap().to_vec())
        };
        let expected = [Value::Int(1), Value::from("x")];
        assert_eq!(first().unwrap(), expected);
        connection
            .query("alter table t add column c int default 9 first", &[])
            .unwrap();
        assert_eq!(first().unwrap(), expected);
        connection
            .query("alter table t modify column a int after b", &[])
            .unwrap();
        assert_eq!(first().unwrap(), expected);
        connection
            .query("alter table t drop column b", &[])
            .unwrap();
        let text = first().unwrap_err().to_string();
        assert!(text.contains("than it described (a, b)"), "{text}");
    }
}

#[test]
fn a_server_that_is_killed_and_started_again_answers_again() {
    let Some(mut server) = Server::start(Brand::MariaDb, &[]) else {
        return;
    };
    let (mut connection, url) = mysql_database(&server);
    // A killed server keeps only what it has flushed.
    let flush = "set global innodb_flush_log_at_trx_commit = 1";
    connection.query(flush, &[]).unwrap();
    connection
        .query("create table t (id int primary key)", &[])
        .unwrap();
    connection
        .query("insert into t values (1), (2), (3)", &[])
        .unwrap();
    let more = "stale_if_error_ms = 600000\nacquire_timeout_ms = 60000";
    let folder = project(&url, more, "[cache]\nttl_ms = 1");
    let knowledge = open(&folder);
    let by_id = knowledge
        .prepare("select id from t where id = :id")
        .unwrap();
    let ask = |id: i64| {
        let row = knowledge.query_first(&by_id, &params! {"id" => id});
        row.map(|row| row.map(|row| row[0].clone()))
    };
    assert_eq!(ask(1).unwrap(), Some(Value::Int(1)));
    server.kill();
    // Known answers are returned as stale ones; unknown ones are errors.
    assert_eq!(ask(1).unwrap(), Some(Value::Int(1)));
    assert_eq!(knowledge.snapshot().counts.stale_answers, 1);
    let begun = std::time::Instant::now();
    for _ in 0..3 {
        let error = ask(2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    // While it is unavailable, no query waits for long.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    server.start_again();
    let mut answer = None;
    wait_until("it answers again", || {
        answer = ask(2).ok();
        answer.is_some()
    });
    assert_eq!(answer, Some(Some(Value::Int(2))));
}

#[test]
fn a_database_that_is_missing_is_said_in_words() {
    for server in servers() {
        let folder = project(
            &server.url("there_is_none"),
            "acquire_timeout_ms = 2000",
            "",
        );
        let error = open(&folder).probe_provider("my").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("Unknown database 'there_is_none'"), "{text}");
        assert!(text.ends_with("at the end of the URL's path"), "{text}");
        assert!(!text.contains("select"), "{text}");
    }
}
