//! The change feed of a PostgreSQL provider: cached answers are invalidated row by row, from the
//! database's own log.
//!
//! ```text
//!  walsender ──► changes ──► touched versions ─┐
//!                                              ▼
//!  server that answers queries ──► snapshot ► gate ──► versions, horizon ◄── caches compare
//! ```
//!
//! A change is applied when the server that answers queries shows it ([`gate`]), and each entry of a
//! cache keeps the version that was read before its query was sent ([`Versions`]). A caller that
//! requires fresh answers compares the [`horizon`].

mod changes;
mod failure;
mod gate;
mod horizon;
mod position;
#[cfg(feature = "replay")]
mod replay;
mod server;
mod status;
mod task;
mod tracked;
mod visibility;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use lookaside_client::PostgresConfig;
use lookaside_value::{StatementId, Value};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub use self::failure::FeedResetReason;
#[cfg(test)]
pub(crate) use self::gate::Progress;
pub(crate) use self::horizon::Horizon;
pub use self::position::LogPosition;
#[cfg(feature = "replay")]
pub use self::replay::ChangeReplay;
use self::status::Figures;
pub use self::status::{FeedState, FeedStatus};
use self::task::Source;
pub(crate) use self::tracked::TrackedStatement;
use crate::config::FeedConfig;
use crate::mutant::Mutant;
use crate::runtime::Runtime;
use crate::versions::{TouchedSlots, Versions};

/// Is called with the provider and the wait for the gate when a transaction was applied.
pub(crate) type OnChange = Arc<dyn Fn(&str, Duration) + Send + Sync>;

/// The change feed of a provider. Its task ends when it is dropped.
pub(crate) struct Feed {
    shared: Arc<Shared>,
    statements: Mutex<HashMap<StatementId, Arc<TrackedStatement>>>,
    /// `None` if the feed is refused.
    registered: Option<UnboundedSender<Arc<TrackedStatement>>>,
}

/// What callers and the task share.
struct Shared {
    versions: Arc<Versions>,
    changing: Mutex<()>,
    horizon: Arc<Horizon>,
    figures: Figures,
    /// The reason that was logged last: why the feed is down, or what it waits for.
    logged: Mutex<Option<String>>,
    on_change: Option<OnChange>,
}

impl Feed {
    /// Starts a feed, which connects when the first statement is [tracked](Self::track).
    pub(crate) fn start(
        provider: &str,
        server: PostgresConfig,
        config: &FeedConfig,
        on_change: Option<OnChange>,
        runtime: &Runtime,
    ) -> Self {
        let shared = Shared::new(on_change);
        let (registered, to_register) = unbounded_channel();
        let source = Source {
            provider: provider.to_owned(),
            sender: config.sender.as_deref().cloned(),
            server,
            publication: config.publication.clone(),
            wal_size_max: config.wal_max,
        };
        runtime.start_task(task::run(source, Arc::clone(&shared), to_register));
        Self {
            shared,
            statements: Mutex::default(),
            registered: Some(registered),
        }
    }

    /// A feed that never invalidates anything, for this reason.
    pub(crate) fn refused(reason: &str) -> Self {
        let shared = Shared::new(None);
        (shared.figures).set_state(FeedState::Down, Some(reason.to_owned()));
        Self {
            shared,
            statements: Mutex::default(),
            registered: None,
        }
    }

    /// The statement as the feed knows it. It is tracked as soon as the server has told what it
    /// depends on. `sql` is the text that is sent, and `binds` has for each numbered parameter the
    /// position of its value in a parameter set.
    pub(crate) fn track(
        &self,
        id: StatementId,
        sql: &str,
        binds: &[usize],
        hasher: &RandomState,
    ) -> Arc<TrackedStatement> {
        let mut statements = self
            .statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match statements.entry(id) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(vacant) => {
                let shared = &self.shared;
                let statement = TrackedStatement::new(
                    id,
                    (sql, binds),
                    hasher.clone(),
                    (&shared.versions, &shared.horizon),
                    &shared.figures.refused_fill_count,
                );
                let statement = Arc::clone(vacant.insert(Arc::new(statement)));
                if let Some(registered) = &self.registered {
                    // The task has ended only if the runtime has.
                    let _ = registered.send(Arc::clone(&statement));
                }
                statement
            }
        }
    }

    /// Invalidates the answers that a row of a table concerns, before its change is in the stream.
    pub(crate) fn touch(&self, table: &str, row: &[(&str, Value)]) {
        let mut touched = TouchedSlots::default();
        let statements = self
            .statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for statement in statements.values().filter(|it| it.names_table(table)) {
            statement.touch_row(row, &mut touched);
        }
        let _changing = self.shared.changing();
        touched.apply(&self.shared.versions);
    }

    /// Why there is no feed although the configuration sets one.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self.registered {
            Some(_) => None,
            None => self.status().reason,
        }
    }

    /// What the feed does.
    pub(crate) fn status(&self) -> FeedStatus {
        let shared = &self.shared;
        shared.figures.status(&shared.horizon, Instant::now())
    }
}

impl Shared {
    fn new(on_change: Option<OnChange>) -> Arc<Self> {
        Arc::new(Self {
            versions: Arc::new(Versions::new()),
            changing: Mutex::new(()),
            horizon: Arc::new(Horizon::new(Instant::now())),
            figures: Figures::default(),
            logged: Mutex::default(),
            on_change,
        })
    }

    /// Invalidates everything: changes may have been missed.
    fn reset(&self, statements: &[Arc<TrackedStatement>]) {
        if Mutant::KeepOverReconnect.is_active() {
            return;
        }
        self.horizon.withdraw();
        for statement in statements {
            statement.set_live(false);
            statement.renew_text();
        }
        let _changing = self.changing();
        self.versions.renew();
    }

    /// Held while counters are [renewed](Versions::renew), and by others than the task that change them.
    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state, and logs it if it is new. Attempts that fail for the same reason as the one before
    /// are not logged.
    fn set_state(&self, source: &Source, state: FeedState, reason: Option<String>) {
        if !self.figures.set_state(state, reason.clone()) {
            return;
        }
        let provider = &*source.provider;
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            FeedState::Down if *logged != reason => {
                tracing::warn!(
                    provider,
                    reason,
                    "the change feed is down; changes do not invalidate cached answers"
                );
                *logged = reason;
            }
            FeedState::Starting | FeedState::Live if reason.is_some() => {
                if *logged != reason {
                    tracing::warn!(
                        provider,
                        reason,
                        "changes do not invalidate all answers yet"
                    );
                    *logged = reason;
                }
            }
            FeedState::Live if logged.take().is_some() => {
                tracing::warn!(provider, "the change feed is live");
            }
            FeedState::Down | FeedState::Starting => {
                tracing::debug!(provider, "the change feed is {state}");
            }
            _ => tracing::info!(provider, "the change feed is {state}"),
        }
    }

    /// The stream has ended, and with it what is known of it.
    fn end_stream(&self) {
        let figures = &self.figures;
        figures.set_slot(None);
        figures.set_slot_wal_size(None);
        figures.queue_len.store(0, Ordering::Relaxed);
        figures.statement_count.store(0, Ordering::Relaxed);
    }
}
