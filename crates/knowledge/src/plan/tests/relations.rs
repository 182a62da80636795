//! The functions of a key and a column (`cidr_contains`, `host_under`, `path_under`, `regexp_like`)
//! and equal results (`fold`): native answers must equal SQLite's.

use fastrand::Rng;
use lookaside_value::Value;

use super::Fixture;
use crate::plan::{PlanKind, Probe};

/// The parts of which keys and the values of a column are made, per function.
struct Words {
    function: &'static str,
    order: &'static str,
    parts: &'static [&'static str],
    kind: PlanKind,
}

const NETWORKS: Words = Words {
    function: "cidr_contains",
    order: "cidr_len(k)",
    parts: &[
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3/16",
        "10.1.2.3",
        "10.1.2.3/32",
        "10.1.2.4",
        "0.0.0.0/0",
        "0.0.0.0",
        "255.255.255.255",
        "9.255.255.255",
        "11.0.0.0",
        "::/0",
        "::",
        "::1",
        "::ffff:0:0/96",
        "::ffff:10.1.0.0/112",
        "::ffff:10.1.2.3",
        "::/64",
        "::/80",
        "::fffe:0:0/95",
        "::fffe:ffff:ffff",
        "::1:0:0:0",
        "2001:db8::/32",
        "2001:db8::1",
        "2001:db8:0:1::/64",
        "2001:db8:0:1::5",
        "2001:db9::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "fe80::/10",
        "fe80::1%eth0",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/08",
        "010.0.0.1",
        "",
        " 10.1.2.3",
        "n/a",
        "2001:db8::/129",
        "1::/0",
    ],
    kind: PlanKind::Interval,
};

const HOSTS: Words = Words {
    function: "host_under",
    order: "length(k)",
    parts: &[
        "com",
        "example.com",
        "Example.COM",
        "a.example.com",
        "b.a.example.com",
        "*.example.com",
        ".example.com",
        "*.a.example.com",
        "example.com.",
        "notexample.com",
        "bücher.example",
        "www.BÜCHER.example",
        "xn--bcher-kva.example",
        "x.www.xn--bcher-kva.example.",
        "*.bücher.example",
        "10.1.2.3",
        "x.10.1.2.3",
        "2.3",
        "*.3",
        "",
        ".",
        "..",
        "a..com",
        "*",
        "*.",
        "*.*.com",
        "_x.com",
        "a。example。com",
        "\u{fffd}.com",
        "com.",
        ".com",
        "*.com",
    ],
    kind: PlanKind::HostSuffix,
};

const PATHS: Words = Words {
    function: "path_under",
    order: "length(k)",
    parts: &[
        "/",
        "",
        "//",
        "/a",
        "/a/",
        "/a/b",
        "/a/b/c",
        "/a//b",
        "/ab",
        "/A",
        "a",
        "a/b",
        "a/",
        "/a?x=/b",
        "/a/b#c",
        "?",
        "#",
        "/?",
        "///",
        "/a/b/c/d/e/f",
        "/ä/b",
        "/a/b\0c",
    ],
    kind: PlanKind::PathPrefix,
};

const PATTERNS: Words = Words {
    function: "regexp_like",
    order: "rowid",
    parts: &[
        "",
        "a",
        "foo",
        "(?i)foo",
        "foo|bar",
        "^foo$",
        "fo+",
        "[a-z]+",
        r"\d{2}",
        "bar.*foo",
        "FOO",
        "xfooy",
        "bar foo",
        "bar 12 foo",
        "Zoë",
        "(?i)ZOË",
        ".",
        r"\bbar\b",
        "(foo|ba)r",
        "nothing",
    ],
    kind: PlanKind::Patterns,
};

const FOLDED: Words = Words {
    function: "fold",
    order: "rowid",
    parts: &[
        "Zoë",
        "ZOE\u{308}",
        "zoe",
        " Zoe ",
        "STRASSE",
        "straße",
        "7",
        "",
        " ",
        "K",
        "\u{212a}",
        "ΣΣ",
        "σς",
        "a\0B",
    ],
    kind: PlanKind::Hash,
};

