//! The syntax tree of every form.

use lookaside_oml::Model;
use lookaside_oml::ast::{
    Access, Atom, CalcExpr, Expr, ExprKind, FmtPart, Operand, Statement, StatementKind, Target,
    Test,
};
use lookaside_value::Value;

pub(crate) fn text(statements: &str) -> String {
    format!("name : t\n---\n{statements}")
}

fn parse(statements: &str) -> Result<Model, String> {
    Model::parse("t", &text(statements)).map_err(|errors| errors.to_string())
}

/// A compact notation of trees, for the tables below.
fn statement(statement: &Statement) -> String {
    match &statement.kind {
        StatementKind::Assign { target: to, value } => {
            format!("{} = {}", target(to), expr(value))
        }
        StatementKind::Move { pattern, type_word } => format!("move {pattern} {type_word:?}"),
        StatementKind::Lookup { targets, sql } => {
            let targets: Vec<_> = targets.iter().map(target).collect();
            format!("{} = sql {}", targets.join(", "), sql.params.len())
        }
        StatementKind::Drop { test: of } => format!("drop {}", test(of)),
    }
}

fn test(of: &Test) -> String {
    match of {
        Test::Field { source, condition } => {
            format!("{} is {}", access(source), list(&condition.any, atom))
        }
        Test::All(tests) => format!("all({})", list(tests, test)),
        Test::Any(tests) => format!("any({})", list(tests, test)),
        Test::Not(inner) => format!("not({})", test(inner)),
    }
}

fn target(target: &Target) -> String {
    format!("{}:{:?}", target.name, target.type_word)
}

fn value(value: &Value) -> String {
    format!("{}({value})", value.type_of())
}

fn access(access: &Access) -> String {
    let mut out = format!("{:?} {}", access.mode, access.key).to_lowercase();
    for option in &access.options {
        out.push_str(&format!("|{option}"));
    }
    if let Some(default) = &access.default {
        out.push_str(&format!(" or {}", expr(default)));
    }
    out
}

fn list<T>(items: &[T], write: impl Fn(&T) -> String) -> String {
    let items: Vec<_> = items.iter().map(write).collect();
    items.join("; ")
}

fn expr(expr_: &Expr) -> String {
    match &expr_.kind {
        ExprKind::Access(from) => access(from),
        ExprKind::Literal(literal) => value(literal),
        ExprKind::Now(now) => format!("now {now:?}"),
        ExprKind::Static(id) => format!("static {}", id.0),
        ExprKind::Pipe(pipe) => {
            let steps = list(&pipe.steps, |step| format!("{:?}", step.function));
            format!("{} | {steps}", expr(&pipe.source))
        }
        ExprKind::Match(m) => {
            let cases = list(&m.cases, |case| {
                let conditions = case.conditions.iter();
                let conditions: Vec<_> = conditions.map(|c| list(&c.any, atom)).collect();
                format!("{} => {}", conditions.join(" & "), expr(&case.result))
            });
            let default = m.default.as_deref().map(expr);
            format!(
                "match {} {{ {cases} }} else {default:?}",
                list(&m.sources, access)
            )
        }
        ExprKind::Object(members) => {
            let members = list(members, |m| {
                format!("{} = {}", target(&m.target), expr(&m.value))
            });
            format!("{{ {members} }}")
        }
        ExprKind::Array(items) => format!("[ {} ]", list(items, expr)),
        ExprKind::Collect(collect) => {
            let default = collect.default.as_deref().map(expr);
            let patterns = list(&collect.patterns, ToString::to_string);
            format!("collect {:?} {patterns} else {default:?}", collect.mode)
        }
        ExprKind::Fmt(fmt) => {
            let parts = list(&fmt.parts, |part| match part {
                FmtPart::Text(text) => format!("{text:?}"),
                FmtPart::Argument(index) => format!("{index}"),
            });
            format!("fmt {parts} of {}", list(&fmt.arguments, access))
        }
        ExprKind::Calc(root) => calc(&root.root),
        ExprKind::LookupNocase(lookup) => {
            let (key, default) = (expr(&lookup.key), expr(&lookup.default));
            format!("nocase {} {key} else {default}", lookup.dictionary.0)
        }
        ExprKind::AccessDirect(direct) => {
            format!(
                "direct {} to {}",
                expr(&direct.source),
                expr(&direct.destination)
            )
        }
    }
}

