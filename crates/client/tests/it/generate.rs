//! Random values as the literals that the server reads.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

/// A type, how a literal `x` becomes a value of it, and the literals.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) cast: &'static str,
    literal: fn(&mut Rng) -> String,
    /// Literals that every run has.
    edges: &'static [&'static str],
}

impl Kind {
    pub(crate) fn literals(&self, count: usize, rng: &mut Rng) -> Vec<String> {
        let edges = self.edges.iter().map(|&edge| edge.to_owned());
        let random = (0..count).map(|_| (self.literal)(rng));
        edges.chain(random).collect()
    }
}

const fn kind(
    name: &'static str,
    cast: &'static str,
    literal: fn(&mut Rng) -> String,
    edges: &'static [&'static str],
) -> Kind {
    Kind {
        name,
        cast,
        literal,
        edges,
    }
}

/// One of each way in which a type is decoded.
pub(crate) const KINDS: &[Kind] = &[
    kind("bool", "x::bool", |rng| rng.bool().to_string(), &["t", "f"]),
    kind(
        "int2",
        "x::int2",
        |rng| rng.i16(..).to_string(),
        &["-32768", "32767", "0"],
    ),
    kind(
        "int4",
        "x::int4",
        |rng| rng.i32(..).to_string(),
        &["-2147483648", "2147483647"],
    ),
    kind(
        "int8",
        "x::int8",
        |rng| rng.i64(..).to_string(),
        &["-9223372036854775808", "9223372036854775807"],
    ),
    kind(
        "oid",
        "x::oid",
        |rng| rng.u32(..).to_string(),
        &["0", "4294967295"],
    ),
    kind(
        "xid",
        "x::xid",
        |rng| rng.u32(..).to_string(),
        &["4294967295"],
    ),
    kind(
        "cid",
        "x::cid",
        |rng| rng.u32(..).to_string(),
        &["4294967295"],
    ),
    kind(
        "float4",
        "x::float4",
        |rng| format!("{:e}", finite(f32::from_bits(rng.u32(..)).into())),
        &[
            "NaN",
            "Infinity",
            "-Infinity",
            "-0",
            "0.1",
            "1e-45",
            "3.4028235e38",
            "8589934592",
        ],
    ),
    kind(
        "float8",
        "x::float8",
        |rng| format!("{:e}", finite(f64::from_bits(rng.u64(..)))),
        &[
            "NaN",
            "Infinity",
            "-Infinity",
            "-0",
            "0.1",
            "5e-324",
            "1.7976931348623157e308",
        ],
    ),
    kind(
        "numeric",
        "x::numeric",
        numeric,
        &[
            "NaN",
            "Infinity",
            "-Infinity",
            "0",
            "0.000",
            "1e131071",
            "-1e-16383",
            "10000",
            "0.0001",
        ],
    ),
    kind(
        "text",
        "x::text",
        text,
        &["", " ", "NULL", "null", "{}", "\\", "\"", "a,b"],
    ),
    kind("varchar", "x::varchar", text, &["", " a "]),
    kind("bpchar", "x::char(20)", text, &["", "a "]),
    kind("name", "x::name", text, &["", "pg_class"]),
    kind(
        "\"char\"",
        "x::\"char\"",
        char_literal,
        &["", "a", "\\", "\\377", "\\200", "\""],
    ),
    kind("bytea", "x::bytea", bytea, &["\\x", "\\x00", "\\x5c22ff"]),
    kind(
        "date",
        "CASE WHEN x ~ 'inf' THEN x::date ELSE date '2000-01-01' + x::int END",
        |rng| {
            if rng.bool() {
                rng.i32(-800_000..3_000_000)
            } else {
                rng.i32(DAYS)
            }
            .to_string()
        },
        &[
            "infinity",
            "-infinity",
            "0",
            "-1",
            "-2451545",
            "2145031948",
            "2921939",
            "2921940",
        ],
    ),
    kind(
        "time",
        "x::time",
        clock,
        &["00:00", "24:00", "23:59:59.999999"],
    ),
    kind(
        "timetz",
        "x::timetz",
        |rng| format!("{}{}", clock(rng), zone(rng)),
        &[
            "24:00+15:59:59",
            "00:00-15:59:59",
            "12:00+05:30",
            "12:00+00",
        ],
    ),
    kind("timestamp", TIMESTAMP, micros, TIMESTAMP_EDGES),
    kind("timestamptz", TIMESTAMPTZ, micros, TIMESTAMP_EDGES),
    kind(
        "interval",
        "x::interval",
        interval,
        &[
            "0",
            "infinity",
            "-infinity",
            "1 day",
            "-1 day",
            "1 year -1 day 1 second",
            "-0.5 s",
        ],
    ),
    kind(
        "uuid",
        "x::uuid",
        |rng| format!("{:032x}", rng.u128(..)),
        &["00000000-0000-0000-0000-000000000000"],
    ),
    kind(
        "inet",
        "x::inet",
        inet,
        &["::/0", "::1", "::ffff:1.2.3.4", "0.0.0.0/0", "10.0.0.1/32"],
    ),
    kind(
        "cidr",
        "CASE WHEN family(x::inet) = 4 OR x ~ '/' THEN network(x::inet) ELSE x::cidr END",
        inet,
        &["::/0", "::1", "10.0.0.0/8", "10.0.0.1/32"],
    ),
    kind(
        "macaddr",
        "x::macaddr",
        |rng| format!("{:012x}", rng.u64(..1 << 48)),
        &["00:00:00:00:00:00"],
    ),
    kind(
        "macaddr8",
        "x::macaddr8",
        |rng| format!("{:016x}", rng.u64(..)),
        &["ff:ff:ff:ff:ff:ff:ff:ff"],
    ),
    kind("json", "x::json", json, JSON_EDGES),
    kind("jsonb", "x::jsonb", json, JSON_EDGES),
];

