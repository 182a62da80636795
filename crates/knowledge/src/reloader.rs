//! Automatic reloads: when a file changes, and on a timer.
//!
//! One thread does both. It compares the stamps of the files (time, size, inode) with those of the
//! last attempt, so neither a wake-up without a change nor a file that remains invalid causes a
//! load. The system's notifications only trigger the comparison, so changes that they report under
//! other names are covered too, such as a folder that is replaced as the target of a symbolic link.
//!
//! A watch follows a folder, not its name, so its parent is watched too: it reports when the name
//! refers to another folder. After each attempt, all watches are renewed.

use std::collections::BTreeSet;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::Result;
use crate::error::Error;
use crate::file_stamp::{AskServers, FileStamps, Watched};

/// Files must be unchanged for this long before they are read: a copy in progress causes many
/// changes. A file that is replaced by renaming another one is complete, and is read at once.
const REST: Duration = Duration::from_millis(100);

/// Files that keep changing are read after this time.
const REST_WAIT_MAX: Duration = Duration::from_secs(2);

/// After a load that failed because a database was locked or did not answer, the next one is tried after
/// this time, also without a change.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Something that can be reloaded.
pub(crate) trait Reload: Send + Sync + 'static {
    /// The files that a reload would read now.
    fn files(&self) -> Vec<Watched>;

    /// Loads it again, and returns the number of the new state.
    fn reload(self: Arc<Self>) -> Result<u64>;
}

/// The thread that reloads; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Reloader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    schedule: CheckSchedule,
    /// The stamps of the files before the last attempt to load them.
    seen: FileStamps,
    /// The folders that are watched for these files.
    folders: Folders,
    /// Whether the thread has to determine again what to watch.
    renewed: bool,
    stopped: bool,
}

/// The schedule for checking the files: decides without reading a clock.
#[derive(Debug, Default)]
struct CheckSchedule {
    refresh: Option<Duration>,
    /// When the timer is due.
    refresh_at: Option<Instant>,
    /// The first and the last notification since the last check.
    changed: Option<(Instant, Instant)>,
    /// Whether a file was written to since then, and may not be complete.
    is_written: bool,
    /// When a file arrived under its name, which is complete: it was renamed.
    arrived_at: Option<Instant>,
    /// When a load that failed for a cause that passes is tried again.
    retry_at: Option<Instant>,
}

impl CheckSchedule {
    fn set_refresh(&mut self, refresh: Option<Duration>, now: Instant) {
        self.refresh = refresh;
        self.refresh_at = refresh.and_then(|refresh| now.checked_add(refresh));
    }

    /// A file may have changed.
    fn notice(&mut self, now: Instant) {
        let (first, _) = self.changed.unwrap_or((now, now));
        self.changed = Some((first, now));
    }

    /// One of the files was written to.
    fn write(&mut self, now: Instant) {
        self.is_written = true;
        self.notice(now);
    }

    /// One of the files was replaced by renaming another one.
    fn arrive(&mut self, now: Instant) {
        self.arrived_at.get_or_insert(now);
        self.notice(now);
    }

    /// When the next check is due, if any.
    fn due_at(&self) -> Option<Instant> {
        let rested = self
            .changed
            .map(|(first, last)| (last + REST).min(first + REST_WAIT_MAX));
        let arrived = self.arrived_at.filter(|_| !self.is_written);
        let due = [rested, arrived, self.refresh_at, self.retry_at];
        due.into_iter().flatten().min()
    }

    /// Whether the timer is due.
    fn is_refresh_due(&self, now: Instant) -> bool {
        self.refresh_at.is_some_and(|at| at <= now)
    }

    /// Records that the files are checked now.
    fn look(&mut self, now: Instant) {
        self.changed = None;
        self.is_written = false;
        self.arrived_at = None;
        self.retry_at = None;
        self.set_refresh(self.refresh, now);
    }
}

impl Reloader {
    /// Starts the thread, which only has a weak reference to the reloaded object.
    pub(crate) fn start<T: Reload>(
        owner: Weak<T>,
        watch: bool,
        seen: FileStamps,
        refresh: Option<Duration>,
    ) -> Result<Self> {
        let mut state = State {
            seen,
            renewed: true,
            ..State::default()
        };
        state.schedule.set_refresh(refresh, Instant::now());
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: Condvar::new(),
        });
        let watcher = if watch { Some(watcher(&shared)?) } else { None };
        let thread_shared = shared.clone();
        let thread = thread::Builder::new()
            .name("lookaside-reload".into())
            .spawn(move || run(&owner, &thread_shared, watcher))
            .map_err(Error::reload_thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Tells the thread what a reload changed.
    pub(crate) fn renew(&self, seen: FileStamps, refresh: Option<Duration>) {
        let mut state = self.shared.lock();
        state.seen = seen;
        state.renewed = true;
        state.schedule.set_refresh(refresh, Instant::now());
        self.shared.wake.notify_one();
    }
}