fn literal(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("cast(x'{hex}' as text)")
}

fn value(random: &mut Rng, words: &Words) -> Value {
    match random.u8(0..20) {
        0 => Value::Null,
        1 => Value::Int(7),
        2 => Value::Float(1.5),
        3 => Value::from(b"10.1.2.3".to_vec()),
        4 => Value::Ip([10, 1, 2, 3].into()),
        5 => Value::Ip("2001:db8::1".parse().unwrap()),
        6 => Value::Net("10.1.0.0/16".parse().unwrap()),
        7 => Value::Symbol("a.example.com".into()),
        8 => Value::Bool(true),
        _ => Value::from(*random.choice(words.parts).unwrap()),
    }
}

fn schema(random: &mut Rng, words: &Words) -> String {
    let kind = *random
        .choice(&["text", "", "text collate nocase", "blob"])
        .unwrap();
    let mut sql = match random.u8(0..6) {
        0 => format!("create table t(k {kind}, v integer, primary key (k, v)) without rowid;\n"),
        1 => format!("create table t(k {kind}, v integer primary key);\n"),
        _ => format!("create table t(k {kind}, v integer);\n"),
    };
    if random.u8(0..4) == 0 {
        sql.push_str("create index i on t(k);\n");
    }
    if random.u8(0..6) == 0 {
        sql.push_str(&format!(
            "create index j on t({});\n",
            words.order.replace("rowid", "k, v")
        ));
    }
    for _ in 0..random.u8(0..30) {
        let key = match random.u8(0..24) {
            0 => "null".to_owned(),
            1 => "7".to_owned(),
            2 => "x'61'".to_owned(),
            _ => literal(random.choice(words.parts).unwrap()),
        };
        sql.push_str(&format!(
            "insert or ignore into t values ({key}, {});\n",
            random.i64(..)
        ));
    }
    if random.u8(0..8) == 0 {
        sql.push_str("analyze;\n");
    }
    sql
}

fn statement(random: &mut Rng, words: &Words) -> String {
    let function = words.function;
    let x = *random
        .choice(&[
            ":x",
            ":x",
            "(:x)",
            "trim_quotes(:x)",
            "'10.1.2.3'",
            "'b.a.example.com'",
        ])
        .unwrap();
    let condition = match (function, random.u8(0..6)) {
        ("fold", 0) => format!("fold({x}) = fold(k)"),
        ("fold", 1) => format!("fold(k) = fold({x}) and v = :y"),
        ("fold", 2) => format!("trim_quotes(k) = {x}"),
        ("fold", 3) => format!("ip_key(k) = ip_key({x})"),
        ("fold", _) => format!("fold(k) = fold({x})"),
        (_, 0) => format!("{function}({x}, k) = 1"),
        (_, 1) => format!("(1 = {function}({x}, t.k))"),
        (_, 2) => format!("{function}({x}, k) and v = :y"),
        (_, 3) if random.bool() => format!("not {function}({x}, k)"),
        _ => format!("{function}({x}, k)"),
    };
    let order = words.order;
    let tail = match random.u8(0..14) {
        0 => " limit 1".to_owned(),
        1 | 2 => format!(" order by {order} desc limit 1"),
        3 => format!(" order by {order} desc"),
        4 => format!(" order by {order} desc, rowid limit 1"),
        5 => format!(" order by {order} desc, _rowid_ asc"),
        6 => " order by rowid limit 1".to_owned(),
        7 => " order by rowid".to_owned(),
        8 => format!(" order by {order} limit 1"),
        9 => format!(" order by {order} desc, v limit 1"),
        _ => String::new(),
    };
    let select = *random
        .choice(&["*", "v", "k, v", "v as rowid", "v as k"])
        .unwrap();
    format!("select {select} from t where {condition}{tail}")
}

