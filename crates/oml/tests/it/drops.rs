//! `drop when`, and conditions outside of models.

use lookaside_oml::{Condition, Conditions, Model, Options};
use lookaside_value::{Batch, NameTable, Value};

use crate::parse::text;
use crate::script::{Script, check, fields, push, run};

/// Whether `drop when` with this condition drops a record.
fn drops(condition: &str, input: &str) -> bool {
    let statements = format!("drop when {condition} ; * = take() ;");
    let (results, report) = run(&statements, &[input], &mut Script::default());
    assert_eq!(
        (report.record_count, report.dropped_count),
        (1, 1 - results.len() as u64)
    );
    results.is_empty()
}

#[test]
fn conditions_are_those_of_a_match_combined() {
    for (condition, input, expected) in [
        ("read(a) = digit(1)", "a:digit=1", true),
        ("@a=digit(2)|digit(1)", "a:digit=1", true),
        (
            "@a = digit(2) | in (digit(3), digit(5)) | gt(6)",
            "a:digit=4",
            true,
        ),
        ("@a = !digit(2)", "a:digit=1", true),
        ("read(a) != digit(1)", "a:digit=1", false),
        ("read(a) != digit(1)", "a:digit=2", true),
        ("read(a) in (digit(200), digit(399))", "a:digit=399", true),
        ("read(a) in (digit(200), digit(399))", "a:digit=400", false),
        (
            "read(a) starts_with('/health') | ends_with('.css')",
            "a:chars=x.css",
            true,
        ),
        ("read(a) regex_match('^x+$')", "a:chars=xx", true),
        // Values of other types and absent fields fulfil nothing, as in a match.
        ("read(a) = digit(1)", "a:chars=1", false),
        ("read(a) != digit(1)", "a:chars=2", false),
        ("read(a) != digit(1)", "", false),
        ("not read(a) = digit(1)", "", true),
        ("read(a) { _ : chars() } is_empty()", "", true),
        ("read(a) { _ : Now::date() } = digit(20260504)", "", true),
        ("read(a, option:[b]) = digit(1)", "b:digit=1", true),
        // `and` binds tighter than `or`, and `not` tightest.
        (
            "@a = digit(1) or @b = digit(1) and @c = digit(1)",
            "a:digit=1",
            true,
        ),
        (
            "(@a = digit(1) or @b = digit(1)) and @c = digit(1)",
            "a:digit=1",
            false,
        ),
        ("not @a = digit(1) and @b = digit(1)", "b:digit=1", true),
        (
            "not (@a = digit(1) and @b = digit(1))",
            "a:digit=1  b:digit=1",
            false,
        ),
        ("not not @a = digit(1)", "a:digit=1", true),
        (
            "@a = digit(1) // why\n or /* and */ @b = digit(1)",
            "b:digit=1",
            true,
        ),
    ] {
        assert_eq!(drops(condition, input), expected, "{condition} of {input}");
    }
}

#[test]
fn statements_after_a_drop_run_for_the_others_only() {
    let mut script = Script::new(&["name"])
        .row([Value::Int(1)], [Value::from("one")])
        .row([Value::Int(3)], [Value::from("three")]);
    let (results, report) = run(
        "static { two = digit(2) ; }
         id = read(k) ;
         drop when read(id) = two | digit(4) ;
         name = select name from t where k = read(k) ;
         drop when read(name) = chars(none) ;
         rest = take(x) ;",
        &[
            "k:digit=4  x:digit=0",
            "k:digit=1  x:digit=10",
            "k:digit=2  x:digit=20",
            "k:digit=3  x:digit=30",
            "k:digit=2",
        ],
        &mut script,
    );
    assert_eq!(
        results,
        [
            r#"{"id":1,"name":"one","rest":10}"#,
            r#"{"id":3,"name":"three","rest":30}"#
        ]
    );
    assert_eq!(script.asked, [[[Value::Int(1)], [Value::Int(3)]]]);
    assert_eq!((report.record_count, report.dropped_count), (5, 3));
    assert_eq!(report.lookup_count, 2);
}

/// What is not known must not be dropped: the record remains to be rejected.
#[test]
fn a_record_whose_lookup_was_rejected_is_not_dropped() {
    let mut script = Script::new(&["name"]).failure([Value::Int(1)], "gone");
    let statements = "name = select name /* on_lookup_failure: reject */ from t where k = read(k) ;
                      drop when not read(name) = chars(x) ;";
    let (results, report) = run(statements, &["k:digit=1", "k:digit=2"], &mut script);
    assert_eq!((results.len(), report.dropped_count), (1, 1));
    assert_eq!(report.rejected()[0].line, 1);
}

/// Every text that the original accepts has its meaning.
#[test]
fn fields_can_have_the_words_as_names() {
    check(
        "drop = read(a) ; when : chars = read(drop) ; drop : digit = digit(2) ; and = read(when) ;",
        "a:digit=1",
        r#"{"drop":1,"when":"1","drop":2,"and":"1"}"#,
    );
    check(
        "drop\n= read(drop/when) ; drop.x = read(drop) ; drop* = take() ;",
        "drop/when:digit=1  dropped:digit=3",
        r#"{"drop":1,"drop.x":1,"drop/when":1,"dropped":3}"#,
    );
    let lookup = "drop, when = select drop, when from t where k = read(k) ;";
    assert!(Model::parse("t", &text(lookup)).is_ok());
}

