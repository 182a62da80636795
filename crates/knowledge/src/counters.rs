//! Counters that cost a plain store: each has one writer, and readers sum them up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::event::{CacheOutcome, Layer};

/// Declares the counters once, for the writers, the sum and the addition.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident),* $(,)?) => {
        /// The counters of one session. Only the session writes them; they have their own cache
        /// lines, so writers do not contend.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        /// The sums of the counters of all sessions since the engine was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Counts {
            fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.count();)*
            }

            /// Each counter with its name.
            pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// The description of each counter, with its name.
            pub(crate) fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
                let texts = [$((stringify!($name), concat!($($doc),+))),*].into_iter();
                // A line of a doc comment begins with a space.
                texts.map(|(name, text)| (name, text.trim_start()))
            }
        }
    };
}

counters! {
    /// Lookups that a native plan answered with rows.
    native_hits,
    /// Lookups that a native plan answered with "no row".
    native_absent,
    /// Answers found in a session's own cache.
    l0_hits,
    /// Answers looked for in a session's own cache and not found.
    l0_misses,
    /// Answers found in the shared cache, including those that another session was just querying.
    l1_hits,
    /// Answers looked for in the shared cache and not found.
    l1_misses,
    /// Answers found in a caller's cache.
    call_hits,
    /// Answers looked for in a caller's cache and not found.
    call_misses,
    /// Queries whose columns were already described.
    metadata_hits,
    /// Statements that had to be described, once per statement and generation.
    metadata_misses,
    /// Queries that a database ran.
    queries,
    /// Queries among them that failed.
    query_failures,
    /// Requests to other databases; one carries all queries of a batch that no cache could answer.
    flights,
    /// Stale answers that replaced those of a failing server.
    stale_answers,
}

impl Counters {
    /// The counter for a hit or miss of a cache layer.
    #[inline]
    pub(crate) fn of_cache(&self, layer: Layer, outcome: CacheOutcome) -> &Counter {
        match (layer, outcome) {
            (Layer::L0, CacheOutcome::Hit) => &self.l0_hits,
            (Layer::L0, CacheOutcome::Miss) => &self.l0_misses,
            (Layer::L1, CacheOutcome::Hit) => &self.l1_hits,
            (Layer::L1, CacheOutcome::Miss) => &self.l1_misses,
            (Layer::Call, CacheOutcome::Hit) => &self.call_hits,
            (Layer::Call, CacheOutcome::Miss) => &self.call_misses,
        }
    }

    /// Counts an answer of a native plan.
    #[inline]
    pub(crate) fn native(&self, hit: bool) {
        if hit {
            self.native_hits.add(1);
        } else {
            self.native_absent.add(1);
        }
    }
}

/// A counter that one thread or many increment, and any thread reads.
///
/// `Relaxed` throughout: the numbers do not order other accesses and need not be consistent with
/// each other.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds by a load and a store instead of a locked addition, because there is only one writer.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0
            .store(self.count().wrapping_add(count), Ordering::Relaxed);
    }

    /// Adds atomically, for counters with several writers.
    #[inline]
    pub(crate) fn add_among(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[inline]
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of all sessions of an engine, open and closed.
#[derive(Debug, Default)]
pub(crate) struct CounterSet {
    inner: Mutex<Inner>,
    /// The counters of queries to providers, which hold no session while they wait. All threads
    /// write them, by [`Counter::add_among`].
    pub(crate) shared: Counters,
    /// The maximal age of a stale answer in milliseconds.
    stale_age_ms_max: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    living: Vec<Arc<Counters>>,
    gone: Counts,
}

impl CounterSet {
    /// Counters for a new session.
    pub(crate) fn enter(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.lock().living.push(counters.clone());
        counters
    }

    /// Adds the counters of a session that ends to the sum.
    pub(crate) fn leave(&self, counters: &Arc<Counters>) {
        let mut inner = self.lock();
        let found = inner
            .living
            .iter()
            .position(|living| Arc::ptr_eq(living, counters));
        if let Some(index) = found {
            inner.living.swap_remove(index);
            inner.gone.add(counters);
        }
    }

    /// The sum of all counters, and the number of open sessions.
    pub(crate) fn sum(&self) -> (Counts, usize) {
        let inner = self.lock();
        let mut sum = inner.gone;
        sum.add(&self.shared);
        for counters in &inner.living {
            sum.add(counters);
        }
        (sum, inner.living.len())
    }

    /// Counts a stale answer.
    pub(crate) fn count_stale(&self, age: Duration) {
        self.shared.stale_answers.add_among(1);
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        self.stale_age_ms_max.fetch_max(age_ms, Ordering::Relaxed);
    }

    /// The maximal age of a stale answer.
    pub(crate) fn stale_age_max(&self) -> Duration {
        Duration::from_millis(self.stale_age_ms_max.load(Ordering::Relaxed))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic between lock and unlock cannot leave the sums inconsistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_what_gone_sessions_counted() {
        let set = CounterSet::default();
        let (a, b) = (set.enter(), set.enter());
        a.l0_hits.add(2);
        b.l0_hits.add(3);
        b.queries.add(1);
        set.leave(&a);
        a.l0_hits.add(100);
        set.leave(&a);
        set.shared.queries.add_among(7);
        let (sum, living) = set.sum();
        assert_eq!((sum.l0_hits, sum.queries, living), (5, 8, 1));
        assert!(sum.named().any(|named| named == ("l0_hits", 5)));
    }
}
