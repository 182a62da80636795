//! The thread that reloads, and that prepares lookups and models whose provider had not responded
//! yet.
//!
//! Requests never wait for it. It builds the next catalog beside the current one and publishes it
//! in one step.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use lookaside_stream::StopFlag;
use tracing::{info, warn};

use super::catalog::{Catalog, hold};
use super::files::Files;
use super::lookup::refused;
use super::problem::chain;
use super::reloader::{
    NotReloaded, ONLY_TABLES, Reloaded, Reloader, ReloaderCommand, ReloaderCommands,
};
use super::service::Shared;
use crate::config::{LookupConfig, ServerConfig};
use crate::failure::Failure;
use crate::log::CONFIRMATION;

/// The interval of retries for providers that have never responded, and of checks whether the
/// engine has reloaded the tables by itself.
const TICK: Duration = Duration::from_secs(1);

/// The timeout of such a retry.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// The time that providers have to respond at startup (the server already listens then) and at a
/// reload. It is longer than a connection takes on a busy machine, so that only lookups of
/// unavailable providers have to wait.
pub(super) const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long shutdown waits for the thread: a load or a query that hangs no longer has a visible
/// effect then.
const END: Duration = Duration::from_millis(500);

/// The interval at which collected histogram samples are folded, so that they stay few when metrics
/// are not scraped.
const UPKEEP: Duration = Duration::from_secs(5);

/// The reloader thread; dropping this ends it.
pub(crate) struct ReloaderThread {
    reloader: Reloader,
    thread: Option<JoinHandle<()>>,
}

/// Held by the thread: a panic in the thread ends the service, which could not reload any more.
struct Failing(StopFlag);

impl Drop for Failing {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.raise();
        }
    }
}

