//! What each statement does to a record, against a database that is a list of answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI8, Ordering};

use lookaside_oml::{Evaluator, Model, Options, Program, RunReport};
use lookaside_value::{
    Answers, Batch, Lookup, LookupError, LookupErrorKind, NameTable, Names, Object, ParamBatch,
    Record, RowSetBuilder, StatementId, Text, Value, write_json_text,
};

/// A database that answers the same to every statement and remembers what it was asked.
#[derive(Default)]
struct Script {
    columns: Vec<Text>,
    rows: HashMap<Vec<Value>, Result<Vec<Value>, &'static str>>,
    asked: Vec<Vec<Vec<Value>>>,
    prepared: Vec<String>,
    refuses: bool,
}

impl Script {
    fn new(columns: &[&str]) -> Self {
        Self {
            columns: columns.iter().map(|column| (*column).into()).collect(),
            ..Self::default()
        }
    }

    fn row<const N: usize>(mut self, params: [Value; N], row: impl Into<Vec<Value>>) -> Self {
        self.rows.insert(params.to_vec(), Ok(row.into()));
        self
    }

    fn failure<const N: usize>(mut self, params: [Value; N], message: &'static str) -> Self {
        self.rows.insert(params.to_vec(), Err(message));
        self
    }
}

impl Lookup for Script {
    fn prepare(&mut self, sql: &str, params: &[Text]) -> Result<StatementId, LookupError> {
        if self.refuses {
            return Err(LookupError::new(
                LookupErrorKind::Refused,
                "no such table: nowhere",
            ));
        }
        assert!(
            params
                .iter()
                .all(|param| sql.contains(&format!(":{param}"))),
            "{sql} {params:?}"
        );
        self.prepared.push(sql.to_owned());
        Ok(StatementId::from_index(self.prepared.len() - 1))
    }

    fn columns(&self, _: StatementId) -> &[Text] {
        &self.columns
    }

    fn answer(&mut self, _: StatementId, params: &ParamBatch, answers: &mut Answers) {
        answers.clear();
        self.asked
            .push(params.iter().map(<[Value]>::to_vec).collect());
        for set in params.iter() {
            match self.rows.get(set) {
                None => answers.push_absent(),
                Some(Ok(row)) => {
                    let mut rows = RowSetBuilder::new(self.columns.clone());
                    rows.push(row.clone());
                    let rows = answers.add_rows(rows.build());
                    answers.push_row(rows, 0);
                }
                Some(Err(message)) => {
                    let error = LookupError::new(LookupErrorKind::Unavailable, *message);
                    answers.push_failed(error);
                }
            }
        }
    }
}

/// `a:chars=x  b:digit=7`: fields of a record, parted by two blanks.
fn fields(text: &str) -> Vec<(&str, Value)> {
    let fields = text
        .split("  ")
        .map(str::trim)
        .filter(|field| !field.is_empty());
    fields.map(field).collect()
}

fn field(text: &str) -> (&str, Value) {
    let (name, typed) = text.split_once(':').expect("name:type=value");
    let (type_word, value) = typed.split_once('=').expect("name:type=value");
    let value = match type_word {
        "chars" => Value::from(value),
        "digit" => Value::Int(value.parse().unwrap()),
        "float" => Value::Float(value.parse().unwrap()),
        "bool" => Value::Bool(value.parse().unwrap()),
        "ip" => Value::Ip(value.parse::<IpAddr>().unwrap()),
        "time" => Value::Time(value.parse().unwrap()),
        "null" => Value::Null,
        "array" => value.split(',').map(Value::from).collect::<Vec<_>>().into(),
        other => panic!("no type {other}"),
    };
    (name, value)
}

/// The fields that outputs show, as JSON.
fn shown(names: &Names, record: &Record) -> String {
    let mut out = String::from("{");
    for field in record
        .iter()
        .filter(|field| !matches!(field.value, Value::Ignore))
    {
        if out.len() > 1 {
            out.push(',');
        }
        write_json_text(names.text(field.name), &mut out);
        out.push(':');
        field.value.write_json(&mut out);
    }
    out + "}"
}

fn options() -> Options {
    Options {
        clock: Arc::new(|| jiff::civil::date(2026, 5, 4).at(3, 2, 1, 500_000_000)),
        ..Options::default()
    }
}

