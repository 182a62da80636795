//! Random schemas, rows, statements and parameters; native answers must equal SQLite's.

use fastrand::Rng;
use lookaside_value::Value;

use super::Fixture;
use crate::FirstOfConfig;
use crate::first_of::FirstOf;
use crate::plan::{LookupPlan, PlanKind, Probe, ProbeAll};

const NAMES: [&str; 2] = ["x", "y"];

/// Values at the edges of the comparison rules.
fn value(random: &mut Rng) -> Value {
    const INTS: [i64; 12] = [
        i64::MIN,
        i64::MIN + 1,
        -(1 << 53) - 1,
        -1,
        0,
        1,
        2,
        10,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        i64::MAX,
    ];
    const FLOATS: [f64; 20] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        1.5,
        0.1,
        1e20,
        -1e300,
        9_007_199_254_740_992.0,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        9_223_372_036_854_774_784.0,
        9_007_199_254_740_994.0,
        -1.5,
        3.5,
        49.47,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    const TEXTS: [&str; 53] = [
        "0.0.0.3",
        "0.0.0.11",
        "::3",
        "",
        " ",
        "1",
        " 1",
        "1 ",
        "01",
        "1.0",
        "+1",
        "-1",
        "-0",
        "0",
        "1e0",
        "2",
        "10",
        "0x1",
        "a",
        "A",
        "ab",
        "b",
        "inf",
        "nan",
        "\u{e9}",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "1.5",
        "a\0b",
        "10.0.0.1",
        "1\0",
        "1\0b",
        "\u{b}+1.\r\n",
        ".5",
        "-.5e1",
        "1e-1",
        "1e999",
        "-1e999",
        "1e-400",
        "1e",
        "+ 1",
        "1.5.",
        "9007199254740992.5",
        "9007199254740993\0b",
        " 9223372036854775807",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "+0009007199254740993",
        "-0009223372036854775808",
        "+9223372036854775807",
        "3500000000000000.2500001",
    ];
    match random.u8(0..25) {
        24 => text_like(random),
        0 => Value::Null,
        1 => Value::Float(*random.choice(&FLOATS).unwrap()),
        2 => Value::Bool(random.bool()),
        3 => Value::Int(*random.choice(&INTS).unwrap()),
        4 => Value::from(random.choice(&TEXTS).unwrap().as_bytes().to_vec()),
        5 => Value::Decimal(
            random
                .choice(&["1", "1.0", "2.50"])
                .unwrap()
                .parse()
                .unwrap(),
        ),
        6 => Value::Ip([0, 0, 0, random.u8(0..12)].into()),
        7 => Value::Float(f64::from(random.i8(-2..12))),
        8 | 9 => Value::from(random.i8(-2..12).to_string()),
        10..=14 => Value::from(*random.choice(&TEXTS).unwrap()),
        _ => Value::Int(random.i64(-2..12)),
    }
}

/// Values of types that SQLite does not have.
fn text_like(random: &mut Rng) -> Value {
    match random.u8(0..5) {
        0 => Value::Symbol((*random.choice(&["1", "a"]).unwrap()).into()),
        1 => Value::Time("2026-01-02 03:04:05".parse().unwrap()),
        2 => Value::Net("0.0.0.0/8".parse().unwrap()),
        3 => Value::Uuid("00000000-0000-0000-0000-000000000001".parse().unwrap()),
        _ => Value::Ip(std::net::Ipv6Addr::LOCALHOST.into()),
    }
}

/// In most tables each column has one kind of value, as in real ones.
fn column_value(random: &mut Rng, kind: u8) -> Value {
    if random.u8(0..30) == 0 && kind > 1 {
        return Value::Null;
    }
    match kind {
        0 | 1 => value(random),
        2 | 3 => Value::Int(random.i64(-2..12)),
        4 => Value::from(
            *random
                .choice(&["a", "ab", "b", "", "c", "1", "10"])
                .unwrap(),
        ),
        5 => Value::from(vec![random.u8(0..6); random.usize(0..3)]),
        // As text, the second sorts before the first.
        7 => Value::from(
            *random
                .choice(&[
                    "0.0.0.3", "0.0.0.11", "0.0.0.0", "0.0.0.9", "0.0.0.2", " 0.0.0.9",
                ])
                .unwrap(),
        ),
        8 => Value::from(
            *random
                .choice(&[
                    "0.0.0.3",
                    "0.0.0.11",
                    "::3",
                    "::11",
                    "::ffff:0.0.0.9",
                    "n/a",
                    "",
                ])
                .unwrap(),
        ),
        _ => Value::Int(random.i64(i64::MIN..i64::MAX)),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Int(int) if *int == i64::MIN => "(-9223372036854775807 - 1)".into(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) if float.is_infinite() => {
            if *float > 0.0 {
                "9e999".into()
            } else {
                "-9e999".into()
            }
        }
        Value::Float(float) => format!("{float:?}"),
        Value::Bool(bool) => u8::from(*bool).to_string(),
        Value::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{hex}'")
        }
        other => {
            let hex: String = other
                .to_string()
                .bytes()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("cast(x'{hex}' as text)")
        }
    }
}

