//! Literals: `type(text)`, parsed to values at load.

use lookaside_value::{Text, Time, Value, parse_bool, parse_float, parse_int};

use super::{Parsed, Parser};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::lexer::span;

/// The types that literals can have.
pub(crate) const LITERAL_TYPES: [&str; 7] =
    ["chars", "symbol", "digit", "float", "bool", "ip", "time"];

/// The value of a text of this type, or else a description of valid text.
pub(super) fn literal_value(word: &str, text: &str) -> Result<Value, &'static str> {
    match word {
        "chars" => Ok(Value::Text(Text::from(text))),
        "symbol" => Ok(Value::Symbol(text.into())),
        "digit" => parse_int(text)
            .map(Value::Int)
            .ok_or("a whole number of 64 bits, such as `digit(42)`"),
        "float" => parse_float(text)
            .map(Value::Float)
            .ok_or("a number, such as `float(0.5)`"),
        "bool" => parse_bool(text)
            .map(Value::Bool)
            .ok_or("`bool(true)` or `bool(false)`"),
        "ip" => text
            .parse()
            .map(Value::Ip)
            .map_err(|_| "an address, such as `ip(10.0.0.1)`"),
        "time" => Time::parse_with_year(text, this_year())
            .map(Value::Time)
            .map_err(|_| "a date and time, such as `time(2026-01-31 08:00:00)`"),
        _ => Err("`chars`, `symbol`, `digit`, `float`, `bool`, `ip` or `time`"),
    }
}

/// A time such as `Jan 31 08:00:00` is in the year in which the model is loaded.
fn this_year() -> i16 {
    jiff::tz::Offset::UTC
        .to_datetime(jiff::Timestamp::now())
        .year()
}

impl Parser<'_> {
    /// Parses `type(text)`; the caller has checked that a known type and `(` follow.
    pub(super) fn literal(&mut self) -> Parsed<Value> {
        let (word, word_span) = self.word("a literal")?;
        if !LITERAL_TYPES.contains(&word) {
            let message = format!("there are no literals of type `{word}`");
            let help = format!("literals are of type {}", LITERAL_TYPES.join(", "));
            return Err(Diagnostic::error(word_span, message).help(help));
        }
        let (text, span) = self.literal_text(word)?;
        literal_value(word, &text).map_err(|expected| {
            Diagnostic::error(span, format!("`{text}` is not a valid {word}"))
                .help(format!("write {expected}"))
        })
    }

    fn literal_text(&mut self, word: &str) -> Parsed<(String, Span)> {
        self.expect("(", &format!("after `{word}`"))?;
        let open = self.cursor.at() - 1;
        match self.cursor.literal_text() {
            Some(piece) => Ok((piece.text.into_owned(), piece.span)),
            None => Err(
                Diagnostic::error(span(open, open + 1), "this parenthesis is not closed")
                    .help("quote text with unbalanced parentheses: `chars('a)')`"),
            ),
        }
    }
}
