//! Counters that cost a plain store: each has one writer, readers add them up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::event::{CacheOutcome, Layer};

/// Declares the counters once for the writers, the sum and the addition.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident),* $(,)?) => {
        /// What one session counts. Only the session writes; it stands alone on its cache lines,
        /// so that a writer never waits for another one.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        /// What the sessions of an engine did since it was opened.
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

            /// What each counter counts, with its name.
            pub(crate) fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
                let texts = [$((stringify!($name), concat!($($doc),+))),*].into_iter();
                // A comment's line begins with a blank.
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
    /// Answers found in the shared cache, those that another session was just asking for included.
    l1_hits,
    /// Answers looked for in the shared cache and not found.
    l1_misses,
    /// Answers found in a caller's cache.
    call_hits,
    /// Answers looked for in a caller's cache and not found.
    call_misses,
    /// Queries that ran with a description of their columns at hand.
    metadata_hits,
    /// Statements that had to be described, once a statement and generation.
    metadata_misses,
    /// Queries that a database ran.
    queries,
    /// Queries among them that failed.
    query_failures,
    /// Requests to other databases; one carries all queries of a batch that no cache could answer.
    flights,
    /// Old answers that stood in for those that a failing server did not give.
    stale_answers,
}

impl Counters {
    /// The counter of what a look into a cache brought.
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

    /// A native plan answered.
    #[inline]
    pub(crate) fn native(&self, hit: bool) {
        if hit {
            self.native_hits.add(1);
        } else {
            self.native_absent.add(1);
        }
    }
}

/// A number that one thread counts up, or many do, and any thread reads.
///
/// `Relaxed` throughout: the numbers order nothing and need not agree with each other.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Counts; a load and a store instead of a locked addition, because there is one writer.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0
            .store(self.count().wrapping_add(count), Ordering::Relaxed);
    }

    /// Counts where others do so at the same time.
    #[inline]
    pub(crate) fn add_among(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[inline]
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of all sessions of an engine, living and gone.
#[derive(Debug, Default)]
pub(crate) struct CounterSet {
    inner: Mutex<Inner>,
    /// Of queries to providers, which hold no session while they wait. All threads write here, by
    /// [`Counter::add_among`].
    pub(crate) shared: Counters,
    /// How many milliseconds old the oldest answer was that stood in for another one.
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

    /// Keeps what a session counted that ends now.
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

    /// The sum of all, and how many sessions live.
    pub(crate) fn sum(&self) -> (Counts, usize) {
        let inner = self.lock();
        let mut sum = inner.gone;
        sum.add(&self.shared);
        for counters in &inner.living {
            sum.add(counters);
        }
        (sum, inner.living.len())
    }

    /// An old answer stood in.
    pub(crate) fn count_stale(&self, age: Duration) {
        self.shared.stale_answers.add_among(1);
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        self.stale_age_ms_max.fetch_max(age_ms, Ordering::Relaxed);
    }

    /// How old the oldest was.
    pub(crate) fn stale_age_max(&self) -> Duration {
        Duration::from_millis(self.stale_age_ms_max.load(Ordering::Relaxed))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Nothing between lock and unlock leaves the sums half-done.
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
