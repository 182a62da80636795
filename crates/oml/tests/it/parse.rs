//! What every form parses to, and what is said about what does not parse.

use lookaside_oml::Model;
use lookaside_oml::ast::{
    Access, Atom, CalcExpr, Expr, ExprKind, FmtPart, Operand, Statement, StatementKind, Target,
};
use lookaside_value::Value;

fn text(statements: &str) -> String {
    format!("name : t\n---\n{statements}")
}

fn parse(statements: &str) -> Result<Model, String> {
    Model::parse("t", &text(statements)).map_err(|errors| errors.to_string())
}

/// A compact writing of trees, for the tables below.
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

fn check(statements: &str, expected: &str) {
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
        ("* = take() ;", "move * Auto"),
        ("* : ip = read() ;", "move * Ip"),
        ("src_*/x = take() ;", "move src_*/x Auto"),
        (
            "* = take(x) ;",
            "move * Auto ! arguments and defaults mean nothing when fields are moved",
        ),
        (
            "x* : chars = take() ;",
            "move x* Chars ! with a type, fields are picked by type alone and the name means nothing",
        ),
        (
            "a, b = take() ;",
            "a:Auto = take a ! only a lookup fills several targets, here the first alone is filled",
        ),
        (
            "a, _ : digit = select a, b from t ;",
            "a:Auto, _:Digit = sql 0",
        ),
        (
            "x = read(a) ; --- rest",
            "x:Auto = read a ! nothing behind the closing `---` is read",
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
fn errors_of_statements() {
    for (statements, expected) in [
        (
            "",
            "t:2:4: error: expected a statement, the text ends (a model has at least one statement, such as `* = take() ;`)",
        ),
        (
            "x = read(a)",
            "t:3:12: error: expected `;` at the end of the statement",
        ),
        (
            "x = read(a)\ny = read(b) ;",
            "t:3:12: error: expected `;` at the end of the statement",
        ),
        (
            "x = read(a) y = read(b) ;",
            "t:3:13: error: expected `;` at the end of the statement, found `y`",
        ),
        (
            "x ; y = read(b) ;",
            "t:3:3: error: expected `=` after the target, found `;`",
        ),
        (
            "x : int = read() ;",
            "t:3:5: error: unknown type `int` (it is called `digit` here)",
        ),
        (
            "x : Digit = read() ;",
            "t:3:5: error: unknown type `Digit` (did you mean `digit`?)",
        ),
        (
            "x : array/foo = read() ;",
            "t:3:5: error: unknown type `array/foo`",
        ),
        (
            "x = ;",
            "t:3:5: error: expected a value, found `;` (such as `read(x)`, `chars(text)`, `digit(1)` or `match …`)",
        ),
        (
            "x = foo ;",
            "t:3:5: error: unknown constant `foo` (a field is read with `read(foo)`)",
        ),
        (
            "static { fob = digit(1) ; } x = foo ;",
            "t:3:33: error: unknown constant `foo` (did you mean `fob`?)",
        ),
        (
            "x* = chars(a) ;",
            "t:3:6: error: expected `read()` or `take()`, found `chars` (a target with `*` moves fields as they are)",
        ),
        (
            "a, x* = take() ;",
            "t:3:4: error: a target with `*` stands alone",
        ),
        (
            "x = (1) ;",
            "t:3:5: error: expected a value, found `(` (such as `read(x)`, `chars(text)`, `digit(1)` or `match …`)",
        ),
        (
            "x = read(a) ; /* open",
            "t:3:15: error: this comment never ends (close it with `*/`)",
        ),
        (
            "x = read(a) | to_json ; y = pipe read(a) ;",
            "t:3:42: error: expected `|` and a function, found `;`",
        ),
        (
            "x = match read(a) { digit(1) => select b from c ; } ;",
            "t:3:33: error: a lookup is a statement of its own (write `x = select … ;` before, then `read(x)` here)",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn errors_of_accesses_and_literals() {
    for (statements, expected) in [
        (
            "x = read(a, b) ;",
            "t:3:13: error: a second name in `read` (give alternatives as `option:[a, b]`)",
        ),
        (
            "x = read(a, optoin:[b]) ;",
            "t:3:13: error: unknown argument `optoin` (did you mean `option`?)",
        ),
        (
            "x = read(a, zzz:[b]) ;",
            "t:3:13: error: unknown argument `zzz` (an access takes a name, `get:`, `option:[…]` and `keys:[…]`)",
        ),
        (
            "x = read(a #) ;",
            "t:3:12: error: expected `)` or another argument of `read`, found `#`",
        ),
        (
            "x = read(keys:[a]) ;",
            "t:3:16: error: a list of patterns finds no single field (write `collect` before it, or give alternatives as `option:[…]`)",
        ),
        (
            "x = collect read(a) ;",
            "t:3:13: error: `collect` needs the patterns of the names that it gathers (write `collect read(keys:[a, b*])`)",
        ),
        (
            "x = read(a*) ;",
            "t:3:10: error: one field has no `*` in its name (gather several with `collect read(keys:[…])`)",
        ),
        (
            "x = match read() { digit(1) => chars(a) } ;",
            "t:3:11: error: no target gives this `read()` a name (name the field: `read(x)`)",
        ),
        (
            "x = read('a) ;",
            "t:3:10: error: this quoted name never ends or is empty",
        ),
        (
            "x = digit(abc) ;",
            "t:3:11: error: `abc` is no digit (write a whole number of 64 bits, such as `digit(42)`)",
        ),
        (
            "x = bool(TRUE) ;",
            "t:3:10: error: `TRUE` is no bool (write `bool(true)` or `bool(false)`)",
        ),
        (
            "x = ip(10.0.0) ;",
            "t:3:8: error: `10.0.0` is no ip (write an address, such as `ip(10.0.0.1)`)",
        ),
        (
            "x = time(2026-13-01 00:00:00) ;",
            "t:3:10: error: `2026-13-01 00:00:00` is no time (write a date and time, such as `time(2026-01-31 08:00:00)`)",
        ),
        (
            "x = port(80) ;",
            "t:3:5: error: a value of type `port` cannot be written down (literals are of type chars, symbol, digit, float, bool, ip, time)",
        ),
        (
            "x = chars(a(b) ;",
            "t:3:10: error: this parenthesis is never closed (quote text with unbalanced parentheses: `chars('a)')`)",
        ),
        (
            "x = char(a) ;",
            "t:3:5: error: unknown function or type `char` (did you mean `chars`?)",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn errors_of_functions() {
    for (statements, expected) in [
        (
            "x = @a | to_jsn ;",
            "t:3:10: error: unknown function `to_jsn` (did you mean `to_json`?)",
        ),
        (
            "x = to_json(a) ;",
            "t:3:5: error: unknown function or type `to_json` (functions stand behind a value: `read(x) | to_json`)",
        ),
        (
            "x = @a | contains('b') ;",
            "t:3:10: error: unknown function `contains` (`contains` is a condition of `match`)",
        ),
        (
            "x = @a | base64_decode ;",
            "t:3:10: error: `base64_decode` needs parentheses (write `base64_decode(…)`, with its arguments if it has any)",
        ),
        (
            "x = @a | base64_decode(Utf7) ;",
            "t:3:24: error: `Utf7` is no argument for `base64_decode` (it takes an encoding, such as Utf8, Utf16le, Utf16be, Gbk, Gb18030, Big5, EucJp, Windows31j, Koi8R, Windows1252, Iso88591, Imap)",
        ),
        (
            "x = @a | nth(b) ;",
            "t:3:14: error: `b` is no argument for `nth` (it takes a position, counted from 0)",
        ),
        (
            "x = @a | to_json(b) ;",
            "t:3:17: error: `to_json` takes 0 arguments",
        ),
        (
            "x = @a | Time::to_ts_zone(8) ;",
            "t:3:26: error: `Time::to_ts_zone` takes 2 arguments",
        ),
        (
            "x = @a | Time::to_ts_zone(8, h) ;",
            "t:3:30: error: `h` is no argument for `Time::to_ts_zone` (it takes `s`, `ms` or `us` as its unit)",
        ),
        (
            "x = @a | Time::to_ts_ms(19) ;",
            "t:3:25: error: `19` is no argument for `Time::to_ts_ms` (it takes hours east of UTC, such as `8`, `-5` or `5:30`)",
        ),
        (
            "x = @a | url(port) ;",
            "t:3:14: error: `port` is no argument for `url` (it takes `domain`, `host`, `uri`, `path` or `params`)",
        ),
        (
            "x = @a | map_to(b) ;",
            "t:3:17: error: `b` is no argument for `map_to` (it takes `true`, `false`, a number or a quoted text)",
        ),
        (
            "x = @a | on_fail('b ;",
            "t:3:17: error: the arguments of `on_fail` never end (close quotes and parentheses)",
        ),
        (
            "x = @a | extract_main_word ;",
            "t:3:10: error: `extract_main_word` is not supported (it needs language dictionaries; prepare the word before this model runs)",
        ),
        (
            "x = @a | extract_subject_object ;",
            "t:3:10: error: `extract_subject_object` is not supported (it needs language dictionaries; prepare the word before this model runs)",
        ),
        (
            "x = calc(sqrt(2)) ;",
            "t:3:10: error: `calc` has no function `sqrt` (its functions are abs, round, floor and ceil)",
        ),
        (
            "x = calc(1 +) ;",
            "t:3:13: error: expected a number, `read(x)`, `@x` or a function, found `)`",
        ),
        (
            "x = calc(1 2) ;",
            "t:3:12: error: expected `)` or an operator in `calc`, found `2`",
        ),
        (
            "x = calc(99999999999999999999) ;",
            "t:3:10: error: `99999999999999999999` is no number of 64 bits",
        ),
        (
            "static { d = digit(1) ; } x = lookup_nocase(d, @a, 'b') ;",
            "t:3:45: error: the constant `d` is no object (it stands in line 3)",
        ),
        (
            "x = lookup_nocase(d, @a, 'b') ;",
            "t:3:19: error: unknown constant `d` (the dictionary is an `object` in a `static` block)",
        ),
        (
            "x = fmt(\"{a}{c}\", @a) ;",
            "t:3:13: error: no argument reads `c` (did you mean `a`?)",
        ),
        (
            "x = fmt(\"{a\", @a) ;",
            "t:3:10: error: a brace that belongs to no placeholder (a brace as text is written twice)",
        ),
        (
            "x = fmt(\"a}\", @a) ;",
            "t:3:11: error: a brace that belongs to no placeholder (a brace as text is written twice)",
        ),
        (
            "x = fmt(a, @a) ;",
            "t:3:9: error: expected a template in quotes, found `a`",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn errors_of_blocks() {
    for (statements, expected) in [
        (
            "x = match read(a) { _ => chars(b) ; } ;",
            "t:3:5: error: a match has at least one case besides `_` (write a case such as `digit(1) => chars(one) ;`)",
        ),
        (
            "x = match read(a) { _ => chars(b) ; digit(1) => chars(c) ; } ;",
            "t:3:37: error: nothing matches behind `_`, which is the last case (move the `_` case to the end)",
        ),
        (
            "x = match (@a, @b) { (digit(1)) => chars(c) } ;",
            "t:3:22: error: 1 conditions for 2 values (a case has one condition for each value of the tuple)",
        ),
        (
            "x = match (@a, @b) { (digit(1), _) => chars(c) } ;",
            "t:3:33: error: unknown constant `_` (only a whole case can be `_`; list what this position may be)",
        ),
        (
            "x = match @a { contain('b') => chars(c) } ;",
            "t:3:16: error: unknown condition `contain` (did you mean `contains`?)",
        ),
        (
            "x = match @a { is_empty => chars(c) } ;",
            "t:3:16: error: unknown constant `is_empty` (write `is_empty(…)`)",
        ),
        (
            "x = match @a { regex_match('a(') => chars(c) } ;",
            "t:3:29: error: this is no regular expression (unclosed group)",
        ),
        (
            "x = match @a { gt(b) => chars(c) } ;",
            "t:3:19: error: `b` is no number (`gt` compares with numbers)",
        ),
        (
            "x = match @a { in_range(1) => chars(c) } ;",
            "t:3:24: error: `in_range` takes 2 arguments",
        ),
        (
            "x = match @a { in (digit(1), chars(b)) => chars(c) } ;",
            "t:3:16: error: the bounds of `in` are of different types (a value is never between them)",
        ),
        (
            "x = object { a = read(a) ;\n\n",
            "t:3:27: error: expected `}` or a member of the object, the text ends",
        ),
        (
            "x = match read(a) { digit(1) => chars(b) ;\n",
            "t:3:43: error: expected `}` or a case of the match, the text ends",
        ),
        (
            "x = match read(a) { digit(1) => chars(b) ; _ => chars(c) ;\n",
            "t:3:59: error: expected `}` or a case of the match, the text ends",
        ),
        (
            "x = array { read(a) ;\n",
            "t:3:22: error: expected `}` or an item of the array, the text ends",
        ),
        (
            "x = object { a = read(a) ; b ; } ;",
            "t:3:30: error: expected `=` after the member's name, found `;`",
        ),
        (
            "x = object { a = read(a) ; b = base64 ; } ;",
            "t:3:32: error: unknown constant `base64` (a field is read with `read(base64)`)",
        ),
        (
            "x = object { a, b = object { } } ;",
            "t:3:21: error: several members share only an access, a literal or a constant (give each member its own value)",
        ),
        (
            "x = array { read() } ;",
            "t:3:13: error: no target gives this `read()` a name (name the field: `read(x)`)",
        ),
        (
            "static { a = digit(1) ; a = digit(2) ; } x = a ;",
            "t:3:25: error: the constant `a` is there already (the first stands in line 3)",
        ),
        (
            "static { read = digit(1) ; } x = read(a) ;",
            "t:3:10: error: `read` is a word of the language (give the constant another name)",
        ),
        (
            "static { a = Now::time() ; } x = a ;",
            "t:3:14: error: this is not constant (constants are literals, objects and arrays of literals, and `calc` of numbers)",
        ),
        (
            "static { a = calc(@b) ; } x = a ;",
            "t:3:14: error: this is not constant (constants are literals, objects and arrays of literals, and `calc` of numbers)",
        ),
        (
            "static { a = digit(1) ;",
            "t:3:24: error: expected `}` at the end of the static block, the text ends",
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
            "t:1:1: error: expected `name :` at the beginning, the text ends (a model begins with `name : <name>`, then `---`, then its statements)",
        ),
    ] {
        let found = match Model::parse("t", text) {
            Ok(model) => {
                let rules: Vec<_> = model.rules().iter().map(|rule| rule.as_str()).collect();
                format!(
                    "{} [{}] {}",
                    model.name(),
                    rules.join(", "),
                    model.enabled()
                )
            }
            Err(errors) => errors.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn several_errors_are_shown_at_once() {
    for (statements, expected) in [
        // Behind a broken statement the next ones are read.
        (
            "x = raed(a) ;\ny = read(b) ;\nz : int = read(c) ;\n",
            &["3:5", "5:5"][..],
        ),
        // Errors within braces do not make the rest of the block one.
        (
            "x = match read(a) {\n  digit(b) => chars(c) ;\n  _ => chars(d) ;\n} ;\ny = @ ;",
            &["4:9", "7:7"],
        ),
        // A brace that is never closed ends where the next statement begins.
        (
            "x = match read(a) {\n  digit(1) => chars(c) ;\ny = read(b) ;\nz = reed(c) ;",
            &["5:1", "6:5"],
        ),
        // A missing semicolon costs no statement.
        (
            "x = read(a)\ny = raed(b) ;\nz = read(c)",
            &["3:12", "4:5", "5:12"],
        ),
        // Constants are read on, and a broken one is known.
        (
            "static { a = digit(x) ; b = nope ; c = digit(1) ; }\nx = a ;\ny = b ;\nz = d ;",
            &["3:20", "3:29", "6:5"],
        ),
        // The header's errors do not hide the statements'.
        ("", &["2:4"]),
    ] {
        let errors = Model::parse("t", &text(statements)).unwrap_err();
        let places: Vec<_> = errors
            .iter()
            .map(|error| errors.position(error.span))
            .map(|(line, column)| format!("{line}:{column}"))
            .collect();
        assert_eq!(places, expected, "{statements}\n{errors}");
    }
    let text = format!("name : t\n---\n{}", "x = nope ;\n".repeat(1000));
    let errors = Model::parse("t", &text).unwrap_err();
    assert_eq!(errors.len(), 31);
    assert!(
        errors
            .to_string()
            .ends_with("too many errors, the rest was not read")
    );
    let text = "name : t\nfoo : bar\n---\nx = nope ;";
    assert_eq!(Model::parse("t", text).unwrap_err().len(), 2);
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
                "lookups.oml:9:59: warning: text in double quotes is a name to SQL; it is taken as \
                 text here (write text in single quotes, and a name as `table.\"name\"`)"
            }
            _ => "",
        };
        assert_eq!(model.warnings().to_string(), expected);
    }
}
