//! The task that follows the changes of a provider.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use lookaside_client::PostgresConfig;
use lookaside_client::postgres::feed::{FeedStart, LogicalReplicationMessage, Lsn, SlotName};
use lookaside_client::postgres::{ChangeFeed, FeedEvent, FeedOptions};
use lookaside_value::Position;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, sleep_until};

use super::Shared;
use super::changes::Changes;
use super::failure::{Failure, FeedResetReason};
use super::gate::Gate;
use super::server::{Asked, Classification, Classified, Creation, Published, Server, Shown};
use super::status::FeedState;
use super::tracked::TrackedStatement;
use super::visibility::Snapshot;
use crate::depends::{Dependency, Names};
use crate::mutant::Mutant;

/// How often the horizon moves if no caller needs it sooner: four statements a second.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// The shortest time between two statements that ask what the server shows.
const PROBE_PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest one while a change waits: a synchronous standby may not answer for a long time.
const PROBE_PAUSE_MAX: Duration = Duration::from_millis(16);

/// The pause after a failure of the server, and the longest one, to which each failure doubles it.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to show something.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a probe also asks how much of the log the slot holds back. It is asked sooner if that may
/// have exceeded the limit.
const SLOT_INTERVAL: Duration = Duration::from_secs(10);

/// When the status shows that something waits for the end of a transaction. Most take milliseconds.
const WAIT_SHOWN_AFTER: Duration = Duration::from_secs(2);

/// The pause after a classification that a lock on a table delayed.
const LOCKED_PAUSE: Duration = Duration::from_secs(1);

/// The most events of the stream that are taken before other work gets a turn.
const EVENT_COUNT_MAX: usize = 1024;

/// What the task connects to.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) provider: String,
    /// The server that answers queries.
    pub(super) server: PostgresConfig,
    /// Another way to the same server, for the stream of changes.
    pub(super) sender: Option<PostgresConfig>,
    pub(super) publication: String,
    /// The most bytes of the server's log that the slot may hold back.
    pub(super) wal_size_max: u64,
}

/// A statement at the server, of which one is sent at a time.
type Work = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>;

enum Done {
    Shown(Shown),
    Classified(Classification),
}

/// Follows the changes until the engine drops the feed.
pub(super) async fn run(
    source: Source,
    shared: Arc<Shared>,
    mut registered: UnboundedReceiver<Arc<TrackedStatement>>,
) {
    // No connection without a statement.
    let Some(first) = registered.recv().await else {
        return;
    };
    let mut guard = ResetOnDrop {
        statements: vec![first],
        shared: &shared,
    };
    let statements = &mut guard.statements;
    let mut failure_count = 0;
    let mut last_failure = None;
    loop {
        shared.set_state(&source, FeedState::Starting, last_failure.take());
        let followed = follow(&source, &shared, &mut registered, statements).await;
        let was_live = shared.horizon.fresh_as_of().is_some();
        shared.reset(statements);
        shared.end_stream();
        let Err(failure) = followed else {
            return;
        };
        shared.figures.count_reset(failure.reason);
        if failure.reason != FeedResetReason::DefinitionChanged {
            shared.set_state(&source, FeedState::Down, Some(failure.text.clone()));
            last_failure = Some(failure.text);
        }
        // What worked once is tried again soon.
        if was_live {
            failure_count = 0;
        }
        let pause = RETRY_PAUSE_MIN.saturating_mul(1 << failure_count.min(10));
        failure_count += 1;
        let pause = sleep(pause.min(RETRY_PAUSE_MAX));
        let paused = await_and_register(pause, &mut registered, statements).await;
        if paused.is_none() {
            return;
        }
    }
}

/// All statements of the provider. When the task ends, even by a panic, no answer is valid any more.
struct ResetOnDrop<'a> {
    statements: Vec<Arc<TrackedStatement>>,
    shared: &'a Shared,
}

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        self.shared.reset(&self.statements);
    }
}

