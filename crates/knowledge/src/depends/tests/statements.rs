//! The class that the text of a statement alone gives.

use super::super::shape::{Form, Shape};
use super::seed;

/// `K id=1 …`, `T` or `N` with the reason.
fn class_of(sql: &str) -> String {
    match Shape::of(sql).form {
        Form::Key {
            terms,
            is_arbitrary,
        } => {
            let mut text = "K".to_owned();
            for term in terms {
                let number = term.parameter + 1;
                text.push_str(&format!(" {}={number}", term.column.column));
            }
            if is_arbitrary {
                text.push_str(" if unique");
            }
            text
        }
        Form::Table(reason) => format!("T {reason}"),
        Form::Refused(reason) => format!("N {reason}"),
    }
}

#[track_caller]
fn check(sql: &str, expected: &str) {
    let seen = class_of(sql);
    // The texts of the parser's errors are its own.
    match expected.strip_suffix('…') {
        Some(expected) => assert!(seen.starts_with(expected), "{sql}: {seen}"),
        None => assert_eq!(seen, expected, "{sql}"),
    }
}

/// Checks lines of the form `statement → class`.
#[track_caller]
fn check_all(lines: &str) {
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let (sql, expected) = line.split_once("  →  ").expect("the line has an arrow");
        check(sql.trim(), expected);
    }
}

#[test]
fn conjunctions_of_equalities_have_a_key() {
    check_all(
        r##"
        select * from t where id = $1  →  K id=1
        SELECT ID FROM T WHERE ID=$1;  →  K id=1
        select name from t where $1 = id  →  K id=1
        select name from t where (((id)) = (($1)))  →  K id=1
        select a from t where (a = $1 and (b = $2)) and c = $3  →  K a=1 b=2 c=3
        select a from t where a = $1 and b = $1  →  K a=1 b=1
        select a from t where a = $1 and a = $2  →  K a=1 a=2
        select x.a from s.t x where x.a = $1  →  K a=1
        select s.t.a from s.t where s.t.a = $1  →  K a=1
        select "Id" from "T" where "Id" = $1  →  K Id=1
        select "select" from t where "from" = $1  →  K from=1
        select "a""b" from t where "a""b" = $1  →  K a"b=1
        select größe from t where größe = $1  →  K größe=1
        select a /* /* nested */ now() */ from t where a = $1  →  K a=1
        select a from t where a = $1 and kind = 'now()'  →  K a=1
        select a from t where a = $1 and kind = $$now()$$  →  K a=1
        select a from t where a = $1 and kind in ('x', 'y')  →  K a=1
        select a from t where a = $1 and not deleted  →  K a=1
        select a from t where a = $1 and (b = 1 or c = 2)  →  K a=1
        select a from t where a = $1 and b between 1 and 2 and c = $2  →  K a=1 c=2
        select a from t where a = $1 and b is null  →  K a=1
        select a from t where a = $1 and b is not distinct from 4  →  K a=1
        select a from t where a = $1 and name like 'x%'  →  K a=1
        select a from t where a = $1 and name ~ '^x'  →  K a=1
        select data ->> 'x' as x from t where a = $1  →  K a=1
        select first || ' ' || last as name from t where a = $1  →  K a=1
        select lower(name), coalesce(b, 0) from t where a = $1  →  K a=1
        select case when b > 1 then 'x' else 'y' end from t where a = $1  →  K a=1
        select substring(name from 1 for 2) from t where a = $1  →  K a=1
        select a from t where a = $1::bigint  →  K a=1
        select a from t where a = cast($1 as text)  →  K a=1
        select a from t where a = $1 and b = 5::int  →  K a=1
        select a from t where a = $1 order by b desc nulls last, 1  →  K a=1
        select a from t where a = $1 order by b limit 1  →  K a=1
        select a from t where a = $1 order by b limit 2 offset 1  →  K a=1
        select a from t where a = $1 order by b fetch first 2 rows only  →  K a=1
        select a from t where a = $1 fetch first row only  →  K a=1 if unique
        select a from t where a = $1 offset 3  →  K a=1 if unique
        select distinct b from t where a = $1  →  K a=1
        select t.* from t where a = $1  →  K a=1
        select a from t where a = $1 and b = -1  →  K a=1
        select a from t where a=$1 and b=-1  →  K a=1
        select a from t where a=$12 and b=$3  →  K a=12 b=3
        select count(*) from t where a = $1  →  K a=1
        select a as "ctid now()" from t where a = $1  →  K a=1
        "##,
    );
    check(
        "select a from t where a = $1 -- and true\n and b = $2",
        "K a=1 b=2",
    );
    check("select a from t where a = $1\nlimit 1", "K a=1 if unique");
}

