//! The lookups of a project that a provider answers, and the tables that they read.

use std::collections::BTreeSet;

use lookaside_knowledge::{DependencyClass, Knowledge, StatementDependency};
use lookaside_oml::ast::StatementKind;

use super::provider::FeedProvider;
use crate::config::read_lookups;
use crate::failure::Failure;
use crate::models::Models;
use crate::project::Project;

/// A lookup that a provider answers.
#[derive(Debug)]
pub(super) struct FeedLookup {
    /// Where it is: `lookups.NAME`, or a place in a model.
    pub(super) place: String,
    pub(super) dependency: StatementDependency,
}

/// The lookups of the configuration and of all models that the provider answers.
pub(super) fn feed_lookups(
    project: &Project,
    provider: &FeedProvider<'_>,
) -> Result<Vec<FeedLookup>, Failure> {
    let mut statements = Vec::new();
    for lookup in read_lookups(&project.config)? {
        statements.push((format!("lookups.{}", lookup.name), lookup.sql));
    }
    for model in Models::read(&project.models_folder())?.iter() {
        for statement in &model.program().statements {
            if let StatementKind::Lookup { sql, .. } = &statement.kind {
                let (line, column) = model.position(statement.span);
                let place = format!("{}:{line}:{column}", model.file_name());
                statements.push((place, sql.text.clone()));
            }
        }
    }
    let knowledge = project.load()?;
    let mut lookups = Vec::new();
    for (place, sql) in statements {
        if let Some(dependency) = dependency(&knowledge, provider, &place, &sql)? {
            lookups.push(FeedLookup { place, dependency });
        }
    }
    Ok(lookups)
}

/// What a statement depends on; `None` if the provider does not answer it.
fn dependency(
    knowledge: &Knowledge,
    provider: &FeedProvider<'_>,
    place: &str,
    sql: &str,
) -> Result<Option<StatementDependency>, Failure> {
    let failed = |error: lookaside_knowledge::Error| {
        Failure::new(format!("{place}: {error}")).with_sources(&error)
    };
    let explanation = knowledge.explain(sql).map_err(failed)?;
    let answerer = explanation.provider.map(|provider| provider.name);
    if answerer.as_deref() != Some(provider.name()) {
        return Ok(None);
    }
    let dependency = knowledge.dependency(sql, provider.publication());
    let dependency = dependency.map_err(failed)?;
    match dependency {
        Some(unknown) if unknown.class == DependencyClass::Unknown => {
            let reason = unknown.reason.unwrap_or_default();
            Err(Failure::new(format!("{place}: the statement {reason}")))
        }
        other => Ok(other),
    }
}

/// The tables that have to be published, in alphabetic order: those of the lookups whose answers a
/// change can then invalidate.
pub(super) fn tables(lookups: &[FeedLookup]) -> BTreeSet<&str> {
    let of_use =
        |lookup: &&FeedLookup| lookup.dependency.class_if_full_identity > DependencyClass::None;
    let lookups = lookups.iter().filter(of_use);
    lookups
        .flat_map(|lookup| &lookup.dependency.tables)
        .map(|table| table.as_str())
        .collect()
}

/// The tables of lookups whose key is not in the replica identity, and would be in that of the whole
/// row.
pub(super) fn tables_with_other_keys(lookups: &[FeedLookup]) -> BTreeSet<&str> {
    let raised = lookups.iter().map(|lookup| &lookup.dependency);
    let raised = raised.filter(|it| {
        it.class_if_published < DependencyClass::Key
            && it.class_if_full_identity == DependencyClass::Key
    });
    raised
        .flat_map(|dependency| &dependency.tables)
        .map(|table| table.as_str())
        .collect()
}
