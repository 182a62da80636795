//! `fresh`: the changes of a provider's rows that the answers of lookups have to include, in the
//! header for all of them, and in a comment `/* fresh: now */` for one.

use lookaside_value::Contract;

use super::{Parsed, Parser};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::lexer::span;

/// The word before the colon.
pub(super) const FRESH: &str = "fresh";

/// How its values are written.
const VALUES: &str = "write `any`, `now`, or a time such as `100ms` or `2s`";

impl Parser<'_> {
    /// The value in the header.
    pub(super) fn fresh(&mut self) -> Parsed<Contract> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let text = (self.cursor).take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '_'));
        match text {
            "" => Err(self.unexpected("`any`, `now` or a time").help(VALUES)),
            text => contract(text, self.cursor.span_from(start)),
        }
    }

    /// Skips blanks and comments within a lookup. Returns what the comments require.
    pub(super) fn skip_lookup_blanks(&mut self) -> Parsed<Contract> {
        let mut required = Ok(Contract::ANY);
        self.cursor.skip_blanks_with(|comment, start| {
            let value = comment.trim_start().strip_prefix(FRESH);
            let value = value.and_then(|it| it.trim_start().strip_prefix(':'));
            if let (Some(value), Ok(before)) = (value, &required) {
                let start = start + comment.len() - value.trim_start().len();
                let text = value.trim();
                let found = contract(text, span(start, start + text.len()));
                required = found.map(|it| before.and(it));
            }
        });
        required
    }
}

fn contract(text: &str, place: Span) -> Parsed<Contract> {
    text.parse().map_err(|_| {
        let message = match text {
            "" => format!("`{FRESH}` has no value"),
            text => format!("`{FRESH}` cannot be `{text}`"),
        };
        Diagnostic::error(place, message).help(VALUES)
    })
}