fn schema(random: &mut Rng) -> String {
    const TYPES: [&str; 18] = [
        "boolean",
        "string",
        "numeric(10, 2)",
        "any",
        "unsigned big int",
        "timestamp default ''",
        "integer",
        "bigint",
        "real",
        "text",
        "varchar(9)",
        "blob",
        "",
        "numeric",
        "double",
        "date",
        "text collate nocase",
        "text collate rtrim",
    ];
    const STRICT_TYPES: [&str; 5] = ["integer", "real", "text", "blob", "any"];
    let is_without_rowid = random.u8(0..8) == 0;
    let is_strict = random.u8(0..8) == 0;
    let types = match is_strict {
        true => &STRICT_TYPES[..],
        false => &TYPES,
    };
    let mut columns: Vec<String> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| format!("{name} {}", random.choice(types).unwrap()))
        .collect();
    let mut constraints = String::new();
    if is_without_rowid {
        constraints = random
            .choice(&[
                ", primary key (a)",
                ", primary key (a, b)",
                ", primary key (b desc, a)",
            ])
            .unwrap()
            .to_string();
    } else {
        match random.u8(0..8) {
            0 => columns[0] = "a integer primary key".into(),
            1 => columns[0] = "a integer primary key desc".into(),
            2 => constraints = ", primary key (a)".into(),
            3 => constraints = ", primary key (a, b)".into(),
            4 => constraints = ", unique (b)".into(),
            5 => columns.push("e integer as (a + 1)".into()),
            _ => {}
        }
    }
    let mut sql = format!(
        "create table t({}{constraints}){};\n",
        columns.join(", "),
        match (is_without_rowid, is_strict) {
            (false, false) => "",
            (false, true) => " strict",
            (true, false) => " without rowid",
            (true, true) => " strict, without rowid",
        }
    );
    for index in 0..random.u8(0..3) {
        let on = random
            .choice(&[
                "a",
                "b",
                "a, b",
                "b, a",
                "c",
                "a desc",
                "a, b, c, d",
                "b, c",
                "a) where (b > 1",
            ])
            .unwrap();
        sql.push_str(&format!("create index i{index} on t({on});\n"));
    }
    let kinds: [u8; 4] = match random.u8(0..4) {
        0 => std::array::from_fn(|_| random.u8(0..9)),
        // Ranges need both bounds to be of one kind.
        _ => {
            let kind = random.u8(2..9);
            [kind, kind, random.u8(0..9), random.u8(0..9)]
        }
    };
    for _ in 0..random.u8(0..40) {
        let values: Vec<String> = kinds
            .iter()
            .map(|kind| literal(&column_value(random, *kind)))
            .collect();
        let values = values.join(", ");
        sql.push_str(&format!(
            "insert or ignore into t(a, b, c, d) values ({values});\n"
        ));
    }
    if random.u8(0..6) == 0 {
        sql.push_str("analyze;");
    }
    sql
}

fn operand(random: &mut Rng) -> String {
    const LITERALS: [&str; 5] = ["'1'", "' 1'", "'1.5'", "-900719925474099300", "'0x1'"];
    match random.u8(0..20) {
        0 => literal(&Value::Int(random.i64(-2..12))),
        1 => (*random.choice(&LITERALS).unwrap()).into(),
        2 => "ip4_int(:x)".into(),
        3 => "(:x)".into(),
        4 => ":y".into(),
        5 => "ip4_text(:x)".into(),
        6 => "ip_key(:x)".into(),
        _ => ":x".into(),
    }
}

