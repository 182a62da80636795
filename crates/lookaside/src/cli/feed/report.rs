//! The state of a provider's change feed in the report of `lookaside check`.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use lookaside_knowledge::{
    DependencyClass, Explanation, FeedState, FeedStatus, Knowledge, ProviderConfig,
    StatementDependency,
};

use super::provider::FeedProvider;
use super::requirements::{Observed, Requirement, RequirementState, requirements};
use super::server::FeedServer;
use crate::cli::output::write_stdout;
use crate::failure::Failure;

/// How long to wait for a feed. It starts in a second, unless it has to wait for transactions that write.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How often its state is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Prints the state of a provider's feed, if the configuration sets one, and what is missing. Returns
/// the number of problems: missing requirements, or a feed that is down without one.
pub(crate) fn check(
    config: &ProviderConfig,
    knowledge: &Knowledge,
    explanations: &[&Explanation],
) -> Result<usize, Failure> {
    let Some(provider) = FeedProvider::of(config).filter(FeedProvider::is_on) else {
        return Ok(0);
    };
    let dependencies = explanations.iter().filter(|explanation| {
        let answerer = explanation.provider.as_ref();
        answerer.is_some_and(|it| it.name == provider.name())
    });
    let dependencies: Vec<&StatementDependency> = dependencies
        .filter_map(|explanation| explanation.dependency.as_ref())
        .collect();
    let found = observe(&provider, &dependencies);
    let is_refused = config.pooler || provider.server.hosts.len() > 1;
    let is_cached = knowledge.snapshot().cache_enabled;
    let (line, is_down) = if is_refused {
        ("off".to_owned(), false)
    } else if !is_cached {
        let reason = "idle, because no answers are cached: [cache] enabled = false";
        (reason.to_owned(), false)
    } else if dependencies.is_empty() {
        ("idle, no lookup uses it".to_owned(), false)
    } else {
        let status = started(knowledge, provider.name());
        let is_down = (status.as_ref()).is_some_and(|it| it.state == FeedState::Down);
        (state_line(status.as_ref(), &dependencies), is_down)
    };
    write_stdout(|out| {
        writeln!(out, "change feed of {}: {line}", provider.name())?;
        match &found {
            Ok(found) => {
                let mut shown = found.iter();
                if !found.iter().any(Requirement::is_missing) {
                    writeln!(out, "  ok: all requirements are met")?;
                }
                shown
                    .by_ref()
                    .filter(|it| it.state != RequirementState::Met)
                    .try_for_each(|it| it.write(out))
            }
            Err(failure) => writeln!(out, "  note: not checked: {}", failure.line()),
        }
    })?;
    let found = found.unwrap_or_default();
    let missing_count = found.iter().filter(|it| it.is_missing()).count();
    Ok(missing_count.max(usize::from(is_down)))
}

/// What the feed needs, and has.
fn observe(
    provider: &FeedProvider<'_>,
    dependencies: &[&StatementDependency],
) -> Result<Vec<Requirement>, Failure> {
    let mut server = FeedServer::connect(provider, None)?;
    let facts = server.facts(provider)?;
    let name = provider.publication();
    let publication = server.publication(name)?;
    let followed = dependencies
        .iter()
        .filter(|it| it.class_if_full_identity > DependencyClass::None);
    let names: BTreeSet<&str> = followed
        .flat_map(|dependency| &dependency.tables)
        .map(|name| name.as_str())
        .collect();
    let tables = server.tables(names, name)?;
    let slots = server.slots()?;
    let observed = Observed {
        facts: &facts,
        publication: publication.as_ref(),
        tables: &tables,
        slots: &slots,
    };
    Ok(requirements(provider, observed))
}

/// The status of the feed when it has started, or has failed to; the last one if neither happens in
/// time.
fn started(knowledge: &Knowledge, provider: &str) -> Option<FeedStatus> {
    let begun = Instant::now();
    loop {
        let providers = knowledge.providers();
        let status = providers.into_iter().find(|it| it.name == provider)?.feed?;
        let is_over = match status.state {
            FeedState::Down => true,
            // The statements follow.
            FeedState::Live => status.lag.is_some(),
            _ => false,
        };
        if is_over || begun.elapsed() > START_TIMEOUT {
            return Some(status);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn state_line(status: Option<&FeedStatus>, dependencies: &[&StatementDependency]) -> String {
    let followed = dependencies.iter();
    let followed = followed.filter(|it| it.class >= DependencyClass::Table);
    let (followed, all) = (followed.count(), dependencies.len());
    let Some(status) = status else {
        return "off".to_owned();
    };
    match (status.state, &status.reason) {
        (FeedState::Live, None) => {
            format!("live, changes invalidate the answers of {followed} of {all} lookups")
        }
        (FeedState::Live, Some(reason)) => {
            format!("live, but changes do not invalidate all answers yet: {reason}")
        }
        (FeedState::Down, Some(reason)) => format!("down: {reason}"),
        (FeedState::Idle, _) => "idle".to_owned(),
        (state, Some(reason)) => {
            format!("{state}, not live within {START_TIMEOUT:?}: {reason}")
        }
        (state, None) => format!("{state}, not live within {START_TIMEOUT:?}"),
    }
}
