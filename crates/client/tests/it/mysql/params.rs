//! Values go to the server and come back.

use lookaside_value::{ParamBatch, Value};

use super::{run, shown, sites};
use lookaside_client::{ErrorKind, Syncs};

fn decimal(text: &str) -> Value {
    Value::Decimal(text.parse().unwrap())
}

fn time(text: &str) -> Value {
    Value::Time(text.parse().unwrap())
}

#[test]
fn values_come_back() {
    for site in sites() {
        let mut connection = site.connect();
        let widest = format!("{}.{}", "9".repeat(35), "9".repeat(30));
        for (declared, value) in [
            ("bigint", Value::Int(i64::MIN)),
            ("bigint", Value::Int(i64::MAX)),
            ("double", Value::Float(f64::MIN_POSITIVE)),
            ("double", Value::Float(f64::MAX)),
            ("decimal(65,30)", decimal(&widest)),
            ("bigint unsigned", decimal("18446744073709551615")),
            ("longtext", Value::from("Zürich 𝄞 \0 '\\")),
            ("longtext", Value::from("")),
            ("longblob", Value::from((0..=255).collect::<Vec<u8>>())),
            ("datetime", time("2026-01-02 03:04:05")),
            ("datetime(6)", time("9999-12-31 23:59:59.999999")),
            ("datetime(6)", time("2026-01-02 00:00:00.000001")),
            ("json", Value::from(vec![Value::Int(1), Value::Null])),
        ] {
            run(&mut connection, "drop table if exists t");
            run(&mut connection, &format!("create table t(x {declared})"));
            let inserted =
                connection.query("insert into t values (?)", std::slice::from_ref(&value));
            assert_eq!(
                inserted.map(|answer| answer.row_count).unwrap(),
                Some(1),
                "{value:?}"
            );
            let answer = run(&mut connection, "select x from t");
            assert_eq!(answer.rows.row(0)[0], value, "{declared}");
            // It finds itself, but for JSON, which is compared otherwise.
            if declared != "json" {
                let found =
                    connection.query("select x from t where x = ?", std::slice::from_ref(&value));
                assert_eq!(found.unwrap().rows.len(), 1, "{declared} {value:?}");
            }
        }
    }
}

/// What comes from a command line or a URL is text.
#[test]
fn text_finds_numbers_exactly() {
    for site in sites() {
        site.execute(&[
            "create table n(k bigint primary key, u bigint unsigned, d decimal(30,10), t datetime)",
            "insert into n values (9007199254740992, 1, 1, '2026-01-01'), \
             (9007199254740993, 18446744073709551615, 0.1000000001, '2026-01-02')",
        ]);
        let mut connection = site.connect();
        for (column, text) in [
            ("k", "9007199254740993"),
            ("u", "18446744073709551615"),
            ("d", "0.1000000001"),
            ("t", "2026-01-02"),
        ] {
            let sql = format!("select k from n where {column} = ?");
            let answer = connection.query(sql.as_str(), &[Value::from(text)]);
            assert_eq!(shown(&answer), "9007199254740993", "{column}");
        }
    }
}

/// What is converted is the parameter, not each row: the server goes to the row through its index.
#[test]
fn parameters_use_indexes() {
    for site in sites() {
        site.execute(&[
            "create table i(k bigint unsigned primary key, t datetime, s varchar(20), \
             key (t), key (s))",
            "insert into i values (1, '2026-01-01', '1')",
        ]);
        let mut connection = site.connect();
        for _ in 0..10 {
            let double = "insert into i select k + (select count(*) from i), \
                          t + interval (select count(*) from i) day, k from i";
            run(&mut connection, double);
        }
        for (column, value) in [
            ("k", Value::Int(77)),
            ("k", Value::from("77")),
            ("k", decimal("77")),
            ("t", Value::from("2026-03-18")),
            ("t", time("2026-03-18 00:00:00")),
            ("s", Value::from("13")),
        ] {
            let sql = format!("select k from i where {column} = ?");
            run(&mut connection, "flush status");
            let answer = connection.query(sql.as_str(), std::slice::from_ref(&value));
            assert_ne!(shown(&answer), "", "{column} {value:?}");
            let scanned = run(
                &mut connection,
                "show session status like 'Handler_read_rnd_next'",
            );
            let scanned: u32 = scanned.rows.row(0)[1].to_text().parse().unwrap();
            assert!(scanned < 200, "{column} {value:?}: {scanned} rows");
        }
    }
}

/// MySQL fixes a statement's types with its first execution, and would make 0 of `abc`.
#[test]
fn types_of_parameters_may_change() {
    for site in sites() {
        for mut connection in [site.connect(), site.connect_wide(32)] {
            let sql = "select ?";
            for (value, expected) in [
                (Value::Int(7), "7"),
                (Value::from("abc"), "abc"),
                (Value::Null, ""),
                (Value::from("abc"), "abc"),
                (Value::Int(8), "8"),
                (Value::Float(0.5), "0.5"),
                (decimal("1.50"), "1.50"),
            ] {
                assert_eq!(shown(&connection.query(sql, &[value])), expected);
            }
            let mut params = ParamBatch::new(1);
            for value in [
                Value::Int(1),
                Value::from("b"),
                Value::Null,
                Value::Int(4),
                Value::from("e"),
            ] {
                params.push([value]);
            }
            let answers = connection.query_many(sql, params, Syncs::Each).unwrap();
            let answers: Vec<_> = answers.iter().map(shown).collect();
            assert_eq!(answers, ["1", "b", "", "4", "e"]);
        }
    }
}

#[test]
fn what_would_lose_something_is_refused() {
    for site in sites() {
        let mut connection = site.connect();
        let values = [Value::Int(1), time("2026-01-02 03:04:05.0000001")];
        let error = connection.query("select ?, ?", &values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            cause.starts_with("parameter `?2`: this time has a precision finer than a microsecond"),
            "{cause}"
        );
        let error = connection.query("select ?", &[]).unwrap_err();
        assert_eq!(error.to_string(), "0 values were given for 1 parameters");
        assert_eq!(shown(&connection.query("select ?", &[Value::Int(1)])), "1");
    }
}

/// A `datetime` keeps no offset: of a time that has one, the clock in UTC goes out.
#[test]
fn issue_12_times_with_an_offset_are_looked_up_in_utc() {
    for site in sites() {
        let mut connection = site.connect();
        let sql = "select at from (select timestamp '2026-01-31 07:00:00' as at union all \
                   select timestamp '2026-01-31 08:00:00') as t where at = ?";
        for (param, expected) in [
            ("2026-01-31 08:00:00", "2026-01-31 08:00:00"),
            ("2026-01-31T08:00:00Z", "2026-01-31 08:00:00"),
            ("2026-01-31T08:00:00+01:00", "2026-01-31 07:00:00"),
        ] {
            let rows = connection.query(sql, &[time(param)]);
            assert_eq!(shown(&rows), expected, "{param}");
        }
    }
}
