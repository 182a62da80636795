//! Whether two models have the same meaning: equal syntax trees, regardless of positions and of blanks
//! in SQL.

use crate::ast::{
    Access, CalcExpr, Expr, ExprKind, PipeFunction, Program, Span, Sql, Statement, StatementKind,
    Target, Test,
};
use crate::lexer::{Cursor, is_word_char};
use crate::parse::sql::{Escapes, dollar_tag, quoted_length};

pub(super) fn is_equivalent(left: Program, right: Program) -> bool {
    // Regular expressions and time zones have no equality, and floats may be NaN.
    format!("{:?}", normalized(left)) == format!("{:?}", normalized(right))
}

fn normalized(mut program: Program) -> Program {
    program.name_span = Span::default();
    for constant in &mut program.statics {
        constant.span = Span::default();
        expr(&mut constant.value);
    }
    for statement in &mut program.statements {
        self::statement(statement);
    }
    program
}

fn statement(statement: &mut Statement) {
    statement.span = Span::default();
    match &mut statement.kind {
        StatementKind::Assign { target, value } => {
            self::target(target);
            expr(value);
        }
        StatementKind::Lookup { targets, sql } => {
            targets.iter_mut().for_each(target);
            self::sql(sql);
        }
        StatementKind::Drop { test } => self::test(test),
        StatementKind::Move { .. } => {}
    }
}

fn target(target: &mut Target) {
    target.span = Span::default();
}

fn sql(sql: &mut Sql) {
    sql.span = Span::default();
    sql.text = with_single_blanks(&sql.text);
    for param in &mut sql.params {
        expr(&mut param.value);
    }
}

fn test(test: &mut Test) {
    match test {
        Test::Field { source, .. } => access(source),
        Test::All(tests) | Test::Any(tests) => tests.iter_mut().for_each(self::test),
        Test::Not(inner) => self::test(inner),
    }
}

fn access(access: &mut Access) {
    access.span = Span::default();
    if let Some(default) = &mut access.default {
        expr(default);
    }
}

fn expr(expr: &mut Expr) {
    expr.span = Span::default();
    match &mut expr.kind {
        ExprKind::Access(access) => self::access(access),
        ExprKind::Literal(_) | ExprKind::Now(_) | ExprKind::Static(_) => {}
        ExprKind::Pipe(pipe) => {
            self::expr(&mut pipe.source);
            for step in &mut pipe.steps {
                step.span = Span::default();
                if let PipeFunction::TimeSince { start, .. } = &mut step.function {
                    self::expr(start);
                }
            }
        }
        ExprKind::Match(it) => {
            it.sources.iter_mut().for_each(access);
            for case in &mut it.cases {
                case.span = Span::default();
                self::expr(&mut case.result);
            }
            it.default
                .iter_mut()
                .for_each(|default| self::expr(default));
        }
        ExprKind::Object(members) => {
            for member in members {
                target(&mut member.target);
                self::expr(&mut member.value);
            }
        }
        ExprKind::Array(items) => items.iter_mut().for_each(self::expr),
        ExprKind::Collect(collect) => {
            let default = collect.default.iter_mut();
            default.for_each(|default| self::expr(default));
        }
        ExprKind::Fmt(fmt) => fmt.arguments.iter_mut().for_each(access),
        ExprKind::Calc(calc) => self::calc(&mut calc.root),
        ExprKind::LookupNocase(lookup) => {
            self::expr(&mut lookup.key);
            self::expr(&mut lookup.default);
        }
        ExprKind::AccessDirect(direct) => {
            self::expr(&mut direct.source);
            self::expr(&mut direct.destination);
        }
    }
}

fn calc(calc: &mut CalcExpr) {
    match calc {
        CalcExpr::Access(access) => self::access(access),
        CalcExpr::Number(_) | CalcExpr::Static(_) => {}
        CalcExpr::Negate(inner) | CalcExpr::Call(_, inner) => self::calc(inner),
        CalcExpr::Binary(_, left, right) => {
            self::calc(left);
            self::calc(right);
        }
    }
}

/// SQL with one blank in place of several blanks and line breaks, except in quotes.
fn with_single_blanks(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut cursor = Cursor::new(sql);
    while let Some(c) = cursor.peek() {
        if c.is_whitespace() {
            cursor.skip_whitespace();
            text.push(' ');
            continue;
        }
        let rest = cursor.rest();
        let word = cursor.take_while(is_word_char);
        let length = match c {
            _ if word.eq_ignore_ascii_case("e") && cursor.peek() == Some('\'') => {
                quoted_length(cursor.rest(), b'\'', Escapes::Backslash).map(|length| length + 1)
            }
            _ if !word.is_empty() => Some(word.len()),
            '\'' | '"' | '`' => quoted_length(rest, c as u8, Escapes::Doubled),
            '$' => dollar_tag(rest, cursor.before()).and_then(|tag| {
                let inner = rest[tag.len()..].find(tag)?;
                Some(2 * tag.len() + inner)
            }),
            _ => None,
        };
        let length = length.unwrap_or(c.len_utf8());
        text.push_str(&rest[..length]);
        cursor.set_at(sql.len() - rest.len() + length);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    #[test]
    fn blanks_in_sql() {
        for (sql, expected) in [
            ("select\n\n  a from  t", "select a from t"),
            (
                "select '  ', \"a  b\", `c  d`",
                "select '  ', \"a  b\", `c  d`",
            ),
            (
                "select E'\\'  ',  $x$  $x$,  $1",
                "select E'\\'  ', $x$  $x$, $1",
            ),
            ("select 'it''s  '  , e  'x'", "select 'it''s  ' , e 'x'"),
        ] {
            assert_eq!(with_single_blanks(sql), expected);
        }
    }

    #[test]
    fn positions_are_no_difference_but_values_are() {
        let program = |text: &str| {
            let parsed = parse(&format!("name : m\n---\n{text}"));
            parsed.program.expect("a valid model")
        };
        for (left, right, expected) in [
            ("a = read(b) ;", "a=read( b );", true),
            ("a = read(b) ;", "a = take(b) ;", false),
            ("a = chars('x  y') ;", "a = chars('x y') ;", false),
            ("a = select  x\nfrom t ;", "a = select x from t ;", true),
            ("a = select 'x  y' ;", "a = select 'x y' ;", false),
            ("a = select read(x)+1 ;", "a = select read( x )+1 ;", true),
            (
                "drop when @a = digit(1) ;",
                "drop  when @a = digit( 1 ) ;",
                true,
            ),
            (
                "drop when @a = digit(1) ;",
                "drop when @a = digit(2) ;",
                false,
            ),
            ("a = calc(1 - 2 - 3) ;", "a = calc(1 - (2 - 3)) ;", false),
        ] {
            let found = is_equivalent(program(left), program(right));
            assert_eq!(found, expected, "{left} and {right}");
        }
    }
}
