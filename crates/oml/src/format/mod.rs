//! Formats models: changes blanks and line breaks, and nothing else.
//!
//! A [`Reader`] splits the text of a valid model into tokens and notes for each what may be before it:
//! nothing, a blank, or a line break. Then `layout` decides which blocks are broken into lines and
//! where lines that are too long are broken. Comments are tokens, so that all are kept.
//!
//! Two properties are verified before a text is returned: its characters other than blanks are those
//! of the original, and it parses to an equal syntax tree.

mod comments;
mod expression;
mod header;
mod layout;
mod meaning;
mod reader;
mod sql;
mod statement;
mod token;

use crate::ast::Program;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::lexer::span;
use crate::parse::header::BYTE_ORDER_MARK;
use crate::parse::{Fault, MODEL_SIZE_MAX, parse};
use meaning::is_equivalent;
use reader::Reader;

/// The width of a line, in characters, beyond which it is broken where that is possible.
pub const LINE_WIDTH_MAX: usize = 120;

/// Formats a model; `file_name` is its name in messages.
///
/// Formatting twice gives the same text as formatting once. Comments, the letter case of SQL and the
/// spelling of names and literals are kept, and the meaning is the same.
///
/// ```
/// let text = "name:a --- x:digit=read( y )|skip_empty; // why\n";
/// let formatted = lookaside_oml::format("a.oml", text)?;
/// assert_eq!(
///     formatted,
///     "name : a\n---\nx : digit = read(y) | skip_empty ; // why\n"
/// );
/// # Ok::<(), lookaside_oml::Diagnostics>(())
/// ```
///
/// # Errors
/// All errors in the text that one pass can find, as of [`Model::parse`](crate::Model::parse); also if
/// the formatted text is larger than [`MODEL_SIZE_MAX`]. If the formatter would change more than blanks,
/// or the meaning, that is a defect of it and the error.
pub fn format(file_name: &str, text: &str) -> Result<String, Diagnostics> {
    let outcome = parse(text);
    let refuse = |list| Diagnostics::new(file_name.into(), text.into(), list);
    let Some(program) = outcome.program else {
        return Err(refuse(outcome.diagnostics));
    };
    format_program(text, program).map_err(|fault| refuse(vec![*fault]))
}

/// The formatted text of a model that was parsed.
fn format_program(text: &str, program: Program) -> Result<String, Fault> {
    let (mark, model) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(model) => (BYTE_ORDER_MARK, model),
        None => ("", text),
    };
    let tokens = Reader::new(model).read();
    let tokens = tokens.map_err(|at| defect(at + mark.len()))?;
    let formatted = format!("{mark}{}", layout::text_of(tokens));
    if formatted.len() > MODEL_SIZE_MAX {
        let message = format!("formatted, the model has more than {MODEL_SIZE_MAX} bytes");
        return Err(Diagnostic::error(span(0, 0), message).help("divide it into several models"));
    }
    let parsed = parse(&formatted).program;
    let is_same = words(text).eq(words(&formatted))
        && parsed.is_some_and(|parsed| is_equivalent(program, parsed));
    is_same.then_some(formatted).ok_or_else(|| defect(0))
}

/// The error that the formatter does not know the text at a position, or would change it.
fn defect(position: usize) -> Fault {
    let message = "the formatter cannot format this model without changing it";
    Diagnostic::error(span(position, position), message)
        .label("internal error")
        .help("this is a defect of the formatter; please report it with the model")
}

/// The characters that the formatter keeps.
fn words(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_whitespace())
}
