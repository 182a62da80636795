//! The parser: recursive descent, with one file per form of the language.
//!
//! It resolves everything that the text alone determines (names of statics, implied keys, literals,
//! patterns), so only the SQL of a [`Program`] can be invalid later. After an error it continues
//! after the statement, so that one run reports several errors.

pub(crate) mod access;
mod argument;
pub(crate) mod calc;
mod charset;
mod collection;
mod dictionary;
pub(crate) mod expression;
mod fmt;
pub(crate) mod header;
pub(crate) mod literal;
mod lookup_settings;
pub(crate) mod matching;
pub(crate) mod pipe;
mod recovery;
pub(crate) mod sql;
mod statement;
pub(crate) mod statics;
pub(crate) mod test;
mod time;
mod type_word;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use lookaside_value::Text;

use crate::ast::{NESTING_MAX, Program, Span, Static, StaticId};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Cursor, Piece, is_word_char, span};

pub(crate) use recovery::lost_semicolon;
pub(crate) use test::parse_test;

use time::TextFields;

/// The maximal size of a model in bytes. Models are written by hand; a larger file is certainly not
/// a model.
pub const MODEL_SIZE_MAX: usize = 1 << 20;

/// The most expressions of a model, so that the tree of a text cannot exhaust memory.
const EXPRESSION_COUNT_MAX: usize = 100_000;

/// The most errors that are reported; further ones are rarely useful.
const ERROR_COUNT_MAX: usize = 30;

/// An error that ends the current statement.
pub(crate) type Fault = Box<Diagnostic>;

pub(crate) type Parsed<T> = Result<T, Fault>;

/// The result of parsing: the model unless there was an error, and all findings.
pub(crate) struct ParseOutput {
    pub(crate) program: Option<Program>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The `enable` of the header, also if the statements are invalid.
    pub(crate) enabled: bool,
}

/// Parses a whole model.
pub(crate) fn parse(text: &str) -> ParseOutput {
    let mut parser = Parser::new(text);
    let (header, statements) = if text.len() > MODEL_SIZE_MAX {
        let message = format!("a model has at most {MODEL_SIZE_MAX} bytes");
        parser.report(Diagnostic::error(span(0, 0), message));
        (header::Header::default(), Vec::new())
    } else {
        parser.model()
    };
    let failed = parser.error_count > 0;
    let enabled = header.enabled;
    let program = Program {
        name: header.name,
        name_span: header.name_span,
        rules: header.rules,
        enabled,
        contract: header.lookups.contract,
        on_lookup_failure: header.lookups.on_failure,
        statics: parser.statics,
        statements,
    };
    ParseOutput {
        program: (!failed).then_some(program),
        diagnostics: parser.diagnostics,
        enabled,
    }
}

/// The state of one parse.
struct Parser<'a> {
    cursor: Cursor<'a>,
    statics: Vec<Static>,
    static_ids: HashMap<Text, StaticId>,
    text_fields: TextFields,
    depth: usize,
    expression_count: usize,
    diagnostics: Vec<Diagnostic>,
    error_count: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(text),
            statics: Vec::new(),
            static_ids: HashMap::new(),
            text_fields: TextFields::default(),
            depth: 0,
            expression_count: 0,
            diagnostics: Vec::new(),
            error_count: 0,
        }
    }

    /// Records an error and continues.
    #[expect(
        clippy::boxed_local,
        reason = "errors travel boxed, as results are small"
    )]
    fn report(&mut self, fault: Fault) {
        self.error_count += 1;
        self.diagnostics.push(*fault);
    }

    fn warn(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        // Warnings are bounded like errors.
        if self.diagnostics.len() < 2 * ERROR_COUNT_MAX {
            self.diagnostics
                .push(*Diagnostic::warning(span, message).help(help));
        }
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == NESTING_MAX {
            let message = format!("expressions nest at most {NESTING_MAX} deep");
            return Err(Diagnostic::error(self.next_span(), message));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Counts expressions against their limit.
    fn count_expressions(&mut self, count: usize) -> Parsed<()> {
        self.expression_count = self.expression_count.saturating_add(count);
        if self.expression_count <= EXPRESSION_COUNT_MAX {
            return Ok(());
        }
        let message = format!("a model has at most {EXPRESSION_COUNT_MAX} expressions");
        Err(Diagnostic::error(self.next_span(), message))
    }

    /// Skips `token` or fails.
    fn expect(&mut self, token: &str, place: &str) -> Parsed<()> {
        if self.cursor.eat(token) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{token}` {place}")))
    }

    /// Fails if the text ends within braces.
    fn before_end(&mut self, expected: &str) -> Parsed<()> {
        self.cursor.skip_blanks();
        match self.cursor.rest() {
            "" => Err(self.unexpected(expected)),
            _ => Ok(()),
        }
    }

    /// An error that something else was found.
    fn unexpected(&self, expected: &str) -> Fault {
        let span = self.next_span();
        let found = &self.cursor.text()[span.range()];
        if found.starts_with("/*") {
            return Diagnostic::error(span, "this comment is not terminated")
                .help("close it with `*/`");
        }
        let (span, found) = match found {
            // At the end of the text, the caret is put right after the last word.
            "" => (self.end_span(), "found the end of the text".to_owned()),
            found => (span, format!("found `{found}`")),
        };
        Diagnostic::error(span, format!("expected {expected}, {found}")).label("expected it here")
    }

    /// The position after the last character that is not blank.
    fn end_span(&self) -> Span {
        let end = self.cursor.text().trim_end().len();
        span(end, end)
    }

    /// The next word, or else the next character.
    fn next_span(&self) -> Span {
        let mut ahead = self.cursor;
        ahead.skip_blanks();
        let start = ahead.at();
        if ahead.rest().starts_with("/*") {
            return span(start, start + 2);
        }
        if ahead.take_while(is_word_char).is_empty() {
            let length = ahead.peek().map_or(0, char::len_utf8);
            ahead.set_at(start + length);
        }
        ahead.span_from(start)
    }

    /// The word after the blanks, and its span.
    fn word(&mut self, expected: &str) -> Parsed<(&'a str, Span)> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        match self.cursor.word() {
            "" => Err(self.unexpected(expected)),
            word => Ok((word, self.cursor.span_from(start))),
        }
    }

    /// The arguments of a function, its name already read: `(`, texts, `)`.
    fn arguments(&mut self, name: &str, counts: RangeInclusive<usize>) -> Parsed<Vec<Piece<'a>>> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        self.expect("(", &format!("after `{name}`"))?;
        let mut pieces = Vec::new();
        while !self.cursor.eat(")") {
            if !pieces.is_empty() {
                self.expect(",", &format!("or `)` in the arguments of `{name}`"))?;
            }
            let Some(piece) = self.cursor.text_argument(*counts.end() > 1) else {
                let message = format!("the arguments of `{name}` are not terminated");
                return Err(Diagnostic::error(span(start, start + 1), message)
                    .help("close quotes and parentheses"));
            };
            pieces.push(piece);
        }
        if counts.contains(&pieces.len()) {
            return Ok(pieces);
        }
        let (least, most) = counts.into_inner();
        let message = match (least, most) {
            (1, 1) => format!("`{name}` takes one argument"),
            (_, usize::MAX) => format!("`{name}` takes at least {least} arguments"),
            (least, most) if least == most => format!("`{name}` takes {least} arguments"),
            (least, most) => format!("`{name}` takes {least} to {most} arguments"),
        };
        Err(Diagnostic::error(self.cursor.span_from(start), message))
    }
}
