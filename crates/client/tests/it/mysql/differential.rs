//! What we read from the binary protocol is what we read from the text protocol, and what the
//! server itself writes.

use std::fmt::Write as _;

use lookaside_value::Value;

use super::raw::Raw;
use super::sites;
use crate::generate::rng;

const VALUE_COUNT: usize = 200;

/// Columns, and expressions that make a value of each out of random numbers `{a}` and `{b}`.
const KINDS: &[(&str, &[&str])] = &[
    ("tinyint", &["{a} % 128", "-{a} % 129"]),
    ("smallint unsigned", &["{a} % 65536"]),
    ("mediumint", &["{a} % 8388608", "-{a} % 8388609"]),
    ("int unsigned zerofill", &["{a} % 4294967296", "0"]),
    ("bigint", &["{a}", "-{a}", "-9223372036854775808"]),
    ("bigint unsigned", &["{a}", "~0 - {a}", "~0"]),
    ("decimal(65,30)", &["{a}.{b}", "-{a}.{b}", "0"]),
    ("decimal(20,0)", &["{a}", "-{a}"]),
    ("decimal(20,5) unsigned zerofill", &["{a} % 100000 + 0.{b}"]),
    ("double", &["{a}e-{c}", "-{a}e{c}", "{a} / 7", "0", "-0e0"]),
    ("bit(1)", &["{a} % 2"]),
    ("bit(33)", &["{a} % 8589934592"]),
    ("bit(64)", &["{a}", "~{a}"]),
    ("year", &["1901 + {a} % 255", "0"]),
    (
        "date",
        &[
            "from_days({a} % 3000000 + 366)",
            "'0000-00-00'",
            "'2026-02-00'",
        ],
    ),
    (
        "time",
        &[
            "sec_to_time({a} % 3020399)",
            "sec_to_time(-({a} % 3020399))",
        ],
    ),
    (
        "time(6)",
        &[
            "sec_to_time({a} % 3020399 + 0.{b})",
            "'838:59:59'",
            "'0:0:0'",
        ],
    ),
    ("time(2)", &["sec_to_time(-({a} % 86400) - 0.{b})"]),
    (
        "datetime",
        &["from_days({a} % 3000000 + 366)", "'0000-00-00'"],
    ),
    (
        "datetime(6)",
        &[
            "date_add('1970-01-01', interval {a} % 200000000000 second) + interval {b} microsecond",
            "'0000-00-00'",
            "'2026-00-00 01:02:03.5'",
        ],
    ),
    (
        "datetime(3)",
        &[
            "date_add('2000-01-01', interval {b} * 1000 microsecond)",
            "'0000-00-00'",
        ],
    ),
    (
        "timestamp(6) null",
        &["from_unixtime({a} % 2000000000 + 1 + 0.{b})"],
    ),
    (
        "timestamp null",
        &["from_unixtime({a} % 2000000000 + 1)", "0"],
    ),
    ("char(20)", &["concat('ü€𝄞', {a})", "''"]),
    ("varchar(20) character set latin1", &["concat('ü', {a})"]),
    ("text", &["repeat('é', {c})", "char(0, {c} % 128)"]),
    ("longtext", &["repeat(sha2({a}, 256), 200)"]),
    ("binary(40)", &["unhex(sha2({a}, 256))"]),
    ("varbinary(40)", &["unhex(sha2({a}, 256))", "''"]),
    ("mediumblob", &["repeat(unhex(sha2({a}, 256)), {c})"]),
    ("enum('a','ü','')", &["1 + {a} % 3"]),
    ("set('a','b','ü')", &["{a} % 8"]),
    (
        "json",
        &[
            "json_array({a}, 'ü', {a} / 7, null, true)",
            "json_object('a', json_array())",
        ],
    ),
    ("geometry", &["ST_GeomFromText('POINT({a} {b})')"]),
];