impl Drop for Reloader {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.wake.notify_one();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // If the thread held the last reference to the engine during a reload, it drops the engine
        // itself.
        if thread.thread().id() != thread::current().id() {
            // A panic in the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watcher that reports changes; the stamps show what changed.
fn watcher(shared: &Arc<Shared>) -> Result<RecommendedWatcher> {
    let shared = shared.clone();
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the files also causes events. Errors, such as an overflow, trigger a check.
        if event.as_ref().is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        let mut state = shared.lock();
        let now = Instant::now();
        match event {
            Ok(event) if state.folders.are_all_strange(&event.paths) => return,
            Ok(event) if !event.paths.iter().any(|path| state.seen.has(path)) => {
                state.schedule.notice(now);
            }
            Ok(event) => match event.kind {
                EventKind::Modify(ModifyKind::Name(_)) => state.schedule.arrive(now),
                _ => state.schedule.write(now),
            },
            Err(_) => state.schedule.notice(now),
        }
        shared.wake.notify_one();
    })
    .map_err(Error::watch)
}

fn run<T: Reload>(owner: &Weak<T>, shared: &Shared, mut watcher: Option<RecommendedWatcher>) {
    let mut state = shared.lock();
    loop {
        if state.stopped {
            return;
        }
        let now = Instant::now();
        if state.renewed {
            state.renewed = false;
            if let Some(watcher) = &mut watcher {
                let folders = Folders::of(&state.seen.paths_in_folders());
                let old = mem::replace(&mut state.folders, folders.clone());
                // The watcher's thread may wait for the lock while watches are changed.
                drop(state);
                old.unwatch(watcher);
                folders.watch(watcher);
                state = shared.lock();
                // Changes before the watch was added were not reported.
                state.schedule.notice(now);
            }
            continue;
        }
        match state.schedule.due_at() {
            Some(due_at) if due_at <= now => {
                // Servers are asked at the interval that the configuration sets, not at each change.
                let ask = match state.schedule.is_refresh_due(now) {
                    true => AskServers::Yes,
                    false => AskServers::No,
                };
                state.schedule.look(now);
                let seen = state.seen.clone();
                // Files can be slow; neither the owner nor the watcher waits for them.
                drop(state);
                let found = seen.refreshed(ask);
                if found == seen {
                    state = shared.lock();
                    continue;
                }
                let Some(owner) = owner.upgrade() else {
                    return;
                };
                // The stamps from before the load, so that changes during the load are detected. If
                // the load fails, the cause may be a missing file that only the new configuration
                // names.
                shared.lock().seen = found.with(owner.files());
                let result = reload(owner);
                state = shared.lock();
                match result {
                    Ok(()) => {}
                    Err(error) if error.is_retryable() => {
                        state.seen = seen;
                        state.schedule.retry_at = Instant::now().checked_add(RETRY_DELAY);
                    }
                    Err(_) => state.renewed = true,
                }
            }
            Some(due_at) => {
                let waited = shared.wake.wait_timeout(state, due_at - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            None => {
                let waited = shared.wake.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Reloads; if it succeeds, the reloader was updated.
fn reload<T: Reload>(owner: Arc<T>) -> Result<()> {
    // A panic would end the thread, and with it all later reloads. The panic hook has reported it, and the
    // new state is dropped.
    let result = catch_unwind(AssertUnwindSafe(|| owner.reload()));
    match result.unwrap_or_else(|_| Err(Error::load_panicked())) {
        Ok(generation) => {
            tracing::info!(generation, "tables reloaded");
            Ok(())
        }
        Err(error) => {
            let cause: &dyn std::error::Error = &error;
            tracing::warn!(error = cause, "reload failed; the old tables stay in use");
            Err(error)
        }
    }
}

/// The folders that are watched.
#[derive(Clone, Debug, Default)]
struct Folders {
    /// The folders of the files: a file that is replaced by renaming is another file, but its
    /// folder is the same. For folders that do not exist, their nearest existing ancestor.
    inner: BTreeSet<PathBuf>,
    /// The parents of the inner folders, without other relevant content.
    outer: BTreeSet<PathBuf>,
}

impl Folders {
    fn of(files: &[PathBuf]) -> Self {
        let inner: BTreeSet<PathBuf> = files
            .iter()
            .filter_map(|file| file.ancestors().skip(1).map(named).find(|at| at.is_dir()))
            .collect();
        let outer = inner.iter().filter_map(|folder| folder.parent());
        let outer = outer.map(named).filter(|folder| !inner.contains(folder));
        let outer = outer.collect();
        Self { inner, outer }
    }

    /// Whether these paths are all siblings of the watched folders.
    fn are_all_strange(&self, paths: &[PathBuf]) -> bool {
        let is_strange = |path: &PathBuf| {
            let is_outer = path.parent().is_some_and(|at| self.outer.contains(at));
            is_outer && !self.inner.contains(path)
        };
        !paths.is_empty() && paths.iter().all(is_strange)
    }

    fn watch(&self, watcher: &mut RecommendedWatcher) {
        for folder in self.inner.iter().chain(&self.outer) {
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                let error: &dyn std::error::Error = &error;
                let folder = folder.display();
                tracing::warn!(error, %folder, "changes in this folder will not be detected");
            }
        }
    }

    fn unwatch(&self, watcher: &mut RecommendedWatcher) {
        for folder in self.inner.iter().chain(&self.outer) {
            // A deleted folder is no longer watched anyway.
            let _ = watcher.unwatch(folder);
        }
    }
}

/// The path of a folder in a form that can be opened.
fn named(folder: &Path) -> PathBuf {
    match folder.as_os_str().is_empty() {
        true => ".".into(),
        false => folder.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure() {
        struct Panics;
        impl Reload for Panics {
            fn files(&self) -> Vec<Watched> {
                Vec::new()
            }

            fn reload(self: Arc<Self>) -> Result<u64> {
                panic!("the test panics here")
            }
        }
        let error = reload(Arc::new(Panics)).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn files_must_rest_but_not_forever() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut schedule = CheckSchedule::default();
        assert_eq!(schedule.due_at(), None);
        schedule.retry_at = Some(at(50));
        assert_eq!(schedule.due_at(), Some(at(50)));
        schedule.look(at(50));
        assert_eq!(schedule.due_at(), None);
        schedule.notice(at(0));
        assert_eq!(schedule.due_at(), Some(at(100)));
        schedule.notice(at(50));
        assert_eq!(schedule.due_at(), Some(at(150)));
        for ms in (100..1990).step_by(50) {
            schedule.notice(at(ms));
        }
        assert_eq!(schedule.due_at(), Some(at(2000)));
        schedule.look(at(2000));
        assert_eq!(schedule.due_at(), None);
    }

    #[test]
    fn a_file_that_arrives_by_renaming_is_read_at_once() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut schedule = CheckSchedule::default();
        // The file that will be renamed is written under another name.
        schedule.notice(at(0));
        schedule.notice(at(10));
        schedule.arrive(at(20));
        assert_eq!(schedule.due_at(), Some(at(20)));
        schedule.look(at(20));
        assert_eq!(schedule.due_at(), None);
        // Another file is being written.
        schedule.write(at(100));
        schedule.arrive(at(150));
        assert_eq!(schedule.due_at(), Some(at(250)));
    }

    #[test]
    fn neighbours_of_the_folders_are_strange() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("base/t")).unwrap();
        let folders = Folders::of(&[at("base/t/data.csv"), at("base/missing/u/data.csv")]);
        assert_eq!(folders.inner, [at("base"), at("base/t")].into());
        assert_eq!(folders.outer, [folder.path().to_owned()].into());
        for (paths, expected) in [
            (&["base/t/data.csv"][..], false),
            (&["base/t"], false),
            (&["base/missing"], false),
            (&["base"], false),
            (&["other"], true),
            (&["other", "base"], false),
            (&[], false),
        ] {
            let event: Vec<PathBuf> = paths.iter().map(|path| at(path)).collect();
            assert_eq!(folders.are_all_strange(&event), expected, "{paths:?}");
        }
    }

    #[test]
    fn the_timer_starts_again_at_each_look() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut schedule = CheckSchedule::default();
        schedule.set_refresh(Some(Duration::from_millis(500)), at(0));
        assert_eq!(schedule.due_at(), Some(at(500)));
        schedule.notice(at(100));
        assert_eq!(schedule.due_at(), Some(at(200)));
        schedule.look(at(200));
        assert_eq!(schedule.due_at(), Some(at(700)));
        schedule.set_refresh(Some(Duration::MAX), at(700));
        assert_eq!(schedule.due_at(), None, "beyond the end of time");
    }
}