/// Awaits something, and meanwhile takes the statements that are registered; `None` when the engine drops
/// the feed.
async fn await_and_register<T>(
    awaited: impl Future<Output = T>,
    registered: &mut UnboundedReceiver<Arc<TrackedStatement>>,
    statements: &mut Vec<Arc<TrackedStatement>>,
) -> Option<T> {
    let mut awaited = pin!(awaited);
    loop {
        tokio::select! {
            output = &mut awaited => return Some(output),
            statement = registered.recv() => statements.push(statement?),
        }
    }
}

/// A stream of changes, and the server that answers queries.
struct Connected {
    server: Server,
    feed: ChangeFeed,
    start: FeedStart,
    published: Published,
}

/// Connects to both ends, and begins a stream.
async fn connect(source: &Source, shared: &Shared) -> Result<Connected, Failure> {
    let server = timed_out(Server::connect(&source.server, &source.publication)).await?;
    let options = FeedOptions {
        reply_timeout: PROBE_TIMEOUT,
        ..FeedOptions::default()
    };
    let sender = source.sender.as_ref();
    let publications = [source.publication.as_str()];
    let published = timed_out(server.published()).await?;
    let mut feed = ChangeFeed::new(sender.unwrap_or(&source.server), publications, options)?;
    let mut look_at = Instant::now() + WAIT_SHOWN_AFTER;
    let start = loop {
        tokio::select! {
            event = feed.next() => match event {
                FeedEvent::Streaming(start) => break start,
                FeedEvent::Lost(error) => {
                    let failure = Failure::from(error);
                    return Err(match sender {
                        Some(_) => failure.with_key("feed_uri"),
                        None => failure,
                    });
                }
                _ => continue,
            },
            () = sleep_until(look_at.into()) => {}
        }
        // The slot is being created, and holds back the log already.
        look_at += SLOT_INTERVAL;
        if let Some(slot) = feed.slot().cloned() {
            let creation = timed_out(server.creation(&slot)).await?;
            check_creation(source, shared, &creation)?;
        }
    };
    timed_out(server.check_slot(&start.slot)).await?;
    // The server can miss a change of its catalog that is committed while it creates a slot beside other
    // writers. It then decodes all later changes by the catalog of before: those of a table that was
    // published meanwhile are not in the stream, and nothing tells. A new slot knows the change.
    if timed_out(server.published()).await? != published {
        return Err(Failure::changed_at_start());
    }
    Ok(Connected {
        server,
        feed,
        start,
        published,
    })
}

/// Gives up a slot that holds back too much before it has been created, and says what it waits for.
fn check_creation(source: &Source, shared: &Shared, creation: &Creation) -> Result<(), Failure> {
    shared.figures.set_slot_wal_size(creation.wal_size);
    if let Some(writer) = &creation.writer {
        shared.set_state(source, FeedState::Starting, Some(waits_for(writer)));
    }
    match creation.wal_size {
        Some(size) if size > source.wal_size_max => {
            Err(Failure::wal_limit(size, source.wal_size_max))
        }
        _ => Ok(()),
    }
}

fn waits_for(writer: &str) -> String {
    format!("it waits for the end of a transaction that is writing: {writer}")
}

/// Follows one stream of changes. Returns `Ok` when the engine drops the feed.
async fn follow(
    source: &Source,
    shared: &Shared,
    registered: &mut UnboundedReceiver<Arc<TrackedStatement>>,
    statements: &mut Vec<Arc<TrackedStatement>>,
) -> Result<(), Failure> {
    let connecting = await_and_register(connect(source, shared), registered, statements);
    let Some(connected) = connecting.await else {
        return Ok(());
    };
    let connected = connected?;
    let mut feed = connected.feed;
    let (server, publication) = (connected.server, connected.published.publication);
    let mut follower = Follower::new(
        source,
        shared,
        server,
        publication,
        &connected.start,
        statements,
    );
    loop {
        follower.begin_work();
        let next_work = follower.next_work;
        tokio::select! {
            event = feed.next() => {
                follower.take(event)?;
                // Events that are there already are taken in one go, so that a snapshot is asked for
                // once for all of them.
                for count in 2..=EVENT_COUNT_MAX {
                    let Some(event) = feed.next().now_or_never() else {
                        break;
                    };
                    if count < EVENT_COUNT_MAX || !Mutant::DropRunEnd.is_active() {
                        follower.take(event)?;
                    }
                }
                follower.publish();
            }
            done = follower.work() => {
                follower.work = None;
                follower.finish(done?)?;
                follower.publish();
                if follower.gate.awaits_stream() {
                    feed.request_keepalive();
                }
            }
            statement = registered.recv() => {
                let Some(statement) = statement else {
                    return Ok(());
                };
                follower.unclassified.push(Arc::clone(&statement));
                follower.statements.push(statement);
            }
            () = shared.horizon.wanted() => follower.is_wanted = true,
            () = sleep_until(next_work.into()) => {}
        }
        feed.confirm(Lsn(follower.gate.received().0));
    }
}