fn statement(random: &mut Rng) -> String {
    let select = *random
        .choice(&[
            "*",
            "a",
            "d, c",
            "t.b as a, a",
            "c as z, \"D\", t.*",
            "a, rowid",
            "b",
        ])
        .unwrap();
    let low = ["a", "b", "t.a", "rowid", "c"][random.usize(0..5)];
    let high = ["b", "b", "\"b\"", "a", "d"][random.usize(0..5)];
    let x = operand(random);
    let y = if random.u8(0..8) == 0 {
        operand(random)
    } else {
        x.clone()
    };
    let condition = match random.u8(0..16) {
        0..=2 => format!("{low} = {x}"),
        3 => format!("{x} = {high}"),
        4 => format!("{low} = {x} and {high} = {}", operand(random)),
        5 => format!("({high} == {x} and (c = {})) and d = :x", operand(random)),
        6 => format!("{low} <= {x} and {high} >= {y}"),
        7 => format!("{high} >= {x} and {y} >= {low}"),
        8 => format!("{x} between {low} and {high}"),
        9 => format!("{low} < {x} and {high} >= {y}"),
        10 => format!("{low} <= {x} and {y} < {high}"),
        11 => format!("ip_key({x}) between ip_key({low}) and ip_key({high})"),
        12 => format!("ip_key({low}) < ip_key({x}) and {y} <= ip_key({high})"),
        13 => format!("ip_key({low}) <= ip_key({x}) and ip_key({y}) <= ip_key({high})"),
        _ => format!("ip4_between({x}, {low}, {high}) = 1"),
    };
    let tail = match random.u8(0..10) {
        0 => " limit 1".into(),
        1 => format!(" order by {low} desc limit 1"),
        2 => format!(" order by {low} desc"),
        3 => format!(" order by ip4_int({low}) desc limit 1"),
        4 => format!(" order by ip_key({low}) desc limit 1"),
        _ => String::new(),
    };
    format!("select {select} from t where {condition}{tail}")
}