#[test]
fn mistakes_say_what_to_write() {
    for (statement, expected) in [
        (
            "drop ;",
            "3:6: error: expected `when` after `drop`, found `;` (write which events are dropped: \
             `drop when read(status) = digit(200) ;`)",
        ),
        (
            "drop if read(a) = digit(1) ;",
            "3:6: error: expected `when` after `drop`, found `if` (write which events are dropped: \
             `drop when read(status) = digit(200) ;`)",
        ),
        (
            "drop when ;",
            "3:11: error: expected a condition, found `;` (such as `read(status) = digit(200)` or \
             `read(path) starts_with('/a')`)",
        ),
        (
            "drop when read(a) ;",
            "3:19: error: expected a condition after the field, found `;` (such as \
             `= digit(200)`, `in (digit(200), digit(299))` or `starts_with('/a')`)",
        ),
        (
            "drop when read(a) digit(1) ;",
            "3:19: error: expected `=` or `!=` before the value, found `digit` (write `read(x) = digit(1)`)",
        ),
        (
            "drop when read(a) == digit(1) ;",
            "3:19: error: values are compared with one `=`",
        ),
        (
            "drop when read(a) >= digit(1) ;",
            "3:19: error: expected a condition after the field, found `>` (write `gt(499)` or \
             `in (digit(500), digit(599))`)",
        ),
        (
            "drop when take(a) = digit(1) ;",
            "3:11: error: a condition only reads fields (write `read` instead of `take`)",
        ),
        (
            "drop when read() = digit(1) ;",
            "3:11: error: there is no target that names the field of this `read()` (name the field: `read(x)`)",
        ),
        (
            "drop when read(a) contain('x') ;",
            "3:19: error: unknown condition `contain` (did you mean `contains`?)",
        ),
        (
            "drop when @a = digit(1) && @b = digit(1) ;",
            "3:25: error: expected `and`, `or` or `;` after the condition, found `&` (write `and`)",
        ),
        (
            "drop when @a = digit(1) || @b = digit(1) ;",
            "3:26: error: expected a condition such as `digit(1)` or `contains('x')`, found `|`",
        ),
        (
            "drop when @a != digit(1) | digit(2) ;",
            "3:26: error: expected one value after `!=`, found `|` (write `not read(x) = digit(1) | digit(2)`)",
        ),
        (
            "drop when (@a = digit(1) ;",
            "3:26: error: expected `)` after the condition in parentheses, found `;`",
        ),
        (
            "drop when @a = digit(1) x ;",
            "3:25: error: expected `and`, `or` or `;` after the condition, found `x`",
        ),
        (
            "drop when @a = digit(1)\nx = read(b) ;",
            "3:24: error: expected `;` at the end of the statement",
        ),
        (
            "drop when @a = digit(1)",
            "3:24: error: expected `;` at the end of the statement",
        ),
    ] {
        let errors = Model::parse("t", &text(statement)).unwrap_err();
        assert_eq!(errors.to_string(), format!("t:{expected}"), "{statement}");
    }
    let deep = format!("drop when {}@a = digit(1) ;", "(".repeat(100));
    let errors = Model::parse("t", &text(&deep)).unwrap_err().to_string();
    assert!(
        errors.contains("expressions nest at most 64 deep"),
        "{errors}"
    );
    let deep = format!("drop when {}@a = digit(1) ;", "not ".repeat(100));
    let errors = Model::parse("t", &text(&deep)).unwrap_err().to_string();
    assert!(
        errors.contains("expressions nest at most 64 deep"),
        "{errors}"
    );
}

#[test]
fn the_first_condition_that_holds_is_found_for_each_record() {
    let conditions = [
        "read(status) in (digit(500), digit(599))",
        "read(status) in (digit(400), digit(599)) and not read(req/path) = chars(/x)",
    ]
    .map(|text| Condition::parse("t", text).unwrap());
    let mut names = NameTable::new();
    let conditions = Conditions::bind(&conditions, &mut names, &Options::default());
    let mut batch = Batch::new(names.into());
    for input in [
        "status:digit=404",
        "status:digit=503",
        "status:chars=503",
        "",
    ] {
        push(&mut batch, 1, fields(input));
    }
    let mut found = vec![Some(7); 9];
    conditions.first_of_each(&batch, &mut found);
    assert_eq!(found, [Some(1), Some(0), None, None]);
}

/// Wherever a condition is cut, and whatever byte is replaced, the error is within the text.
#[test]
fn no_text_of_a_condition_panics() {
    let whole = "not (read(a/\u{e9}, option:[b]) { _ : chars(\u{1f600}) } = chars(x) | !digit(1)) \
                 and @c in (digit(1), digit(2)) or read(d) regex_match('^a+$') // why";
    assert!(Condition::parse("t", whole).is_ok());
    let cuts = whole.char_indices().map(|(at, _)| whole[..at].to_owned());
    let replaced = whole.char_indices().flat_map(|(at, found)| {
        let rest = &whole[at + found.len_utf8()..];
        ["", "(", "'", "\u{1f600}", "/*", ";", "}"]
            .map(|new| format!("{}{new}{rest}", &whole[..at]))
    });
    for text in cuts.chain(replaced) {
        let file = format!("\u{e9}\n {text}\n");
        let start = "\u{e9}\n ".len();
        if let Err(errors) = Condition::parse_within("t", &file, start..start + text.len()) {
            let span = errors.iter().next().expect("a reason").span.range();
            assert!(file.get(span.clone()).is_some(), "{text}: {errors}");
            assert!(
                span.start >= start && span.end <= start + text.len(),
                "{text}: {errors}"
            );
        }
    }
}
