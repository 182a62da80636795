//! Settings of lookups, in the header for all of them and in comments within one: `fresh`, the
//! changes of a provider's rows that answers have to include, as in `/* fresh: now */`, and
//! `on_lookup_failure`, what happens to an event whose lookup fails, as in
//! `/* on_lookup_failure: reject */`. Only in a comment: `rows_max`, how many rows the answers of
//! `select_all` have at most, as in `/* rows_max: 10 */`.

use lookaside_value::{Contract, OnLookupFailure};

use super::{Parsed, Parser};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::lexer::span;

/// The words before the colon.
pub(super) const FRESH: &str = "fresh";
pub(super) const ON_LOOKUP_FAILURE: &str = "on_lookup_failure";

const ROWS_MAX: &str = "rows_max";

/// The default of `rows_max`, and its upper bound.
const ROWS_MAX_DEFAULT: usize = 1_000;
const ROWS_MAX_MAX: usize = 1_000_000;

/// How the values of `fresh` are written.
const FRESH_VALUES: &str = "write `any`, `now`, or a time such as `100ms` or `2s`";

/// How the values of `on_lookup_failure` are written.
const ON_LOOKUP_FAILURE_VALUES: &str = "write `wait`, `reject` or `emit`";

/// What the header states about all lookups, or comments about one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LookupSettings {
    pub(super) contract: Contract,
    pub(super) on_failure: Option<OnLookupFailure>,
    /// With its place.
    rows_max: Option<(usize, Span)>,
}

impl LookupSettings {
    /// Requires the changes of another contract as well.
    fn require(&mut self, contract: Contract) {
        self.contract = self.contract.and(contract);
    }

    /// Sets the policy. Unlike of contracts, none includes another, so that it is set only once.
    fn set_on_failure(&mut self, on_failure: OnLookupFailure, place: Span) -> Parsed<()> {
        if self.on_failure.is_some() {
            let message = format!("`{ON_LOOKUP_FAILURE}` is already set");
            return Err(Diagnostic::error(place, message).help("remove one of both"));
        }
        self.on_failure = Some(on_failure);
        Ok(())
    }

    fn set_rows_max(&mut self, text: &str, place: Span) -> Parsed<()> {
        let help = format!("write a number of rows from 1 to {ROWS_MAX_MAX}");
        if self.rows_max.is_some() {
            let message = format!("`{ROWS_MAX}` is already set");
            return Err(Diagnostic::error(place, message).help("remove one of both"));
        }
        match text.parse() {
            Ok(rows @ 1..=ROWS_MAX_MAX) => {
                self.rows_max = Some((rows, place));
                Ok(())
            }
            _ => Err(bad_value(ROWS_MAX, text, place).help(help)),
        }
    }

    /// How many rows an answer has at most, of a lookup that takes all or only the first.
    pub(super) fn rows_max_of(&self, takes_all: bool) -> Parsed<Option<usize>> {
        match self.rows_max {
            Some((_, place)) if !takes_all => {
                let message = format!("`{ROWS_MAX}` has no effect on a lookup of one row");
                let help = "remove it, or look up all rows by `select_all`";
                Err(Diagnostic::error(place, message).help(help))
            }
            Some((rows, _)) => Ok(Some(rows)),
            None => Ok(takes_all.then_some(ROWS_MAX_DEFAULT)),
        }
    }

    /// Adds what a comment states, if it states a setting; `start` is its position.
    fn read_comment(&mut self, comment: &str, start: usize) -> Parsed<()> {
        let Some((key, value)) = comment.split_once(':') else {
            return Ok(());
        };
        let start = start + comment.len() - value.trim_start().len();
        let text = value.trim();
        let place = span(start, start + text.len());
        match key.trim() {
            FRESH => self.require(contract(text, place)?),
            ON_LOOKUP_FAILURE => self.set_on_failure(on_failure(text, place)?, place)?,
            ROWS_MAX => self.set_rows_max(text, place)?,
            _ => {}
        }
        Ok(())
    }
}

impl Parser<'_> {
    /// The value of `fresh` in the header.
    pub(super) fn fresh(&mut self, settings: &mut LookupSettings) -> Parsed<()> {
        let (text, place) = self.setting("`any`, `now` or a time", FRESH_VALUES)?;
        settings.require(contract(text, place)?);
        Ok(())
    }

    /// The value of `on_lookup_failure` in the header.
    pub(super) fn on_lookup_failure(&mut self, settings: &mut LookupSettings) -> Parsed<()> {
        let expected = "`wait`, `reject` or `emit`";
        let (text, place) = self.setting(expected, ON_LOOKUP_FAILURE_VALUES)?;
        settings.set_on_failure(on_failure(text, place)?, place)
    }

    fn setting(&mut self, expected: &str, values: &str) -> Parsed<(&str, Span)> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let text = (self.cursor).take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '_'));
        match text {
            "" => Err(self.unexpected(expected).help(values)),
            text => Ok((text, self.cursor.span_from(start))),
        }
    }

    /// Skips blanks and comments within a lookup, and adds what the comments state.
    pub(super) fn skip_lookup_blanks(&mut self, settings: &mut LookupSettings) -> Parsed<()> {
        let mut read = Ok(());
        self.cursor.skip_blanks_with(|comment, start| {
            if read.is_ok() {
                read = settings.read_comment(comment, start);
            }
        });
        read
    }
}

fn contract(text: &str, place: Span) -> Parsed<Contract> {
    text.parse()
        .map_err(|_| bad_value(FRESH, text, place).help(FRESH_VALUES))
}

fn on_failure(text: &str, place: Span) -> Parsed<OnLookupFailure> {
    text.parse()
        .map_err(|_| bad_value(ON_LOOKUP_FAILURE, text, place).help(ON_LOOKUP_FAILURE_VALUES))
}

fn bad_value(key: &str, text: &str, place: Span) -> super::Fault {
    let message = match text {
        "" => format!("`{key}` has no value"),
        text => format!("`{key}` cannot be `{text}`"),
    };
    Diagnostic::error(place, message)
}