#[test]
fn other_statements_depend_on_their_tables() {
    check_all(
        r##"
        select * from t  →  T has no condition
        select * from t where a > $1  →  T uses parameters outside of `column = :parameter`
        select * from t where a = 1  →  T has no condition `column = :parameter`
        select * from t where a = $1 or b = $2  →  T uses parameters outside…
        select * from t where not a = $1  →  T uses parameters outside…
        select * from t where a = $1 and a < $1  →  T uses parameters outside…
        select * from t where a = $1 + 1  →  T uses parameters outside…
        select * from t where a + 1 = $1  →  T uses parameters outside…
        select * from t where a = lower($1)  →  T uses parameters outside…
        select * from t where a in ($1, $2)  →  T uses parameters outside…
        select * from t where a = any($1)  →  T uses parameters outside…
        select * from t where (a, b) = ($1, $2)  →  T uses parameters outside…
        select * from t where a is not distinct from $1  →  T uses parameters outside…
        select * from t where a between $1 and b = $2  →  T uses parameters outside…
        select * from t where a = $1 = true  →  T uses parameters outside…
        select * from t where a <> $1  →  T uses parameters outside…
        select * from t where name ~ $1  →  T uses parameters outside…
        select * from t where name || $1 = 'x'  →  T uses parameters outside…
        select * from t where data ->> 'x' = $1  →  T uses parameters outside…
        select * from t where data @> $1  →  T uses parameters outside…
        select $1, a from t where a = $1  →  T uses parameters outside…
        select a from t where a = $1 order by b limit $2  →  T uses parameters outside…
        select a from t where a = $1 order by $2  →  T uses parameters outside…
        select max(a) from t  →  T has no condition
        select a, count(*) from t where b = $1 group by a  →  T groups rows
        select count(*) from t where b = $1 having count(*) > 1  →  T groups rows
        select distinct on (a) a, b from t where c = $1 order by a, b  →  T groups rows
        select a from t join u on t.a = u.b where a = $1  →  T joins tables
        select a from t left join u using (a) where a = $1  →  T joins tables
        select a from t cross join u where a = $1  →  T joins tables
        select a from t, u where a = $1  →  T does not read one table
        select a from (t join u on true) where a = $1  →  T does not read a plain table
        select a from (select a from t) s where a = $1  →  T does not read a plain table
        select a from t, lateral (select b from u where u.a = t.a) s where a = $1  →  T does not read one table
        select a, (select max(b) from u) from t where a = $1  →  T contains another query
        select a from t where a = $1 and exists (select from u)  →  T contains another query
        select a from t where a = $1 and b in (select b from u)  →  T contains another query
        with x as (select a from t) select a from x where a = $1  →  T has a common table…
        with recursive x as (select 1 as a union select a + 1 from x) select a from x  →  T has…
        select a from t where a = $1 union select b from u  →  T is not a plain select
        (select a from t where a = $1)  →  T is not a plain select
        values (1), ($1)  →  T is not a plain select
        select a, row_number() over (partition by b order by c) from t  →  T has no condition
        select string_agg(a, ',' order by a) from t  →  T has no condition
        select a from t where a = all(array[$1, $2])  →  T uses parameters outside…
        "##,
    );
}

