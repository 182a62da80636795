//! Random models over random records of every type: nothing panics, and a record's result does not
//! depend on the other records of the batch.

use lookaside_oml::{Model, Options, Program, RunReport};
use lookaside_value::{Batch, NameTable, Object, Record, Time, Value};

use crate::fuzz::Random;
use crate::harness::Sqlite;

/// The line of a record, and its fields.
type Shown = (u64, Vec<(String, Value)>);

const MODEL_COUNT: u64 = 400;
const RECORD_COUNT: usize = 12;
const STATEMENT_COUNT_MAX: usize = 8;

/// Few names, so that statements use each other's fields.
const NAMES: [&str; 6] = ["a", "b", "c", "a/b", "__t", "x_1"];

const TYPES: [&str; 8] = [
    "auto",
    "chars",
    "digit",
    "float",
    "bool",
    "ip",
    "json",
    "array/chars",
];

const LITERALS: [&str; 9] = [
    "chars(a)",
    "chars()",
    "digit(1)",
    "digit(-9223372036854775808)",
    "float(0.5)",
    "bool(true)",
    "ip(10.0.0.1)",
    "time(2026-01-01 08:00:00)",
    "symbol(GET)",
];

const STEPS: [&str; 45] = [
    "nth(0)",
    "nth(18446744073709551615)",
    "get(a/b)",
    "get(b)",
    "starts_with('a')",
    "map_to(5)",
    "map_to('x')",
    "base64_encode",
    "base64_decode()",
    "base64_decode(Gbk)",
    "base64_decode(Utf16le)",
    "base64_decode(Imap)",
    "html_escape",
    "html_unescape",
    "str_escape",
    "json_escape",
    "json_unescape",
    "Time::to_ts",
    "Time::to_ts_ms(18)",
    "Time::to_ts_us(-18)",
    "Time::to_ts_zone(-5, us)",
    "Time::from_ts",
    "Time::from_ts_ms",
    "Time::from_ts_us(18)",
    "Time::parse",
    "Time::parse('%Y-%m-%d %H:%M:%S', -5)",
    "Time::parse('%b %d')",
    "Time::format('%s')",
    "Time::truncate(week)",
    "Time::truncate(month)",
    "Time::since(read(a))",
    "Time::since(take(b) | Time::parse, us)",
    "to_json",
    "to_str",
    "skip_empty",
    "path(name)",
    "path(path)",
    "url(domain)",
    "url(host)",
    "url(uri)",
    "url(params)",
    "ip4_to_int",
    "ip_to_biguint",
    "intranet_ip",
    "on_fail('f')",
];

const CONDITIONS: [&str; 13] = [
    "digit(1)",
    "!chars(a)",
    "in (digit(-5), digit(5))",
    "in (chars(a), chars(z))",
    "in (ip(0.0.0.0), ip(255.255.255.255))",
    "starts_with('a')",
    "iequals_any('A', 'b')",
    "regex_match('^.$')",
    "is_empty()",
    "gt(0)",
    "lt(0)",
    "eq(1)",
    "in_range(-1e300, 1e300)",
];

const QUERIES: [&str; 4] = [
    "select login, note from users where uid = {1}",
    "select zone from zone where ip4_between('10.0.0.1', {1}, {2}) = 1",
    "select login, uid, dept from users where login in ({1}, {2}, 'amy') or uid > {1} order by uid desc",
    "select {1}, {2}, count(*) from users",
];

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len())]
}

fn access(random: &mut Random) -> String {
    let name = pick(random, &NAMES);
    match random.below(7) {
        0 => format!("take({name})"),
        4 => format!("read(option:[{name}, {}])", pick(random, &NAMES)),
        1 => format!(
            "read({name}, option:[{}, {}])",
            pick(random, &NAMES),
            pick(random, &NAMES)
        ),
        2 => format!("read({name}) {{ _ : {} }}", pick(random, &LITERALS)),
        3 => format!("take({name}) {{ _ : read({}) }}", pick(random, &NAMES)),
        _ => format!("read({name})"),
    }
}