const DAYS: std::ops::Range<i32> = -2_451_545..2_145_031_948;

const TIMESTAMP: &str = "CASE WHEN x ~ 'inf' THEN x::timestamp \
     ELSE timestamp '2000-01-01' + (x || ' microseconds')::interval END";
const TIMESTAMPTZ: &str = "CASE WHEN x ~ 'inf' THEN x::timestamptz \
     ELSE timestamptz '2000-01-01 00:00:00+00' + (x || ' microseconds')::interval END";
const TIMESTAMP_EDGES: &[&str] = &[
    "infinity",
    "-infinity",
    "0",
    "-1",
    "-211813488000000000",
    "9223371331199999999",
    "252455615999999999",
    "252455616000000000",
    "-63113904000000000",
    "-63113904000000001",
];

const JSON_EDGES: &[&str] = &[
    "{}",
    "[]",
    "null",
    "-0",
    "1e5",
    "1.50",
    "123456789012345678901234567890",
    "0.1234567890123456789",
    r#"{"a": {"b": [1, "\u00e4\ud83d\ude00\n\"\\/"]}, "": null}"#,
];

fn finite(float: f64) -> f64 {
    if float.is_finite() { float } else { 1.5 }
}

fn digits(rng: &mut Rng, count: usize) -> String {
    (0..count)
        .map(|_| char::from(rng.u8(b'0'..=b'9')))
        .collect()
}

fn numeric(rng: &mut Rng) -> String {
    let sign = if rng.bool() { "-" } else { "" };
    let (whole, fraction) = match rng.u8(..32) {
        0 => (rng.usize(1..131_072), rng.usize(0..16_383)),
        1 => (1, rng.usize(0..16_383)),
        2 => return format!("{sign}1e{}", rng.i32(-16_383..131_071)),
        _ => (rng.usize(1..30), rng.usize(0..30)),
    };
    format!("{sign}{}.{}", digits(rng, whole), digits(rng, fraction))
}

fn text(rng: &mut Rng) -> String {
    const LETTERS: [char; 16] = [
        'a', 'B', '7', ' ', ',', '"', '\\', '{', '}', '\'', '\n', '\t', 'ä', '€', '😀', '\u{1}',
    ];
    // A name takes 63 bytes, a char(20) 20 letters.
    let count = rng.usize(..16);
    (0..count)
        .map(|_| LETTERS[rng.usize(..LETTERS.len())])
        .collect()
}

fn char_literal(rng: &mut Rng) -> String {
    format!("\\{:03o}", rng.u8(1..))
}

fn bytea(rng: &mut Rng) -> String {
    let mut out = String::from("\\x");
    for _ in 0..rng.usize(..20) {
        write!(out, "{:02x}", rng.u8(..)).unwrap();
    }
    out
}