/// A statement that is similar to a native one: SQLite answers or refuses most of these, and those
/// that get a native plan must be correct.
fn neighbour(random: &mut Rng) -> String {
    const SELECTS: [&str; 26] = [
        "*",
        "*, a",
        "a as b, b as a",
        "count(*)",
        "max(a), b",
        "a + 0",
        "+a",
        "'a'",
        "\"a\"",
        "\"nothing\"",
        "[a], `b`",
        "a a",
        "a as \"A\"",
        "a as 'x'",
        "T.A, B",
        "a as rowid, rowid",
        "rowid as a, oid, _rowid_",
        "null, a",
        "distinct b",
        "distinct a, b",
        "all b",
        "a, a, a",
        "c as a, b",
        "(a), (t.b)",
        "a collate nocase",
        "cast(a as text)",
    ];
    const FROMS: [&str; 9] = [
        "T",
        "t as t",
        "t as \"T\"",
        "main.t",
        "t not indexed",
        "t indexed by i0",
        "(t)",
        "(select * from t) as t",
        "t, (select 1) as u",
    ];
    const CONDITIONS: [&str; 69] = [
        "ip_key(X) between ip_key(LO) and HI",
        "ip_key(X) between ip_key(LO) and ip_key(HI, 1)",
        "ip_key(LO) = ip_key(X)",
        "ip_key(LO) <= X and ip_key(HI) >= X",
        "ip_key(X) between ip_key(+LO) and ip_key(HI)",
        "LO = X",
        "(LO) = (X)",
        "+LO = X",
        "LO + 0 = X",
        "LO = X collate nocase",
        "LO collate nocase = X",
        "LO is X",
        "LO is not distinct from X",
        "LO in (X)",
        "LO in (X, 1)",
        "(LO) in (X)",
        "LO = null",
        "LO = X and HI is null",
        "LO between X and :y",
        "LO between X and X",
        "X not between LO and HI",
        "not X between LO and HI",
        "X between HI and LO",
        "X between LO and HI and c = 1",
        "X between LO and (HI)",
        "X between +LO and HI",
        "X between LO and HI + 1",
        "not LO = X",
        "LO <> X",
        "LO = -:x",
        "LO = +:x",
        "LO = - - 1",
        "LO = -1",
        "LO = ~1",
        "LO = 1.0",
        "LO = 0x1",
        "LO = 1e0",
        "LO = 1_0",
        "LO = x'31'",
        "LO = 'it''s'",
        "LO = 'a' || X",
        "LO = \"1\"",
        "LO = \"a\"",
        "\"nothing\" = X",
        "'a' = X",
        "LO = true",
        "true = X",
        "LO = (select X)",
        "LO = cast(X as integer)",
        "LO = lower(X)",
        "LO = X or HI = X",
        "LO = X and 1",
        "LO = X = 1",
        "LO = X is 1",
        "LO <= X >= HI",
        "LO <= X and HI >= X or a = 1",
        "LO <= X and (HI >= X or a = 1)",
        "LO <= X and HI <= X",
        "LO <= X and HI >= X and LO <= X",
        "LO <= X and HI > X collate nocase",
        "(LO, HI) = (X, :y)",
        "LO = X and LO = X",
        "LO = X -- ; limit 1\n and HI = X",
        "LO /* = 1; */ = X /* /* */",
        "ip4_between(X, LO, HI) = 0",
        "ip4_between(X, LO, HI) = '1'",
        "not ip4_between(X, LO, HI)",
        "ip4_between(LO, X, HI)",
        "ip_key(X) between LO and HI",
    ];
    const TAILS: [&str; 26] = [
        " order by ip4_int(LO) desc limit 1",
        " order by ip_key(LO) desc",
        " order by ip4_int(LO) asc limit 1",
        ";",
        "; -- the end",
        " limit 0",
        " limit 1",
        " limit 1 offset 0",
        " limit 1 offset 1",
        " limit 0, 1",
        " limit 2",
        " limit -1",
        " limit (1)",
        " limit +1",
        " limit '1'",
        " limit :y",
        " group by a",
        " group by a having 1",
        " order by LO",
        " order by LO asc limit 1",
        " order by LO desc, HI limit 1",
        " order by a desc limit 1",
        " order by LO desc nulls last limit 1",
        " order by LO collate nocase desc limit 1",
        " order by 1 desc limit 1",
        " order by rowid desc",
    ];
    let low = ["a", "b", "t.a", "rowid", "c", "\"b\""][random.usize(0..6)];
    let high = ["b", "b", "[b]", "a", "d", "`d`"][random.usize(0..6)];
    // One part is unusual, sometimes two; with more, no statement would be native.
    let odd = [random.u8(0..4), random.u8(0..4)];
    let mut part = |index: u8, parts: &[&'static str], plain: &[&'static str]| {
        let parts = if odd.contains(&index) { parts } else { plain };
        *random.choice(parts).unwrap()
    };
    let select = part(0, &SELECTS, &["*", "b, a"]);
    let from = part(1, &FROMS, &["t"]);
    let condition = part(2, &CONDITIONS, &["LO = X", "X between LO and HI"]);
    let tail = part(3, &TAILS, &["", " limit 1"]);
    format!("select {select} from {from} where {condition}{tail}")
        .replace("LO", low)
        .replace("HI", high)
        .replace('X', &operand(random))
}

#[derive(Default, Debug)]
struct Counts {
    probes: usize,
    native_statements: usize,
    native_neighbours: usize,
    /// Native statements with functions of addresses, ordered.
    native_addresses: usize,
    /// The others are refused by SQLite.
    answered: usize,
    found: usize,
}

fn run(seed: u64, counts: &mut Counts) {
    let mut random = Rng::with_seed(seed);
    let script = schema(&mut random);
    let fixture = Fixture::new(&format!("differential-{seed}"), "");
    for sql in script.split(";\n") {
        // Not every random value fits a primary key; such rows are not inserted.
        _ = fixture.connection.execute_batch(sql);
    }
    for _ in 0..12 {
        let is_neighbour = random.u8(0..3) == 0;
        let sql = match is_neighbour {
            true => neighbour(&mut random),
            false => statement(&mut random),
        };
        let plan = fixture.plan(&sql, &NAMES);
        if plan.explain().kind == PlanKind::Sqlite {
            continue;
        }
        counts.native_statements += 1;
        counts.native_neighbours += usize::from(is_neighbour);
        let is_address = sql.contains("ip_key(") || sql.contains("ip4_between");
        counts.native_addresses += usize::from(is_address && sql.contains("order by"));
        for _ in 0..16 {
            let x = value(&mut random);
            let y = if random.bool() {
                x.clone()
            } else {
                value(&mut random)
            };
            let values = [x, y];
            match fixture.compare(&plan, &sql, &NAMES, &values) {
                Ok(is_answered) => {
                    counts.probes += 1;
                    counts.answered += usize::from(is_answered || plan.may_need_sqlite());
                    let mut rows = Vec::new();
                    _ = plan.all(&values, &mut rows);
                    counts.found += usize::from(!rows.is_empty());
                }
                Err(difference) => panic!("seed {seed}: {difference}\n{script}"),
            }
        }
    }
}

