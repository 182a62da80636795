//! Expressions: their form, and the pipe functions after them.

use lookaside_value::{Text, Value};

use super::header::LINE;
use super::literal::literal_value;
use super::sql::SELECT_ALL;
use super::type_word::{type_word, type_words};
use super::{Parsed, Parser};
use crate::ast::{Expr, ExprKind, Now, Pipe};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Cursor, span};

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

/// Whether a word and `(` come next.
pub(crate) fn call_begins(mut ahead: Cursor<'_>) -> bool {
    ahead.skip_blanks();
    !ahead.word().is_empty() && ahead.sees("(")
}

impl Parser<'_> {
    /// A value, with or without pipe functions. `implied` is the key of an access without one.
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
            parser.refuse_operator(start)?;
            if steps.is_empty() {
                return match piped {
                    true => Err(parser.unexpected("`|` and a function")),
                    false => Ok(source),
                };
            }
            parser.warn_of_text(&source, &steps);
            let source = Box::new(source);
            Ok(Expr {
                kind: ExprKind::Pipe(Pipe { source, steps }),
                span: parser.cursor.span_from(start),
            })
        })
    }

    /// Whether this word comes next and is not the name of a constant.
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
            "" => return Err(self.no_value()),
            word if word.starts_with(|c: char| c.is_ascii_digit())
                && !self.static_ids.contains_key(word) =>
            {
                return Err(self.no_value());
            }
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

    /// An error that a value is missing; text that looks like a bare value is shown as a literal.
    fn no_value(&self) -> super::Fault {
        let fault = self.unexpected("a value");
        match written_out(&self.cursor) {
            Some(literal) => fault.help(literal),
            None => fault.help(VALUES),
        }
    }

    /// `read(n) + 1` without `calc`. On the next line `*` and `-` begin something else.
    fn refuse_operator(&self, start: usize) -> Parsed<()> {
        let mut ahead = self.cursor;
        ahead.take_while(|c| matches!(c, ' ' | '\t'));
        let behind = ahead.rest();
        let operator = behind.chars().next().filter(|c| "+-*/%".contains(*c));
        let is_other = ["//", "/*", LINE]
            .iter()
            .any(|token| behind.starts_with(token));
        let Some(operator) = operator.filter(|_| !is_other) else {
            return Ok(());
        };
        let end = ahead.at();
        let source = self.cursor.text()[start..self.cursor.at()].trim_end();
        let rest = behind
            .split([';', '}', '\n'])
            .next()
            .unwrap_or(behind)
            .trim_end();
        let sum = match source.contains('\n') || source.len() + rest.len() > EXAMPLE_SIZE_MAX {
            true => format!("read(x) {operator} 1"),
            false => format!("{source} {rest}"),
        };
        let place = span(end, end + operator.len_utf8());
        let message = format!("`{operator}` is allowed only in `calc`");
        let fault = Diagnostic::error(place, message);
        Err(match operator {
            '+' => fault.help(format!("write `calc({sum})`; text is joined with `fmt`")),
            _ => fault.help(format!("write `calc({sum})`")),
        })
    }

    pub(super) fn call_begins(&self) -> bool {
        call_begins(self.cursor)
    }

    fn unknown_call(&mut self) -> super::Fault {
        let span = self.next_span();
        let word = self.cursor.peek_word();
        let fault = Diagnostic::error(span, format!("unknown function or type `{word}`"));
        if super::pipe::is_function(word) {
            return fault.help(format!("functions follow a value: `read(x) | {word}`"));
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
        if ["select", SELECT_ALL]
            .iter()
            .any(|it| word.eq_ignore_ascii_case(it))
        {
            return Err(
                Diagnostic::error(span, "a lookup must be a separate statement").help(format!(
                    "write `x = {word} … ;` before, then `read(x)` here"
                )),
            );
        }
        let message = format!("unknown constant `{word}`");
        let fault = Diagnostic::error(span, message)
            .label("it is not defined in a `static` block")
            .help(format!("a field is read with `read({word})`"));
        let names = self.static_ids.keys().map(Text::as_str);
        Err(fault.nearest(word, names.chain(WORDS)))
    }

    /// `Now::time()` and similar.
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

    /// The value of a literal as an expression, where bare values are allowed.
    pub(super) fn bare_literal(&mut self, value: Value, start: usize) -> Expr {
        Expr {
            kind: ExprKind::Literal(value),
            span: self.cursor.span_from(start),
        }
    }
}

const VALUES: &str = "such as `read(x)`, `chars(text)`, `digit(1)` or `match …`";

/// The most bytes of a model that a message repeats.
const EXAMPLE_SIZE_MAX: usize = 60;

/// Quoted text or a bare number, written as a literal.
fn written_out(cursor: &Cursor<'_>) -> Option<String> {
    let mut ahead = *cursor;
    ahead.skip_blanks();
    let rest = ahead.rest();
    if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let text = rest[1..].split([quote, '\n']).next().unwrap_or("");
        let is_plain = text.len() <= EXAMPLE_SIZE_MAX && !text.contains(['(', ')', '\\']);
        let text = if is_plain { text } else { "…" };
        return Some(format!("text is written `chars({text})`"));
    }
    let text =
        ahead.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '+'));
    if text.len() > EXAMPLE_SIZE_MAX {
        return None;
    }
    ["digit", "float", "ip"]
        .iter()
        .find(|word| literal_value(word, text).is_ok())
        .map(|word| match *word {
            "ip" => format!("an address is written `ip({text})`"),
            word => format!("a number is written `{word}({text})`"),
        })
}
