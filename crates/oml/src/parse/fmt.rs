//! `fmt("…", …)`.

use lookaside_value::Text;

use super::{Parsed, Parser};
use crate::ast::{Access, ExprKind, Fmt, FmtPart, Span};
use crate::diagnostic::Diagnostic;
use crate::lexer::span;

/// A part of a template whose placeholders are not resolved to arguments yet.
enum RawPart<'a> {
    Text(String),
    Placeholder(&'a str, Span),
}

impl<'a> Parser<'a> {
    pub(super) fn fmt(&mut self) -> Parsed<ExprKind> {
        self.word("`fmt`")?;
        self.expect("(", "after `fmt`")?;
        let raw = self.template()?;
        let mut arguments = Vec::new();
        while self.cursor.eat(",") {
            self.count_expressions(1)?;
            arguments.push(self.variable(None)?);
        }
        self.expect(")", "or `,` behind the arguments of `fmt`")?;
        let mut used = vec![false; arguments.len()];
        let mut parts = Vec::with_capacity(raw.len());
        for part in raw {
            parts.push(match part {
                RawPart::Text(text) => FmtPart::Text(Text::from(text)),
                RawPart::Placeholder(name, span) => {
                    let index = placeholder_argument(name, span, &arguments)?;
                    used[index] = true;
                    FmtPart::Argument(index)
                }
            });
        }
        for (argument, used) in arguments.iter().zip(used) {
            if !used {
                let name = names(argument).next().unwrap_or_default();
                let message = format!("the template has no `{{{name}}}`");
                self.warn(
                    argument.span,
                    message,
                    "name it in the template or leave it out",
                );
            }
        }
        Ok(ExprKind::Fmt(Fmt { parts, arguments }))
    }

    /// The quoted template. There are no escapes; it may contain the other kind of quotes.
    fn template(&mut self) -> Parsed<Vec<RawPart<'a>>> {
        self.cursor.skip_blanks();
        let quote = self.cursor.peek().filter(|c| matches!(c, '"' | '\''));
        let Some(quote) = quote else {
            return Err(self.unexpected("a template in quotes"));
        };
        let start = self.cursor.at() + 1;
        self.cursor.set_at(start);
        let template = self.cursor.take_while(|c| c != quote);
        if !self.cursor.eat_here(quote.encode_utf8(&mut [0; 4])) {
            let message = "the template is not terminated";
            return Err(Diagnostic::error(span(start - 1, start), message));
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut at = 0;
        while let Some(brace) = template[at..].find(['{', '}']).map(|found| at + found) {
            text.push_str(&template[at..brace]);
            let rest = &template[brace..];
            let place = start + brace;
            if rest.starts_with("{{") || rest.starts_with("}}") {
                text.push_str(&rest[..1]);
                at = brace + 2;
                continue;
            }
            let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let Some((name, _)) = inner else {
                let message = "this brace is not part of a placeholder";
                return Err(Diagnostic::error(span(place, place + 1), message)
                    .help("write a literal brace twice"));
            };
            if !text.is_empty() {
                parts.push(RawPart::Text(std::mem::take(&mut text)));
            }
            self.count_expressions(1)?;
            at = brace + name.len() + 2;
            let place = span(place, start + at);
            parts.push(RawPart::Placeholder(name.trim(), place));
        }
        text.push_str(&template[at..]);
        if !text.is_empty() {
            parts.push(RawPart::Text(text));
        }
        Ok(parts)
    }
}

/// The names by which a placeholder can refer to an argument.
fn names(access: &Access) -> impl Iterator<Item = &str> {
    let names = [&access.key].into_iter().chain(&access.options);
    names.map(Text::as_str).filter(|name| !name.is_empty())
}

/// The argument that reads the field with this name; of several the last.
fn placeholder_argument(name: &str, span: Span, arguments: &[Access]) -> Parsed<usize> {
    let reads = |access: &Access| names(access).any(|read| read == name);
    arguments.iter().rposition(reads).ok_or_else(|| {
        let message = format!("no argument reads `{name}`");
        Diagnostic::error(span, message)
            .help(format!("add `@{name}` after the template"))
            .nearest(name, arguments.iter().flat_map(names))
    })
}
