//! Scripts.

use lookaside_client::{Answer, ErrorKind, Result};
use lookaside_value::Value;

use super::{connect, databases, shown};

fn tags(answers: &[Result<Answer>]) -> Vec<String> {
    let tag = |answer: &Result<Answer>| match answer {
        Ok(answer) => answer.script.as_ref().unwrap().tag.to_string(),
        Err(_) => shown(answer),
    };
    answers.iter().map(tag).collect()
}

#[test]
fn scripts_answer_in_text() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let sql = "create table t (n int, v text);
            insert into t select n, 'v' || n from generate_series(1, 5) n;
            select n, v, 1.50 as d, null as nothing from t order by n;
            copy (select n from t order by n) to stdout;
            set bytea_output = 'escape'";
        let answers = connection.script(sql, 3).unwrap();
        let expected = ["CREATE TABLE", "INSERT 0 5", "SELECT 5", "COPY 5", "SET"];
        assert_eq!(tags(&answers), expected);
        let rows = answers[2].as_ref().unwrap();
        assert_eq!(shown(&answers[2]), "1,v1,1.50, 2,v2,1.50, 3,v3,1.50,");
        assert_eq!(rows.rows.row(0)[0], Value::from("1"));
        assert_eq!(rows.row_count, Some(5));
        assert_eq!(rows.script.as_ref().unwrap().left_out_count, 2);
        let description = rows.description.as_ref().unwrap();
        assert_eq!(&*description.columns, ["n", "v", "d", "nothing"]);
        let types: Vec<_> = description
            .column_types
            .iter()
            .map(|name| &**name)
            .collect();
        assert_eq!(types, ["int4", "text", "numeric", "text"]);
        let copied = &answers[3].as_ref().unwrap().script.as_ref().unwrap().copied;
        assert_eq!(copied, b"1\n2\n3\n4\n5\n");
        assert!(connection.script(" -- nothing", 1).unwrap().is_empty());
        let major = connection.server_version().split('.').next().unwrap();
        assert!(["18", "15"].contains(&major), "{major}");
    }
}

#[test]
fn what_came_before_an_error_stays() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let sql = "select 1; do $$ begin raise notice 'seen'; raise 'no'; end $$; select 2";
        let answers = connection.script(sql, 1).unwrap();
        assert_eq!(tags(&answers), ["SELECT 1", "P0001"]);
        let notices = connection.take_notices();
        let texts: Vec<_> = notices
            .iter()
            .filter_map(|notice| notice.message())
            .collect();
        assert_eq!(texts, ["seen"]);

        connection.script("create table t (n int)", 0).unwrap();
        let answers = connection
            .script("select 1; copy t from stdin; select 2", 1)
            .unwrap();
        assert_eq!(answers.len(), 2);
        let refused = answers[1].as_ref().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misuse);
        assert!(refused.to_string().contains("COPY FROM STDIN"), "{refused}");
        assert_eq!(shown(&connection.query("select 3", &[])), "3");
    }
}

#[test]
fn a_script_changes_what_statements_mean() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let setup = "create schema a; create table a.t as select 1 as n;
            create schema b; create table b.t as select 2 as n; set search_path = a";
        connection.script(setup, 0).unwrap();
        let sql = "select n from t";
        assert_eq!(shown(&connection.query(sql, &[])), "1");
        connection.script("set search_path = b", 0).unwrap();
        assert_eq!(shown(&connection.query(sql, &[])), "2");
        connection.script("begin; set search_path = a", 0).unwrap();
        assert_eq!(shown(&connection.query(sql, &[])), "1");
        connection.script("deallocate all; rollback", 0).unwrap();
        assert_eq!(shown(&connection.query(sql, &[])), "2");
    }
}

#[test]
fn bytes_that_are_no_text_come_as_bytes() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let sql = "set client_encoding = latin1; select 'é', 'e'; reset client_encoding";
        let answers = connection.script(sql, 1).unwrap();
        let rows = &answers[1].as_ref().unwrap().rows;
        assert_eq!(rows.row(0), [Value::from(vec![0xe9]), Value::from("e")]);
    }
}

#[test]
fn a_server_that_ends_is_believed_its_reason() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let sql = "select 1; select pg_terminate_backend(pg_backend_pid())";
        let answers = connection.script(sql, 1).unwrap();
        let lost = answers.last().unwrap().as_ref().unwrap_err();
        assert!(lost.is_connection_lost());
        assert_eq!(lost.sqlstate().unwrap().to_string(), "57P01");
        assert!(connection.is_closed());
    }
}
