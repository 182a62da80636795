//! Counts of lookups, kept by many threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The counts of one lookup.
///
/// Threads count in stripes, so that cores seldom share a cache line; `Relaxed` throughout, since
/// the counters synchronize nothing else.
#[derive(Debug, Default)]
pub(crate) struct LookupCounts {
    stripes: [Stripe; STRIPE_COUNT],
    /// When a failure was logged last: one that does not pass, and one that does.
    logged_at: [Mutex<Option<Instant>>; 2],
    /// The reason of the last logged failure.
    failure: Mutex<Option<String>>,
}

/// The counts of lookups within models, by the name of the model. An entry is looked up once per
/// stream and is kept over reloads.
#[derive(Debug, Default)]
pub(crate) struct ModelCounts(Mutex<BTreeMap<String, Arc<LookupCounts>>>);

impl ModelCounts {
    /// Returns the counts of a model, which are created on first use.
    pub(crate) fn of(&self, model: &str) -> Arc<LookupCounts> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(model) {
            Some(counts) => counts.clone(),
            None => all.entry(model.to_owned()).or_default().clone(),
        }
    }
}

/// The minimum interval between log entries about failures of one lookup; otherwise each request would
/// log one.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Enough that the I/O threads of a machine rarely share a stripe.
const STRIPE_COUNT: usize = 8;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    found: AtomicU64,
    absent: AtomicU64,
    failed: AtomicU64,
}

impl LookupCounts {
    /// Counts an answer of a thread.
    #[inline]
    pub(crate) fn add(&self, thread: usize, is_found: bool) {
        match is_found {
            true => self.add_many(thread, 1, 0),
            false => self.add_many(thread, 0, 1),
        }
    }

    /// Counts answers with and without rows.
    pub(crate) fn add_many(&self, thread: usize, found: u64, absent: u64) {
        let stripe = &self.stripes[thread % STRIPE_COUNT];
        for (counter, count) in [(&stripe.found, found), (&stripe.absent, absent)] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Counts lookups that failed.
    pub(crate) fn add_failed(&self, thread: usize, count: u64) {
        let stripe = &self.stripes[thread % STRIPE_COUNT];
        stripe.failed.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether it is due to log a failure again: one that passes, as of a provider that does not respond, or
    /// another one, as of parameters that a statement does not take.
    pub(super) fn is_log_due(&self, is_passing: bool) -> bool {
        let mut logged_at = (self.logged_at[usize::from(is_passing)].lock())
            .unwrap_or_else(PoisonError::into_inner);
        let is_log_due = logged_at.is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL);
        if is_log_due {
            *logged_at = Some(Instant::now());
        }
        is_log_due
    }

    /// Records why a lookup failed.
    pub(crate) fn set_last_failure(&self, reason: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some(reason);
    }

    /// Why the last lookup failed; the text may contain SQL, host names and paths.
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
