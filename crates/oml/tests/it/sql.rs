//! SQL in models: what is copied, and what becomes a parameter.

use lookaside_oml::Model;
use lookaside_oml::ast::{ExprKind, Sql, StatementKind};

fn sql(statement: &str) -> Result<Sql, String> {
    let text = format!("name : t\n---\nstatic {{ lo = digit(1) ; }}\nx = {statement}");
    let model = Model::parse("t", &text).map_err(|error| error.to_string())?;
    match &model.program().statements[0].kind {
        StatementKind::Lookup { sql, .. } => Ok(sql.clone()),
        kind => Err(format!("{kind:?}")),
    }
}

fn summary(sql: &Sql) -> String {
    let mut out = sql.text.clone();
    for param in &sql.params {
        let value = match &param.value.kind {
            ExprKind::Access(access) => {
                let mode = format!("{:?}", access.mode).to_lowercase();
                let default = if access.default.is_some() {
                    " default"
                } else {
                    ""
                };
                format!("{mode} {}{}{default}", access.key, access.options.join("|"))
            }
            ExprKind::Literal(value) => format!("{} {value}", value.type_of()),
            ExprKind::Now(now) => format!("{now:?}"),
            kind => format!("{kind:?}"),
        };
        out.push_str(&format!(" [{}={value}]", param.name));
    }
    out
}

#[test]
fn accesses_become_parameters() {
    for (statement, expected) in [
        ("select a from t ;", "select a from t"),
        (
            "select a from t where k = read(k) ;",
            "select a from t where k = :p0 [p0=read k]",
        ),
        (
            "SELECT a FROM t WHERE k>=read(x)and k<=take( y ) LIMIT 1;",
            "SELECT a FROM t WHERE k>=:p0 and k<=:p1 LIMIT 1 [p0=read x] [p1=take y]",
        ),
        (
            "select a from t where login = read(p) or login = read(p) ;",
            "select a from t where login = :p0 or login = :p1 [p0=read p] [p1=read p]",
        ),
        (
            "select a from t where d = read(p1) and ( l = read(p2) or uid = 1 ) ;",
            "select a from t where d = :p0 and ( l = :p1 or uid = 1 ) [p0=read p1] [p1=read p2]",
        ),
        (
            "select a from t where k in (@a, read(b), 'lit') ;",
            "select a from t where k in (:p0, :p1, 'lit') [p0=read a] [p1=read b]",
        ),
        (
            "select a from t where k = @http/status and n > @x/2 ;",
            "select a from t where k = :p0 and n > :p1/2 [p0=read http/status] [p1=read x]",
        ),
        (
            "select a from t where k = read(option:[b, c]) { _ : chars(z; y) ; } and l = 1;",
            "select a from t where k = :p0 and l = 1 [p0=read b|c default]",
        ),
        (
            "select a from t where k = read(a, option:[b, c]) { _ : chars(z; y) ; } and l = 1;",
            "select a from t where k = :p0 and l = 1 [p0=read ab|c default]",
        ),
        (
            "select a from t where at < Now::time() and d = Now::date() ;",
            "select a from t where at < :p0 and d = :p1 [p0=Time] [p1=Date]",
        ),
        (
            "select n from users where uid = digit(1) and s = chars(a;b) and i = ip(10.0.0.1) ;",
            "select n from users where uid = :p0 and s = :p1 and i = :p2 \
             [p0=int 1] [p1=text a;b] [p2=ip 10.0.0.1]",
        ),
        (
            "select a from t where ip4_between(read(sip), lo_ip, hi_ip) = 1 ;",
            "select a from t where ip4_between(:p0, lo_ip, hi_ip) = 1 [p0=read sip]",
        ),
        (
            "with c as (select 1) select * from c where x = @y ;",
            "with c as (select 1) select * from c where x = :p0 [p0=read y]",
        ),
    ] {
        let found = sql(statement).map_or_else(|error| format!("error: {error}"), |s| summary(&s));
        assert_eq!(found, expected, "{statement}");
    }
}

#[test]
fn what_only_looks_like_an_access_is_copied() {
    for statement in [
        "select 'read(x)', \"take(y)\", `@z` from t",
        "select 'it''s; fine', a from t where b = 'x;y'",
        "select t.read(x) from t",
        "select a::int, b[1:2], '{}'::jsonb @> c from t",
        "select @@version, x @@ y from t",
        "select time(created), ip(a), cast(b as float(24)) from t where c > date('now')",
        "select time('2026-01-01 00:00:00') from t",
        "select $$read(x);$$, $q$;$$;$q$ from t",
        r"select E'it\'s; fine' from t",
        "select /*+ index(t i) */ a from t",
        "select reader, takes, xread(a) from t",
        "select \u{4e2d} from \u{6587} where a = '\u{4e2d}'",
        "select a.\"x\" from a join b on a.\"id\" = b.\"id\"",
        "select a from t where b = \"t\".\"c\"",
    ] {
        let sql = sql(&format!("{statement} ;")).unwrap();
        assert_eq!((&*sql.text, sql.params.len()), (statement, 0));
    }
}

#[test]
fn comments_are_taken_out_and_text_in_double_quotes_is_text() {
    for (statement, expected) in [
        (
            "select a -- the; column\n from t // the; table\n where b = 1 /* ; */ ;",
            "select a \n from t \n where b = 1",
        ),
        ("select a/* */from t ;", "select a from t"),
        (
            "select a from t where b = \"it's\" and \"c\" like \"%x\" ;",
            "select a from t where b = 'it''s' and \"c\" like '%x'",
        ),
    ] {
        assert_eq!(sql(statement).unwrap().text, expected, "{statement}");
    }
}

#[test]
fn errors_have_their_place() {
    for (statement, expected) in [
        (
            "select ;",
            "4:12: error: expected columns after `select`, found `;`",
        ),
        (
            "select a from t",
            "4:20: error: the SQL statement has no `;` at its end",
        ),
        (
            "select f(a from t ;",
            "4:13: error: this parenthesis is not closed",
        ),
        (
            "select f(a)) from t ;",
            "4:16: error: this parenthesis was never opened",
        ),
        (
            "select 'a from t ;",
            "4:12: error: these quotes are not closed",
        ),
        ("select $x$ a ;", "4:12: error: these quotes are not closed"),
        (
            "select a /* from t ;",
            "4:14: error: this comment is not terminated (close it with `*/`)",
        ),
        (
            "select a from t where b = :b ;",
            "4:31: error: `:b` has no value here (write `read(b)` instead)",
        ),
        (
            "select a from t where b = read() ;",
            "4:31: error: there is no target that names the field of this `read()` (name the field: `read(x)`)",
        ),
        (
            "select a from t where b = digit(x) ;",
            "4:37: error: `x` is not a valid digit (write a whole number of 64 bits, such as `digit(42)`)",
        ),
        ("select a from t where b = collect(read(x)) ;", "ok"),
    ] {
        let found = sql(statement).map_or_else(
            |error| error.trim_start_matches("t:").to_owned(),
            |_| "ok".to_owned(),
        );
        assert_eq!(found, expected, "{statement}");
    }
}

#[test]
fn a_constant_in_sql_is_warned_of() {
    let text = "name:t --- static { lo = digit(1) ; } x = select a from t where b >= lo ;";
    let model = Model::parse("t", text).unwrap();
    assert_eq!(
        model.warnings().to_string(),
        "t:1:70: warning: in SQL `lo` is a column, not the constant \
         (write `x = lo ;` before, then `read(x)` here)"
    );
}
