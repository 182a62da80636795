//! One lookup that is served: its statement, prepared and analyzed.

use std::sync::Arc;

use lookaside_knowledge::{
    Error, Explanation, Extent, Freshness, Knowledge, PlanKind, Statement, Text,
};
use tracing::warn;

use super::counts::LookupCounts;
use super::params::{PARAM_COUNT_MAX, Param};
use crate::columns::{DOUBLED_HELP, doubled};
use crate::config::{DeclaredParam, LookupConfig, ParamType};
use crate::failure::Failure;
use crate::models::lookups::{Note, scan_note};
use crate::suggestion::did_you_mean;

/// One lookup.
pub(crate) struct Lookup {
    pub(crate) config: LookupConfig,
    /// The prepared statement; `None` until its provider has described it once.
    pub(crate) prepared: Option<Prepared>,
    /// Why it is not prepared.
    pub(crate) away: Option<Error>,
    /// Its counts, which are kept over reloads.
    pub(crate) counts: Arc<LookupCounts>,
}

/// A statement that is ready to be queried.
pub(crate) struct Prepared {
    pub(crate) statement: Statement,
    /// In the order of the statement.
    pub(crate) params: Vec<Param>,
    pub(crate) explanation: Explanation,
    pub(crate) validity: Validity,
}

/// What limits the validity of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// The answer changes only by a reload of the tables.
    Tables,
    /// The answer may change at any time: it depends on a provider's rows, or on the time of day.
    Time,
}

impl Lookup {
    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Logs, in full, why a query failed; not each time, as clients may cause any number of failures.
    pub(crate) fn tell_failure(&self, error: &Error) {
        if self.counts.is_log_due(error.is_retryable()) {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            warn!(lookup = self.name(), %error, cause, "a lookup failed");
        }
    }

    /// The notes about it, which are logged once.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let Some(prepared) = &self.prepared else {
            return Vec::new();
        };
        let place = format!("lookups.{}", self.name());
        let warnings = prepared.explanation.warnings.iter().map(|warning| Note {
            place: place.clone(),
            message: warning.message.clone(),
            help: warning.help.clone(),
            row_count: None,
        });
        let scan = scan_note(place.clone(), &prepared.explanation);
        warnings.chain(scan).collect()
    }

    /// Whether caching its bodies is worthwhile: a native plan finds a single row as fast as the
    /// cache finds a body.
    #[inline]
    pub(crate) fn keeps_bodies(&self, prepared: &Prepared) -> bool {
        self.config.many || !prepared.is_native()
    }

    /// How fresh an answer has to be.
    pub(crate) fn freshness(&self) -> Freshness {
        Freshness {
            contract: self.config.contract,
            ..Freshness::aged(self.config.ttl)
        }
    }

    /// Whether a provider answers it.
    #[inline]
    pub(crate) fn is_remote(&self) -> bool {
        let prepared = self.prepared.as_ref();
        prepared.is_some_and(|prepared| prepared.explanation.provider.is_some())
    }

    pub(crate) fn extent(&self) -> Extent {
        match self.config.many {
            true => Extent::All,
            false => Extent::First,
        }
    }
}

impl Prepared {
    /// Whether a native plan answers, nearly always without a fallback.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self.explanation.kind, PlanKind::Hash | PlanKind::Interval)
    }
}

/// Prepares one lookup; if its provider does not respond, the lookup records why.
pub(super) fn prepare(
    config: &LookupConfig,
    knowledge: &Knowledge,
) -> Result<Result<Prepared, Error>, Failure> {
    let place = |problem: &str| format!("{}: lookups.{} {problem}", config.place, config.name);
    let statement = match knowledge.prepare(&config.sql) {
        Ok(statement) => statement,
        Err(error) if error.is_retryable() => return Ok(Err(error)),
        Err(error) => return Err(refused(config, &error)),
    };
    let explanation = match knowledge.explain(&config.sql) {
        Ok(explanation) => explanation,
        Err(error) if error.is_retryable() => return Ok(Err(error)),
        Err(error) => return Err(refused(config, &error)),
    };
    let answerer = explanation
        .provider
        .as_ref()
        .map(|provider| &*provider.name);
    if let Some(wanted) = &config.provider {
        let is_local = answerer.is_none() && wanted == "local";
        if !is_local && answerer != Some(wanted) {
            let found = answerer.unwrap_or("local");
            let problem = place(&format!(
                "sets provider = {wanted:?}, but its tables belong to {found:?}"
            ));
            let help = "write the name before the table, as in assets.hosts, or correct provider";
            return Err(Failure::new(problem).with_help(help));
        }
    }
    if let Some(column) = doubled(&explanation.columns) {
        let problem = place(&format!("returns two columns named {column:?}"));
        return Err(Failure::new(problem).with_help(DOUBLED_HELP));
    }
    let params = statement_params(config, &statement)?;
    let is_here = answerer.is_none() && is_timeless(&config.sql);
    Ok(Ok(Prepared {
        params,
        validity: match is_here {
            true => Validity::Tables,
            false => Validity::Time,
        },
        statement,
        explanation,
    }))
}