fn calc(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 3 } else { 7 }) {
        0 => ["0", "1", "9223372036854775807", "0.5", "1e308"][random.below(5)].to_owned(),
        1 | 2 => format!("read({})", pick(random, &NAMES)),
        3 => format!("-({})", calc(random, depth - 1)),
        4 => {
            let function = pick(random, &["abs", "round", "floor", "ceil"]);
            format!("{function}({})", calc(random, depth - 1))
        }
        _ => {
            let operator = pick(random, &["+", "-", "*", "/", "%"]);
            format!(
                "({} {operator} {})",
                calc(random, depth - 1),
                calc(random, depth - 1)
            )
        }
    }
}

fn value(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return access(random);
    }
    let inner = depth - 1;
    match random.below(11) {
        0 => pick(random, &LITERALS).to_owned(),
        1 | 2 => {
            let steps: String = (0..=random.below(4))
                .map(|_| format!(" | {}", pick(random, &STEPS)))
                .collect();
            format!("{}{steps}", value(random, inner))
        }
        3 => format!(
            "object {{ a = {} ; b : chars = {} ; }}",
            value(random, inner),
            access(random)
        ),
        4 => format!("array {{ {} ; {} }}", value(random, inner), access(random)),
        5 => {
            let condition = pick(random, &CONDITIONS);
            let (result, default) = (value(random, inner), value(random, inner));
            format!(
                "match {} {{ {condition} => {result} ; _ => {default} ; }}",
                access(random)
            )
        }
        6 => format!(
            "match ({}, {}) {{ ({}, {} | {}) => {} ; }}",
            access(random),
            access(random),
            pick(random, &CONDITIONS),
            pick(random, &CONDITIONS),
            pick(random, &CONDITIONS),
            value(random, inner),
        ),
        7 => format!("calc({})", calc(random, 3)),
        8 => {
            let (one, two) = (pick(random, &NAMES), pick(random, &NAMES));
            format!("fmt(\"{{{one}}}-{{{two}}}\", read({one}), take({two}))")
        }
        9 => {
            let mode = pick(random, &["read", "take"]);
            format!("collect {mode}(keys:[*, {}*])", pick(random, &NAMES))
        }
        _ => match random.below(2) {
            0 => format!(
                "access_direct({}, {})",
                access(random),
                value(random, inner)
            ),
            _ => format!(
                "lookup_nocase(words, {}, {})",
                access(random),
                value(random, inner)
            ),
        },
    }
}

fn test(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 4 } else { 7 }) {
        0 => format!(
            "read({}) = {}",
            pick(random, &NAMES),
            pick(random, &LITERALS)
        ),
        1 => format!(
            "@{} != {}",
            pick(random, &["a", "b"]),
            pick(random, &LITERALS)
        ),
        2 => format!("read({}) gt(0) | is_empty()", pick(random, &NAMES)),
        3 => format!(
            "read({}) {{ _ : {} }} = {}",
            pick(random, &NAMES),
            value(random, 1),
            pick(random, &LITERALS)
        ),
        4 => format!("not ({})", test(random, depth - 1)),
        5 => format!(
            "{} and {}",
            test(random, depth - 1),
            test(random, depth - 1)
        ),
        _ => format!("{} or {}", test(random, depth - 1), test(random, depth - 1)),
    }
}

fn statement(random: &mut Random) -> String {
    let (name, type_word) = (pick(random, &NAMES), pick(random, &TYPES));
    match random.below(13) {
        12 => format!("drop when {} ;", test(random, 3)),
        0 => format!("{name}* = take() ;"),
        1 => format!("* : {type_word} = read() ;"),
        2 | 3 => {
            let query = pick(random, &QUERIES)
                .replace("{1}", &access(random))
                .replace("{2}", &access(random));
            format!(
                "{name} : {type_word}, _, {} = {query} ;",
                pick(random, &NAMES)
            )
        }
        _ => format!("{name} : {type_word} = {} ;", value(random, 3)),
    }
}

pub(crate) fn model(random: &mut Random) -> String {
    let statements: Vec<_> = (0..=random.below(STATEMENT_COUNT_MAX))
        .map(|_| statement(random))
        .collect();
    let words = "static { words = object { a = digit(1) ; error = float(9.5) ; } ; }";
    format!("name : r\n---\n{words}\n{}\n", statements.join("\n"))
}