#[test]
fn what_is_not_determined_by_tables_has_no_class() {
    check_all(
        r##"
        select now()  →  N uses the function now(), which is not immutable
        select a from t where a = $1 and b < now()  →  N uses the function now(), which is not immutable
        select a from t where a = $1 and b < pg_catalog.NOW()  →  N uses the function now(), which is not immutable
        select a from t where a = $1 and b < "now"()  →  N uses the function now(), which is not immutable
        select a, random() from t where a = $1  →  N uses the function random(), which is not immutable
        select nextval('s') from t where a = $1  →  N uses the function nextval(), which is not immutable
        select a from t where a = $1 and b < current_date  →  N uses current_date
        select a from t where a = $1 and b < current_timestamp  →  N uses current_timestamp
        select a from t where a = $1 and b < localtime  →  N uses localtime
        select a from t where a = current_user  →  N uses current_user
        select user from t where a = $1  →  N uses user
        select a from t where user = $1  →  N uses user
        select a from t where session_user = $1  →  N uses session_user
        select my.f(a) from t where a = $1  →  N uses the function my.f, which is not built in
        select ctid from t where a = $1  →  N uses the system column ctid
        select a from t where t.xmin = $1  →  N uses the system column xmin
        select tableoid from t where a = $1  →  N uses the system column tableoid
        select * from generate_series(1, 3)  →  N reads from a function
        select * from t, lateral unnest(t.a) x  →  N reads from a function
        select * from t tablesample system (1) where a = $1  →  N reads a random sample of a table
        select * from only t where a = $1  →  N …
        select a from t where a = $1 for update  →  N locks rows
        select a from t where a = $1 for share of t  →  N locks rows
        select a from t limit 1  →  N limits the rows without an order…
        select a from t where a > $1 limit 1  →  N limits the rows without an order…
        select a from t where a in (select b from u limit 1)  →  N limits the rows without…
        select distinct on (a) a, b from t  →  N limits the rows without an order…
        select a from t where a = $1 and b @@ c  →  N uses the operator @@, which is not known
        select a from t where a = $1 and b <-> c < 1  →  N uses the operator <->…
        select a from t where a operator(my.=) $1  →  N uses the operator OPERATOR(my.=)…
        select a from t where a =@$1  →  N uses the operator =@, which is not known
        select a from t where a *@ b = $1  →  N uses the operator *@, which is not known
        select a from t where a != -1 and b = $1  →  K b=1
        select a from t where a !=-1 and b = $1  →  N uses the operator !=-, which is not known
        select a from t where a ? 'x'  →  N …
        select a from t where a = $1::date  →  N converts a value to date, which may depend…
        select a from t where a = $1::timestamptz  →  N converts a value to …
        select a from t where a = $1::varchar(3)  →  N converts a value to varchar(3)…
        select a from t where a = $1::my_type  →  N converts a value to my_type…
        select a::text from t where a = $1  →  N converts something other than…
        select 'now'::timestamp from t where a = $1  →  N converts a value to timestamp…
        select date 'today' from t where a = $1  →  N has a literal of a type that may depend…
        select "date" 'today' from t where a = $1  →  N contains a name in quotes of another kind
        select interval '1 day' from t where a = $1  →  N computes with times
        select a at time zone 'utc' from t where a = $1  →  N computes with times
        select extract(epoch from a) from t where a = $1  →  N computes with times
        select a collate "C" from t where a = $1  →  N names a collation
        select array_agg(a) from t where a = $1  →  N does not say in which order array_agg()…
        select string_agg(a, ',') from t  →  N does not say in which order string_agg()…
        select row_number() over () from t  →  N uses a window without an order
        select sum(a) over w from t window w as (order by a)  →  N names a window
        select a from t natural join u where a = $1  →  N joins by all columns of the same name
        select (t).a from t where a = $1  →  N has an expression that is not supported
        select a[1] from t where a = $1  →  N has an expression that is not supported
        select b'1' from t where a = $1  →  N …
        select U&'x' from t where a = $1  →  N has a literal of a form…
        select a from db.s.t where a = $1  →  N reads db.s.t, a name of more than two parts
        select a from t x(b) where a = $1  →  K a=1
        select a from s.t x(b) where a = $1  →  N gives other names to the columns of a table
        insert into t values ($1) returning a  →  N is not one query
        update t set a = $1 returning a  →  N is not one query
        delete from t where a = $1 returning a  →  N is not one query
        with x as (insert into t values ($1) returning a) select a from x  →  N changes data
        with x as (delete from t returning a) select a from x  →  N changes data
        select a into u from t where a = $1  →  N has a clause that is not supported
        select a from t where a = $1; select 1  →  N is not one query
        table t  →  N …
        explain select a from t where a = $1  →  N is not one query
        select a from t where a =  →  N cannot be read…
        select a from t where a = $x  →  N has a parameter of the unknown form $x
        select a from t where a = $0  →  N has a parameter of the unknown form $0
        select a from t where a = ?  →  N cannot be read…
        select a from t where a = :a  →  N has a parameter of the unknown form :a
        select a from t where a = $1 /* unended  →  N cannot be read…
        select a from t order by a using <  →  N …
        select f(variadic a) from t where a = $1  →  N …
        select f(a => 1) from t where a = $1  →  N calls f() in an unknown form
        select percentile_cont(0.5) within group (order by a) from t  →  N calls percentile_cont()…
        select array(select a from t)  →  N …
        select a from t where a = $1 fetch first 1 rows with ties  →  N has a clause that…
        select a from rows from (f()) where a = $1  →  N …
        select t from t group by all  →  N has a clause that is not supported
        "##,
    );
    check("", "N cannot be read…");
    check(
        "select\u{a0}a from t where a = $1",
        "N contains unusual white space",
    );
}

/// A line comment ends at a carriage return on the server too.
#[test]
fn comments_hide_nothing() {
    check(
        "select a from t where a = $1 -- x\r or b < now()",
        "N uses the function now(), which is not immutable",
    );
    check("select a from t where a = $1 /* /* */ or now() */", "K a=1");
    check(
        "select a from t where a = $1 /* /* */ */ or b < now()",
        "N uses the function now(), which is not immutable",
    );
    check(
        "select a from t where a = 'x\\' and b = 'y' or b = $1",
        "T uses…",
    );
    check(
        "select a from t where a = E'x\\' and b = ' or b = $1",
        "T uses…",
    );
}

/// Runs on a thread with the stack of a test; an overflow would end the process.
#[test]
fn deep_statements_are_refused() {
    let deep = 10_000;
    let around = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(deep), close.repeat(deep))
    };
    for expr in [
        around("(", "1", ")"),
        around("not ", "true", ""),
        around("- ", "1", ""),
        around("case when true then ", "1", " end"),
        around("lower(", "a", ")"),
        around("(select ", "1", ")"),
        around("array[", "1", "]"),
        around("a[", "1", "]"),
        around("cast(", "1", " as int)"),
        around("1+", "1", ""),
        around("1=", "1", ""),
        around("a and ", "a", ""),
        around("a or ", "a", ""),
        around("a||", "a", ""),
        around("", "a", "::int"),
        around("", "a", "[1]"),
        around("", "a", ".a"),
        around("", "a", " is null"),
        around("a in (", "1", ")"),
        around("a between 1 and ", "1", ""),
        around("coalesce(a, ", "1", ")"),
        around("exists (select 1 where ", "true", ")"),
        around("(a, ", "1", ")"),
    ] {
        let shape = Shape::of(&format!("select {expr} from t"));
        assert!(shape.refused().is_some(), "{}", &expr[..30]);
    }
    for sql in [
        format!("select a from {}", around("(", "t", ")")),
        format!("select a from {}", around("(select a from ", "t", ") s")),
        format!("select a from t{}", " join t on true".repeat(deep)),
        format!("select 1{}", " union select 1".repeat(deep)),
        around("(", "select 1", ")"),
        around("with x as (", "select 1", ") select 1"),
        format!("select $1::int{}", "[]".repeat(deep)),
        format!("select a from t where a = $1 {}", around("/* ", "", " */")),
    ] {
        let shape = Shape::of(&sql);
        assert!(
            shape.refused().is_some() || sql.contains("/*"),
            "{}",
            &sql[..30]
        );
    }
    // As deep as is allowed.
    for (term, count) in [("1+", 2000), ("a and ", 2000), ("a=1 or ", 1000)] {
        let sql = format!("select a from t where {}a", term.repeat(count));
        assert!(Shape::of(&sql).refused().is_none(), "{term}");
    }
}

