//! The errors about models that do not parse.

use lookaside_oml::Model;

use crate::parse::{check, text};

#[test]
fn errors_of_statements() {
    for (statements, expected) in [
        (
            "",
            "t:2:4: error: expected a statement, found the end of the text (a model has at least one statement, such as `* = take() ;`)",
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
            "x = read(@meta/ky) ;",
            "t:3:10: error: messages have no metadata `@meta/ky` (there are `@meta/key`, `@meta/topic`, `@meta/partition`, `@meta/offset`, `@meta/timestamp`, `@meta/output` and `@meta/headers/NAME`)",
        ),
        (
            "x = @meta/headers ;",
            "t:3:5: error: messages have no metadata `@meta/headers` (there are `@meta/key`, `@meta/topic`, `@meta/partition`, `@meta/offset`, `@meta/timestamp`, `@meta/output` and `@meta/headers/NAME`)",
        ),
        (
            "@meta/keys = chars(1) ;",
            "t:3:1: error: messages have no metadata `@meta/keys` (there are `@meta/key`, `@meta/topic`, `@meta/partition`, `@meta/offset`, `@meta/timestamp`, `@meta/output` and `@meta/headers/NAME`)",
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
            "t:3:6: error: expected `read()` or `take()`, found `chars` (a target with `*` moves fields unchanged)",
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
            "t:3:15: error: this comment is not terminated (close it with `*/`)",
        ),
        (
            "x = read(a) | to_json ; y = pipe read(a) ;",
            "t:3:42: error: expected `|` and a function, found `;`",
        ),
        (
            "x = match read(a) { digit(1) => select b from c ; } ;",
            "t:3:33: error: a lookup must be a separate statement (write `x = select … ;` before, then `read(x)` here)",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn bare_values_and_operators_are_shown_as_they_are_written() {
    let value = |found: &str, help: &str| {
        format!("t:3:5: error: expected a value, found `{found}` ({help})")
    };
    for (statements, expected) in [
        (
            "x = \"fixed\" ;",
            value("\"", "text is written `chars(fixed)`"),
        ),
        (
            "x = 'it is' ;",
            value("'", "text is written `chars(it is)`"),
        ),
        ("x = 'a)' ;", value("'", "text is written `chars(…)`")),
        ("x = 'open", value("'", "text is written `chars(open)`")),
        ("x = 5 ;", value("5", "a number is written `digit(5)`")),
        ("x = -5 ;", value("-", "a number is written `digit(-5)`")),
        ("x = 0.5 ;", value("0", "a number is written `float(0.5)`")),
        (
            "x = 10.0.0.1 ;",
            value("10", "an address is written `ip(10.0.0.1)`"),
        ),
        (
            "x = 5x ;",
            value(
                "5x",
                "such as `read(x)`, `chars(text)`, `digit(1)` or `match …`",
            ),
        ),
    ] {
        check(statements, &expected);
    }
    for (statements, expected) in [
        (
            "x = take(n) + 1 ;",
            "t:3:13: error: `+` is allowed only in `calc` (write `calc(take(n) + 1)`; text is joined with `fmt`)",
        ),
        (
            "x = @n*2 ;",
            "t:3:7: error: `*` is allowed only in `calc` (write `calc(@n *2)`)",
        ),
        (
            "x = object { y = read(a) - read(b) ; } ;",
            "t:3:26: error: `-` is allowed only in `calc` (write `calc(read(a) - read(b))`)",
        ),
        (
            "x = read(n) { _ :\ndigit(1) } % 2 ;",
            "t:4:12: error: `%` is allowed only in `calc` (write `calc(read(x) % 1)`)",
        ),
        (
            "x = read(n)\n* = take() ;",
            "t:3:12: error: expected `;` at the end of the statement",
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
            "t:3:16: error: a list of patterns does not select a single field (write `collect` before it, or give alternatives as `option:[…]`)",
        ),
        (
            "x = collect read(a) ;",
            "t:3:13: error: `collect` needs patterns of names (write `collect read(keys:[a, b*])`)",
        ),
        (
            "x = read(a*) ;",
            "t:3:10: error: one field has no `*` in its name (collect several fields with `collect read(keys:[…])`)",
        ),
        (
            "x = match read() { digit(1) => chars(a) } ;",
            "t:3:11: error: there is no target that names the field of this `read()` (name the field: `read(x)`)",
        ),
        (
            "x = read('a) ;",
            "t:3:10: error: this quoted name is not terminated or empty",
        ),
        (
            "x = digit(abc) ;",
            "t:3:11: error: `abc` is not a valid digit (write a whole number of 64 bits, such as `digit(42)`)",
        ),
        (
            "x = bool(TRUE) ;",
            "t:3:10: error: `TRUE` is not a valid bool (write `bool(true)` or `bool(false)`)",
        ),
        (
            "x = ip(10.0.0) ;",
            "t:3:8: error: `10.0.0` is not a valid ip (write an address, such as `ip(10.0.0.1)`)",
        ),
        (
            "x = time(2026-13-01 00:00:00) ;",
            "t:3:10: error: `2026-13-01 00:00:00` is not a valid time (write a date and time, such as `time(2026-01-31 08:00:00)`)",
        ),
        (
            "x = port(80) ;",
            "t:3:5: error: there are no literals of type `port` (literals are of type chars, symbol, digit, float, bool, ip, time)",
        ),
        (
            "x = chars(a(b) ;",
            "t:3:10: error: this parenthesis is not closed (quote text with unbalanced parentheses: `chars('a)')`)",
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
            "t:3:5: error: unknown function or type `to_json` (functions follow a value: `read(x) | to_json`)",
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
            "t:3:24: error: `Utf7` is not an argument for `base64_decode` (it takes an encoding, such as Utf8, Utf16le, Utf16be, Gbk, Gb18030, Big5, EucJp, Windows31j, Koi8R, Windows1252, Iso88591, Imap)",
        ),
        (
            "x = @a | nth(b) ;",
            "t:3:14: error: `b` is not an argument for `nth` (it takes a position, counted from 0)",
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
            "t:3:30: error: `h` is not an argument for `Time::to_ts_zone` (it takes `s`, `ms` or `us` as its unit)",
        ),
        (
            "x = @a | Time::to_ts_ms(19) ;",
            "t:3:25: error: `19` is not an argument for `Time::to_ts_ms` (it takes hours east of UTC, such as `8`, `-5` or `5:30`)",
        ),
        (
            "x = @a | url(port) ;",
            "t:3:14: error: `port` is not an argument for `url` (it takes `domain`, `host`, `uri`, `path` or `params`)",
        ),
        (
            "x = @a | map_to(b) ;",
            "t:3:17: error: `b` is not an argument for `map_to` (it takes `true`, `false`, a number or a quoted text)",
        ),
        (
            "x = @a | on_fail('b ;",
            "t:3:17: error: the arguments of `on_fail` are not terminated (close quotes and parentheses)",
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
            "t:3:10: error: `99999999999999999999` is not a number of 64 bits",
        ),
        (
            "static { d = digit(1) ; } x = lookup_nocase(d, @a, 'b') ;",
            "t:3:45: error: the constant `d` is not an object (it is defined in line 3)",
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
            "t:3:10: error: this brace is not part of a placeholder (write a literal brace twice)",
        ),
        (
            "x = fmt(\"a}\", @a) ;",
            "t:3:11: error: this brace is not part of a placeholder (write a literal brace twice)",
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
            "t:3:37: error: cases after `_` never match (move the `_` case to the end)",
        ),
        (
            "x = match (@a, @b) { (digit(1)) => chars(c) } ;",
            "t:3:22: error: 1 conditions for 2 values (a case has one condition for each value of the tuple)",
        ),
        (
            "x = match (@a, @b) { (digit(1), _) => chars(c) } ;",
            "t:3:33: error: unknown constant `_` (`_` can only be a whole case; list the possible values of this position)",
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
            "t:3:29: error: this is not a regular expression (unclosed group)",
        ),
        (
            "x = match @a { gt(b) => chars(c) } ;",
            "t:3:19: error: `b` is not a number (`gt` requires a number)",
        ),
        (
            "x = match @a { in_range(1) => chars(c) } ;",
            "t:3:24: error: `in_range` takes 2 arguments",
        ),
        (
            "x = match @a { in (digit(1), chars(b)) => chars(c) } ;",
            "t:3:16: error: the bounds of `in` are of different types (no value can be between them)",
        ),
        (
            "x = object { a = read(a) ;\n\n",
            "t:3:27: error: expected `}` or a member of the object, found the end of the text",
        ),
        (
            "x = match read(a) { digit(1) => chars(b) ;\n",
            "t:3:43: error: expected `}` or a case of the match, found the end of the text",
        ),
        (
            "x = match read(a) { digit(1) => chars(b) ; _ => chars(c) ;\n",
            "t:3:59: error: expected `}` or a case of the match, found the end of the text",
        ),
        (
            "x = array { read(a) ;\n",
            "t:3:22: error: expected `}` or an item of the array, found the end of the text",
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
            "t:3:21: error: several members can share only an access, a literal or a constant (give each member its own value)",
        ),
        (
            "x = array { read() } ;",
            "t:3:13: error: there is no target that names the field of this `read()` (name the field: `read(x)`)",
        ),
        (
            "static { a = digit(1) ; a = digit(2) ; } x = a ;",
            "t:3:25: error: the constant `a` is already defined (the first is in line 3)",
        ),
        (
            "static { read = digit(1) ; } x = read(a) ;",
            "t:3:10: error: `read` is a reserved word (give the constant another name)",
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
            "t:3:24: error: expected `}` at the end of the static block, found the end of the text",
        ),
    ] {
        check(statements, expected);
    }
}

#[test]
fn several_errors_are_shown_at_once() {
    for (statements, expected) in [
        // After an invalid statement, the next ones are parsed.
        (
            "x = raed(a) ;\ny = read(b) ;\nz : int = read(c) ;\n",
            &["3:5", "5:5"][..],
        ),
        // Errors within braces do not affect the rest of the block.
        (
            "x = match read(a) {\n  digit(b) => chars(c) ;\n  _ => chars(d) ;\n} ;\ny = @ ;",
            &["4:9", "7:7"],
        ),
        // An unclosed brace ends where the next statement begins.
        (
            "x = match read(a) {\n  digit(1) => chars(c) ;\ny = read(b) ;\nz = reed(c) ;",
            &["5:1", "6:5"],
        ),
        // A missing semicolon does not lose a statement.
        (
            "x = read(a)\ny = raed(b) ;\nz = read(c)",
            &["3:12", "4:5", "5:12"],
        ),
        // Parsing of constants continues, and an invalid one is registered.
        (
            "static { a = digit(x) ; b = nope ; c = digit(1) ; }\nx = a ;\ny = b ;\nz = d ;",
            &["3:20", "3:29", "6:5"],
        ),
        // Errors of the header do not hide those of the statements.
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
            .ends_with("too many errors; the rest was not read")
    );
    let text = "name : t\nfoo : bar\n---\nx = nope ;";
    assert_eq!(Model::parse("t", text).unwrap_err().len(), 2);
}
