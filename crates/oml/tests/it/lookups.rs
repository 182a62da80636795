//! When a batch queries its database, which parameters it sends, and how the answers are used.

use lookaside_oml::{Model, Options, Program, RunReport};
use lookaside_value::{Batch, Contract, NameTable, OnLookupFailure, Value};

use crate::script::{Script, bind, options, push, run, shown};

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
fn a_lookup_that_took_the_next_statement_asks_for_its_semicolon() {
    let said = |statements: &str| crate::harness::run(statements, "").expect_err("refused");
    let help = "(is a `;` missing at the end of line 4?)";
    for next in [
        "note = read(x) ;",
        "a, b = select login, dept from users ;",
        "n : digit = read(x) ;",
        "kind = match read(x) { digit(1) => chars(a) ; _ => chars(b) ; } ;",
        "note = read(x)",
    ] {
        let statements = format!("who = select login from users\n  where uid = 1\n\n{next}");
        let error = said(&statements);
        assert!(error.lines().any(|line| line.ends_with(help)), "{error}");
    }
    let error = said("who = select login from nowhere\nwhere\nuid = 1 ;\nnote = read(x) ;");
    assert!(error.ends_with("nowhere"), "{error}");
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

#[test]
fn a_lookup_requires_what_the_header_and_its_comments_say() {
    for (header, select, expected) in [
        ("", "select a from t", "any"),
        ("fresh : 100ms", "select a from t", "100ms"),
        ("fresh : 100ms", "select a /* fresh: now */ from t", "now"),
        ("fresh : now", "select a /* fresh: 100ms */ from t", "now"),
        ("fresh : 1s", "select a from t /* fresh: any */", "1s"),
        ("", "/* fresh: 2s */ select a from t", "2s"),
        ("", "select a /* x */ // y\n /*fresh :2s*/ from t", "2s"),
        ("", "select /* fresh: 2s */ a /* fresh: 1s */ from t", "1s"),
        // A hint, text, and words that only begin alike are not contracts.
        ("", "select /*+ fresh: now */ a from t", "any"),
        ("", "select '/* fresh: now */' as a from t", "any"),
        (
            "",
            "select a /* fresh rows */ /* freshly: now */ from t",
            "any",
        ),
    ] {
        let text = format!("name : m\n{header}\n---\nx = {select} where 1 = 1 ;\n");
        // What is said of one lookup is not said of the next one.
        let text = format!("{text}y = select b from t where 1 = 1 ;");
        let model = Model::parse("m.oml", &text).unwrap();
        let (mut names, mut script) = (NameTable::new(), Script::new(&["a"]));
        let program = Program::bind(&model, &mut names, &mut script, &options()).unwrap();
        let mut batch = Batch::new(names.into());
        push(&mut batch, 1, Vec::new());
        let mut report = RunReport::new();
        program
            .evaluator()
            .run(&mut batch, &mut script, &mut report);
        let of_all = header.strip_prefix("fresh : ").unwrap_or("any");
        let expected: [Contract; 2] = [expected, of_all].map(|it| it.parse().unwrap());
        assert_eq!(script.contracts, expected, "{header}, {select}");
        assert!(script.prepared.iter().all(|sql| !sql.contains("fresh: 2s")));
    }
}

#[test]
fn a_comment_that_states_no_contract_is_refused_with_its_place() {
    let way_out = "(write `any`, `now`, or a time such as `100ms` or `2s`)";
    for (comment, expected) in [
        (
            "/* fresh: soon */",
            "m.oml:3:22: error: `fresh` cannot be `soon`",
        ),
        ("/*fresh:5*/", "m.oml:3:20: error: `fresh` cannot be `5`"),
        ("/* fresh: */", "m.oml:3:22: error: `fresh` has no value"),
        (
            "/* fresh: 1s, 2s */",
            "m.oml:3:22: error: `fresh` cannot be `1s, 2s`",
        ),
        (
            "/* fresh: 1s */ /* fresh: x */",
            "m.oml:3:38: error: `fresh` cannot be `x`",
        ),
    ] {
        let text = format!("name : m\n---\nx = select {comment} a from t where 1 = 1 ;");
        let errors = Model::parse("m.oml", &text).unwrap_err();
        assert_eq!(errors.to_string().trim(), format!("{expected} {way_out}"));
    }
}

#[test]
fn the_most_specific_policy_for_failed_lookups_counts() {
    use OnLookupFailure::{Emit, Reject, Wait};
    for (header, comment, of_run, expected) in [
        ("", "", Emit, Emit),
        ("", "", Reject, Reject),
        ("", "", Wait, Wait),
        ("on_lookup_failure : reject", "", Wait, Reject),
        ("on_lookup_failure:emit", "", Reject, Emit),
        ("on_lookup_failure : wait", "", Emit, Wait),
        ("", "/* on_lookup_failure: reject */", Wait, Reject),
        (
            "on_lookup_failure : wait",
            "/*on_lookup_failure :emit*/",
            Reject,
            Emit,
        ),
        (
            "fresh : 1s on_lookup_failure : emit",
            "/* fresh: now */ /* on_lookup_failure: wait */",
            Reject,
            Wait,
        ),
        ("", "/* on_lookup_failures: reject */", Wait, Wait),
        ("", "/*+ on_lookup_failure: reject */", Wait, Wait),
    ] {
        let text = format!(
            "name : m\n{header}\n---\nx = select a {comment} from t where id = read(id) ;\n\
             y = select b from t where id = read(id) ;"
        );
        let model = Model::parse("m.oml", &text).unwrap();
        let lookups = [1_i64, 2, 3].map(|id| [Value::Int(id)]);
        let [ok, gone, _] = lookups.clone();
        let mut script = Script::new(&["a"])
            .row(ok, [Value::Int(7)])
            .failure(gone, "gone");
        let mut names = NameTable::new();
        let options = Options {
            on_lookup_failure: of_run,
            ..options()
        };
        let program = Program::bind(&model, &mut names, &mut script, &options).unwrap();
        let mut batch = Batch::new(names.into());
        for (line, [id]) in (1..).zip(lookups) {
            push(&mut batch, line, vec![("id", id)]);
        }
        let mut report = RunReport::new();
        program
            .evaluator()
            .run(&mut batch, &mut script, &mut report);

        // What a comment says is not said of the next lookup.
        let of_next = match header.rsplit_once(':') {
            Some((_, policy)) => policy.trim().parse().unwrap(),
            None => of_run,
        };
        let policies = [expected, of_next];
        assert_eq!(script.waited, policies.map(|it| it == Wait), "{text}");
        let emitted = policies.iter().filter(|it| **it == Emit).count();
        assert_eq!(report.lookup_failed_count, emitted as u64, "{text}");
        assert_eq!(report.failures().len(), emitted, "{text}");
        let rejected = report.rejected().iter();
        let rejected: Vec<_> = rejected
            .map(|it| (it.line, it.position.0, it.error.to_string()))
            .collect();
        let lines = (4..).zip(policies).filter(|(_, it)| *it != Emit);
        let expected: Vec<_> = lines.map(|(at, _)| (2, at, "gone".to_owned())).collect();
        assert_eq!(rejected, expected, "{text}");
        // The caller removes rejected records.
        assert_eq!(batch.len(), 3);
    }
}

#[test]
fn all_rejected_lookups_are_kept() {
    let text =
        "name : m\non_lookup_failure : reject\n---\nx = select a from t where id = read(id) ;";
    let model = Model::parse("m.oml", text).unwrap();
    let mut script = Script::new(&["a"]).failure([Value::Int(1)], "gone");
    let mut names = NameTable::new();
    let program = Program::bind(&model, &mut names, &mut script, &options()).unwrap();
    let mut batch = Batch::new(names.into());
    for line in 1..=100 {
        push(&mut batch, line, vec![("id", Value::Int(1))]);
    }
    let mut report = RunReport::new();
    program
        .evaluator()
        .run(&mut batch, &mut script, &mut report);
    let mut all = RunReport::new();
    all.merge(report);
    let lines: Vec<u64> = all.rejected().iter().map(|it| it.line).collect();
    assert_eq!(lines, Vec::from_iter(1..=100));
    assert_eq!((all.lookup_count, all.lookup_failed_count), (100, 0));
}

#[test]
fn a_comment_without_a_policy_is_refused_with_its_place() {
    for (comment, expected) in [
        (
            "/* on_lookup_failure: drop */",
            "m.oml:3:34: error: `on_lookup_failure` cannot be `drop` (write `wait`, `reject` or `emit`)",
        ),
        (
            "/*on_lookup_failure:*/",
            "m.oml:3:32: error: `on_lookup_failure` has no value (write `wait`, `reject` or `emit`)",
        ),
        (
            "/* on_lookup_failure: emit */ /* on_lookup_failure: Wait */",
            "m.oml:3:64: error: `on_lookup_failure` cannot be `Wait` (write `wait`, `reject` or `emit`)",
        ),
        (
            "/* on_lookup_failure: emit */ /* on_lookup_failure: wait */",
            "m.oml:3:64: error: `on_lookup_failure` is already set (remove one of both)",
        ),
    ] {
        let text = format!("name : m\n---\nx = select {comment} a from t where 1 = 1 ;");
        let errors = Model::parse("m.oml", &text).unwrap_err();
        assert_eq!(errors.to_string().trim(), expected);
    }
}
