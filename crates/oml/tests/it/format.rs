//! The formatter: its rules, and that it changes neither the meaning nor a formatted text.

use std::fs;
use std::path::{Path, PathBuf};

use lookaside_oml::{LINE_WIDTH_MAX, MODEL_SIZE_MAX, Model, format};

use crate::fuzz::Random;
use crate::random::model;

const MODEL_COUNT: u64 = 10_000;

/// Formats a valid model, and checks what holds for every one. `format` itself compares the syntax trees,
/// so that it returns an error if the meaning were different.
#[track_caller]
pub(crate) fn formatted(text: &str) -> String {
    let formatted = format("model", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let again = format("model", &formatted).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(again, formatted, "formatted again, of\n{text}");
    let words = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(words(&formatted), words(text), "only blanks are changed");
    formatted
}

/// Checks the formatted text of statements.
#[track_caller]
fn check(statements: &str, expected: &str) {
    let found = formatted(&format!("name : m\n---\n{statements}"));
    let found = found.strip_prefix("name : m\n---\n").expect("a header");
    assert_eq!(found, expected);
}

#[test]
fn headers() {
    for (text, expected) in [
        (
            "name:a/b rule:/x/* /y enable:true fresh:100ms on_lookup_failure:wait---x=read();",
            "name : a/b\nrule : /x/* /y\nenable : true\nfresh : 100ms\non_lookup_failure : wait\n---\nx = read() ;\n",
        ),
        (
            "\u{feff}\n\n// about\n\n\nname  :  m  // called m\nrule : /a\n\n  /b // both\n\n/* why */\n-----\n\n\nx = read() ;\n\n\n---\n\n",
            "\u{feff}// about\n\nname : m // called m\nrule : /a\n    /b // both\n\n/* why */\n-----\n\nx = read() ;\n\n---\n",
        ),
        (
            "name : m\nrule : /a/*\n/* a comment */ /b /* /*/c\n---\nx = read() ;\n--- behind   it\n  stays \n",
            "name : m\nrule : /a/*\n    /* a comment */ /b /* /*/c\n---\nx = read() ;\n--- behind   it\n  stays\n",
        ),
        (
            "name : m\r\n---\r\nx = read() ; // c\r\n\r\ny = read() ;\r\n",
            "name : m\n---\nx = read() ; // c\n\ny = read() ;\n",
        ),
    ] {
        assert_eq!(formatted(text), expected);
    }
}

#[test]
fn statements_and_their_blanks() {
    check(
        "a=read(x);b:digit=take( y , option : [ p,q ] ){_:digit( 0 )};\n\n\n\nc,d : chars\n=\nselect x,y from t;",
        "a = read(x) ;\nb : digit = take(y, option:[p, q]) { _ : digit(0) } ;\n\nc, d : chars = select x,y from t ;\n",
    );
    check(
        "a=@x|map_to( 'a  b' )|Time::since( @y,ms )|to_str( );b=calc( 1+-( @x*2 )-- -3%round( 2 ) );",
        "a = @x | map_to('a  b') | Time::since(@y, ms) | to_str() ;\nb = calc(1 + -(@x * 2) - --3 % round(2)) ;\n",
    );
    check(
        "a = chars(  a;b (c)  ) ; b = chars(' x ' ) ; c = fmt( \"{x}  {y}\" ,@x, read( y ) ) ;",
        "a = chars(a;b (c)) ;\nb = chars(' x ') ;\nc = fmt(\"{x}  {y}\", @x, read(y)) ;\n",
    );
    check(
        "drop when not(@a=digit(1)|digit( 2 )and@b!=chars(x)) or @c starts_with( 'x' )\n and @d in( digit(1),digit(2) );",
        "drop when not (@a = digit(1) | digit(2) and @b != chars(x)) or @c starts_with('x')\n    and @d in (digit(1), digit(2)) ;\n",
    );
    check(
        "static{a=digit(1);};x=a;",
        "static { a = digit(1) ; } ;\nx = a ;\n",
    );
    check("drop=read(drop);", "drop = read(drop) ;\n");
}

#[test]
fn blocks_are_on_one_line_or_have_a_line_for_each_item() {
    check(
        "a = match @x { digit(1)=>chars(one) ; _=>chars(other) } ;",
        "a = match @x { digit(1) => chars(one) ; _ => chars(other) } ;\n",
    );
    check(
        "a = match (@x,@y) {\n(chars(a)|chars(b),is_empty( ))=>object{p=read();q=array{@x,@y}};\n\n\n  // otherwise\n_=>chars(c);}|to_json;",
        "a = match (@x, @y) {\n    (chars(a) | chars(b), is_empty()) => object { p = read() ; q = array { @x, @y } } ;\n\n    // otherwise\n    _ => chars(c) ;\n} | to_json ;\n",
    );
    // A line break within a block breaks those around it.
    check(
        "a = object { b = object {\nc = @x ; } ; d = @y ; } ;",
        "a = object {\n    b = object {\n        c = @x ;\n    } ;\n    d = @y ;\n} ;\n",
    );
    check(
        "a = object { b = @x ; // first\n c = @y ; } ;",
        "a = object {\n    b = @x ; // first\n    c = @y ;\n} ;\n",
    );
    check("a = object {\n\n} ;", "a = object { } ;\n");
    let name = "n".repeat(50);
    check(
        &format!("a = object {{ b = read({name}) ; c = read({name}) ; }} ;"),
        &format!("a = object {{\n    b = read({name}) ;\n    c = read({name}) ;\n}} ;\n"),
    );
    // The comment at the end of the line does not count.
    check(
        &format!("a = object {{ b = read({name}) ; }} ; // {name} {name}"),
        &format!("a = object {{ b = read({name}) ; }} ; // {name} {name}\n"),
    );
}

#[test]
fn long_expressions() {
    let (a, b) = ("a".repeat(60), "b".repeat(60));
    check(
        &format!("x = read({a}) | map_to('{b}') | to_json ;"),
        &format!("x = read({a})\n    | map_to('{b}') | to_json ;\n"),
    );
    check(
        &format!("drop when @{a} = digit(1) and @{b} = digit(2) or @c = digit(3) ;"),
        &format!("drop when @{a} = digit(1)\n    and @{b} = digit(2)\n    or @c = digit(3) ;\n"),
    );
    check(
        &format!("x = fmt('{{{a}}}{{{b}}}', @{a}, @{b}) ;"),
        &format!("x = fmt('{{{a}}}{{{b}}}',\n    @{a},\n    @{b}) ;\n"),
    );
}

#[test]
fn sql_keeps_its_tokens_and_line_breaks() {
    check(
        "a = SELECT  x ,\n\n\n\ty FROM t -- why ; not\n WHERE k=read( k )and n = 'a  b' /*  c  */ ;",
        "a = SELECT x ,\n\n    y FROM t -- why ; not\n    WHERE k=read(k)and n = 'a  b' /*  c  */ ;\n",
    );
    check(
        "a = select x from (\nselect y from (\nselect z from t\n)\n) // all\n;",
        "a = select x from (\n    select y from (\n        select z from t\n    )\n) // all\n    ;\n",
    );
    let (a, b) = ("a".repeat(60), "b".repeat(30));
    check(
        &format!(
            "x = select {a}, {b}, c from t left join u on t.a = u.a where a between 1 and 2 and b = @y order by {a}, {b} limit 1 ;"
        ),
        &format!(
            "x = select {a}, {b}, c from t\n    left join u on t.a = u.a where a between 1 and 2 and b = @y\n    order by {a}, {b} limit 1 ;\n"
        ),
    );
    check(
        &format!(
            "x = select f('{a}', g(c, d), '{b}', '{b}') from t where {a} = 1 and {b} = 2 and c = 3 ;"
        ),
        &format!(
            "x = select f('{a}', g(c, d), '{b}',\n    '{b}')\n    from t\n    where {a} = 1 and {b} = 2\n    and c = 3 ;\n"
        ),
    );
    // Outer places come first.
    let (a, b) = ("a".repeat(50), "b".repeat(40));
    check(
        &format!("x = select {a} from (select {b} from u where c = 1) v where d = 1 ;"),
        &format!("x = select {a}\n    from (select {b} from u where c = 1) v where d = 1 ;\n"),
    );
    check(
        "x = select '\n  a' || E'it\\'s  ;' || $q$  ;  $q$, `a  b`, chars(it's  a), time(a  ,  b), cast(y as  float(24)) from t ;",
        "x = select '\n  a' || E'it\\'s  ;' || $q$  ;  $q$, `a  b`, chars(it's  a), time(a , b), cast(y as float(24)) from t ;\n",
    );
}

#[test]
fn deep_brackets_do_not_indent_without_a_limit() {
    let (open, close) = ("(a,\n".repeat(1000), ")\n".repeat(1000));
    let text = formatted(&format!("name : m\n---\nx = select {open}b{close} ;\n"));
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        assert!(indent <= 64, "{indent} blanks");
    }
}