fn field_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 20 } else { 22 }) {
        0 => Value::Null,
        1 => Value::Ignore,
        2 => Value::Bool(random.below(2) == 0),
        3 => Value::Int([0, 1, -1, i64::MIN, i64::MAX][random.below(5)]),
        4 => Value::Int(random.next() as i64),
        5 => {
            Value::Float([0.0, -0.0, 0.5, f64::NAN, f64::INFINITY, 1e308, -5e-324][random.below(7)])
        }
        6 => Value::Float(f64::from_bits(random.next())),
        7 => Value::Decimal("123456789012345678901234567890.10".parse().unwrap()),
        8 => Value::Symbol("a".into()),
        9 => Value::from(random.next().to_le_bytes().to_vec()),
        10 => Value::Time("2026-01-01 08:00:00.5 +0930".parse().unwrap()),
        11 => {
            let civil = [jiff::civil::DateTime::MIN, jiff::civil::DateTime::MAX][random.below(2)];
            Value::Time(Time::from_civil(civil))
        }
        12 => Value::Ip(
            ["10.0.0.1", "8.8.8.8", "::ffff:1.2.3.4", "fe80::1"][random.below(4)]
                .parse()
                .unwrap(),
        ),
        13 => Value::Net("10.0.0.0/8".parse().unwrap()),
        14 => Value::Uuid("67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap()),
        15 => Value::from(""),
        16 => Value::from("a"),
        17 => Value::from("https://u:p@h\u{e4}.example:99999/%zz?\u{1f600}#\\u12"),
        18 => Value::from(
            [
                "10.0.0.1",
                "SGVsbG8",
                "=",
                "&#x110000;",
                "\\",
                "-5",
                "1e999",
                "a/b\\",
            ][random.below(8)],
        ),
        19 => Value::from("\u{e9}\0\u{1f600}".repeat(random.below(40))),
        20 => {
            let values: Vec<_> = (0..random.below(4))
                .map(|_| field_value(random, depth - 1))
                .collect();
            Value::from(values)
        }
        _ => {
            let mut object = Object::new();
            for _ in 0..random.below(4) {
                object.insert(pick(random, &NAMES).into(), field_value(random, depth - 1));
            }
            Value::from(object)
        }
    }
}

fn fields(random: &mut Random) -> Vec<(&'static str, Value)> {
    (0..random.below(7))
        .map(|_| (pick(random, &NAMES), field_value(random, 3)))
        .collect()
}

/// Runs the records as one batch and gives the results that are not dropped, each with its line and
/// its names.
fn run(text: &str, records: &[Vec<(&str, Value)>], first_line: u64) -> Vec<Shown> {
    let model = Model::parse("r.oml", text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let mut names = NameTable::new();
    let mut database = Sqlite::new();
    let options = Options::default();
    let program = Program::bind(&model, &mut names, &mut database, &options);
    let mut evaluator = program
        .unwrap_or_else(|errors| panic!("{text}\n{errors}"))
        .evaluator();
    let mut batch = Batch::new(names.into());
    for (line, fields) in (first_line..).zip(records) {
        let mut record = batch.new_record();
        record.line = line;
        for (name, value) in fields {
            let name = batch.names_mut().intern(name);
            record.push(name, value.clone());
        }
        batch.push(record);
    }
    evaluator.run(&mut batch, &mut database, &mut RunReport::new());
    let shown = |record: &Record| {
        let fields = record.iter();
        let fields = fields.map(|field| {
            (
                batch.names().text(field.name).to_string(),
                field.value.clone(),
            )
        });
        (record.line, fields.collect())
    };
    batch.records().iter().map(shown).collect()
}

#[test]
fn records_do_not_know_their_neighbours() {
    for seed in 0..MODEL_COUNT {
        let mut random = Random(seed);
        let text = model(&mut random);
        let records: Vec<_> = (0..RECORD_COUNT).map(|_| fields(&mut random)).collect();
        let run_all = || {
            let together = run(&text, &records, 0);
            let alone = (0..)
                .zip(&records)
                .flat_map(|(line, record)| run(&text, std::slice::from_ref(record), line));
            assert_eq!(alone.collect::<Vec<_>>(), together, "{records:?}");
        };
        let outcome = std::panic::catch_unwind(run_all);
        assert!(outcome.is_ok(), "seed {seed}:\n{text}");
    }
}
