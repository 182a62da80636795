//! Lookups of all rows: `select_all` makes an array of objects.

use crate::harness::{check, run};

/// The error for statements that begin in line 3.
#[track_caller]
fn check_refused(statements: &str, expected: &str) {
    let error = run(statements, "").expect_err(statements);
    assert_eq!(error.trim(), expected, "{statements}");
}

const ENG: &str = r#"{"rows":[{"login":"bo","note":"x"},{"login":"cy","note":"y"}]}"#;

#[test]
fn rows_become_objects_in_their_order() {
    let eng = "dept = chars(eng) ;";
    for (statement, expected) in [
        (
            "rows = select_all login, note from users where dept = read(dept) ;",
            ENG,
        ),
        (
            "rows : array = SELECT_ALL login, note from users where dept = @dept ;",
            ENG,
        ),
        (
            "rows : json = select_all distinct login, note from users where dept = @dept order by uid desc ;",
            r#"{"rows":[{"login":"cy","note":"y"},{"login":"bo","note":"x"}]}"#,
        ),
        // Numbers stay numbers, and a NULL is a member.
        (
            "rows = select_all uid, note from users where uid = 1 and dept != read(dept) ;",
            r#"{"rows":[{"note":null,"uid":1}]}"#,
        ),
        (
            "rows = select_all * from (with a(n) as (values (1), (2)) select n from a) where read(dept) > '' ;",
            r#"{"rows":[{"n":1},{"n":2}]}"#,
        ),
    ] {
        check(statement, eng, expected);
    }
}

#[test]
fn no_row_is_an_empty_array_and_no_parameter_no_field() {
    let statement = "rows = select_all login from users where dept = read(dept) ;";
    check(statement, "dept = chars(none) ;", r#"{"rows":[]}"#);
    check(statement, "x = digit(1) ;", "{}");
}

#[test]
fn an_array_of_rows_is_a_value_as_any_other() {
    let statements = "__rows = select_all login from users where dept = read(dept) ;
        second = pipe read(__rows) | nth(1) ;
        first = read(__rows[0]/login) ;";
    let expected = r#"{"second":{"login":"cy"},"first":"bo"}"#;
    check(statements, "dept = chars(eng) ;", expected);
}

#[test]
fn more_rows_than_the_limit_are_a_failed_lookup() {
    let two =
        "rows = select_all /* rows_max: 2 */ login, note from users where dept = read(dept) ;";
    check(two, "dept = chars(eng) ;", ENG);
    let one = two.replace("rows_max: 2", "rows_max :1");
    check_failed(&one, "the answer has 2 rows, and rows_max is 1");
    // The default.
    let many = |count: usize| {
        format!(
            "rows = select_all n from (with recursive a(n) as (select 1 union all select n + 1 from a
             where n < {count}) select n from a) where 'eng' = read(dept) ;
             last = pipe read(rows) | nth(999) ;"
        )
    };
    let shown = run(&many(1000), "dept = chars(eng) ;").unwrap();
    assert!(shown.contains(r#""last":{"n":1000}"#), "{shown:.200}");
    check_failed(
        &many(1001),
        "the answer has 1001 rows, and rows_max is 1000",
    );
}

/// The lookup fails; its target stays absent.
#[track_caller]
fn check_failed(statements: &str, expected: &str) {
    let failure = run(statements, "dept = chars(eng) ;").expect_err(statements);
    assert!(failure.starts_with(expected), "{failure}");
}

#[test]
fn what_select_all_cannot_have_is_refused_with_its_place() {
    let all = "select_all login, note from users where uid = 1 ;";
    check_refused(
        &format!("a, b = {all}"),
        "model:3:4: error: all rows become one array, so `select_all` has one target (remove the other \
         targets; each row is an object with the names of the columns)",
    );
    check_refused(
        &format!("_ = {all}"),
        "model:3:1: error: the array of all rows needs a name (write a name in place of `_`, which stands \
         for the name of one column)",
    );
    check_refused(
        &format!("a : chars = {all}"),
        "model:3:1: error: `select_all` results in an array (leave the type out, or write `array`)",
    );
    check_refused(
        "a = select_all login, note as login from users where uid = 1 ;",
        "model:3:5: error: two columns have the name `login` (`select_all` makes an object of each row; \
         name one of the columns by `as`)",
    );
    check_refused(
        "a = select_all nobody from users where uid = 1 ;",
        "model:3:5: error: this lookup is refused: no such column: nobody in select nobody from users \
         where uid = 1 at offset 7",
    );
    for (comment, expected) in [
        (
            "/* rows_max: 0 */",
            "model:3:29: error: `rows_max` cannot be `0` (write a number of rows from 1 to 1000000)",
        ),
        (
            "/* rows_max: 1000001 */",
            "model:3:29: error: `rows_max` cannot be `1000001` (write a number of rows from 1 to 1000000)",
        ),
        (
            "/* rows_max: */",
            "model:3:29: error: `rows_max` has no value (write a number of rows from 1 to 1000000)",
        ),
        (
            "/* rows_max: 1 */ /*rows_max:2*/",
            "model:3:45: error: `rows_max` is already set (remove one of both)",
        ),
    ] {
        let statement = format!("a = select_all {comment} login from users where uid = 1 ;");
        check_refused(&statement, expected);
    }
    check_refused(
        "a = select /* rows_max: 1 */ login from users where uid = 1 ;",
        "model:3:25: error: `rows_max` has no effect on a lookup of one row (remove it, or look up all \
         rows by `select_all`)",
    );
    check_refused(
        "a = object { rows = select_all login from users ; } ;",
        "model:3:21: error: a lookup must be a separate statement (write `x = select_all … ;` before, then \
         `read(x)` here)",
    );
}

#[test]
fn a_constant_may_have_this_name() {
    check(
        "static { select_all = chars(x) ; } a = select_all ;",
        "b = digit(1) ;",
        r#"{"a":"x"}"#,
    );
}