#[test]
fn invalid_models_are_errors() {
    let errors = format("m.oml", "name : m\n---\nx = raed(y) ;").unwrap_err();
    assert_eq!(
        errors.to_string(),
        "m.oml:3:5: error: unknown function or type `raed` (did you mean `read`?)"
    );
}

#[test]
fn a_formatted_model_has_the_size_of_a_model() {
    // The comments are indented.
    let comment = "\n//".repeat(5).repeat(MODEL_SIZE_MAX / 15 / 2);
    let text = format!("name:m---a=object{{b=object{{c=read();{comment}\n}}}};");
    let errors = format("m.oml", &text).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "m.oml:1:1: error: formatted, the model has more than 1048576 bytes (divide it into several models)"
    );
}

/// The statements of a formatted model: a line that is indented or begins with `}` belongs to the
/// statement before it.
fn statements(text: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    for line in text.lines().skip_while(|line| *line != "---").skip(1) {
        match statements.last_mut() {
            Some(last) if line.starts_with([' ', '}']) => last.extend(["\n", line]),
            _ => statements.push(line.to_owned()),
        }
    }
    statements
}

/// Line breaks and comments at every position of a statement, wherever that is valid.
#[test]
fn comments_are_kept_at_every_place() {
    let mut statements = statements(&formatted(include_str!("../corpus/forms.oml")));
    statements.extend(self::statements(&formatted(include_str!(
        "../corpus/lookups.oml"
    ))));
    let is_constants = |statement: &&String| statement.starts_with("static");
    let constants = statements.iter().find(is_constants).cloned();
    let constants = constants.expect("the corpus has constants");
    let mut valid_count = 0;
    for statement in &statements {
        let constants = if *statement == constants {
            ""
        } else {
            &*constants
        };
        for (at, _) in statement.char_indices() {
            for comment in ["/*c*/", "//c\n", "\n", "\n/*c*/\n", "\n\n // c\n\n"] {
                let (before, behind) = statement.split_at(at);
                let text =
                    format!("name : m\n---\n{constants}\nx = read() ;\n{before}{comment}{behind}");
                if Model::parse("m", &text).is_ok() {
                    formatted(&text);
                    valid_count += 1;
                }
            }
        }
    }
    // Positions within words and literals, where most comments are text or errors, are most of all.
    assert!(valid_count > 9_000, "only {valid_count} were valid");
}