/// The transactions that were writing when the publication was changed.
#[derive(PartialEq, Eq)]
enum Writers {
    Ended,
    /// They are those of this snapshot, the first one after a classification that found the change.
    Awaited(Option<Snapshot>),
}

/// A statement that will be tracked.
struct WaitingStatement {
    statement: Arc<TrackedStatement>,
    /// When it was classified.
    since: Instant,
    /// When so many transactions have been applied: they were received before its changes were read.
    transaction_count: u64,
}

/// What the server showed when the fingerprint was asked for.
struct Compared {
    snapshot: Snapshot,
    settings: String,
}

/// The state of one stream.
struct Follower<'a> {
    source: &'a Source,
    shared: &'a Shared,
    server: Server,
    /// The fingerprint of the publication.
    publication: String,
    /// No statement is tracked before these have ended.
    writers: Writers,
    gate: Gate,
    changes: Changes,
    /// The first snapshot of the stream. Nothing is tracked before its transactions have ended: they
    /// may have committed before the stream began and not be visible yet.
    first: Option<Snapshot>,
    has_begun: bool,
    /// All of the provider.
    statements: &'a mut Vec<Arc<TrackedStatement>>,
    /// Those whose dependencies have to be found out.
    unclassified: Vec<Arc<TrackedStatement>>,
    /// Not before this.
    classify_at: Instant,
    waiting: Vec<WaitingStatement>,
    tracked: Vec<Arc<TrackedStatement>>,
    /// What the statements depend on, and its fingerprint.
    names: Option<(Arc<Names>, String)>,
    /// When the fingerprint was asked for last, since there are these names.
    compared: Option<Compared>,
    /// Whether it showed the same as the time before.
    is_quiet: bool,
    work: Option<Work>,
    /// When the server was asked last, and for the horizon.
    asked: Instant,
    probed: Instant,
    /// The number of questions that showed nothing that is waited for.
    fruitless_count: u32,
    is_wanted: bool,
    /// When the server is to be asked again.
    next_work: Instant,
    slot: SlotName,
    /// When the server is to be asked for what the slot holds back.
    slot_due: Instant,
    /// From where on the slot held back the log when the server was asked last.
    slot_restart: Option<Position>,
    /// The transaction that had been writing for longest then.
    writer: Option<String>,
}

impl<'a> Follower<'a> {
    fn new(
        source: &'a Source,
        shared: &'a Shared,
        server: Server,
        publication: String,
        start: &FeedStart,
        statements: &'a mut Vec<Arc<TrackedStatement>>,
    ) -> Self {
        let now = Instant::now();
        let horizon = &shared.horizon;
        horizon.set_cluster(start.system_id.0, start.timeline.0);
        shared
            .figures
            .set_slot(Some(start.slot.as_str().to_owned()));
        Self {
            source,
            shared,
            server,
            publication,
            writers: Writers::Ended,
            gate: Gate::new(Position(start.consistent_point.0)),
            changes: Changes::default(),
            first: None,
            has_begun: false,
            unclassified: statements.clone(),
            statements,
            classify_at: now,
            waiting: Vec::new(),
            tracked: Vec::new(),
            names: None,
            compared: None,
            is_quiet: false,
            work: None,
            asked: now,
            probed: now,
            fruitless_count: 0,
            is_wanted: true,
            next_work: now,
            slot: start.slot.clone(),
            slot_due: now,
            slot_restart: None,
            writer: None,
        }
    }

