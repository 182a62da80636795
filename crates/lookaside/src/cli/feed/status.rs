//! `lookaside feed status`: what of a change feed's requirements is there.

use std::time::Duration;

use clap::Args;
use lookaside_client::PostgresConfig;
use lookaside_client::postgres::{ChangeFeed, FeedEvent, FeedOptions};

use super::ServerArguments;
use super::lookups::{FeedLookup, feed_lookups, tables};
use super::provider::FeedProvider;
use super::requirements::{Observed, Requirement, requirements};
use super::server::{FeedServer, SlotFacts};
use crate::cli::output::write_stdout;
use crate::failure::{CommandResult, Exit, Failure};
use crate::numbers::grouped;
use crate::project::Project;

/// How long the server may wait for the end of transactions that write before it creates a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);

/// Print what the change feed of a provider needs and has; exit code 1 if something is missing
///
/// Prints each requirement and whether it is met: the server's version and settings, the rights of the
/// user, free slots and walsenders, the publication, and the tables of the lookups with their replica
/// identities; for each missing one, the command that adds it. If all are met, a stream of changes is
/// begun and ended again. Then prints each lookup with its class, and the slots of running feeds with
/// the part of the log that the server keeps for them.
#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    server: ServerArguments,
}

pub(super) fn run(arguments: &StatusArguments) -> CommandResult {
    let project = Project::open(&arguments.server.dir)?;
    let provider = FeedProvider::choose(&project.config, arguments.server.provider.as_deref())?;
    let lookups = feed_lookups(&project, &provider)?;
    let mut server = FeedServer::connect(&provider, arguments.server.url.as_deref())?;
    let facts = server.facts(&provider)?;
    let name = provider.publication();
    let publication = server.publication(name)?;
    let read = server.tables(tables(&lookups), name)?;
    let slots = server.slots()?;
    let mut found = requirements(
        &provider,
        Observed {
            facts: &facts,
            publication: publication.as_ref(),
            tables: &read,
            slots: &slots,
        },
    );
    let is_running = slots.iter().any(SlotFacts::is_running);
    if !is_running && !found.iter().any(Requirement::is_missing) {
        found.push(try_stream(provider.sender(), name)?);
    }
    write_stdout(|out| {
        writeln!(
            out,
            "provider {}: {}, publication {}",
            provider.name(),
            server.address,
            facts.publication_sql
        )?;
        found.iter().try_for_each(|it| it.write(out))?;
        for FeedLookup { place, dependency } in &lookups {
            writeln!(out, "  {place}: {dependency}")?;
            if let Some(help) = &dependency.help {
                writeln!(out, "    help: {help}")?;
            }
        }
        for slot in &slots {
            let state = if slot.is_active {
                "active"
            } else {
                "not active"
            };
            let size = grouped(slot.held_size.unsigned_abs());
            writeln!(
                out,
                "  slot {} of the database {}: {state}, {}, keeps {size} bytes of the log",
                slot.name, slot.database, slot.wal_status
            )?;
        }
        if !provider.is_on() {
            let (file, line) = (project.config.file.display(), provider.config.line);
            writeln!(
                out,
                "  note: the feed is off: add `feed = \"auto\"` at {file}:{line}"
            )?;
        }
        Ok(())
    })?;
    Ok(match found.iter().any(Requirement::is_missing) {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

/// Begins a stream of changes, and ends it.
fn try_stream(sender: &PostgresConfig, publication: &str) -> Result<Requirement, Failure> {
    let cannot = |error: &dyn std::error::Error| {
        Failure::new("a stream of changes cannot be tried").because(error)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| cannot(&error))?;
    let options = FeedOptions {
        slot_timeout: SLOT_TIMEOUT,
        ..FeedOptions::default()
    };
    let mut feed =
        ChangeFeed::new(sender, [publication], options).map_err(|error| cannot(&error))?;
    let begun = runtime.block_on(async {
        loop {
            match feed.next().await {
                FeedEvent::Streaming(_) => return Ok(()),
                FeedEvent::Lost(error) => return Err(error),
                _ => {}
            }
        }
    });
    Ok(match begun {
        Ok(()) => Requirement::met("a stream of changes can be begun"),
        Err(error) => {
            let error = Failure::from_error(&error);
            Requirement::missing("a stream of changes cannot be begun", error.line())
        }
    })
}
