//! What each form of statement does to a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicI8, Ordering};

use lookaside_oml::{Model, Options, Program, RunReport};
use lookaside_value::{Batch, NameTable, Object, Value};

use crate::script::{Script, bind, check, check_values, options, push, shown};

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
fn metadata_of_messages_is_read_and_set_by_name_only() {
    let input = "a:digit=1  @meta/key:chars=k  @meta/headers/x-id:chars=h  meta/key:chars=field";
    check(
        "k = read(@meta/key) ; v = @meta/key ; h = @meta/headers/x-id ; f = read(meta/key) ;",
        input,
        r#"{"k":"k","v":"k","h":"h","f":"field"}"#,
    );
    // What is moved by a pattern is never metadata, which would follow the event unnoticed.
    check(
        "* = take() ; k = @meta/key ;",
        input,
        r#"{"a":1,"meta/key":"field","k":"k"}"#,
    );
    check(
        "* : chars = take() ; k = take(@meta/key) ;",
        input,
        r#"{"meta/key":"field","k":"k"}"#,
    );
    check(
        "@meta/key = fmt(\"{@meta/key}-{a}\", @meta/key, @a) ; @meta/headers/x-id = chars(n) ;",
        input,
        r#"{"@meta/key":"k-1","@meta/headers/x-id":"n"}"#,
    );
    check(
        "o = calc(@meta/offset/2) ; m = match @meta/topic { chars(t) => bool(true) ; } ;",
        "@meta/offset:digit=6  @meta/topic:chars=t",
        r#"{"o":3.0,"m":true}"#,
    );
    // A model that mentions no metadata moves such a field like any other.
    check("* = take() ;", "@meta/key:chars=k", r#"{"@meta/key":"k"}"#);
    check(
        "* = take() ;",
        "@timestamp:chars=t",
        r#"{"@timestamp":"t"}"#,
    );
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
fn options_alone_need_no_name() {
    let input = "user:chars=  uname:chars=neo";
    check(
        "x = match read(option:[user, uname]) { chars(neo) => chars(y) ; _ => chars(n) ; } ;",
        input,
        r#"{"x":"y"}"#,
    );
    check(
        r#"x = fmt("<{uname}>", take(option:[user, uname])) ; y = read(uname) ;"#,
        input,
        r#"{"x":"<neo>"}"#,
    );
    check(
        "x = array { read(option:[user, uname]) ; read(option:[user]) ; } ;",
        input,
        r#"{"x":["neo"]}"#,
    );
    check(
        "x = calc(read(option:[a, b]) { _ : digit(1) } * 2) ;",
        "b:digit=4",
        r#"{"x":8}"#,
    );
    // A field without a name is not found.
    let input = vec![("", Value::from("odd")), ("uname", Value::from("neo"))];
    check_values(
        r#"x = fmt("{uname}", read(option:[user, uname])) ;"#,
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
fn issue_12_defaults_stand_in_for_what_is_ignored() {
    let input = "ok:digit=3  total:digit=0  b:digit=2";
    let raw = "raw = calc(@ok / @total)";
    for (statement, expected) in [
        (
            "safe : float = read(raw) { _ : float(0.0) }",
            r#"{"safe":0.0}"#,
        ),
        (
            "safe = read(raw) { _ : Now::date() }",
            r#"{"safe":20260504}"#,
        ),
        (
            "safe = read(raw, option:[gone, b]) { _ : digit(9) }",
            r#"{"safe":2}"#,
        ),
        (
            "safe = read(raw, option:[gone]) { _ : digit(9) }",
            r#"{"safe":9}"#,
        ),
        (
            "safe = read(raw) { _ : read(gone) { _ : chars(d) } }",
            r#"{"safe":"d"}"#,
        ),
        (
            "safe = read(raw) { _ : read(raw) { _ : chars(d) } }",
            r#"{"safe":"d"}"#,
        ),
        (
            "safe = calc(read(raw) { _ : digit(1) } + 1)",
            r#"{"safe":2}"#,
        ),
        (
            "safe = match read(raw) { _ : digit(1) } { digit(1) => chars(y) ; }",
            r#"{"safe":"y"}"#,
        ),
        (
            "safe = match (read(raw) { _ : digit(1) }, take(b)) { (digit(1), digit(2)) => chars(y) ; }",
            r#"{"safe":"y"}"#,
        ),
        (
            r#"safe = fmt("<{raw}>", read(raw) { _ : chars(d) })"#,
            r#"{"safe":"<d>"}"#,
        ),
        (
            "safe = object { raw = read() { _ : digit(1) } ; }",
            r#"{"safe":{"raw":1}}"#,
        ),
        (
            "safe = array { read(raw) { _ : digit(1) } ; }",
            r#"{"safe":[1]}"#,
        ),
        // Without a replacement, the value stays ignored and is none of these.
        (
            "safe = read(raw) { _ : read(gone) } | on_fail('why')",
            r#"{"safe":"why"}"#,
        ),
        ("safe = read(raw) | on_fail('why')", r#"{"safe":"why"}"#),
        ("safe = read(raw)", "{}"),
        // Null and empty values are values.
        ("safe = read(c) { _ : chars(d) }", r#"{"safe":""}"#),
    ] {
        check(&format!("{raw} ; c = chars() ; {statement} ;"), input, &{
            let fields = expected.strip_prefix('{').unwrap();
            let comma = if fields == "}" { "" } else { "," };
            format!(r#"{{"c":""{comma}{fields}"#)
        });
    }
    // Also in the input: an event may be the result of another model.
    let ignored = vec![("x", Value::Ignore)];
    let statements = "a = read(x) { _ : digit(1) } ; b = take(x) { _ : digit(2) } ;";
    check_values(statements, ignored, r#"{"a":1,"b":2}"#);
}

#[test]
fn issue_12_an_ignored_value_is_no_text() {
    for statement in [
        "c : chars = calc(1 / 0) ;",
        "n = calc(1 / 0) ; c : chars = read(n) ;",
        "n = calc(1 / 0) ; o = object { c : chars = read(n) ; } ; * = take() ;",
    ] {
        let expected = if statement.contains("object") {
            r#"{"o":{}}"#
        } else {
            "{}"
        };
        check(statement, "", expected);
    }
    check(
        "n = calc(1 / 0) ; c : chars = read(n) ; d = read(c) | on_fail('why') ;",
        "",
        r#"{"d":"why"}"#,
    );
    check("c : chars = read(a) ;", "a:null=", r#"{"c":""}"#);
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
    check("x : chars = pipe read(a) | skip_empty ;", "a:digit=0", "{}");
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
            r#"{"y":"gone"}"#,
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

#[test]
fn taking_a_part_copies_it() {
    check_values(
        "x = take(a/in/b) ; y = take(a/in/b) ; a = take() ; z = take(a/in/b) ;",
        nested(),
        r#"{"x":1,"y":1,"a":{"in":{"b":1,"x":""},"list":[{"b":1,"x":""},"last"]}}"#,
    );
    check_values(
        "x = take(list[1]) ; y = take(list[2]) ; z = take(a/in/zz) { _ : digit(7) } ;",
        nested(),
        r#"{"x":"last","z":7}"#,
    );
    check_values(
        "x = take(option:[a/in/x, a/in/b]) ;",
        nested(),
        r#"{"x":1}"#,
    );
    // The result is not an input, so a name alone takes nothing from it either.
    check_values(
        "o = object { k = chars(v) ; } ; x = take(o/k) ;",
        nested(),
        r#"{"o":{"k":"v"}}"#,
    );
    // A field with exactly this name takes precedence and is removed.
    let mut literal = nested();
    literal.push(("a/in/b", Value::from("literal")));
    check_values(
        "x = take(a/in/b) ; y = take(a/in/b) ;",
        literal,
        r#"{"x":"literal","y":1}"#,
    );
}

#[test]
fn a_result_does_not_hide_the_object_that_it_is_named_like() {
    check_values(
        "a = read(a/in/b) ; x = read(a/list[1]) ; y = take(a/in/b) ; z = @a/in/b ;",
        nested(),
        r#"{"a":1,"x":"last","y":1,"z":1}"#,
    );
    // If both have a value, that of the result is used, unless it is empty and a non-empty one is
    // required.
    check_values(
        "a = object { in = object { b = chars() ; } ; } ; \
         x = read(a/in/b) ; y = read(option:[a/in/b]) ; z = take(option:[a/in/b]) ;",
        nested(),
        r#"{"a":{"in":{"b":""}},"x":"","y":1,"z":1}"#,
    );
}