fn atom(atom: &Atom) -> String {
    let operand = |operand: &Operand| match operand {
        Operand::Literal(literal) => value(literal),
        Operand::Static(id) => format!("static {}", id.0),
    };
    match atom {
        Atom::Equals(to) => operand(to),
        Atom::Differs(from) => format!("!{}", operand(from)),
        Atom::Within(low, high) => format!("{}..{}", operand(low), operand(high)),
        Atom::Function(function) => format!("{function:?}"),
    }
}

fn calc(root: &CalcExpr) -> String {
    match root {
        CalcExpr::Number(number) => number.to_string(),
        CalcExpr::Access(from) => access(from),
        CalcExpr::Static(id) => format!("static {}", id.0),
        CalcExpr::Negate(inner) => format!("-({})", calc(inner)),
        CalcExpr::Binary(operator, left, right) => {
            format!("({} {operator:?} {})", calc(left), calc(right))
        }
        CalcExpr::Call(function, inner) => format!("{function:?}({})", calc(inner)),
    }
}

pub(crate) fn check(statements: &str, expected: &str) {
    let found = match parse(statements) {
        Ok(model) => {
            let mut found = list(&model.program().statements, statement);
            for warning in model.warnings().iter() {
                found.push_str(&format!(" ! {}", warning.message));
            }
            found
        }
        Err(errors) => errors,
    };
    assert_eq!(found, expected, "{statements}");
}