#[derive(Debug, Default)]
struct Counts {
    native: usize,
    answered: usize,
    probes: usize,
    found: usize,
}

fn run(words: &Words) {
    let start = std::env::var("LOOKASIDE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let start: u64 = start.unwrap_or_else(|| fastrand::u64(0..1 << 40));
    let mut counts = Counts::default();
    for seed in start..start + 150 {
        let mut random = Rng::with_seed(seed);
        let script = schema(&mut random, words);
        let fixture = Fixture::new(words.function, "");
        for sql in script.split(";\n") {
            // Some functions refuse values that an index would need.
            _ = fixture.connection.execute_batch(sql);
        }
        for _ in 0..12 {
            let sql = statement(&mut random, words);
            let names = ["x", "y"];
            let plan = fixture.plan(&sql, &names);
            if plan.explain().kind == PlanKind::Sqlite {
                continue;
            }
            assert_eq!(plan.explain().kind, words.kind, "{sql}");
            counts.native += 1;
            for _ in 0..12 {
                let values = [value(&mut random, words), Value::Int(random.i64(..))];
                let is_answered = fixture
                    .compare(&plan, &sql, &names, &values)
                    .unwrap_or_else(|difference| {
                        panic!("LOOKASIDE_SEED={seed}: {difference}\n{script}")
                    });
                counts.probes += 1;
                counts.answered += usize::from(is_answered);
                counts.found += usize::from(matches!(plan.first(&values), Probe::Row(_)));
            }
        }
    }
    // Otherwise the test would pass without comparing anything.
    assert!(counts.native > 500, "{counts:?}");
    assert!(counts.answered * 10 > counts.probes * 9, "{counts:?}");
    assert!(counts.found * 10 > counts.probes, "{counts:?}");
}

#[test]
fn networks_are_those_of_sqlite() {
    run(&NETWORKS);
}

#[test]
fn hosts_are_those_of_sqlite() {
    run(&HOSTS);
}

#[test]
fn paths_are_those_of_sqlite() {
    run(&PATHS);
}

#[test]
fn patterns_are_those_of_sqlite() {
    run(&PATTERNS);
}

#[test]
fn equal_results_are_those_of_sqlite() {
    run(&FOLDED);
}

#[test]
fn values_of_another_form_cause_a_warning() {
    let fixture = Fixture::new(
        "invalid-keys",
        "create table t(k text);
         insert into t values ('10.0.0.0/8'), ('10.0.0.0/33'), (null), (''), ('n/a');
         create table p(k text); insert into p values ('ok'), ('a(');
         create table q(k text); insert into q values (''), ('a('), ('b'), ('c(');",
    );
    let mut explanation = fixture
        .plan("select k from t where cidr_contains(:x, k)", &["x"])
        .explain();
    assert_eq!(explanation.kind, PlanKind::Interval);
    let warning = explanation.warnings.pop().unwrap();
    assert_eq!(
        warning.message,
        "2 values of `t.k` are not a network, so no key finds their rows; the first is `10.0.0.0/33` in row 2"
    );
    let mut explanation = fixture
        .plan("select k from p where regexp_like(:x, k)", &["x"])
        .explain();
    assert_eq!(explanation.kind, PlanKind::Sqlite);
    let warning = explanation.warnings.pop().unwrap();
    assert_eq!(
        warning.message,
        "`a(` in row 2 of `p.k` is not a regular expression: unclosed group"
    );
    let several = fixture.plan("select k from q where regexp_like(:x, k)", &["x"]);
    assert_eq!(
        several.explain().warnings[0].message,
        "2 values of `q.k` are not a regular expression; the first is `a(` in row 2: unclosed group"
    );
    let error = fixture.sqlite(
        "select k from p where regexp_like(:x, k)",
        &["x"],
        &["x".into()],
        9,
    );
    assert_eq!(
        error.unwrap_err(),
        "regexp_like(): `a(` is not a regular expression: unclosed group"
    );
}