#[test]
fn binary_and_text_say_the_same() {
    let mut rng = rng("binary_and_text_say_the_same_of_mysql");
    for site in sites() {
        let mut raw = Raw::new(&site);
        raw.text("set sql_mode = ''");
        for &(declared, makers) in KINDS {
            raw.text("drop table if exists v");
            let created = raw.text(&format!("create table v(i int primary key, x {declared})"));
            assert_eq!(created.error, None, "{declared}");
            let mut insert = String::from("insert into v values (0, null)");
            for index in 1..VALUE_COUNT {
                let (a, b, c) = (
                    rng.u64(..) >> rng.u32(1..64),
                    rng.u32(..1_000_000),
                    rng.u8(..),
                );
                let maker = makers[rng.usize(..makers.len())];
                let value = maker
                    .replace("{a}", &a.to_string())
                    .replace("{b}", &format!("{b:06}"))
                    .replace("{c}", &c.to_string());
                write!(insert, ", ({index}, {value})").unwrap();
            }
            assert_eq!(raw.text(&insert).error, None, "{declared}: {insert}");
            // The server's own text beside ours, where it writes one that is UTF-8.
            let is_bytes = ["bit", "bin", "var", "blob", "geo", "medium", "json"]
                .iter()
                .any(|word| declared.starts_with(word));
            let own = if is_bytes { "null" } else { "cast(x as char)" };
            let sql = format!("select x, {own} from v order by i");
            let (text, binary) = (raw.text(&sql), raw.binary(&sql, &[]));
            assert_eq!(text.rows.len(), VALUE_COUNT, "{declared}");
            for (text, binary) in text.rows.iter().zip(&binary.rows) {
                assert_eq!(text, binary, "{declared}");
                check_own(declared, &binary[0], &binary[1]);
            }
            // Not all of it is nothing.
            let value_count = binary
                .rows
                .iter()
                .filter(|row| row[0] != Value::Null)
                .count();
            assert!(value_count > VALUE_COUNT / 2, "{declared}: {value_count}");
        }
    }
}

/// Our text is the server's.
fn check_own(declared: &str, value: &Value, own: &Value) {
    let Value::Text(own) = own else { return };
    let ours = value.to_text();
    match value {
        Value::Float(float) => {
            let theirs: f64 = own.parse().unwrap();
            assert_eq!(float.to_bits(), theirs.to_bits(), "{declared} {own}");
        }
        Value::Time(_) => {
            // Ours says no more digits than there are.
            let theirs = if own.contains('.') {
                own.trim_end_matches('0').trim_end_matches('.')
            } else {
                own
            };
            assert_eq!(&*ours, theirs, "{declared}");
        }
        Value::Int(_) | Value::Decimal(_) if declared.contains("zerofill") => {
            assert_eq!(&*ours, unfilled(own), "{declared}");
        }
        // The year 0 is one of four digits to them.
        Value::Int(0) if declared == "year" => assert_eq!(&**own, "0000"),
        _ => assert_eq!(&*ours, &**own, "{declared}"),
    }
}

fn unfilled(text: &str) -> &str {
    let digits = text.trim_start_matches('0');
    if digits.is_empty() || digits.starts_with('.') {
        &text[text.len() - digits.len() - 1..]
    } else {
        digits
    }
}

/// Text has six digits of a `float`, and the binary form all of them.
#[test]
fn floats_keep_all_their_digits() {
    for site in sites() {
        let mut raw = Raw::new(&site);
        raw.text("create table f(x float)");
        raw.text("insert into f values (16777216), (0.1), (1234.5678)");
        let expected = [16_777_216.0, 0.1, 1234.5677].map(|float| vec![Value::Float(float)]);
        assert_eq!(raw.binary("select x from f", &[]).rows, expected);
        let expected = [16_777_200.0, 0.1, 1234.57].map(|float| vec![Value::Float(float)]);
        assert_eq!(raw.text("select x from f").rows, expected);
    }
}

/// A session may ask for another character set; then text is bytes, and never other text.
#[test]
fn text_of_another_character_set_is_bytes() {
    for site in sites() {
        let mut raw = Raw::new(&site);
        raw.text("create table l(x varchar(9))");
        raw.text("insert into l values ('ü')");
        raw.text("set character_set_results = latin1");
        let rows = vec![vec![Value::from(vec![0xfc_u8])]];
        assert_eq!(raw.text("select x from l").rows, rows);
        assert_eq!(raw.binary("select x from l", &[]).rows, rows);
    }
}