#[test]
fn random_models() {
    let mut commented_count = 0;
    for seed in 0..MODEL_COUNT {
        let mut random = Random(seed);
        let plain = model(&mut random);
        let text = restyled(&plain, &BLANKS, &mut random);
        let commented = restyled(&plain, &COMMENTS, &mut random);
        let run = std::panic::catch_unwind(|| {
            for line in formatted(&plain).lines() {
                let is_breakable = [" | ", " { a = ", " and ", " or "];
                let is_long = line.chars().count() > LINE_WIDTH_MAX;
                assert!(
                    !is_long || !is_breakable.iter().any(|it| line.contains(it)),
                    "{line}"
                );
            }
            assert_eq!(
                formatted(&text).split_whitespace().count(),
                plain.split_whitespace().count()
            );
            // In some arguments of functions, a comment is text.
            let is_valid = Model::parse("m", &commented).is_ok();
            if is_valid {
                formatted(&commented);
            }
            is_valid
        });
        match run {
            Ok(is_valid) => commented_count += u64::from(is_valid),
            Err(_) => panic!("seed {seed}:\n{plain}\n{text}\n{commented}"),
        }
    }
    assert!(
        commented_count > MODEL_COUNT / 2,
        "only {commented_count} with comments were valid"
    );
}

const BLANKS: [&str; 5] = [" ", " ", "  \t", "\n", "\n\n\n  "];

const COMMENTS: [&str; 7] = [
    " ",
    " ",
    "\n",
    "\n\n\n",
    " /* c\n d */ ",
    " // c\n",
    "\n  // c\n\n",
];

/// The same model with other blanks, line breaks and comments.
fn restyled(model: &str, blanks: &[&str], random: &mut Random) -> String {
    let mut text = String::new();
    let mut quote = None;
    let chars: Vec<char> = model.chars().collect();
    for (index, c) in chars.iter().enumerate() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(*c),
            (c, Some(open)) if *c == open => quote = None,
            _ => {}
        }
        let is_in_literal = index > 0
            && chars[index - 1].is_ascii_digit()
            && chars.get(index + 1).is_some_and(char::is_ascii_digit);
        match c {
            ' ' if quote.is_none() && !is_in_literal => {
                text.push_str(blanks[random.below(blanks.len())]);
            }
            c => text.push(*c),
        }
    }
    text
}

/// All models in the folders of the repository.
fn models_below(folder: &Path, models: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            models_below(&path, models);
        } else if name.ends_with(".oml") {
            models.push(path);
        }
    }
}

#[test]
fn models_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut models = Vec::new();
    models_below(&root, &mut models);
    assert!(models.len() > 10, "the models were found");
    for model in models {
        let text = fs::read_to_string(&model).unwrap();
        let formatted = formatted(&text);
        // The corpus has every form of writing.
        if !model.components().any(|part| part.as_os_str() == "corpus") {
            assert!(text == formatted, "{} is not formatted", model.display());
        }
    }
}