fn clock(rng: &mut Rng) -> String {
    let fraction = if rng.bool() { rng.u32(..1_000_000) } else { 0 };
    let (hour, minute, second) = (rng.u8(..24), rng.u8(..60), rng.u8(..60));
    format!("{hour:02}:{minute:02}:{second:02}.{fraction:06}")
}

fn zone(rng: &mut Rng) -> String {
    let sign = if rng.bool() { '+' } else { '-' };
    let second = if rng.bool() { rng.u8(..60) } else { 0 };
    let minute = if rng.bool() { rng.u8(..60) } else { 0 };
    format!("{sign}{:02}:{minute:02}:{second:02}", rng.u8(..16))
}

/// From 2000 on, near or far.
fn micros(rng: &mut Rng) -> String {
    let micros = match rng.u8(..4) {
        0 => rng.i64(-211_813_488_000_000_000..9_223_371_331_200_000_000),
        1 => rng.i64(-211_813_488_000_000_000..300_000_000_000_000_000),
        2 => rng.i64(-1_000_000_000..2_000_000_000) * 1_000_000,
        _ => rng.i64(-1_000_000_000_000_000..1_000_000_000_000_000),
    };
    micros.to_string()
}

fn interval(rng: &mut Rng) -> String {
    let months = if rng.bool() {
        rng.i32(-1_000_000..1_000_000)
    } else {
        rng.i32(-30..30)
    };
    let days = if rng.bool() {
        rng.i32(..)
    } else {
        rng.i32(-3..3)
    };
    let micros = match rng.u8(..3) {
        0 => 0,
        1 => rng.i64(..),
        _ => rng.i64(-100_000_000..100_000_000),
    };
    format!("{months} months {days} days {micros} microseconds")
}

fn inet(rng: &mut Rng) -> String {
    let mask = rng.u8(..3);
    if rng.bool() {
        let ip = Ipv4Addr::from(rng.u32(..));
        return match mask {
            0 => ip.to_string(),
            _ => format!("{ip}/{}", rng.u8(..=32)),
        };
    }
    let ip = match rng.u8(..3) {
        0 => Ipv4Addr::from(rng.u32(..)).to_ipv6_mapped(),
        1 => Ipv6Addr::from(u128::from(rng.u16(..)) << 112 | u128::from(rng.u8(..))),
        _ => Ipv6Addr::from(rng.u128(..)),
    };
    match mask {
        0 => ip.to_string(),
        _ => format!("{ip}/{}", rng.u8(..=128)),
    }
}

fn json(rng: &mut Rng) -> String {
    let mut out = String::new();
    json_value(rng, 0, &mut out);
    out
}

fn json_value(rng: &mut Rng, depth: usize, out: &mut String) {
    let leaf_only = depth > 3;
    match rng.u8(..if leaf_only { 6 } else { 9 }) {
        0 => out.push_str("null"),
        1 => write!(out, "{}", rng.bool()).unwrap(),
        2 => write!(out, "{}", rng.i64(..)).unwrap(),
        3 => write!(out, "{:e}", finite(f64::from_bits(rng.u64(..)))).unwrap(),
        4 => {
            let (whole, fraction) = (rng.usize(1..25), rng.usize(1..25));
            write!(out, "1{}.{}", digits(rng, whole), digits(rng, fraction)).unwrap();
        }
        5 => lookaside_value::write_json_text(&text(rng), out),
        6 | 7 => {
            out.push('[');
            for index in 0..rng.usize(..4) {
                out.push_str(if index == 0 { "" } else { " , " });
                json_value(rng, depth + 1, out);
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for index in 0..rng.usize(..4) {
                out.push_str(if index == 0 { "" } else { "," });
                lookaside_value::write_json_text(&text(rng), out);
                out.push(':');
                json_value(rng, depth + 1, out);
            }
            out.push('}');
        }
    }
}

/// The seed of a random test: printed, and given again by `LOOKASIDE_TEST_SEED`.
pub(crate) fn rng(test: &str) -> Rng {
    let seed = std::env::var("LOOKASIDE_TEST_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("LOOKASIDE_TEST_SEED is a number"),
    );
    eprintln!("{test}: LOOKASIDE_TEST_SEED={seed}");
    Rng::with_seed(seed)
}