#[test]
fn statements() {
    for (statements, expected) in [
        ("x=read(a);", "x:Auto = read a"),
        ("x : digit = take() ;", "x:Digit = take x"),
        ("x : array/chars = read() ; ---", "x:Array = read x"),
        (
            "x : http/request = read() ; y : time/clf = read() ;",
            "x:Other(\"http\") = read x; y:Time = read y",
        ),
        ("_ : _ = read(a) ;", "_:Ignore = read a"),
        (
            "details[0]/p-q.r = read() ;",
            "details[0]/p-q.r:Auto = read details[0]/p-q.r",
        ),
        (
            "drop when @a = digit(1) | chars(x) or not (@b != chars(y) and read(c) gt(1)) ;",
            "drop any(read a is int(1); text(x); not(all(read b is !text(y); read c is Gt(1.0))))",
        ),
        ("* = take() ;", "move * Auto"),
        ("* : ip = read() ;", "move * Ip"),
        ("src_*/x = take() ;", "move src_*/x Auto"),
        (
            "* = take(x) ;",
            "move * Auto ! arguments and defaults have no effect when fields are moved",
        ),
        (
            "x* : chars = take() ;",
            "move x* Chars ! with a type, fields are selected by type only, and the name has no effect",
        ),
        (
            "a, b = take() ;",
            "a:Auto = take a ! only a lookup can have several targets; here, only the first is used",
        ),
        (
            "a, _ : digit = select a, b from t ;",
            "a:Auto, _:Digit = sql 0",
        ),
        (
            "x = read(a) ; --- rest",
            "x:Auto = read a ! text after the closing `---` is ignored",
        ),
        (
            "x /* why */ = // here\n read(a) ; // done",
            "x:Auto = read a",
        ),
        (
            "x = chars(https://example.org) ;",
            "x:Auto = text(https://example.org)",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn accesses() {
    for (statements, expected) in [
        ("x = @a.b ;", "x:Auto = read a.b"),
        ("x = read(/a/b) ;", "x:Auto = read /a/b"),
        ("x = read('user name') ;", "x:Auto = read user name"),
        (
            "x = read(get:a, option:[b, c[0]]) ;",
            "x:Auto = read a|b|c[0]",
        ),
        ("x = read(option:[b]) ;", "x:Auto = read x|b"),
        ("x = read(a option:[b]) ;", "x:Auto = read a|b"),
        (
            "x = take(a) { _ : chars(b) } ;",
            "x:Auto = take a or text(b)",
        ),
        (
            "x = take(a) { _ : read() ; } ;",
            "x:Auto = take a or read x",
        ),
        (
            "x = read(a) { _ : Now::time() } ;",
            "x:Auto = read a or now Time",
        ),
        (
            "x = collect take(keys:[a*, b]) ;",
            "x:Auto = collect Take a*; b else None",
        ),
        (
            "x = collect read(in:[a]) { _ : digit(1) } ;",
            "x:Auto = collect Read a else Some(\"int(1)\")",
        ),
        (
            "x = read(a)\n{ _ : take(b) { _ : take(c) } } ;",
            "x:Auto = read a or take b or take c",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn values() {
    for (statements, expected) in [
        ("x = chars() ;", "x:Auto = text()"),
        ("x = chars( a (b); c ) ;", "x:Auto = text(a (b); c)"),
        (r#"x = chars("a\t\"b\"") ;"#, "x:Auto = text(a\t\"b\")"),
        ("x = digit( -7 ) ;", "x:Auto = int(-7)"),
        ("x = float(600) ;", "x:Auto = float(600)"),
        ("x = bool(true) ;", "x:Auto = bool(true)"),
        ("x = symbol(GET) ;", "x:Auto = symbol(GET)"),
        ("x = ip(::1) ;", "x:Auto = ip(::1)"),
        (
            "x = time(2026-01-01T08:00:00+09:00) ;",
            "x:Auto = time(2026-01-01 08:00:00)",
        ),
        ("x = Now::hour( ) ;", "x:Auto = now Hour"),
        (
            "static { a = chars(b) ; } static { c = digit(1) ; }; x = c ;",
            "x:Auto = static 1",
        ),
        (
            "x = fmt(\"{a}-{b}{{}}\", @a, read(b)) ;",
            "x:Auto = fmt 0; \"-\"; 1; \"{}\" of read a; read b",
        ),
        (
            "x = fmt('\"{ a }\"', read(k, option:[a])) ;",
            "x:Auto = fmt \"\\\"\"; 0; \"\\\"\" of read k|a",
        ),
        (
            "x = fmt(\"-\", @a) ;",
            "x:Auto = fmt \"-\" of read a ! the template has no `{a}`",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn collections() {
    for (statements, expected) in [
        ("x = object { } ;", "x:Auto = {  }"),
        (
            "x = object { cpu , mem : digit = take() ; host = chars(a) } ;",
            "x:Auto = { cpu:Digit = take cpu; mem:Digit = take mem; host:Auto = text(a) }",
        ),
        (
            "x = object { a, b = read(c) { _ : read() } ; } ;",
            "x:Auto = { a:Auto = read c or read a; b:Auto = read c or read b }",
        ),
        (
            "x = object { a = object { b = read() ; } ; c = pipe read(a) | to_json ; } ;",
            "x:Auto = { a:Auto = { b:Auto = read b }; c:Auto = read a | ToJson }",
        ),
        (
            "x = array { read(a) ; chars(b), digit(1) } ;",
            "x:Auto = [ read a; text(b); int(1) ]",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn matches() {
    for (statements, expected) in [
        (
            "x = match read(a) { digit(1) | !digit(2) => chars(b) ; _ => read() ; } ;",
            "x:Auto = match read a { int(1); !int(2) => text(b) } else Some(\"read x\")",
        ),
        (
            "x = match @a { _ : chars(d) } { in (digit(1), digit(2)) => take(c) } ;",
            "x:Auto = match read a or text(d) { int(1)..int(2) => take c } else None",
        ),
        (
            "static { l = ip(1.1.1.1); } x = match (take(a), @b) { (l, in(l, l)) => l, } ;",
            "x:Auto = match take a; read b { static 0 & static 0..static 0 => static 0 } else None",
        ),
        (
            "x = match read(a) { iequals_any('a', b) => digit(1) gt(1.5) => digit(2) is_empty() => digit(3) } ;",
            "x:Auto = match read a { IequalsAny([\"a\", \"b\"]) => int(1); Gt(1.5) => int(2); IsEmpty => int(3) } else None",
        ),
        (
            r"x = match read(a) { regex_match('^\d+$') => digit(1) } ;",
            "x:Auto = match read a { RegexMatch(Regex(\"^\\\\d+$\")) => int(1) } else None",
        ),
        (
            "x = match read(a) { digit(1) => read(b) | to_json ; digit(2) => object { c = @d } } ;",
            "x:Auto = match read a { int(1) => read b | ToJson; int(2) => { c:Auto = read d } } else None",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn pipes_and_arithmetic() {
    for (statements, expected) in [
        ("x = pipe take() | nth(0) ;", "x:Auto = take x | Nth(0)"),
        (
            "x = read(a) | get(b/c) | to_str() ;",
            "x:Auto = read a | Get(\"b/c\"); ToStr",
        ),
        (
            "x = @a | map_to('true') ;",
            "x:Auto = read a | MapTo(Text(\"true\"))",
        ),
        (
            "x = @a | map_to(true) ;",
            "x:Auto = read a | MapTo(Bool(true))",
        ),
        (
            "x = @a | map_to(5) | map_to(5.0) ;",
            "x:Auto = read a | MapTo(Int(5)); MapTo(Float(5.0))",
        ),
        (
            "x = @a | base64_decode() ;",
            "x:Auto = read a | Base64Decode(Utf8)",
        ),
        (
            "x = @a | Time::to_ts_zone(-5, ss) ;",
            "x:Auto = read a | TimeToTs { unit: Second, offset_minutes: Some(-300) }",
        ),
        (
            "x = @a | Time::to_ts | Time::from_ts_us(-0:30) ;",
            "x:Auto = read a | TimeToTs { unit: Second, offset_minutes: None }; \
             TimeFromTs { unit: Microsecond, offset_minutes: Some(-30) }",
        ),
        (
            "x = access_direct(@a, ip(1.1.1.1)) | on_fail('u') ;",
            "x:Auto = direct read a to ip(1.1.1.1) | OnFail(\"u\")",
        ),
        ("x = calc(1 + 2 * 3) ;", "x:Auto = (1 Add (2 Multiply 3))"),
        (
            "x = calc((1 - 2) - -3) ;",
            "x:Auto = ((1 Subtract 2) Subtract -3)",
        ),
        (
            "x = calc(read() * 100 / @b/@c % 2) ;",
            "x:Auto = ((((read x Multiply 100) Divide read b) Divide read c) Modulo 2)",
        ),
        (
            "x = calc(round(-@a) + 1.5) ;",
            "x:Auto = (Round(-(read a)) Add 1.5)",
        ),
        ("x = calc(digit(4) - 1) ;", "x:Auto = (4 Subtract 1)"),
        (
            "static { d = object { a = digit(1) ; } ; } x = lookup_nocase(d, read(k) | to_str, -1.5) ;",
            "x:Auto = nocase 0 read k | ToStr else float(-1.5)",
        ),
        (
            "static { d = object { a = digit(1) ; } ; } x = lookup_nocase(d, 'k', lookup_nocase(d, @b, 'z')) ;",
            "x:Auto = nocase 0 text(k) else nocase 0 read b else text(z)",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn headers() {
    for (text, expected) in [
        ("name:a---x=read(b);", "a [] true"),
        (
            "\u{feff}// c\nname : a/b_1\n/* d */\n---\nx = read(b) ;",
            "a/b_1 [] true",
        ),
        (
            "name : a\nenable : false\nrule : /x/* *\n  /*/y // z\n/* w */\n---\nx = read(b) ;",
            "a [/x/*, *, /*/y] false",
        ),
        (
            "name : a rule : r enable : true rule : s --- x = read(b) ;",
            "a [r, s] true",
        ),
        (
            "rule : r\nname : a\n---\nx = read(b) ;",
            "t:1:1: error: expected `name :` at the beginning, found `rule` (a model begins with `name : <name>`, then `---`, then its statements)",
        ),
        (
            "name : a\nenable : yes\n---\nx = read(b) ;",
            "t:2:10: error: `yes` is neither `true` nor `false`",
        ),
        (
            "name : a\nrul : r\n---\nx = read(b) ;",
            "t:2:1: error: unknown header `rul` (did you mean `rule`?)",
        ),
        (
            "name : a rule : r fresh : 100ms rule : fresh enable : true --- x = read(b) ;",
            "a [r, fresh] true, fresh 100ms",
        ),
        ("name : a fresh:2s--- x = read(b) ;", "a [] true, fresh 2s"),
        (
            "name : a\nfresh : now // always\nfresh : 1h\n---\nx = read(b) ;",
            "a [] true, fresh 0ns",
        ),
        (
            "name : a\nfresh : 1.5s\n---\nx = read(b) ;",
            "t:2:9: error: `fresh` cannot be `1.5s` (write `any`, `now`, or a time such as `100ms` or `2s`)",
        ),
        (
            "name : a\n  fresh :\n---\nx = read(b) ;",
            "t:3:1: error: expected `any`, `now` or a time, found `-` (write `any`, `now`, or a time such as `100ms` or `2s`)",
        ),
        (
            "name : a rule : r on_lookup_failure : wait rule : on_lookup_failure --- x = read(b) ;",
            "a [r, on_lookup_failure] true, on_lookup_failure wait",
        ),
        (
            "name : a\non_lookup_failure : drop\n---\nx = read(b) ;",
            "t:2:21: error: `on_lookup_failure` cannot be `drop` (write `wait`, `reject` or `emit`)",
        ),
        (
            "name : a\non_lookup_failure :\n---\nx = read(b) ;",
            "t:3:1: error: expected `wait`, `reject` or `emit`, found `-` (write `wait`, `reject` or `emit`)",
        ),
        (
            "name : a\non_lookup_failure : emit\non_lookup_failure : wait\n---\nx = read(b) ;",
            "t:3:21: error: `on_lookup_failure` is already set (remove one of both)",
        ),
        ("name : ...a/.b/c.---x = read(b) ;", "...a/.b/c. [] true"),
        (
            "name : ..\n---\nx = read(b) ;",
            "t:1:8: error: the name of a model cannot have a part `.` or `..` (clients remove such parts from a URL; choose another name)",
        ),
        (
            "name : web/./access\n---\nx = read(b) ;",
            "t:1:8: error: the name of a model cannot have a part `.` or `..` (clients remove such parts from a URL; choose another name)",
        ),
        (
            "name : a\nname : b\n---\nx = read(b) ;",
            "t:2:1: error: a model has one name",
        ),
        (
            "name : a\nrule :\n---\nx = read(b) ;",
            "t:3:1: error: expected a rule such as `/web/*`, found `-`",
        ),
        (
            "name : a\nx = read(b) ;",
            "t:2:3: error: expected `:` after `x`, found `=`",
        ),
        (
            "",
            "t:1:1: error: expected `name :` at the beginning, found the end of the text (a model begins with `name : <name>`, then `---`, then its statements)",
        ),
    ] {
        let found = match Model::parse("t", text) {
            Ok(model) => {
                let rules: Vec<_> = model.rules().iter().map(|rule| rule.as_str()).collect();
                let within = model.program().contract.within;
                let fresh = within.map(|time| format!(", fresh {time:?}"));
                let policy = model.program().on_lookup_failure;
                let policy = policy.map(|it| format!(", on_lookup_failure {it}"));
                format!(
                    "{} [{}] {}{}{}",
                    model.name(),
                    rules.join(", "),
                    model.enabled(),
                    fresh.unwrap_or_default(),
                    policy.unwrap_or_default()
                )
            }
            Err(errors) => errors.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn the_corpus_parses_without_a_warning() {
    for (file, text) in [
        ("access.oml", include_str!("../corpus/access.oml")),
        ("forms.oml", include_str!("../corpus/forms.oml")),
        ("lookups.oml", include_str!("../corpus/lookups.oml")),
    ] {
        let model = Model::parse(file, text).unwrap_or_else(|errors| panic!("{errors}"));
        let expected = match file {
            "lookups.oml" => {
                "lookups.oml:9:59: warning: in SQL, double quotes enclose a name; this is read as \
                 text here (write text in single quotes, and a name as `table.\"name\"`)"
            }
            _ => "",
        };
        assert_eq!(model.warnings().to_string(), expected);
    }
}
