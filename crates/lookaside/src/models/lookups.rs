//! The lookups of a model: how each is answered, and warnings about them.

use lookaside_knowledge::{Contract, Explanation, Knowledge, WarningKind};
use lookaside_oml::ast::{Sql, StatementKind};
use lookaside_oml::{Diagnostic, Diagnostics, Model, Severity};
use lookaside_value::OnLookupFailure;
use tracing::warn;

use crate::numbers::grouped;

/// Tables with up to this many rows are scanned for each lookup without a note.
const SCANNED_ROW_COUNT_MAX: usize = 10_000;

/// The result of reviewing the lookups of a model.
pub(crate) struct Review {
    /// The lookups in the order of the text.
    pub(crate) lookups: Vec<ReviewedLookup>,
    /// Warnings about probable mistakes.
    pub(crate) warnings: Diagnostics,
    file_name: String,
}

/// A lookup of a model.
pub(crate) struct ReviewedLookup {
    /// Its line and column.
    pub(crate) position: (usize, usize),
    /// What its answers have to include.
    pub(crate) contract: Contract,
    /// What happens to an event if it fails, if the model sets that.
    pub(crate) on_failure: Option<OnLookupFailure>,
    /// How it is answered.
    pub(crate) explanation: Explanation,
}

/// A note that is logged once, at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Its subject: a place in a model, or a lookup of the configuration.
    pub(crate) place: String,
    /// The message, without numbers that change with the tables.
    pub(crate) message: String,
    pub(crate) help: String,
    /// The rows of the table that is scanned, if it is about a scan.
    pub(crate) row_count: Option<usize>,
}

/// The SQL of a model's lookups, in the order of the text.
pub(crate) fn model_lookups(model: &Model) -> impl Iterator<Item = &Sql> {
    let statements = model.program().statements.iter();
    statements.filter_map(|statement| match &statement.kind {
        StatementKind::Lookup { sql, .. } => Some(sql),
        _ => None,
    })
}

/// Reviews the lookups of a bound model, whose statements are therefore valid.
pub(crate) fn review(model: &Model, knowledge: &Knowledge) -> Review {
    let mut lookups = Vec::new();
    let mut warnings = Vec::new();
    for statement in &model.program().statements {
        let StatementKind::Lookup { sql, .. } = &statement.kind else {
            continue;
        };
        // If a provider became unavailable meanwhile, its explanation is skipped; its lookups will
        // fail and be counted.
        let mut explanation = knowledge.explain(&sql.text).ok();
        if let Some(explanation) = &mut explanation {
            unify_warnings(explanation, sql, model.text(), knowledge);
        }
        let found = explanation.iter().flat_map(|it| &it.warnings);
        let before = warnings.len();
        warnings.extend(found.map(|warning| Diagnostic {
            severity: Severity::Warning,
            message: written(&warning.message, sql, model.text()),
            label: "this statement".to_owned(),
            span: sql.span,
            help: Some(written(&warning.help, sql, model.text())),
        }));
        if sql.params.is_empty() && warnings.len() == before {
            warnings.push(no_parameter(sql));
        }
        if let Some(explanation) = explanation {
            lookups.push(ReviewedLookup {
                position: model.position(statement.span),
                contract: model.contract_of(sql),
                on_failure: model.on_failure_of(sql),
                explanation,
            });
        }
    }
    Review {
        lookups,
        warnings: model.diagnostics(warnings),
        file_name: model.file_name().to_owned(),
    }
}

impl Review {
    /// The notes for the start: the warnings, and the scans of large tables.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let place = |(line, column): (usize, usize)| format!("{}:{line}:{column}", self.file_name);
        let warnings = self.warnings.iter().map(|warning| Note {
            place: place(self.warnings.position(warning.span)),
            message: warning.message.clone(),
            help: warning.help.clone().unwrap_or_default(),
            row_count: None,
        });
        let scans = self.lookups.iter();
        let scans = scans.filter_map(|it| scan_note(place(it.position), &it.explanation));
        warnings.chain(scans).collect()
    }
}

impl Note {
    /// Logs it, with the number of other lookups that it is about.
    fn tell(&self, other_count: usize) {
        let Self {
            place,
            message,
            help,
            row_count,
        } = self;
        let other_lookups = (other_count > 0).then_some(other_count);
        warn!(
            lookup = place,
            other_lookups,
            help,
            rows = row_count,
            "{message}"
        );
    }
}

/// Logs notes. One about a table may concern all lookups that read it, and is logged once.
pub(crate) fn tell_notes(notes: &[Note]) {
    for (note, other_count) in without_repetitions(notes) {
        note.tell(other_count);
    }
}