    /// Waits for the statement at the server.
    fn work(&mut self) -> impl Future<Output = Result<Done, Failure>> {
        let work = self.work.as_mut();
        async {
            match work {
                Some(work) => work.await,
                None => pending().await,
            }
        }
    }

    /// Sends the next statement to the server, if it is time and there is none under way.
    fn begin_work(&mut self) {
        let now = Instant::now();
        self.next_work = now + PROBE_INTERVAL;
        if self.work.is_some() {
            return;
        }
        let is_overdue = self.probed + 2 * PROBE_INTERVAL <= now;
        if !self.unclassified.is_empty() && self.classify_at <= now && !is_overdue {
            let statements = std::mem::take(&mut self.unclassified);
            let classifying = self.server.clone().classify(statements, self.names.clone());
            self.work = Some(timed(async { classifying.await.map(Done::Classified) }));
            return;
        }
        let growing = PROBE_PAUSE_MIN.saturating_mul(1 << self.fruitless_count.min(10));
        let is_awaited = !self.has_begun || !self.waiting.is_empty();
        let pause = match self.gate.is_waiting() {
            true => growing.min(PROBE_PAUSE_MAX),
            false if self.is_wanted => 2 * PROBE_PAUSE_MIN,
            // A transaction that is waited for may go on for hours.
            false if is_awaited => growing.min(PROBE_INTERVAL),
            false => PROBE_INTERVAL,
        };
        let is_probe_due = self.is_wanted || self.probed + PROBE_INTERVAL <= now;
        let due = (self.asked + pause).min(self.probed + PROBE_INTERVAL);
        if now < due {
            self.next_work = due;
            return;
        }
        let slot_is_due = is_probe_due && self.slot_due <= now;
        let slot = slot_is_due.then(|| self.slot.clone());
        if slot_is_due {
            self.slot_due = now + SLOT_INTERVAL;
        }
        let asked = match is_probe_due {
            true => {
                self.shared.horizon.take_wanted(now);
                self.is_wanted = false;
                self.probed = now;
                let names = self.names.as_ref().map(|(names, _)| Arc::clone(names));
                match self.is_quiet {
                    true => Asked::Settings,
                    false => Asked::Fingerprint(names.unwrap_or_default()),
                }
            }
            false => Asked::Nothing,
        };
        self.asked = now;
        self.shared
            .figures
            .probe_count
            .fetch_add(1, Ordering::Relaxed);
        let showing = self.server.clone().shown(asked, slot);
        self.work = Some(timed(async { showing.await.map(Done::Shown) }));
    }

    /// Takes an event of the stream.
    fn take(&mut self, event: FeedEvent<'_>) -> Result<(), Failure> {
        match event {
            FeedEvent::Message(message) => {
                let has_touched = receive(self.shared, &mut self.changes, &mut self.gate, message)?;
                if has_touched {
                    self.fruitless_count = 0;
                }
            }
            FeedEvent::Keepalive { end } => self.gate.reach(Position(end.0)),
            FeedEvent::Lost(error) => return Err(error.into()),
            FeedEvent::Streaming(_) => return Err(Failure::interrupted()),
            _ => {}
        }
        Ok(())
    }

    /// Takes what the server has answered.
    fn finish(&mut self, done: Done) -> Result<(), Failure> {
        match done {
            Done::Shown(shown) => {
                let held = self.check_slot(&shown);
                if shown.restart.is_some() {
                    self.writer.clone_from(&shown.writer);
                }
                self.apply(shown);
                held?;
            }
            Done::Classified(Classification::Done(classified)) => {
                self.check_publication(&classified.publication)?;
                self.track(classified);
            }
            Done::Classified(Classification::Changed) => self.classify_again(),
            Done::Classified(Classification::Locked(statements)) => {
                self.unclassified.extend(statements);
                self.classify_at = Instant::now() + LOCKED_PAUSE;
            }
        }
        Ok(())
    }

