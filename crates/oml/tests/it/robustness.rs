//! Whatever a record contains, no statement panics.

use lookaside_oml::{Model, Program, RunReport};
use lookaside_value::{Batch, NameTable, Object, Value};

use crate::script::{Script, bind, options, push, run, shown};

/// Statements of every form, over the fields `a`, `b` and `c`.
const FORMS: [&str; 24] = [
    "x : digit = read(a, option:[b, c/d[0]]) { _ : take(c) } ;",
    "x : float = take(b) ;",
    "x : ip = take(option:[a, b]) ;",
    "x : bool = read(a/b) ;",
    "x : chars = read(c) ;",
    "* : chars = take() ;",
    "a* = read() ;",
    "x = fmt(\"{a}{b}\", @a, take(b)) ;",
    "x = collect take(keys:[*]) ;",
    "x = object { a, b : chars = take() ; c = read() ; } ;",
    "x = array { read(a) ; take(b) ; } ;",
    "x = match (read(a), take(b)) { (digit(1), in (ip(1.1.1.1), ip(2.2.2.2))) => read(c) ; _ => \
         take(c) ; } ;",
    "x = match read(a) { iequals('x') | gt(1) | !chars(y) | regex_match('^.$') | is_empty() => \
         read(a) ; } ;",
    "x = match read(a) { in_range(1, 2) | in (float(0.5), float(1.5)) => chars(n) ; _ => \
         read(b) ; } ;",
    "x = pipe read(a) | nth(0) | get(a/b) | to_json | json_unescape | str_escape | html_escape ;",
    "x = pipe read(b) | to_str | base64_decode(Gbk) | url(uri) | path(name) | on_fail('f') ;",
    "x = pipe read(c) | Time::to_ts_zone(-5, us) | ip4_to_int ;",
    "x = pipe read(a) | Time::to_ts | skip_empty | intranet_ip ;",
    "x = pipe read(c) | Time::parse | Time::truncate(week) | Time::format('%F %Z', Asia/Tokyo) ;",
    "x = pipe read(a) | Time::parse('%s') | Time::since(take(c), us) | Time::from_ts ;",
    "x = calc(abs(read(a)) * read(b) % round(@c) / -2) ;",
    "x = lookup_nocase(d, read(a), read(b)) ;",
    "x = access_direct(read(a), read(b)) ;",
    "x, y : digit = select u, v from t where k = read(a) and l = take(b) ;",
];

fn odd_values() -> Vec<Value> {
    let object: Object = [
        ("b".into(), Value::Int(1)),
        ("d".into(), Value::from(vec![Value::Null])),
    ]
    .into_iter()
    .collect();
    vec![
        Value::Null,
        Value::Ignore,
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Int(0),
        Value::Float(f64::NAN),
        Value::Float(1e300),
        Value::Decimal("340282366920938463463374607431768211455".parse().unwrap()),
        Value::from(""),
        Value::from("\u{0}\"\\é😀"),
        Value::from("SGVsbG8="),
        Value::from("http://[::1]:80/%?#"),
        Value::Symbol("s".into()),
        Value::from(vec![0_u8, 255]),
        Value::Time("9999-12-31 23:59:59.999999999 +18:00".parse().unwrap()),
        Value::Ip("1.1.1.1".parse().unwrap()),
        Value::Ip("::1".parse().unwrap()),
        Value::from(object),
        Value::from(vec![Value::Int(1), Value::from("x")]),
        Value::from(Vec::<Value>::new()),
    ]
}

/// Statements that each put the previous result into an object; the last one is the deepest.
fn nested(link: &str, count: usize) -> String {
    let links = (1..=count).map(|index| {
        link.replace("{this}", &format!("x{index}"))
            .replace("{last}", &format!("x{}", index - 1))
    });
    let links: String = links.collect();
    format!("x0 = chars(a) ;\n{links}")
}

#[test]
fn no_chain_of_statements_builds_a_value_that_no_stack_can_hold() {
    for link in [
        "{this} = object { a = read({last}) ; b = object { } ; } ;\n",
        "{this} = array { read(gone, option:[{last}]) } ;\n",
        "{this} = object { a = read(gone) { _ : @{last} } | to_str ; c = @{last}/a ; } ;\n",
        "{this} = object { a = match @x0 { chars(a) => read({last}) } } ;\n",
        "{this} = collect take(keys:[{last}]) ;\n",
    ] {
        let text = format!("name : t\n---\n{}", nested(link, 2_000));
        let model = Model::parse("t.oml", &text).unwrap();
        let bound = Program::bind(
            &model,
            &mut NameTable::new(),
            &mut Script::default(),
            &options(),
        );
        let errors = bound.expect_err("too deep").to_string();
        let first = errors.lines().next().unwrap_or_default();
        assert!(
            first.contains("objects and arrays nest at most 256 deep"),
            "{link}: {first}"
        );
    }
    let deepest = nested("{this} = object { a = read({last}) ; } ;\n", 256);
    let statements = format!("{deepest} json = @x256 | to_json ; raw : chars = @x256 ;");
    let (shown, _) = run(&statements, &[""], &mut Script::default());
    assert!(shown[0].ends_with("}\"}"), "{}", shown[0]);
}

#[test]
fn collecting_again_and_again_is_not_deep() {
    let statements: String = (0..400)
        .map(|index| format!("x{index} = collect read(keys:[a*]) ;\n"))
        .collect();
    let (shown, _) = run(&statements, &["a:digit=1"], &mut Script::default());
    assert!(shown[0].ends_with(r#""x399":[1]}"#), "{}", shown[0]);
}

#[test]
fn no_record_makes_any_statement_panic() {
    let values = odd_values();
    for seed in 0..2000_u64 {
        let mut state = seed;
        let mut below = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let statements: Vec<&str> = (0..4).map(|_| FORMS[below(FORMS.len())]).collect();
        let text = format!(
            "static {{ d = object {{ k = digit(1) ; }} ; }} {}",
            statements.join(" ")
        );
        let mut records = Vec::new();
        for _ in 0..4 {
            let names = ["a", "b", "c", "a/b", "__t", "b"].into_iter();
            let fields: Vec<_> = names
                .take(below(7))
                .map(|name| (name, values[below(values.len())].clone()))
                .collect();
            records.push(fields);
        }
        let run = std::panic::catch_unwind(|| {
            let mut script = Script::new(&["u", "v"])
                .failure([Value::Null, Value::Int(0)], "gone")
                .row(
                    [Value::from(""), Value::Null],
                    [Value::Null, Value::from("7")],
                );
            let (mut evaluator, names) = bind(&text, &mut script);
            let mut batch = Batch::new(names.into());
            for (index, fields) in records.into_iter().enumerate() {
                push(&mut batch, index as u64, fields);
            }
            evaluator.run(&mut batch, &mut script, &mut RunReport::new());
            batch
                .records()
                .iter()
                .map(|record| shown(batch.names(), record).len())
                .sum::<usize>()
        });
        assert!(run.is_ok(), "seed {seed}: {text}");
    }
}