/// The error for a lookup whose statement is refused, with its position.
pub(crate) fn refused(config: &LookupConfig, error: &Error) -> Failure {
    let (place, name) = (&config.place, &config.name);
    Failure::new(format!("{place}: lookups.{name}: {error}")).with_sources(error)
}

/// The parameters of the statement with the types that are declared.
fn statement_params(config: &LookupConfig, statement: &Statement) -> Result<Vec<Param>, Failure> {
    let place = |problem: &str| format!("{}: lookups.{} {problem}", config.place, config.name);
    let names = statement.params();
    if names.len() > PARAM_COUNT_MAX {
        let problem = format!(
            "has {} parameters; the maximum is {PARAM_COUNT_MAX}",
            names.len()
        );
        return Err(Failure::new(place(&problem)));
    }
    for DeclaredParam { name: declared, .. } in &config.params {
        if !names.iter().any(|name| name == declared.as_str()) {
            let hint = did_you_mean(declared, names.iter().map(Text::as_str));
            let problem = place(&format!(
                "declares the parameter {declared}, {}",
                match names {
                    [] => "but its statement has no parameters".to_owned(),
                    _ => format!("which does not occur in its statement{hint}"),
                }
            ));
            return Err(Failure::new(problem).with_help("parameters are written :name in the SQL"));
        }
    }
    let declared = |name: &Text| config.params.iter().find(|it| name == it.name.as_str());
    let kind = |name: &Text| declared(name).map_or(ParamType::Any, |it| it.kind);
    for (name, text) in &config.example {
        let Some(param) = names.iter().find(|known| *known == name.as_str()) else {
            let problem =
                format!("has an example of {name}, which is not a parameter of its statement");
            return Err(Failure::new(place(&problem)));
        };
        let kind = kind(param);
        if kind.parse(text).is_none() {
            let (at, lookup, wanted) = (&config.place, &config.name, kind.wanted());
            let problem =
                format!("{at}: lookups.{lookup}.example.{name} is {text:?}, but {wanted}");
            let help = format!("correct it, or the type in params.{name}");
            return Err(Failure::new(problem).with_help(help));
        }
    }
    let params = names.iter().map(|name| Param {
        name: name.clone(),
        kind: kind(name),
        is_nullable: declared(name).is_some_and(|it| it.is_nullable),
    });
    Ok(params.collect())
}

/// Whether a statement contains no reference to the time of day or to randomness. Such a word
/// within a string or a name counts as well: that costs a conditional request, but never leads to a
/// wrong answer.
fn is_timeless(sql: &str) -> bool {
    const MOODS: [&str; 9] = [
        "random",
        "now",
        "current_",
        "date(",
        "time(",
        "julianday",
        "unixepoch",
        "changes(",
        "last_insert_rowid",
    ];
    let sql: String = sql.to_ascii_lowercase().split_whitespace().collect();
    !MOODS.iter().any(|mood| sql.contains(mood))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_the_moment_are_told() {
        for (sql, expected) in [
            ("select org from asn where first_ip <= :ip", true),
            ("select random()", false),
            ("select datetime ('NOW')", false),
            ("select CURRENT_TIMESTAMP", false),
            ("select date (\n)", false),
            ("select updated from t", true),
        ] {
            assert_eq!(is_timeless(sql), expected, "{sql}");
        }
    }
}