    /// Gives up the slot if it holds back more of the log than it may.
    fn check_slot(&mut self, shown: &Shown) -> Result<(), Failure> {
        let (end, size_max) = (shown.probe.end, self.source.wal_size_max);
        let size_from = |restart: Position| end.0.saturating_sub(restart.0);
        match (shown.restart, self.slot_restart) {
            (Some(restart), _) => {
                let size = size_from(restart);
                self.slot_restart = Some(restart);
                self.shared.figures.set_slot_wal_size(Some(size));
                match size > size_max {
                    true => Err(Failure::wal_limit(size, size_max)),
                    false => Ok(()),
                }
            }
            (None, Some(restart)) => {
                // It holds back at most this much.
                if size_from(restart) > size_max {
                    self.slot_due = shown.probe.sent;
                }
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Whether what statements depend on is as it was when the fingerprint was asked for last, because
    /// since then no transaction has begun that has an identifier, and none has ended.
    fn is_unchanged(&mut self, shown: &Shown) -> bool {
        let Some(settings) = &shown.settings else {
            return false;
        };
        let before = self.compared.as_ref();
        let is_unchanged = before
            .is_some_and(|it| it.snapshot == shown.probe.snapshot && it.settings == *settings);
        self.is_quiet = is_unchanged && self.names.is_some();
        if shown.fingerprint.is_some() {
            self.compared = Some(Compared {
                snapshot: shown.probe.snapshot.clone(),
                settings: settings.clone(),
            });
        } else if !is_unchanged {
            // The fingerprint, soon.
            self.is_wanted = true;
        }
        is_unchanged
    }

    fn apply(&mut self, shown: Shown) {
        let now = Instant::now();
        self.shared.horizon.set_log_end(shown.probe.end);
        let before = self.gate.queue_len();
        if !self.has_begun {
            let first = self
                .first
                .get_or_insert_with(|| match Mutant::NoStartWait.is_active() {
                    true => Snapshot::EMPTY,
                    false => shown.probe.snapshot.clone(),
                });
            self.has_begun = shown.probe.snapshot.is_after_all_of(first);
        }
        if let Writers::Awaited(earlier) = &mut self.writers {
            let earlier = earlier.get_or_insert_with(|| shown.probe.snapshot.clone());
            if shown.probe.snapshot.is_after_all_of(earlier) {
                self.writers = Writers::Ended;
            }
        }
        let is_unchanged = self.is_unchanged(&shown);
        let versions = &self.shared.versions;
        match (&shown.fingerprint, &self.names) {
            (Some(new), Some((_, known))) if new != known && !Mutant::NoFingerprint.is_active() => {
                self.gate.apply(shown.probe.snapshot, now, versions);
                self.classify_again();
            }
            (Some(_), _) => self.gate.probed(shown.probe, now, versions),
            (None, _) if is_unchanged => self.gate.probed(shown.probe, now, versions),
            (None, _) => self.gate.apply(shown.probe.snapshot, now, versions),
        }
        self.fruitless_count = match self.gate.queue_len() < before {
            true => 0,
            false => self.fruitless_count.saturating_add(1),
        };
    }

    /// The definition of something that statements depend on has changed, perhaps with values of rows
    /// that the stream does not tell.
    fn classify_again(&mut self) {
        self.tracked.clear();
        self.waiting.clear();
        // Also those that no feed could follow before.
        self.unclassified.clone_from(&*self.statements);
        self.names = None;
        (self.compared, self.is_quiet) = (None, false);
        self.changes.clear_statements();
        self.gate.forget_horizon();
        self.shared.reset(&self.unclassified);
        let reason = FeedResetReason::DefinitionChanged;
        self.shared.figures.count_reset(reason);
    }

    /// What a transaction has changed before it, or another one, publishes a table, is not in the stream.
    fn check_publication(&mut self, publication: &str) -> Result<(), Failure> {
        if publication == self.publication || Mutant::NoWriterWait.is_active() {
            return Ok(());
        }
        if !self.server.follows_publication() {
            return Err(Failure::publication_changed());
        }
        publication.clone_into(&mut self.publication);
        self.writers = Writers::Awaited(None);
        Ok(())
    }

    /// Begins to track statements, for which the stream is now read.
    fn track(&mut self, classified: Classified) {
        self.names = Some((Arc::new(classified.names), classified.fingerprint));
        (self.compared, self.is_quiet) = (None, false);
        // A transaction that is being received may have changed rows before this.
        let count = match Mutant::ForgetPending.is_active() {
            true => 0,
            false => self.gate.received_count() + u64::from(self.changes.is_in_transaction()),
        };
        for (statement, dependency) in classified.statements {
            let reason = match &dependency {
                Dependency::None { reason } => Some(reason.clone()),
                _ => None,
            };
            match statement.set_dependency(dependency) {
                Some(relations) => {
                    self.changes.add(&statement, &relations);
                    self.waiting.push(WaitingStatement {
                        statement,
                        since: Instant::now(),
                        transaction_count: count,
                    });
                }
                None => {
                    let reason = reason
                        .as_deref()
                        .unwrap_or("compares a parameter with columns of different types");
                    tracing::info!(
                        provider = self.source.provider,
                        sql = &*statement.sql,
                        "the change feed does not invalidate answers of a statement: it {reason}"
                    );
                }
            }
        }
        self.fruitless_count = 0;
        // The fingerprint is compared once more before anything is as fresh as the next probe.
        self.is_wanted = true;
    }

    /// Publishes how far the caches are.
    fn publish(&mut self) {
        let figures = &self.shared.figures;
        let have_ended = self.writers == Writers::Ended;
        if self.has_begun && have_ended && !self.waiting.is_empty() {
            let (gate, tracked) = (&self.gate, &mut self.tracked);
            self.waiting.retain(|waiting| {
                let is_ready = gate.has_applied(waiting.transaction_count);
                if is_ready {
                    waiting.statement.set_live(true);
                    tracked.push(Arc::clone(&waiting.statement));
                }
                !is_ready
            });
        }
        let relaxed = Ordering::Relaxed;
        figures
            .queue_len
            .store(self.gate.queue_len() as u64, relaxed);
        figures
            .statement_count
            .store(self.tracked.len() as u64, relaxed);
        (figures.row_count).fetch_add(std::mem::take(&mut self.changes.row_count), relaxed);
        // After the other figures of the same transactions.
        for wait in self.gate.take_waits() {
            figures.count_gate_wait(wait);
            if let Some(on_change) = &self.shared.on_change {
                on_change(&self.source.provider, wait);
            }
        }
        if self.has_begun {
            self.shared.horizon.publish(self.gate.progress());
        }
        let waits_long = |it: &WaitingStatement| it.since.elapsed() > WAIT_SHOWN_AFTER;
        let waits_long = self.waiting.iter().any(waits_long);
        let writer = self.writer.as_deref().filter(|_| waits_long);
        let reason = writer.map(waits_for);
        if self.has_begun {
            self.shared.set_state(self.source, FeedState::Live, reason);
        } else if reason.is_some() {
            self.shared
                .set_state(self.source, FeedState::Starting, reason);
        }
    }
}

/// Takes a message of the stream. A transaction that it completes is applied, or waits at the gate.
/// Returns whether there is one that concerns a statement.
pub(super) fn receive(
    shared: &Shared,
    changes: &mut Changes,
    gate: &mut Gate,
    message: LogicalReplicationMessage<'_>,
) -> Result<bool, Failure> {
    let taken = changes.take(message);
    let taken = taken.map_err(|it| Failure::invalid_stream(it.0))?;
    let Some((transaction, end)) = taken else {
        return Ok(false);
    };
    let is_touching = !transaction.touched.is_empty();
    if is_touching {
        let count = &shared.figures.transaction_count;
        count.fetch_add(1, Ordering::Relaxed);
    }
    let received = gate.receive(transaction, Instant::now(), &shared.versions);
    received.map_err(|_| Failure::queue_full())?;
    gate.reach(end);
    Ok(is_touching)
}

fn timed(work: impl Future<Output = Result<Done, Failure>> + Send + 'static) -> Work {
    Box::pin(timed_out(work))
}

/// The result, or a failure if it takes too long.
async fn timed_out<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let timed = tokio::time::timeout(PROBE_TIMEOUT, work).await;
    timed.unwrap_or_else(|_| {
        Err(Failure::server(
            "the server does not answer the feed's statements",
        ))
    })
}