/// Whatever the text is, it is read to its end, and a key has no other parameters.
#[test]
fn any_text_has_a_class() {
    let parts = [
        "select ",
        "a",
        " from ",
        "t",
        " where ",
        " = ",
        " $1",
        " $2",
        "(",
        ")",
        ",",
        ".",
        "*",
        "::",
        "int",
        " and ",
        " or ",
        " not ",
        "'x'",
        "\"y\"",
        " in ",
        " is ",
        " null ",
        "now()",
        "[",
        "]",
        "/*",
        "*/",
        "--",
        "\n",
        ";",
        "é",
        " as ",
        " with ",
        " order by ",
        " limit ",
        " 1",
        "-",
        "@",
        " join ",
        " on ",
        " union ",
        " case ",
        " when ",
        " then ",
        " end ",
        "$$",
        "E'\\'",
    ];
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..30_000 {
        let mut sql = String::new();
        if random.bool() {
            sql.push_str("select a from t where a = $1");
        }
        for _ in 0..random.usize(0..14) {
            sql.push_str(parts[random.usize(0..parts.len())]);
        }
        if let Form::Key { terms, .. } = Shape::of(&sql).form {
            for number in [1, 2] {
                let is_used = sql.contains(&format!("${number}"));
                let is_hidden = ["'", "--", "/*", "$$", "\""]
                    .iter()
                    .any(|it| sql.contains(it));
                let is_term = terms.iter().any(|term| term.parameter + 1 == number);
                assert!(
                    is_term || !is_used || is_hidden,
                    "LOOKASIDE_SEED={seed} {sql}"
                );
            }
        }
    }
}
