//! Binding models to the tables and providers of a project.
//!
//! The columns of a provider's statement are known only after its server has described it, so a
//! model can be bound only after all its providers have answered once.

use std::collections::HashMap;
use std::error::Error as _;

use lookaside_knowledge::{Error, Knowledge, Session};
use lookaside_oml::{Diagnostic, Diagnostics, Model, Options, Program};
use lookaside_value::{
    Answers, BatchQuery, Lookup, LookupError, NameTable, ParamBatch, StatementId, Text,
};

use super::lookups::model_lookups;
use super::{draw, model_failure};
use crate::failure::Failure;

/// A statement whose provider does not respond.
#[derive(Clone, Debug)]
pub(crate) struct Silent {
    pub(crate) sql: String,
    pub(crate) error: Error,
}

/// Why a model could not be bound.
pub(crate) enum Unbound {
    /// The model itself is wrong.
    Faulty(Diagnostics),
    /// No error is known, but providers do not respond.
    Waiting {
        /// At least one.
        silent: Vec<Silent>,
        diagnostics: Diagnostics,
    },
}

/// Binds a model. Statements in `silent` are not sent to their providers; the entry gives the
/// reason why they do not respond.
///
/// # Errors
/// When the model is wrong, or one of its providers does not answer.
pub(crate) fn bind(
    model: &Model,
    names: &mut NameTable,
    knowledge: &Knowledge,
    options: &Options,
    silent: &HashMap<&str, Error>,
) -> Result<Program, Unbound> {
    let mut database = Database {
        session: knowledge.session(),
        known: silent,
        silent: Vec::new(),
    };
    let bound = Program::bind(model, names, &mut database, options);
    let silent = database.silent;
    bound.map_err(|diagnostics| match diagnostics.len() == silent.len() {
        true => Unbound::Waiting {
            silent,
            diagnostics,
        },
        false => Unbound::Faulty(without_silent(model, &diagnostics, &silent)),
    })
}

/// The diagnostics about the model itself, without those caused by providers that do not respond.
fn without_silent(model: &Model, diagnostics: &Diagnostics, silent: &[Silent]) -> Diagnostics {
    let is_silent = |diagnostic: &&Diagnostic| {
        let mut statements = model_lookups(model).filter(|sql| sql.span == diagnostic.span);
        statements.any(|sql| silent.iter().any(|silent| silent.sql == sql.text))
    };
    let faults = diagnostics.iter().filter(|it| !is_silent(it));
    model.diagnostics(faults.cloned().collect())
}

/// A session that records the statements that could not be prepared because their providers do not
/// respond.
struct Database<'a> {
    session: Session,
    known: &'a HashMap<&'a str, Error>,
    silent: Vec<Silent>,
}

impl Lookup for Database<'_> {
    fn prepare(&mut self, sql: &str, params: &[Text]) -> Result<StatementId, LookupError> {
        let prepared = match self.known.get(sql) {
            Some(error) => Err(LookupError::from(error.clone())),
            None => Lookup::prepare(&mut self.session, sql, params),
        };
        let error = prepared.as_ref().err().and_then(LookupError::source);
        let error = error.and_then(|error| error.downcast_ref::<Error>());
        if let Some(error) = error.filter(|error| error.is_retryable()) {
            self.silent.push(Silent {
                sql: sql.to_owned(),
                error: error.clone(),
            });
        }
        prepared
    }

    fn columns(&self, statement: StatementId) -> &[Text] {
        self.session.columns(statement)
    }

    fn answer(&mut self, query: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
        self.session.answer(query, params, answers);
    }
}

impl Unbound {
    /// The failure of a command that does not wait for providers.
    pub(crate) fn into_failure(self) -> Failure {
        let (silent, diagnostics) = match self {
            Self::Faulty(diagnostics) => return model_failure(&[diagnostics]),
            Self::Waiting {
                silent,
                diagnostics,
            } => (silent, diagnostics),
        };
        let providers = silent.iter().filter_map(|it| it.error.provider_name());
        let mut providers: Vec<&str> = providers.collect();
        providers.sort_unstable();
        providers.dedup();
        let (who, whose) = match providers.as_slice() {
            [one] => (format!("provider {one} does not answer"), "its"),
            all => (
                format!("providers {} do not answer", all.join(", ")),
                "their",
            ),
        };
        let message = format!("{} cannot be used now: {who}", diagnostics.file_name());
        let help = format!(
            "start {whose} server{}, or correct connection_uri in knowdb.toml; `lookaside check` \
             tries every provider",
            if providers.len() == 1 { "" } else { "s" }
        );
        Failure::new(message)
            .with_excerpt(draw(&diagnostics))
            .with_help(help)
    }
}
