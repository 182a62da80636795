//! The thread that looks after what is served: reloads, and lookups and models whose server was never
//! there.
//!
//! Requests never wait for it. It makes the next catalog beside the one that serves and publishes it
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
use super::reloader::{NotReloaded, ONLY_TABLES, Order, Orders, Reloaded, Reloader};
use super::service::Shared;
use crate::config::{LookupConfig, ServerConfig};
use crate::failure::Failure;
use crate::log::TOLD;

/// How often a server that was never there is asked again, and whether the tables were loaded anew by
/// themselves.
const TICK: Duration = Duration::from_secs(1);

/// How long a server that was never there has then.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// How long servers have at the start, which listens already, and at a reload. Longer than a
/// connection takes on a busy machine, so that lookups wait for those servers only that are away.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long the end waits for what the thread does: a load or a question that hangs changes nothing
/// that anybody sees then.
const END: Duration = Duration::from_millis(500);

/// How often what histograms collected is folded, so that it stays small when nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// The thread, until it is dropped.
pub(crate) struct ReloaderThread {
    reloader: Reloader,
    thread: Option<JoinHandle<()>>,
}

/// Held by the thread: a panic in it ends the service, which would never load anything again.
struct Failing(StopFlag);

impl Drop for Failing {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.raise();
        }
    }
}

impl ReloaderThread {
    /// Starts to look after a service.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        orders: Orders,
        file: PathBuf,
        server: ServerConfig,
        stop: StopFlag,
    ) -> std::io::Result<Self> {
        let work = Work {
            generation: shared.knowledge.generation(),
            shared: Arc::downgrade(shared),
            file,
            server,
            told: None,
        };
        let thread = thread::Builder::new().name("reloader".into());
        let thread = thread.spawn(move || {
            let _failing = Failing(stop);
            work.run(&orders);
        })?;
        Ok(Self {
            reloader: shared.reloader.clone(),
            thread: Some(thread),
        })
    }

    /// Ends the thread, or leaves it to itself when it takes longer than that.
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
    /// As it was when the server started.
    server: ServerConfig,
    /// The tables that the catalog was made for.
    generation: u64,
    /// Why the lookups stayed as they were, as the log has it last.
    told: Option<String>,
}

impl Work {
    fn run(mut self, orders: &Orders) {
        let mut upkeep = Instant::now();
        loop {
            let order = orders.within(TICK);
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            match order {
                Ok(Order::Reload(tell)) => tell(self.reload(&shared)),
                Err(RecvTimeoutError::Timeout) => self.look(&shared),
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
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
            Ok((generation, warnings)) => {
                for warning in &warnings {
                    warn!("{warning}");
                }
                let elapsed = begun.elapsed();
                info!(target: TOLD, generation, ?elapsed, "reloaded");
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
        // What can be wrong in the file is found before anything changes.
        let files = Files::read(&self.file)?;
        // Where it listens stays; the keys that this needs must stay, too.
        files.server.guard(&shared.places)?;
        let mut warnings = self.restart_warning(&files.server);
        // Lookups may go together with their tables.
        let gone = catalog.release_all_but(&files.lookups, &shared.knowledge);
        let generation = match shared.knowledge.reload() {
            Ok(generation) => generation,
            Err(error) => {
                hold(&gone, &shared.knowledge);
                return Err(of_reload(&error, &files.lookups).into());
            }
        };
        self.generation = generation;
        match Self::make(shared, files, catalog, PATIENCE) {
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
        // Certificates are renewed as files of the same name.
        if let Some(Err(error)) = shared.tls.get().map(|tls| tls.reload()) {
            let error = chain(&error);
            warnings.push(format!(
                "certificate not loaded again, the old one stays: {error}"
            ));
        }
        warnings.extend(table_warnings(shared));
        Ok((generation, warnings))
    }

    /// What of the file counts from the next start on, if something was changed there.
    fn restart_warning(&self, next: &ServerConfig) -> Vec<String> {
        let changes = self.server.changes_at_a_restart(next);
        let names: Vec<String> = changes.iter().map(|key| format!("server.{key}")).collect();
        let Some((last, others)) = names.split_last() else {
            return Vec::new();
        };
        vec![match others {
            [] => format!("{last} changes with a restart only"),
            _ => format!(
                "{} and {last} change with a restart only",
                others.join(", ")
            ),
        }]
    }

    fn make(
        shared: &Shared,
        files: Files,
        catalog: &Catalog,
        patience: Duration,
    ) -> Result<Arc<Catalog>, Failure> {
        let parts = files.into_parts()?;
        let next = Catalog::new(parts, &shared.knowledge, Some(catalog), patience)?;
        next.tell_waiting(Some(catalog));
        next.tell_notes(Some(catalog));
        Ok(Arc::new(next))
    }

    /// Looks whether there is something to do unasked.
    fn look(&mut self, shared: &Shared) {
        let generation = shared.knowledge.generation();
        let catalog = shared.catalog.load_full();
        let is_new = generation != self.generation;
        if !is_new && !catalog.can_prepare_more(&shared.knowledge, LOOK_PATIENCE) {
            return;
        }
        // Those that answered a moment ago need not be asked again.
        let patience = if is_new { PATIENCE } else { LOOK_PATIENCE };
        self.generation = generation;
        let made = Files::read(&self.file).and_then(|files| {
            files.server.guard(&shared.places)?;
            let warnings = self.restart_warning(&files.server);
            Ok((Self::make(shared, files, &catalog, patience)?, warnings))
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
                // It may be tried each second.
                if self.told.as_ref() != Some(&reason) {
                    warn!(reason, "the lookups stay as they were");
                    self.told = Some(reason);
                }
            }
        }
    }
}

/// Why tables could not be loaded. A statement that does not fit them is told by its text, of which
/// the error shows the beginning; the lookup that it is of has a name and a line.
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

/// What someone should look at in the tables that are served now.
fn table_warnings(shared: &Shared) -> Vec<String> {
    let report = shared.knowledge.load_report();
    let tables = report.tables.iter();
    tables
        .flat_map(|table| {
            let told = table.warnings.iter();
            told.map(|warning| format!("table {}: {warning}", table.name))
        })
        .collect()
}