/// The first seed of a run.
#[expect(
    clippy::print_stdout,
    reason = "a failing run is repeated from its seed"
)]
fn start() -> u64 {
    let start = std::env::var("LOOKASIDE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let start = start.unwrap_or_else(|| fastrand::u64(0..1 << 40));
    println!("LOOKASIDE_SEED={start}");
    start
}

#[test]
#[expect(clippy::print_stdout, reason = "shows what was compared")]
fn native_answers_are_sqlites() {
    let start = start();
    let mut counts = Counts::default();
    for seed in start..start + 1200 {
        run(seed, &mut counts);
    }
    println!("{counts:?}");
    // Otherwise the test would pass without comparing anything.
    assert!(counts.native_statements > 2000, "{counts:?}");
    assert!(counts.native_neighbours > 100, "{counts:?}");
    assert!(counts.native_addresses > 50, "{counts:?}");
    assert!(counts.answered * 10 > counts.probes * 9, "{counts:?}");
    assert!(counts.found * 20 > counts.probes, "{counts:?}");
}

/// Statements that read the tables `t` and `u` of one schema, the first with about half of the rows.
fn run_first_of(seed: u64, counts: &mut Counts) {
    let mut random = Rng::with_seed(seed);
    let script = schema(&mut random);
    let fixture = Fixture::new(&format!("first-of-{seed}"), "");
    for sql in script.split(";\n") {
        let other = sql
            .replace("create table t(", "create table u(")
            .replace("create index i", "create index j")
            .replace(" on t(", " on u(")
            .replace("into t(", "into u(");
        let is_row = sql.starts_with("insert");
        for sql in [sql, &other] {
            // Not every random value fits a primary key; such rows are not inserted.
            if !is_row || random.bool() {
                _ = fixture.connection.execute_batch(sql);
            }
        }
    }
    let mut on_miss = Vec::new();
    if random.bool() {
        on_miss.push(("b".to_owned(), Value::Int(-7)));
    }
    let config = FirstOfConfig {
        name: "n".into(),
        tables: vec!["t".into(), "u".into()],
        on_miss: (!on_miss.is_empty()).then_some(on_miss),
        line: 1,
    };
    let columns = ["a", "b", "c", "d"].map(String::from);
    let first_of = FirstOf::new(&config, &columns).unwrap();
    for _ in 0..12 {
        let sql = statement(&mut random)
            .replace(" from t ", " from n ")
            .replace("t.", "n.")
            .replace('*', "a, b, c");
        let expansion = first_of.expand(&sql).unwrap().unwrap();
        let plan = LookupPlan::first_of(&expansion, &NAMES.map(Into::into), &fixture.tables);
        if plan.explain().kind == PlanKind::Sqlite {
            continue;
        }
        counts.native_statements += 1;
        for _ in 0..16 {
            let values = [value(&mut random), value(&mut random)];
            counts.probes += 1;
            // If the tables are empty, SQLite does not refuse the parameters: the default row answers.
            if plan.first(&values) == Probe::Refused {
                assert_eq!(plan.all(&values, &mut Vec::new()), ProbeAll::Refused);
                continue;
            }
            match fixture.compare(&plan, &expansion.sql(), &NAMES, &values) {
                Ok(is_answered) => {
                    counts.answered += usize::from(is_answered || plan.may_need_sqlite());
                    counts.found += usize::from(plan.first(&values) != Probe::Absent);
                }
                Err(difference) => panic!("LOOKASIDE_SEED={seed}: {difference}\n{script}"),
            }
        }
    }
}

#[test]
fn first_of_several_tables_is_that_of_sqlite() {
    let mut counts = Counts::default();
    let start = start();
    for seed in start..start + 300 {
        run_first_of(seed, &mut counts);
    }
    // Otherwise the test would pass without comparing anything.
    assert!(counts.native_statements > 300, "{counts:?}");
    assert!(counts.answered * 10 > counts.probes * 9, "{counts:?}");
    assert!(counts.found * 20 > counts.probes, "{counts:?}");
}
