//! `lookup_nocase(dictionary, key, default)` and `access_direct(source, destination)`.

use lookaside_value::{Text, Value};

use super::{Parsed, Parser};
use crate::ast::{AccessDirect, Expr, ExprKind, LookupNocase, StaticId};
use crate::diagnostic::Diagnostic;
use crate::lexer::span;

impl Parser<'_> {
    pub(super) fn lookup_nocase(&mut self, implied: Option<&str>) -> Parsed<ExprKind> {
        self.word("`lookup_nocase`")?;
        self.expect("(", "after `lookup_nocase`")?;
        let dictionary = self.dictionary()?;
        self.expect(",", "and the key behind the dictionary")?;
        let key = Box::new(self.expression_or_bare(implied)?);
        self.expect(",", "and the default behind the key")?;
        let default = Box::new(self.expression_or_bare(implied)?);
        self.expect(")", "behind the default")?;
        Ok(ExprKind::LookupNocase(LookupNocase {
            dictionary,
            key,
            default,
        }))
    }

    fn dictionary(&mut self) -> Parsed<StaticId> {
        let (name, span) = self.word("the name of a constant object")?;
        let Some(id) = self.static_ids.get(name).copied() else {
            let names = self.static_ids.keys().map(Text::as_str);
            return Err(
                Diagnostic::error(span, format!("unknown constant `{name}`"))
                    .help("the dictionary is an `object` in a `static` block")
                    .nearest(name, names),
            );
        };
        let constant = &self.statics[id.0 as usize];
        let is_broken = matches!(constant.value.kind, ExprKind::Literal(Value::Null));
        match constant.value.kind {
            ExprKind::Object(_) => Ok(id),
            _ if is_broken => Ok(id),
            _ => {
                let line = self.line_of(constant.span);
                Err(
                    Diagnostic::error(span, format!("the constant `{name}` is not an object"))
                        .help(format!("it is defined in line {line}")),
                )
            }
        }
    }

    /// An expression, a number, or text in quotes.
    fn expression_or_bare(&mut self, implied: Option<&str>) -> Parsed<Expr> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        match self.cursor.peek() {
            Some(quote @ ('\'' | '"')) => {
                self.cursor.set_at(start + 1);
                let text = self.cursor.take_while(|c| c != quote);
                if !self.cursor.eat_here(quote.encode_utf8(&mut [0; 4])) {
                    let message = "these quotes are not closed";
                    return Err(Diagnostic::error(span(start, start + 1), message));
                }
                Ok(self.bare_literal(Value::from(text), start))
            }
            Some('-' | '0'..='9') => {
                let negative = self.cursor.eat_here("-");
                let value = match (self.number()?.0, negative) {
                    (Value::Int(int), true) => Value::Int(-int),
                    (Value::Float(float), true) => Value::Float(-float),
                    (value, _) => value,
                };
                Ok(self.bare_literal(value, start))
            }
            _ => self.expression(implied),
        }
    }

    pub(super) fn access_direct(&mut self, implied: Option<&str>) -> Parsed<ExprKind> {
        self.word("`access_direct`")?;
        self.expect("(", "after `access_direct`")?;
        let source = Box::new(self.expression(implied)?);
        self.expect(",", "and the destination behind the source")?;
        let destination = Box::new(self.expression(implied)?);
        self.expect(")", "behind the destination")?;
        Ok(ExprKind::AccessDirect(AccessDirect {
            source,
            destination,
        }))
    }
}
