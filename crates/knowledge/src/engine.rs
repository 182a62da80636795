//! The state that all sessions of one [`Knowledge`](crate::Knowledge) share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;

use crate::clock::Clock;
use crate::counters::CounterSet;
use crate::generation::Generation;
use crate::statement::Registry;
use crate::telemetry::Telemetry;

/// Numbers the engines of this process, so that a statement cannot be used with another engine; the
/// numbers only have to be unique, so `Relaxed` is enough.
static ENGINE_COUNTER: AtomicU64 = AtomicU64::new(1);

pub(crate) struct Engine {
    pub(crate) number: u64,
    /// The number of the current generation; it follows `state`. Stored with `Release` after the
    /// state, loaded with `Acquire` before it, so a thread that sees the number finds a state that
    /// is at least as new.
    generation: AtomicU64,
    state: ArcSwap<Generation>,
    registry: RwLock<Registry>,
    pub(crate) hasher: foldhash::quality::RandomState,
    pub(crate) clock: Clock,
    pub(crate) counters: CounterSet,
    pub(crate) telemetry: Option<Arc<dyn Telemetry>>,
    /// Whether all queries are cancelled; never reset.
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

impl Engine {
    pub(crate) fn new(
        first: Generation,
        clock: Clock,
        telemetry: Option<Arc<dyn Telemetry>>,
    ) -> Self {
        Self {
            number: ENGINE_COUNTER.fetch_add(1, Ordering::Relaxed),
            generation: AtomicU64::new(first.number),
            hasher: first.hasher.clone(),
            state: ArcSwap::from_pointee(first),
            registry: RwLock::default(),
            clock,
            counters: CounterSet::default(),
            telemetry,
            is_cancelled: Arc::default(),
        }
    }

    /// The number of the current generation.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The current generation.
    pub(crate) fn state(&self) -> Arc<Generation> {
        self.state.load_full()
    }

    /// Makes `next` the current generation.
    pub(crate) fn serve(&self, next: Generation) {
        let number = next.number;
        self.state.store(Arc::new(next));
        self.generation.store(number, Ordering::Release);
    }

    // The registry is changed by single pushes, so a panic cannot leave it inconsistent.

    pub(crate) fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn registry_mut(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
