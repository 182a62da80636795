//! Values that look like others.

use lookaside_value::Value;

use super::sites;

#[test]
fn a_null_of_json_is_not_one_of_sql() {
    for site in sites() {
        // MariaDB reports only for a column that its text is JSON.
        site.execute(&[
            "create table j (k int primary key, v json)",
            "insert into j values (1, 'null'), (2, null), (3, '[null]')",
        ]);
        let mut connection = site.connect();
        let answer = connection.query("select v from j order by k", &[]).unwrap();
        let values: Vec<_> = answer.rows.iter().map(|row| row[0].clone()).collect();
        let list = Value::from(vec![Value::Null]);
        assert_eq!(values, [Value::from("null"), Value::Null, list]);
    }
}