/// The notes in their order, without those that only repeat an earlier one for another lookup; each
/// with the number of these.
pub(crate) fn without_repetitions(notes: &[Note]) -> Vec<(&Note, usize)> {
    let mut different: Vec<(&Note, usize)> = Vec::new();
    for note in notes {
        let is_same = |(other, _): &&mut (&Note, usize)| {
            other.message == note.message && other.help == note.help
        };
        match different.iter_mut().find(is_same) {
            Some((_, count)) => *count += 1,
            None => different.push((note, 0)),
        }
    }
    different
}

/// A note about a lookup for which SQLite scans a large table.
pub(crate) fn scan_note(place: String, explanation: &Explanation) -> Option<Note> {
    let scan = explanation.largest_scan()?;
    (scan.row_count > SCANNED_ROW_COUNT_MAX).then(|| Note {
        place,
        message: format!(
            "each lookup scans the whole table {}, because no index can be used",
            scan.table
        ),
        help: "write a condition that has a native plan (docs/PLANS.md), or add `create index` to \
               create.sql"
            .to_owned(),
        row_count: Some(scan.row_count),
    })
}

/// How a lookup is answered, in one line.
pub(crate) fn answered(explanation: &Explanation) -> String {
    let mut line = explanation.summary();
    // Digits are grouped.
    if let Some(scan) = explanation.largest_scan() {
        let rows = scan.row_count as u64;
        line = line.replace(
            &format!(", {rows} rows"),
            &format!(", {} rows", grouped(rows)),
        );
    }
    line
}

/// A lookup that returns the same for every event. The hint is that the constants are probably
/// meant as parameters.
fn no_parameter(sql: &Sql) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        message: "this lookup has no parameter, so every event gets the same rows".to_owned(),
        label: "this statement".to_owned(),
        span: sql.span,
        help: Some(
            "write `read(FIELD)` for a value of the event, or a typed constant such as `digit(1)` \
             if this is intended"
                .to_owned(),
        ),
    }
}

/// A range over two columns has a parameter for each of them, and the suggested replacement has
/// one. The unified statement is explained by SQLite only: a server may infer different types for
/// the two positions.
fn unify_warnings(explanation: &mut Explanation, sql: &Sql, text: &str, knowledge: &Knowledge) {
    let is_range = |kind: WarningKind| kind == WarningKind::AddressText;
    if explanation.warnings.iter().any(|it| is_range(it.kind))
        && let Ok(unified) = knowledge.explain(&unified(sql, text))
    {
        explanation.warnings = unified.warnings;
    }
}

/// The statement with one parameter for all accesses that are written alike: each occurrence has
/// its own, although `read(ip)` is the same address everywhere.
fn unified(sql: &Sql, text: &str) -> String {
    let written: Vec<&str> = texts(sql, text).collect();
    renamed(&sql.text, |index| {
        let text = written.get(index)?;
        let first = written.iter().position(|it| it == text)?;
        Some(format!(":p{first}"))
    })
}

/// Replaces the parameters in a message by their text in the model.
fn written(message: &str, sql: &Sql, text: &str) -> String {
    let texts: Vec<&str> = texts(sql, text).collect();
    renamed(message, |index| Some((*texts.get(index)?).to_owned()))
}

/// The text of each parameter in the model.
fn texts<'a>(sql: &'a Sql, text: &'a str) -> impl Iterator<Item = &'a str> {
    let params = sql.params.iter();
    params.map(|param| text.get(param.value.span.range()).unwrap_or_default())
}

/// Renames the parameters `:p0`, `:p1` and so on.
fn renamed(text: &str, name: impl Fn(usize) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(":p") {
        let (before, found) = rest.split_at(at);
        let digits = found[2..].bytes().take_while(u8::is_ascii_digit).count();
        let (param, behind) = found.split_at(2 + digits);
        out.push_str(before);
        match param[2..].parse().ok().and_then(&name) {
            Some(name) => out.push_str(&name),
            None => out.push_str(param),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_shown_as_they_are_written() {
        let name = |index: usize| ["read(ip)", "@b"].get(index).map(|it| (*it).to_owned());
        for (text, expected) in [
            ("lo <= :p0 and hi >= :p1", "lo <= read(ip) and hi >= @b"),
            (":p0:p1 :p10 :p :port", "read(ip)@b :p10 :p :port"),
            ("none", "none"),
        ] {
            assert_eq!(renamed(text, name), expected);
        }
    }
}
