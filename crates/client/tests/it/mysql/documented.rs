//! The statements in `docs/TYPES.md` hold.

use lookaside_client::types::mysql::MyType;
use lookaside_value::Value;

use super::raw::Raw;
use super::{Site, run, sites};
use crate::documented::{document, json, value_of_json};

/// The cells of the table with that header.
fn rows<const COUNT: usize>(header: &str) -> Vec<[String; COUNT]> {
    let document = document();
    let mut rows = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        inside = line == header || (inside && line.starts_with('|'));
        if inside && line.starts_with("| `") {
            let cells = line.trim_matches('|').split(" | ").map(str::trim);
            let cells: Vec<_> = cells
                .map(|cell| cell.trim_matches('`').to_owned())
                .collect();
            rows.push(cells.try_into().unwrap_or_else(|_| panic!("{line}")));
        }
    }
    assert!(!rows.is_empty(), "{header}");
    rows
}

fn check_results(site: &Site, header: &str) {
    let mut raw = Raw::new(site);
    // Dates that are none are kept, and what does not fit is cut.
    raw.text("set sql_mode = ''");
    for [declared, becomes, example, shown] in rows(header) {
        raw.text("drop table if exists t");
        assert_eq!(
            raw.text(&format!("create table t(x {declared})")).error,
            None,
            "{declared}"
        );
        let inserted = raw.text(&format!("insert into t values ({example})"));
        assert_eq!(inserted.error, None, "{declared} {example}");
        for brought in [
            raw.text("select x from t"),
            raw.binary("select x from t", &[]),
        ] {
            let value = &brought.rows[0][0];
            let found = (value.type_of().name(), json(value));
            assert_eq!(
                found,
                (becomes.as_str(), shown.clone()),
                "{declared} {example}"
            );
        }
    }
}

#[test]
fn results_are_as_documented() {
    for site in sites() {
        check_results(&site, "| column | becomes | for example | shown |");
        check_results(
            &site,
            if site.is_mariadb() {
                "| column of MariaDB | becomes | for example | shown |"
            } else {
                "| column of MySQL | becomes | for example | shown |"
            },
        );
    }
}

#[test]
fn parameters_are_as_documented() {
    for site in sites() {
        let mut connection = site.connect();
        let header = "| value | for example | in a column | comes back as |";
        for [_, example, declared, expected] in rows(header) {
            let value = value_of_json(&example);
            run(&mut connection, "drop table if exists t");
            run(&mut connection, &format!("create table t(x {declared})"));
            let inserted = connection.query("insert into t values (?)", &[value]);
            assert!(inserted.is_ok(), "{declared} {example}: {inserted:?}");
            let answer = run(&mut connection, "select x from t");
            assert_eq!(
                json(&answer.rows.row(0)[0]),
                expected,
                "{declared} {example}"
            );
        }
    }
}

/// Which collations are UTF-8 is known by their numbers.
#[test]
fn collations_are_those_of_the_server() {
    for site in sites() {
        let mut connection = site.connect();
        let sql = if site.is_mariadb() {
            "select id, character_set_name \
             from information_schema.collation_character_set_applicability"
        } else {
            "select id, character_set_name from information_schema.collations"
        };
        let answer = run(&mut connection, sql);
        assert!(answer.rows.len() > 200, "{}", answer.rows.len());
        for row in answer.rows.iter() {
            let [Value::Int(id), name] = row else {
                continue;
            };
            let is_utf8 = ["utf8", "utf8mb3", "utf8mb4", "ascii"].contains(&&*name.to_text());
            // A `varchar` is text if its collation is UTF-8.
            let my_type = MyType::of(253, 0, u16::try_from(*id).unwrap(), 0);
            let value = my_type
                .decode(lookaside_client::types::mysql::Format::Text, b"a")
                .unwrap();
            assert_eq!(matches!(value, Value::Text(_)), is_utf8, "{id} {name}");
        }
    }
}