fn bind(statements: &str, script: &mut Script) -> (Evaluator, NameTable) {
    let text = format!("name : t\n---\n{statements}\n");
    let model = Model::parse("t.oml", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let mut names = NameTable::new();
    let program = Program::bind(&model, &mut names, script, &options());
    (
        program
            .unwrap_or_else(|error| panic!("{text}\n{error}"))
            .evaluator(),
        names,
    )
}

fn push(batch: &mut Batch, line: u64, fields: Vec<(&str, Value)>) {
    let mut record = batch.new_record();
    record.line = line;
    for (name, value) in fields {
        let name = batch.names_mut().intern(name);
        record.push(name, value);
    }
    batch.push(record);
}

/// Runs one batch and gives what outputs would show of each record.
fn run(statements: &str, inputs: &[&str], script: &mut Script) -> (Vec<String>, RunReport) {
    let (mut evaluator, names) = bind(statements, script);
    let mut batch = Batch::new(names.into());
    for (index, input) in inputs.iter().enumerate() {
        push(&mut batch, index as u64 + 1, fields(input));
    }
    let mut report = RunReport::new();
    evaluator.run(&mut batch, script, &mut report);
    let shown = batch
        .records()
        .iter()
        .map(|record| shown(batch.names(), record))
        .collect();
    (shown, report)
}

#[track_caller]
fn check(statements: &str, input: &str, expected: &str) {
    let (shown, _) = run(statements, &[input], &mut Script::default());
    assert_eq!(shown, [expected], "{statements}");
}

#[track_caller]
fn check_values(statements: &str, input: Vec<(&str, Value)>, expected: &str) {
    let (mut evaluator, names) = bind(statements, &mut Script::default());
    let mut batch = Batch::new(names.into());
    push(&mut batch, 1, input);
    evaluator.run(&mut batch, &mut Script::default(), &mut RunReport::new());
    assert_eq!(
        shown(batch.names(), &batch.records()[0]),
        expected,
        "{statements}"
    );
}

#[test]
fn read_looks_in_the_result_first_and_copies() {
    check(
        "x = read(a) ; y = read(a) ;",
        "a:digit=1",
        r#"{"x":1,"y":1}"#,
    );
    check(
        "a = chars(new) ; b = read(a) ;",
        "a:chars=old",
        r#"{"a":"new","b":"new"}"#,
    );
    check(
        "a = chars(1) ; a = chars(2) ; b = read(a) ;",
        "",
        r#"{"a":"1","a":"2","b":"1"}"#,
    );
    check("a = read() ;", "a:digit=1  b:digit=2", r#"{"a":1}"#);
    check("x = read(gone) ;", "a:digit=1", "{}");
    check("x = read(a) ;", "a:null=", r#"{"x":null}"#);
    check("_ = read(a) ;", "a:digit=1", r#"{"_":1}"#);
}

#[test]
fn take_removes_from_the_source_only() {
    check(
        "x = take(a) ; y = take(a) ; z = read(a) ;",
        "a:digit=1",
        r#"{"x":1}"#,
    );
    check("a = chars(new) ; b = take(a) ;", "", r#"{"a":"new"}"#);
    check(
        "a = chars(new) ; b = take(a) ;",
        "a:digit=1",
        r#"{"a":"new","b":1}"#,
    );
    check(
        "x = take(a) ; y = take(a) ;",
        "a:digit=1  a:digit=2",
        r#"{"x":1,"y":2}"#,
    );
}

#[test]
fn options_skip_what_is_empty_but_the_key_does_not() {
    let input = "user:chars=  uname:chars=neo";
    check("x = read(user, option:[uname]) ;", input, r#"{"x":""}"#);
    check("x = read(option:[user, uname]) ;", input, r#"{"x":"neo"}"#);
    check(
        "x = read(option:[n, uname]) ;",
        "n:null=  uname:chars=neo",
        r#"{"x":"neo"}"#,
    );
    check(
        "user = chars(top) ; x = read(option:[user, uname]) ;",
        input,
        r#"{"user":"top","x":"top"}"#,
    );
    check(
        "user = chars() ; x = read(option:[user]) ;",
        "user:chars=src",
        r#"{"user":"","x":"src"}"#,
    );
    check(
        "x = take(option:[user, uname]) ; y = read(uname) ; z = read(user) ;",
        input,
        r#"{"x":"neo","z":""}"#,
    );
    check(
        "x = take(gone, option:[uname]) ; y = read(uname) ;",
        input,
        r#"{"x":"neo"}"#,
    );
}

#[test]
fn defaults_stand_in_for_what_is_missing() {
    check(
        "x = read(a) { _ : chars(none) } ;",
        "a:chars=",
        r#"{"x":""}"#,
    );
    check("x = read(a) { _ : chars(none) } ;", "", r#"{"x":"none"}"#);
    check("x = take(a) { _ : digit(7) } ;", "", r#"{"x":7}"#);
    check("x = read(a) { _ : read(b) } ;", "b:digit=2", r#"{"x":2}"#);
    check(
        "x = read(a) { _ : take(b) } ; y = read(b) ;",
        "b:digit=2",
        r#"{"x":2}"#,
    );
    check("x = read(a) { _ : read(b) } ;", "", "{}");
    check("x = read(a) { _ : Now::date() } ;", "", r#"{"x":20260504}"#);
    check(
        "static { d = chars(st) ; } x = read(a) { _ : d } ;",
        "",
        r#"{"x":"st"}"#,
    );
}

#[test]
fn the_clock_has_three_forms() {
    check(
        "a = Now::time() ; b = Now::date() ; c = Now::hour() ;",
        "",
        r#"{"a":"2026-05-04 03:02:01.5","b":20260504,"c":2026050403}"#,
    );
}

#[test]
fn the_clock_is_read_once_a_batch() {
    let reads = AtomicI8::new(0);
    let options = Options {
        clock: Arc::new(move || {
            let day = reads.fetch_add(1, Ordering::Relaxed) + 1;
            jiff::civil::date(2026, 1, day).at(0, 0, 0, 0)
        }),
        ..Options::default()
    };
    let model = Model::parse(
        "t.oml",
        "name : t\n---\na = Now::date() ; b = Now::date() ;",
    )
    .unwrap();
    let mut names = NameTable::new();
    let mut script = Script::default();
    let program = Program::bind(&model, &mut names, &mut script, &options).unwrap();
    let mut evaluator = program.evaluator();
    let mut batch = Batch::new(names.into());
    for day in 1..=2 {
        batch.clear();
        push(&mut batch, 1, Vec::new());
        push(&mut batch, 2, Vec::new());
        evaluator.run(&mut batch, &mut script, &mut RunReport::new());
        for record in batch.records() {
            let expected = format!(r#"{{"a":2026010{day},"b":2026010{day}}}"#);
            assert_eq!(shown(batch.names(), record), expected);
        }
    }
}

#[test]
fn targets_convert_or_leave_alone() {
    check("x : digit = read(a) ;", "a:chars=42", r#"{"x":42}"#);
    check("x : digit = read(a) ;", "a:chars=neo", r#"{"x":"neo"}"#);
    check("x : chars = read(a) ;", "a:float=600", r#"{"x":"600"}"#);
    check("x : float = read(a) ;", "a:digit=6", r#"{"x":6}"#);
    check(
        "x : time = read(a) ;",
        "a:chars=2026-01-01 08:00:00",
        r#"{"x":"2026-01-01 08:00:00"}"#,
    );
    check(
        "x : chars = pipe read(a) | skip_empty ;",
        "a:digit=0",
        r#"{"x":""}"#,
    );
}

#[test]
fn moves_keep_names_and_order_and_never_double_a_name() {
    let input = "src_ip:chars=1.1.1.1  src_port:digit=80  dst_ip:chars=2.2.2.2  name:chars=n";
    check(
        "* = take() ;",
        input,
        r#"{"src_ip":"1.1.1.1","src_port":80,"dst_ip":"2.2.2.2","name":"n"}"#,
    );
    check(
        "src_ip = chars(masked) ; src_* = take() ; *_ip = read() ; * = take() ;",
        input,
        r#"{"src_ip":"masked","src_port":80,"dst_ip":"2.2.2.2","name":"n"}"#,
    );
    check(
        "src_* = read() ; x = read(src_port) ; y = take(src_port) ;",
        input,
        r#"{"src_ip":"1.1.1.1","src_port":80,"x":80}"#,
    );
    check(
        "d*p = take() ;",
        "details[0]/p:digit=1  d/q:digit=2",
        r#"{"details[0]/p":1}"#,
    );
    check("z* = take() ;", input, "{}");
    check("* = take() ;", "a:digit=1  a:digit=2", r#"{"a":1}"#);
    check(
        "x* : chars = take() ;",
        "a:chars=1  x:digit=2  b:chars=3",
        r#"{"a":"1","b":"3"}"#,
    );
}

#[test]
fn blanks_around_a_name_do_not_count() {
    let input = vec![(" ab ", Value::Int(1)), ("b", Value::Int(2))];
    check_values("a* = take() ;", input, r#"{" ab ":1}"#);
}

#[test]
fn verdicts_on_names_do_not_outlive_their_batch() {
    let mut script = Script::default();
    let (mut evaluator, names) = bind("a* = take() ; __* = take() ;", &mut script);
    let mut batch = Batch::new(names.into());
    for (name, expected) in [
        ("ab", r#"{"ab":1}"#),
        ("b", "{}"),
        ("__b", "{}"),
        ("ac", r#"{"ac":1}"#),
    ] {
        batch.clear();
        push(&mut batch, 1, vec![(name, Value::Int(1))]);
        evaluator.run(&mut batch, &mut script, &mut RunReport::new());
        assert_eq!(shown(batch.names(), &batch.records()[0]), expected);
    }
}

#[test]
fn temporaries_serve_and_vanish() {
    check("__a = read(a) ; b = read(__a) ;", "a:digit=1", r#"{"b":1}"#);
    check("* = take() ;", "__a:digit=1  b:digit=2", r#"{"b":2}"#);
    check("_a = read(a) ;", "a:digit=1", r#"{"_a":1}"#);
}

#[test]
fn fmt_fills_all_places_or_is_empty() {
    check(
        r#"x = fmt("{a}-{b}", @a, read(b)) ;"#,
        "a:digit=1  b:float=2",
        r#"{"x":"1-2"}"#,
    );
    check(
        r#"x = fmt("{a}-{b}", @a, @b) ;"#,
        "a:digit=1",
        r#"{"x":""}"#,
    );
    check(
        r#"w : digit = fmt("{a}7", @a) ;"#,
        "a:digit=1",
        r#"{"w":17}"#,
    );
    check(r#"x = fmt("{{{a}}}", @a) ;"#, "a:chars=y", r#"{"x":"{y}"}"#);
    check(
        r#"x = fmt("{a}", take(a)) ; y = read(a) ;"#,
        "a:chars=y",
        r#"{"x":"y"}"#,
    );
    check(r#"x = fmt("<{a}>", @a) ;"#, "a:null=", r#"{"x":"<>"}"#);
    let default = r#"x = fmt("{a}", read(a) { _ : take(b) }) ; y = read(b) ;"#;
    check(default, "b:digit=2", r#"{"x":"2"}"#);
    check(default, "a:digit=1  b:digit=2", r#"{"x":"1","y":2}"#);
    check(
        r#"x = fmt("{a}", read(a) { _ : Now::date() }) ;"#,
        "",
        r#"{"x":"20260504"}"#,
    );
}

#[test]
fn collect_gathers_by_pattern() {
    let input = "d1:chars=a  d2:digit=2  e1:chars=c";
    check(
        "x = collect take(keys:[d*]) ; y = read(d1) ;",
        input,
        r#"{"x":["a",2],"y":"a"}"#,
    );
    check(
        "x = collect read(keys:[d*, e*]) ;",
        input,
        r#"{"x":["a","c"]}"#,
    );
    check(
        "d0 = chars(top) ; x = collect read(keys:[d*]) ;",
        input,
        r#"{"d0":"top","x":["top"]}"#,
    );
    check(
        "d0 = chars(top) ; x = collect take(keys:[d*]) ;",
        input,
        r#"{"d0":"top","x":["a",2,"top"]}"#,
    );
    check("x = collect take(keys:[z*]) ;", input, "{}");
    check(
        "d0 = pipe read(d1) | starts_with('z') ; x = collect read(keys:[d*]) ;",
        input,
        r#"{"x":["a"]}"#,
    );
}

#[test]
fn objects_hold_what_is_there() {
    let input = "cpu:digit=93  mem:chars=7";
    check(
        "x = object { mem, cpu : digit = take() ; gone = read() ; h : chars = chars(n) ; } ; \
             y = read(cpu) ;",
        input,
        r#"{"x":{"cpu":93,"h":"n","mem":7}}"#,
    );
    check("x = object { gone = read() ; } ;", input, r#"{"x":{}}"#);
    check(
        "x = object { in = object { cpu = read() ; } ; up = pipe read(mem) | base64_encode ; \
             zero = pipe read(z) | skip_empty ; } ;",
        "cpu:digit=93  mem:chars=7  z:digit=0",
        r#"{"x":{"in":{"cpu":93},"up":"Nw=="}}"#,
    );
}

#[test]
fn arrays_leave_out_what_is_nothing() {
    check(
        "x = array { read(a) ; read(gone) ; read(n) ; chars(c) ; object { a = read() ; } ; } ;",
        "a:digit=1  n:null=",
        r#"{"x":[1,"c",{"a":1}]}"#,
    );
    check("x = array { read(gone) ; read(n) ; } ;", "n:null=", "{}");
}

#[test]
fn matches_try_cases_from_the_top() {
    let code = "x = match read(a) { in (digit(1), digit(3)) => chars(low) ; digit(3) | \
         digit(4) => chars(three) ; !digit(5) => chars(other) ; } ;";
    for (a, expected) in [("1", "low"), ("3", "low"), ("4", "three"), ("9", "other")] {
        check(
            code,
            &format!("a:digit={a}"),
            &format!(r#"{{"x":"{expected}"}}"#),
        );
    }
    check(code, "a:digit=5", "{}");
    check(code, "a:chars=9", "{}");
    check(code, "", "{}");
    let tuple = "x = match (read(a), read(b)) { (chars(u) | chars(v), starts_with('w')) => \
         read(b) ; _ => read(gone) { _ : chars(no) } ; } ;";
    check(tuple, "a:chars=v  b:chars=ww", r#"{"x":"ww"}"#);
    check(tuple, "a:chars=v  b:chars=x", r#"{"x":"no"}"#);
    check(tuple, "a:chars=z  b:chars=ww", r#"{"x":"no"}"#);
    check(tuple, "a:chars=v", r#"{"x":"no"}"#);
    check(
        "x = match take(a) { chars(u) => read(a) { _ : chars(taken) } ; } ;",
        "a:chars=u",
        r#"{"x":"taken"}"#,
    );
    check(
        "static { lo = digit(1) ; hi = digit(2) ; r = chars(in) ; \
             } x = match read(a) { in (lo, hi) => r ; _ => collect read(keys:[a]) ; } ;",
        "a:digit=2",
        r#"{"x":"in"}"#,
    );
    check(
        "static { lo = digit(1) ; } x = match read(a) { !lo => chars(n) ; _ => \
             collect read(keys:[a]) ; } ;",
        "a:digit=1",
        r#"{"x":[1]}"#,
    );
}

#[test]
fn tuples_of_any_width_match() {
    let names: Vec<String> = (0..12).map(|index| format!("f{index}")).collect();
    let reads: Vec<String> = names.iter().map(|name| format!("read({name})")).collect();
    let conditions = ["digit(1)"; 12].join(", ");
    let statement = format!(
        "x = match ({}) {{ ({conditions}) => chars(y) ; _ => chars(n) ; }} ;",
        reads.join(", ")
    );
    let input = |last: i64| -> String {
        let fields = names.iter().enumerate();
        let fields = fields
            .map(|(index, name)| format!("{name}:digit={}", if index == 11 { last } else { 1 }));
        fields.collect::<Vec<_>>().join("  ")
    };
    check(&statement, &input(1), r#"{"x":"y"}"#);
    check(&statement, &input(2), r#"{"x":"n"}"#);
}

#[test]
fn pipes_need_a_value_and_may_drop_it() {
    check("x = pipe read(gone) | map_to(1) ;", "", "{}");
    check("x = pipe read(a) | ip4_to_int ;", "a:chars=nowhere", "{}");
    check(
        "x = pipe read(a) | starts_with('h') | map_to(true) ;",
        "a:chars=http",
        r#"{"x":true}"#,
    );
    check(
        "x = pipe read(a) | starts_with('h') | map_to(true) ;",
        "a:chars=ftp",
        "{}",
    );
    check(
        "x = pipe read(a) | starts_with('h') | on_fail('no') ;",
        "a:chars=ftp",
        r#"{"x":"no"}"#,
    );
    check(
        "x = read(a) | nth(1) | base64_encode ;",
        "a:array=u,v",
        r#"{"x":"dg=="}"#,
    );
}

#[test]
fn calculations_have_a_result_or_are_ignored() {
    check("x = calc(read(a) * 2 + 1) ;", "a:digit=3", r#"{"x":7}"#);
    check("x = calc(-(read(a) / 2)) ;", "a:digit=3", r#"{"x":-1.5}"#);
    check("x = calc(round(@a) % 2) ;", "a:float=2.5", r#"{"x":1}"#);
    for (expression, input) in [
        ("read(a) / 0", "a:digit=3"),
        ("read(a) + 1", "a:chars=3"),
        ("read(a) + 1", ""),
        ("read(a) + 1", "a:digit=9223372036854775807"),
    ] {
        check(
            &format!("x = calc({expression}) ; y = read(x) {{ _ : chars(gone) }} ;"),
            input,
            "{}",
        );
    }
    check(
        "x = calc(read(gone) + take(a)) ; y = read(a) ;",
        "a:digit=1",
        "{}",
    );
}

#[test]
fn dictionaries_ignore_case() {
    let statics = "static { score = object { Error = float(90.0) ; ok = float(5.0) ; } ; }";
    let statement =
        format!("{statics} x = lookup_nocase(score, read(s), read(d) {{ _ : digit(4) }}) ;");
    check(&statement, "s:chars= ERROR ", r#"{"x":90.0}"#);
    check(&statement, "s:chars=warn  d:digit=3", r#"{"x":3}"#);
    check(&statement, "s:digit=1", r#"{"x":4}"#);
    check(&statement, "", r#"{"x":4}"#);
}

#[test]
fn directions_of_connections() {
    let statement = "x = access_direct(read(s), read(d)) | on_fail('unknown') ;";
    check(statement, "s:ip=10.0.0.5  d:ip=8.8.8.8", r#"{"x":"L2W"}"#);
    check(statement, "s:ip=10.0.0.5", r#"{"x":"unknown"}"#);
}

#[test]
fn constants_are_worked_out_once() {
    check(
        "static { c = calc(2 * 3) ; o = object { k = digit(1) ; } ; } x = c ; y = o ;",
        "",
        r#"{"x":6,"y":{"k":1}}"#,
    );
    check("static { c = chars(1) ; } x = read(c) ;", "", "{}");
    let model = Model::parse(
        "t.oml",
        "name : t\n---\nstatic { c = calc(1 / 0) ; }\nx = c ;\n",
    );
    let error = match model {
        Err(error) => error,
        Ok(model) => {
            let mut names = NameTable::new();
            let bound = Program::bind(&model, &mut names, &mut Script::default(), &options());
            bound.expect_err("no result")
        }
    };
    assert!(error.to_string().starts_with("t.oml:3:"), "{error}");
}

fn nested() -> Vec<(&'static str, Value)> {
    let object = |members: &[(&str, Value)]| {
        let members = members
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()));
        Value::from(members.collect::<Object>())
    };
    let inner = object(&[("b", Value::Int(1)), ("x", Value::from(""))]);
    let list = Value::from(vec![inner.clone(), Value::from("last")]);
    vec![
        ("a", object(&[("in", inner), ("list", list.clone())])),
        ("list", list),
    ]
}

#[test]
fn names_with_slashes_also_lead_into_objects() {
    check_values("x = read(a/in/b) ;", nested(), r#"{"x":1}"#);
    check_values(
        "x = read(a/list[0]/b) ; y = read(list[1]) ;",
        nested(),
        r#"{"x":1,"y":"last"}"#,
    );
    check_values(
        "x = read(a/in/zz) ; y = read(list[2]) ; z = read(a[0]) ;",
        nested(),
        "{}",
    );
    check_values("x = read(/a/in) ;", nested(), "{}");
    check_values(
        "x = read(option:[a/in/x, a/in/b]) ;",
        nested(),
        r#"{"x":1}"#,
    );
    check_values(
        "x = match read(a/in/b) { digit(1) => chars(one) ; } ;",
        nested(),
        r#"{"x":"one"}"#,
    );
    let mut literal = nested();
    literal.push(("a/in/b", Value::from("literal")));
    check_values("x = read(a/in/b) ;", literal, r#"{"x":"literal"}"#);
    check_values(
        "o = object { k = chars(v) ; } ; x = read(o/k) ;",
        nested(),
        r#"{"o":{"k":"v"},"x":"v"}"#,
    );
}

const LOOKUP: &str = "who, dept = select login, dept from users where uid = read(uid) ;";

fn users() -> Script {
    Script::new(&["login", "dept"])
        .row([Value::Int(1)], ["amy".into(), Value::Null])
        .row([Value::Int(2)], ["bo".into(), Value::from("7")])
        .failure([Value::Int(13)], "the server is gone")
}

#[test]
fn a_lookup_asks_once_a_batch_for_distinct_sets() {
    let mut script = users();
    let inputs = [
        "uid:digit=2",
        "uid:digit=1",
        "uid:digit=2",
        "",
        "uid:digit=9",
        "uid:null=",
    ];
    let (shown, report) = run(LOOKUP, &inputs, &mut script);
    assert_eq!(
        shown,
        [
            r#"{"who":"bo","dept":"7"}"#,
            r#"{"who":"amy","dept":null}"#,
            r#"{"who":"bo","dept":"7"}"#,
            "{}",
            "{}",
            "{}",
        ]
    );
    let one_call = [[2, 1, 9].map(|uid| vec![Value::Int(uid)])];
    assert_eq!(script.asked, one_call);
    assert_eq!((report.lookup_count, report.lookup_asked_count), (6, 3));
    assert_eq!(
        (report.lookup_absent_count, report.lookup_failed_count),
        (3, 0)
    );
    assert_eq!(report.record_count, 6);
}

#[test]
fn a_batch_without_any_input_asks_nothing() {
    let mut script = users();
    let (shown, report) = run(LOOKUP, &["a:digit=1", ""], &mut script);
    assert_eq!(shown, ["{}", "{}"]);
    assert!(script.asked.is_empty());
    assert_eq!(report.lookup_absent_count, 2);
}

#[test]
fn a_missing_input_beside_others_is_null() {
    let mut script = Script::new(&["v"]).row([Value::Null, Value::Int(2)], [Value::Int(5)]);
    let statement = "x = select v from t where a = read(a) and b = take(b) ; y = read(b) ;";
    let (shown, _) = run(statement, &["b:digit=2", "c:digit=3"], &mut script);
    assert_eq!(shown, [r#"{"x":5}"#, "{}"]);
    assert_eq!(script.asked, [[[Value::Null, Value::Int(2)].to_vec()]]);
}

#[test]
fn an_ignored_input_is_no_input() {
    let mut script = users();
    let statements = format!("uid = pipe read(n) | skip_empty ; {LOOKUP}");
    let (shown, _) = run(&statements, &["n:digit=0", "n:digit=2"], &mut script);
    assert_eq!(shown, ["{}", r#"{"uid":2,"who":"bo","dept":"7"}"#]);
    assert_eq!(script.asked, [[[Value::Int(2)].to_vec()]]);
}

#[test]
fn a_lookup_without_parameters_asks_once() {
    let mut script = Script::new(&["n"]).row([], [Value::Int(42)]);
    let (shown, _) = run("n = select n from t where 1 = 1 ;", &["", ""], &mut script);
    assert_eq!(shown, [r#"{"n":42}"#, r#"{"n":42}"#]);
    assert_eq!(script.asked.len(), 1);
    assert!(script.asked[0].len() == 1, "{:?}", script.asked);
}

#[test]
fn columns_fill_targets_by_position() {
    for (targets, expected) in [
        ("_, _", r#"{"login":"bo","dept":"7"}"#),
        ("u", r#"{"u":"bo"}"#),
        ("u, d, extra", r#"{"u":"bo","d":"7"}"#),
        ("_ : chars, d : digit", r#"{"login":"bo","d":7}"#),
        ("__u, d", r#"{"d":"7"}"#),
    ] {
        let statement =
            format!("{targets} = select login, dept from users where uid = read(uid) ;");
        let (shown, _) = run(&statement, &["uid:digit=2"], &mut users());
        assert_eq!(shown, [expected], "{targets}");
    }
}

#[test]
fn a_failed_lookup_leaves_its_neighbours_alone_and_is_reported() {
    let statements = format!("a = read(uid) ;\n  {LOOKUP}");
    let inputs = ["uid:digit=13", "uid:digit=2", "uid:digit=13"];
    let (shown, report) = run(&statements, &inputs, &mut users());
    assert_eq!(
        shown,
        [
            r#"{"a":13}"#,
            r#"{"a":2,"who":"bo","dept":"7"}"#,
            r#"{"a":13}"#
        ]
    );
    assert_eq!(report.lookup_failed_count, 2);
    let failures = report.failures().iter();
    let failures: Vec<_> = failures
        .map(|failure| (failure.line, failure.position, failure.error.to_string()))
        .collect();
    let gone = "the server is gone".to_string();
    assert_eq!(failures, [(1, (4, 3), gone.clone()), (3, (4, 3), gone)]);
}

#[test]
fn only_the_first_failures_are_kept_in_words() {
    let inputs = ["uid:digit=13"; 20];
    let (_, report) = run(LOOKUP, &inputs, &mut users());
    assert_eq!(report.lookup_failed_count, 20);
    let lines: Vec<u64> = report
        .failures()
        .iter()
        .map(|failure| failure.line)
        .collect();
    assert_eq!(lines, [1, 2, 3, 4, 5]);
}

#[test]
fn statements_run_over_the_whole_batch_one_after_the_other() {
    let mut script = users();
    let statements = format!("{LOOKUP} x = select login from users where uid = read(dept) ;");
    run(&statements, &["uid:digit=2", "uid:digit=2"], &mut script);
    let sets = |value: Value| vec![vec![value]];
    assert_eq!(script.asked, [sets(Value::Int(2)), sets(Value::from("7"))]);
}

#[test]
fn refused_sql_is_shown_at_its_statement() {
    let text = format!("name : t\n---\na = read() ;\n{LOOKUP}\n{LOOKUP}\n");
    let model = Model::parse("t.oml", &text).unwrap();
    let mut script = Script {
        refuses: true,
        ..users()
    };
    let error = Program::bind(&model, &mut NameTable::new(), &mut script, &options());
    let error = error.expect_err("refused").to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert!(lines[0].starts_with("t.oml:4:"), "{error}");
    assert!(lines[0].contains("no such table: nowhere"), "{error}");
    assert!(lines[1].starts_with("t.oml:5:"), "{error}");
}

#[test]
fn an_evaluator_serves_batch_after_batch() {
    let mut script = users();
    let (mut evaluator, names) = bind(&format!("{LOOKUP} * = take() ;"), &mut script);
    let mut batch = Batch::new(names.into());
    let mut report = RunReport::new();
    for round in 1..=3_usize {
        batch.clear();
        for uid in 0..round as i64 * 3 {
            push(&mut batch, 1, vec![("uid", Value::Int(uid))]);
        }
        evaluator.run(&mut batch, &mut script, &mut report);
        assert_eq!(batch.len(), round * 3);
        let second = shown(batch.names(), &batch.records()[1]);
        assert_eq!(second, r#"{"who":"amy","dept":null,"uid":1}"#);
    }
    assert_eq!(report.record_count, 18);
}

/// Statements of every form, over the fields `a`, `b` and `c`.
const FORMS: [&str; 22] = [
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
        Value::Time("9999-12-31 23:59:59.999999999 -18:00".parse().unwrap()),
        Value::Ip("1.1.1.1".parse().unwrap()),
        Value::Ip("::1".parse().unwrap()),
        Value::from(object),
        Value::from(vec![Value::Int(1), Value::from("x")]),
        Value::from(Vec::<Value>::new()),
    ]
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
