//! Expressions: which form begins here, and the functions that it is led through.

use lookaside_value::{Text, Value};

use super::type_word::{type_word, type_words};
use super::{Parsed, Parser};
use crate::ast::{Expr, ExprKind, Now, Pipe};
use crate::diagnostic::Diagnostic;

/// The words that expressions begin with, for hints.
const WORDS: [&str; 13] = [
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
    "Now::time",
    "Now::date",
];

impl Parser<'_> {
    /// A value, with or without functions behind it. `implied` is the key of an access without one.
    pub(super) fn expression(&mut self, implied: Option<&str>) -> Parsed<Expr> {
        self.nested(|parser| {
            parser.count_expressions(1)?;
            parser.cursor.skip_blanks();
            let start = parser.cursor.at();
            let piped = parser.word_is("pipe");
            if piped {
                parser.word("`pipe`")?;
            }
            let source = parser.primary(implied)?;
            let steps = parser.pipe_steps()?;
            if steps.is_empty() {
                return match piped {
                    true => Err(parser.unexpected("`|` and a function")),
                    false => Ok(source),
                };
            }
            let source = Box::new(source);
            Ok(Expr {
                kind: ExprKind::Pipe(Pipe { source, steps }),
                span: parser.cursor.span_from(start),
            })
        })
    }

    /// Whether this very word comes next, and is not the name of a constant.
    fn word_is(&self, word: &str) -> bool {
        self.cursor.peek_word() == word && !self.static_ids.contains_key(word)
    }

    fn primary(&mut self, implied: Option<&str>) -> Parsed<Expr> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let kind = match self.cursor.peek_word() {
            _ if self.variable_begins() => ExprKind::Access(self.variable(implied)?),
            "match" => self.match_expression(implied)?,
            "object" => self.object()?,
            "array" => self.array()?,
            "collect" => self.collect()?,
            "fmt" => self.fmt()?,
            "calc" => self.calc(implied)?,
            "lookup_nocase" => self.lookup_nocase(implied)?,
            "access_direct" => self.access_direct(implied)?,
            "Now::time" | "Now::date" | "Now::hour" => ExprKind::Now(self.now()?),
            "" => return Err(self.unexpected("a value").help(VALUES)),
            word if self.call_begins() => match type_word(word) {
                Some(_) => ExprKind::Literal(self.literal()?),
                None => return Err(self.unknown_call()),
            },
            _ => return self.static_reference(),
        };
        Ok(Expr {
            kind,
            span: self.cursor.span_from(start),
        })
    }

    /// Whether a word and `(` come next.
    pub(super) fn call_begins(&self) -> bool {
        let mut ahead = self.cursor;
        ahead.skip_blanks();
        !ahead.word().is_empty() && ahead.sees("(")
    }

    fn unknown_call(&mut self) -> super::Fault {
        let span = self.next_span();
        let word = self.cursor.peek_word();
        let fault = Diagnostic::error(span, format!("unknown function or type `{word}`"));
        if super::pipe::is_function(word) {
            return fault.help(format!(
                "functions stand behind a value: `read(x) | {word}`"
            ));
        }
        fault.nearest(word, WORDS.into_iter().chain(type_words()))
    }

    fn static_reference(&mut self) -> Parsed<Expr> {
        let (word, span) = self.word("a value")?;
        if let Some(id) = self.static_ids.get(word) {
            return Ok(Expr {
                kind: ExprKind::Static(*id),
                span,
            });
        }
        if word.eq_ignore_ascii_case("select") {
            return Err(
                Diagnostic::error(span, "a lookup is a statement of its own")
                    .help("write `x = select … ;` before, then `read(x)` here"),
            );
        }
        let message = format!("unknown constant `{word}`");
        let fault = Diagnostic::error(span, message)
            .label("no `static` block has it")
            .help(format!("a field is read with `read({word})`"));
        let names = self.static_ids.keys().map(Text::as_str);
        Err(fault.nearest(word, names.chain(WORDS)))
    }

    /// `Now::time()` and its like.
    pub(super) fn now(&mut self) -> Parsed<Now> {
        let (word, _) = self.word("`Now::time()`")?;
        self.expect("(", &format!("after `{word}`"))?;
        self.expect(")", &format!("after `{word}(`"))?;
        Ok(match word {
            "Now::date" => Now::Date,
            "Now::hour" => Now::Hour,
            _ => Now::Time,
        })
    }

    /// The value of a literal as an expression, for places that take bare ones.
    pub(super) fn bare_literal(&mut self, value: Value, start: usize) -> Expr {
        Expr {
            kind: ExprKind::Literal(value),
            span: self.cursor.span_from(start),
        }
    }
}

const VALUES: &str = "such as `read(x)`, `chars(text)`, `digit(1)` or `match …`";