impl ReloaderThread {
    /// Starts the thread for a service.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        commands: ReloaderCommands,
        file: PathBuf,
        server: ServerConfig,
        stop: StopFlag,
    ) -> std::io::Result<Self> {
        let work = Work {
            generation: shared.knowledge.generation(),
            shared: Arc::downgrade(shared),
            file,
            server,
            logged_reason: None,
        };
        let thread = thread::Builder::new().name("reloader".into());
        let thread = thread.spawn(move || {
            let _failing = Failing(stop);
            work.run(&commands);
        })?;
        Ok(Self {
            reloader: shared.reloader.clone(),
            thread: Some(thread),
        })
    }

    /// Ends the thread, or detaches it if it takes longer than `timeout`.
    ///
    /// # Errors
    /// When it has panicked.
    pub(crate) fn end_within(mut self, timeout: Duration) -> Result<(), Failure> {
        self.end(timeout.min(END))
    }

    fn end(&mut self, timeout: Duration) -> Result<(), Failure> {
        self.reloader.stop();
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let begun = Instant::now();
        while !thread.is_finished() {
            if begun.elapsed() >= timeout {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().map_err(|_| {
            Failure::new("the thread that reloads panicked; its message is on standard error")
        })
    }
}

impl Drop for ReloaderThread {
    fn drop(&mut self) {
        // A panic on that thread was already reported there.
        let _ = self.end(END);
    }
}

struct Work {
    shared: Weak<Shared>,
    /// The project's `knowdb.toml`.
    file: PathBuf,
    /// The configuration that the server started with.
    server: ServerConfig,
    /// The generation of the tables that the catalog was built for.
    generation: u64,
    /// The last logged reason why the lookups were not replaced.
    logged_reason: Option<String>,
}

impl Work {
    fn run(mut self, commands: &ReloaderCommands) {
        let mut upkeep = Instant::now();
        loop {
            let command = commands.within(TICK);
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            match command {
                Ok(ReloaderCommand::Reload(callback)) => callback(self.reload(&shared)),
                Err(RecvTimeoutError::Timeout) => self.check(&shared),
                Ok(ReloaderCommand::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            if upkeep.elapsed() >= UPKEEP {
                shared.prometheus.run_upkeep();
                upkeep = Instant::now();
            }
        }
    }

    fn reload(&mut self, shared: &Shared) -> Result<Reloaded, NotReloaded> {
        let begun = Instant::now();
        let catalog = shared.catalog.load_full();
        let result = self.load(shared, &catalog);
        match result {
            Ok((generation, mut warnings)) => {
                for warning in &warnings {
                    warn!("{warning}");
                }
                // Those about lookups are in the log, unless it had them before.
                warnings.extend(shared.catalog.load().warnings());
                let elapsed = begun.elapsed();
                info!(target: CONFIRMATION, generation, ?elapsed, "reloaded");
                Ok(Reloaded {
                    generation,
                    elapsed,
                    warnings,
                })
            }
            Err(failure) => {
                let reason = &failure.reason;
                match failure.has_new_tables {
                    true => warn!(reason, "{ONLY_TABLES}"),
                    false => warn!(reason, "not reloaded"),
                }
                Err(failure)
            }
        }
    }

    fn load(
        &mut self,
        shared: &Shared,
        catalog: &Catalog,
    ) -> Result<(u64, Vec<String>), NotReloaded> {
        // Errors in the file are found before anything changes.
        let files = Files::read(&self.file)?;
        // The listeners do not change; if they require keys, the new file must have keys, too.
        files.server.guard(&shared.listen_addresses)?;
        let mut warnings = self.restart_warning(&files.server);
        // A lookup may be removed together with its tables.
        let gone = catalog.release_all_but(&files.lookups, &shared.knowledge);
        let generation = match shared.knowledge.reload() {
            Ok(generation) => generation,
            Err(error) => {
                hold(&gone, &shared.knowledge);
                return Err(of_reload(&error, &files.lookups).into());
            }
        };
        self.generation = generation;
        match Self::make(shared, files, catalog, DESCRIBE_TIMEOUT) {
            Ok(next) => {
                shared.publish(next);
                catalog.release_rest(&gone, &shared.knowledge);
            }
            Err(failure) => {
                hold(&gone, &shared.knowledge);
                return Err(NotReloaded {
                    reason: failure.line(),
                    has_new_tables: true,
                });
            }
        }
        if let Some(log) = &shared.log {
            log.reopen();
        }
        // Renewed certificates have the same file names.
        if let Some(Err(error)) = shared.tls.get().map(|tls| tls.reload()) {
            let error = chain(&error);
            warnings.push(format!(
                "certificate not reloaded; the old one stays in use: {error}"
            ));
        }
        warnings.extend(table_warnings(shared));
        Ok((generation, warnings))
    }

    /// A warning for changed settings that take effect only at a restart.
    fn restart_warning(&self, next: &ServerConfig) -> Vec<String> {
        let changes = self.server.changes_at_a_restart(next);
        let names: Vec<String> = changes.iter().map(|key| format!("server.{key}")).collect();
        let Some((last, others)) = names.split_last() else {
            return Vec::new();
        };
        vec![match others {
            [] => format!("{last} takes effect only after a restart"),
            _ => format!(
                "{} and {last} take effect only after a restart",
                others.join(", ")
            ),
        }]
    }

    fn make(
        shared: &Shared,
        files: Files,
        catalog: &Catalog,
        timeout: Duration,
    ) -> Result<Arc<Catalog>, Failure> {
        let parts = files.into_parts()?;
        let next = Catalog::new(parts, &shared.knowledge, Some(catalog), timeout)?;
        next.log_waiting(Some(catalog));
        next.log_notes(Some(catalog));
        Ok(Arc::new(next))
    }

    /// Checks for work without a command: retries and tables that were reloaded.
    fn check(&mut self, shared: &Shared) {
        let generation = shared.knowledge.generation();
        let catalog = shared.catalog.load_full();
        let is_new = generation != self.generation;
        if !is_new && !catalog.can_prepare_more(&shared.knowledge, CHECK_TIMEOUT) {
            return;
        }
        // Unless the tables are new, `can_prepare_more` has just waited for the providers.
        let timeout = if is_new {
            DESCRIBE_TIMEOUT
        } else {
            CHECK_TIMEOUT
        };
        self.generation = generation;
        let made = Files::read(&self.file).and_then(|files| {
            files.server.guard(&shared.listen_addresses)?;
            let warnings = self.restart_warning(&files.server);
            Ok((Self::make(shared, files, &catalog, timeout)?, warnings))
        });
        match made {
            Ok((next, mut warnings)) => {
                shared.publish(next);
                catalog.release(&shared.knowledge);
                if is_new {
                    warnings.extend(table_warnings(shared));
                    warnings.iter().for_each(|warning| warn!("{warning}"));
                }
            }
            Err(failure) => {
                let reason = failure.line();
                // The attempt may repeat each second, so each reason is logged once.
                if self.logged_reason.as_ref() != Some(&reason) {
                    warn!(reason, "the previous lookups stay in use");
                    self.logged_reason = Some(reason);
                }
            }
        }
    }
}

/// The error for tables that could not be loaded. If a statement does not fit them, the error shows
/// only the beginning of its text, by which its lookup is found, with name and line.
fn of_reload(error: &lookaside_knowledge::Error, lookups: &[LookupConfig]) -> Failure {
    let text = error.to_string();
    let shown = text
        .strip_prefix("statement `")
        .and_then(|rest| rest.split_once("`: "))
        .map(|(shown, _)| shown.trim_end_matches('…'));
    let in_line = |sql: &str| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let lookup = lookups.iter().find(|lookup| {
        shown.is_some_and(|shown| !shown.is_empty() && in_line(&lookup.sql).starts_with(shown))
    });
    match lookup {
        Some(lookup) => refused(lookup, error),
        None => Failure::from_error(error),
    }
}

/// Warnings for the operator about the tables that are served now.
fn table_warnings(shared: &Shared) -> Vec<String> {
    let report = shared.knowledge.load_report();
    let tables = report.tables.iter();
    tables
        .flat_map(|table| {
            let warnings = table.warnings.iter();
            warnings.map(|warning| format!("table {}: {warning}", table.name))
        })
        .collect()
}
