//! `static { name = constant ; … }`.

use lookaside_value::{Text, Value};

use super::recovery::Within;
use super::{Parsed, Parser};
use crate::ast::{Calc, CalcExpr, Expr, ExprKind, Span, Static, StaticId};
use crate::diagnostic::Diagnostic;
use crate::lexer::Cursor;

/// Words that begin an expression, so no constant can have them as its name.
const RESERVED: [&str; 16] = [
    "_",
    "read",
    "take",
    "pipe",
    "match",
    "object",
    "array",
    "collect",
    "fmt",
    "calc",
    "lookup_nocase",
    "access_direct",
    "select",
    "with",
    "in",
    "static",
];

/// Whether `static {` comes next.
pub(crate) fn static_block_begins(mut ahead: Cursor<'_>) -> bool {
    ahead.skip_blanks();
    ahead.word() == "static" && ahead.eat("{")
}

impl Parser<'_> {
    pub(super) fn static_block(&mut self) -> Parsed<()> {
        self.expect("static", "")?;
        self.expect("{", "after `static`")?;
        while !self.cursor.eat("}") {
            self.cursor.skip_blanks();
            let start = self.cursor.at();
            if self.cursor.rest().is_empty() {
                return Err(self.unexpected("`}` at the end of the static block"));
            }
            if let Err(fault) = self.constant() {
                let error = fault.span.start as usize;
                self.report(fault);
                self.skip_broken(start, error, Within::Block);
                if self.error_count >= super::ERROR_COUNT_MAX {
                    return Ok(());
                }
            }
        }
        self.cursor.eat(";");
        Ok(())
    }

    fn constant(&mut self) -> Parsed<()> {
        let (name, span) = self.word("the name of a constant")?;
        if RESERVED.contains(&name) {
            return Err(
                Diagnostic::error(span, format!("`{name}` is a reserved word"))
                    .help("give the constant another name"),
            );
        }
        if let Some(first) = self.static_ids.get(name) {
            let first = self.statics[first.0 as usize].span;
            let line = self.line_of(first);
            return Err(Diagnostic::error(
                span,
                format!("the constant `{name}` is already defined"),
            )
            .help(format!("the first is in line {line}")));
        }
        let value = self.constant_value();
        // An invalid constant is registered as well, so that its uses are not further errors.
        let id = StaticId(self.statics.len() as u32);
        self.static_ids.insert(Text::from(name), id);
        self.statics.push(Static {
            name: name.into(),
            span,
            value: match &value {
                Ok(value) => value.clone(),
                Err(_) => Expr {
                    kind: ExprKind::Literal(Value::Null),
                    span,
                },
            },
        });
        value?;
        self.expect(";", "after the constant")
    }

    fn constant_value(&mut self) -> Parsed<Expr> {
        self.expect("=", "after the constant's name")?;
        let value = self.expression(None)?;
        match variable_part(&value) {
            None => Ok(value),
            Some(span) => Err(Diagnostic::error(span, "this is not constant").help(
                "constants are literals, objects and arrays of literals, and `calc` of numbers",
            )),
        }
    }

    pub(super) fn line_of(&self, span: Span) -> usize {
        let before = &self.cursor.text()[..span.start as usize];
        before.bytes().filter(|byte| *byte == b'\n').count() + 1
    }
}

/// The part of an expression that is not constant.
fn variable_part(expr: &Expr) -> Option<Span> {
    match &expr.kind {
        ExprKind::Literal(_) => None,
        ExprKind::Object(members) => members
            .iter()
            .find_map(|member| variable_part(&member.value)),
        ExprKind::Array(items) => items.iter().find_map(variable_part),
        ExprKind::Calc(Calc { root }) if is_constant(root) => None,
        _ => Some(expr.span),
    }
}

fn is_constant(calc: &CalcExpr) -> bool {
    match calc {
        CalcExpr::Number(_) => true,
        CalcExpr::Access(_) | CalcExpr::Static(_) => false,
        CalcExpr::Negate(inner) | CalcExpr::Call(_, inner) => is_constant(inner),
        CalcExpr::Binary(_, left, right) => is_constant(left) && is_constant(right),
    }
}
