//! What lookups were asked for, counted on many threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What one lookup was asked for.
///
/// Threads count in stripes, so that cores seldom share a cache line; `Relaxed` throughout, since
/// sums order nothing.
#[derive(Debug, Default)]
pub(crate) struct LookupCounts {
    stripes: [Stripe; STRIPE_COUNT],
    /// When the log was told last that a provider does not answer.
    told: Mutex<Option<Instant>>,
    /// Why the last lookup failed that was logged.
    failure: Mutex<Option<String>>,
}

/// What the lookups within models came to, by the name of the model. It is looked up once a stream
/// and goes on over reloads.
#[derive(Debug, Default)]
pub(crate) struct ModelCounts(Mutex<BTreeMap<String, Arc<LookupCounts>>>);

impl ModelCounts {
    /// The counts of a model that is served.
    pub(crate) fn of(&self, model: &str) -> Arc<LookupCounts> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(model) {
            Some(counts) => counts.clone(),
            None => all.entry(model.to_owned()).or_default().clone(),
        }
    }
}

/// How often the log hears of one lookup that its provider does not answer: each request would say
/// it.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// Enough that a machine's I/O threads meet seldom.
const STRIPE_COUNT: usize = 8;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    found: AtomicU64,
    absent: AtomicU64,
    failed: AtomicU64,
}

impl LookupCounts {
    /// Counts an answer that a thread gave.
    #[inline]
    pub(crate) fn add(&self, thread: usize, is_found: bool) {
        match is_found {
            true => self.add_many(thread, 1, 0),
            false => self.add_many(thread, 0, 1),
        }
    }

    /// Counts answers with rows and without.
    pub(crate) fn add_many(&self, thread: usize, found: u64, absent: u64) {
        let stripe = &self.stripes[thread % STRIPE_COUNT];
        for (counter, count) in [(&stripe.found, found), (&stripe.absent, absent)] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Counts questions that were not answered.
    pub(crate) fn add_failed(&self, thread: usize, count: u64) {
        let stripe = &self.stripes[thread % STRIPE_COUNT];
        stripe.failed.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether the log is to hear again that a provider does not answer.
    pub(super) fn is_news(&self) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = told.is_none_or(|told| told.elapsed() >= TOLD_AGAIN);
        if is_news {
            *told = Some(Instant::now());
        }
        is_news
    }

    /// Keeps why a lookup failed.
    pub(crate) fn set_last_failure(&self, reason: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some(reason);
    }

    /// Why the last lookup failed; it may hold SQL, names of hosts and paths.
    pub(crate) fn last_failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    /// The sums with their names.
    pub(crate) fn named(&self) -> [(&'static str, u64); 3] {
        let sum = |of: fn(&Stripe) -> &AtomicU64| -> u64 {
            let stripes = self.stripes.iter();
            stripes
                .map(|stripe| of(stripe).load(Ordering::Relaxed))
                .sum()
        };
        [
            ("found", sum(|stripe| &stripe.found)),
            ("absent", sum(|stripe| &stripe.absent)),
            ("failed", sum(|stripe| &stripe.failed)),
        ]
    }
}
