//! Functions on times: reading, writing, truncation and differences.

use jiff::tz::TimeZone;
use lookaside_oml::{Model, Options, Program, RunReport};
use lookaside_value::{Batch, NameTable};

use crate::harness::check;
use crate::parse::text;
use crate::script::{Script, push, run, shown};

/// The result of statements for an event with the text `t`, with a zone of the run, at the end of
/// 2026-01-02.
fn run_in(zone: &str, statements: &str, t: &str) -> String {
    let model = Model::parse("t", &text(statements)).unwrap();
    let mut names = NameTable::new();
    let options = Options {
        timezone: TimeZone::get(zone).unwrap(),
        clock: std::sync::Arc::new(|| "2026-01-02T23:59:59".parse().unwrap()),
        ..Options::default()
    };
    let mut script = Script::default();
    let program = Program::bind(&model, &mut names, &mut script, &options).unwrap();
    let mut batch = Batch::new(names.into());
    push(&mut batch, 1, vec![("t", t.into())]);
    let mut evaluator = program.evaluator();
    evaluator.run(&mut batch, &mut script, &mut RunReport::new());
    shown(batch.names(), &batch.records()[0])
}

#[test]
fn text_becomes_a_time() {
    check(
        "a = read(iso) | Time::parse | Time::to_ts ;
         b = read(clf) | Time::parse() | Time::to_ts ;
         c = read(clf) | Time::parse('%d/%b/%Y:%H:%M:%S %z') ;
         d = read(ms) | Time::parse ;
         e = read(n) | Time::parse | Time::to_ts_ms ;
         f = read(german) | Time::parse('%d.%m.%Y, %H:%M', Europe/Berlin) | Time::to_ts ;
         g = read(german) | Time::parse(\"%d.%m.%Y, %H:%M\", 5:30) | Time::to_ts ;
         h = read(t) | Time::parse ;",
        "iso = chars(2026-07-01T08:00:00+02:00) ; clf = chars(10/Oct/2000:13:55:36 -0700) ;
         ms = chars(1767225600250) ; n = digit(1767225600) ; german = chars('01.07.2026, 08:00') ;
         t = time(2026-01-01 08:00:00) ;",
        r#"{"a":1782885600,"b":971211336,"c":"2000-10-10 13:55:36","d":"2026-01-01 00:00:00.25","e":1767225600000,"f":1782885600,"g":1782873000,"h":"2026-01-01 08:00:00"}"#,
    );
}

#[test]
fn what_is_not_a_time_is_ignored() {
    check(
        "a = read(x) | Time::parse ;
         b = read(x) | Time::parse('%F') | on_fail('bad') ;
         c = read(n) | Time::parse | on_fail('bad') ;
         d = read(x) | Time::format('%F') | on_fail('bad') ;
         e = read(x) | Time::truncate(day) | on_fail('bad') ;
         f = read(x) | Time::since(@t) | on_fail('bad') ;
         g = read(t) | Time::since(@x) | on_fail('bad') ;
         h = read(t) | Time::since(@gone) | on_fail('bad') ;
         i = read(gone) | Time::parse ;
         j = read(a) { _ : chars(default) } ;",
        "x = chars(yesterday) ; n = digit(20260131) ; t = time(2026-01-01 08:00:00) ;",
        r#"{"b":"bad","c":"bad","d":"bad","e":"bad","f":"bad","g":"bad","h":"bad","j":"default"}"#,
    );
}

#[test]
fn values_that_are_not_times_are_counted() {
    let statements = "a = read(t) | Time::parse ; b = read(t) | Time::parse('%Y-%m-%dT%H:%M:%SZ') | Time::truncate(day) ;
        c = read(n) | Time::format('%F') | on_fail('bad') ; d = read(t) | Time::parse | Time::since(@n) ;";
    for (input, expected) in [
        ("t:chars=2026-01-02T00:00:00Z", 0),
        (
            "t:chars=2026-01-02T00:00:00Z  n:time=2026-01-01 08:00:00",
            0,
        ),
        ("t:chars=yesterday", 3),
        ("t:chars=yesterday  n:chars=", 3),
        ("t:chars=2026-01-02T00:00:00Z  n:digit=7", 2),
        ("t:chars=  n:null=", 0),
        ("x:chars=1", 0),
    ] {
        let (_, report) = run(statements, &[input], &mut Script::default());
        assert_eq!(report.time_failure_count, expected, "{input}");
    }
    let (_, report) = run(
        statements,
        &["t:chars=x", "t:chars=2026-01-02T00:00:00Z", "t:chars=y"],
        &mut Script::default(),
    );
    let mut sum = RunReport::new();
    sum.merge(report.clone());
    sum.merge(report);
    assert_eq!(sum.time_failure_count, 12);
}

#[test]
fn times_are_written_and_truncated() {
    check(
        "day = @t | Time::format('%Y/%m/%d') ;
         tokyo = @t | Time::format('%F %T %z', Asia/Tokyo) ;
         fixed = @t | Time::format('%H', -1) ;
         second = @t | Time::truncate(second) ;
         minute = @t | Time::truncate(minute) ;
         hour = @t | Time::truncate(hour) ;
         midnight = @t | Time::truncate(day) ;
         week = @t | Time::truncate(week) ;
         month = @t | Time::truncate(month) ;
         epoch = @t | Time::truncate(day) | Time::to_ts ;",
        "t = time(2026-03-05 23:59:58.5 +02:00) ;",
        r#"{"day":"2026/03/05","tokyo":"2026-03-06 06:59:58 +0900","fixed":"20","second":"2026-03-05 23:59:58","minute":"2026-03-05 23:59:00","hour":"2026-03-05 23:00:00","midnight":"2026-03-05 00:00:00","week":"2026-03-02 00:00:00","month":"2026-03-01 00:00:00","epoch":1772661600}"#,
    );
}

#[test]
fn the_time_between_two() {
    check(
        "a = @end | Time::since(@start) ;
         b = @end | Time::since(read(start), ms) ;
         c = @start | Time::since(@end, ms) ;
         d = @start | Time::since(@end) ;
         e = @text | Time::parse | Time::since(@text | Time::parse | Time::truncate(hour), us) | to_str ;
         f = take(end) | Time::since(take(start), s) ;
         * = take() ;",
        "start = time(2026-03-05 08:00:00 +02:00) ; end = time(2026-03-05 06:00:01.75) ;
         text = chars(2026-03-05T08:00:01Z) ;",
        r#"{"a":1,"b":1750,"c":-1750,"d":-1,"e":"1000000","f":1,"text":"2026-03-05T08:00:01Z"}"#,
    );
}

#[test]
fn the_zone_and_the_clock_of_the_run_apply() {
    let statements = "a = read(t) | Time::parse ; b = @a | Time::to_ts ;
         c = @a | Time::format('%T %z') ; d = @a | Time::format('%T %z', UTC) ;";
    for (zone, t, expected) in [
        (
            "Europe/Berlin",
            "2026-07-01 08:00:00",
            r#"{"a":"2026-07-01 08:00:00","b":1782885600,"c":"08:00:00 +0200","d":"06:00:00 +0000"}"#,
        ),
        (
            "Asia/Tokyo",
            "2026-07-01T08:00:00Z",
            r#"{"a":"2026-07-01 08:00:00","b":1782892800,"c":"17:00:00 +0900","d":"08:00:00 +0000"}"#,
        ),
        (
            "UTC",
            "Jan  3 00:00:00",
            r#"{"a":"2026-01-03 00:00:00","b":1767398400,"c":"00:00:00 +0000","d":"00:00:00 +0000"}"#,
        ),
        (
            "UTC",
            "Jan  4 00:00:00",
            r#"{"a":"2025-01-04 00:00:00","b":1735948800,"c":"00:00:00 +0000","d":"00:00:00 +0000"}"#,
        ),
    ] {
        assert_eq!(run_in(zone, statements, t), expected, "{zone} {t}");
    }
}

#[test]
fn bad_arguments_are_errors() {
    for (statement, expected) in [
        (
            "x = @t | Time::parse('%E') ;",
            "t:3:23: error: `%E` is not an argument for `Time::parse` (it takes a format of times, such as `%d/%b/%Y:%H:%M:%S %z`: ",
        ),
        (
            "x = @t | Time::parse('%H:%M') ;",
            "t:3:23: error: `%H:%M` is not an argument for `Time::parse` (it takes a format of times, such as `%d/%b/%Y:%H:%M:%S %z`: it has no complete date, such as %Y-%m-%d, %d/%b or %s)",
        ),
        (
            "x = @t | Time::parse('%F %T %Z') ;",
            "t:3:23: error: `%F %T %Z` is not an argument for `Time::parse` (it takes ",
        ),
        (
            "x = @t | Time::parse('%F', Mars/Olympus) ;",
            "t:3:28: error: `Mars/Olympus` is not an argument for `Time::parse` (it takes a time zone, such as `Europe/Berlin` or `+02:00`)",
        ),
        (
            "x = @t | Time::format ;",
            "t:3:10: error: `Time::format` needs parentheses (write `Time::format(…)`, with its arguments if it has any)",
        ),
        (
            "x = @t | Time::format('%') ;",
            "t:3:24: error: `%` is not an argument for `Time::format` (it takes ",
        ),
        (
            "x = @t | Time::truncate(year) ;",
            "t:3:25: error: `year` is not an argument for `Time::truncate` (it takes `second`, `minute`, `hour`, `day`, `week` or `month`)",
        ),
        (
            "x = @t | Time::since ;",
            "t:3:10: error: `Time::since` needs the earlier time in parentheses (write `Time::since(@start)` or `Time::since(@start, ms)`)",
        ),
        (
            "x = @t | Time::since(@u, h) ;",
            "t:3:26: error: `h` is not an argument for `Time::since` (it takes `s`, `ms` or `us` as its unit)",
        ),
        (
            "x = @t | Time::since(read()) ;",
            "t:3:22: error: there is no target that names the field of this `read()` (name the field: `read(x)`)",
        ),
        (
            "x = @t | Time::since(@u ;",
            "t:3:25: error: expected `)` behind the arguments of `Time::since`, found `;`",
        ),
    ] {
        let found = Model::parse("t", &text(statement)).unwrap_err().to_string();
        let found = found.lines().next().unwrap_or_default();
        assert!(found.starts_with(expected), "{statement}\n{found}");
    }
}

#[test]
fn text_before_a_conversion_of_times_is_a_warning() {
    const WARNING: &str = "warning: this value is text, which the function leaves unchanged (make it a time first: `| Time::parse | Time::to_ts`)";
    for (statements, place) in [
        (
            "x = chars(2026-01-01 00:00:00) | Time::to_ts ;",
            Some("3:34"),
        ),
        ("x = fmt(\"{t}\", @t) | Time::to_ts_ms(8) ;", Some("3:22")),
        ("x : chars = take(t) ; y = @x | Time::to_ts ;", Some("3:32")),
        ("x = @t | to_str | Time::to_ts_zone(0, s) ;", Some("3:19")),
        (
            "x = @t | Time::format('%F') | skip_empty | Time::to_ts ;",
            Some("3:44"),
        ),
        (
            "x : chars = take(t) ; y = @x | Time::parse | Time::to_ts ;",
            None,
        ),
        ("x : chars = take(t) ; y = take(x) | Time::to_ts ;", None),
        (
            "x = take(t) ; x : chars = take(u) ; y = @x | Time::to_ts ;",
            None,
        ),
        (
            "* = take() ; x : chars = take(t) ; y = @x | Time::to_ts ;",
            None,
        ),
        ("x = @t | Time::to_ts ;", None),
        ("x = chars(a) | map_to(5) | Time::to_ts ;", None),
    ] {
        let model = Model::parse("t", &text(statements)).unwrap();
        let expected = place.map(|place| format!("t:{place}: {WARNING}"));
        let found = model.warnings().to_string();
        assert_eq!(
            found.trim_end(),
            expected.unwrap_or_default(),
            "{statements}"
        );
    }
}
