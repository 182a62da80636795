//! Telemetry of a running engine.

use std::fmt::Debug;
use std::time::Duration;

use crate::event::{CacheOutcome, Layer, Outcome, QueryKind};

/// A listener for events of an engine. By default, each method does nothing.
///
/// The methods run on the threads that do lookups, between two lookups: they must be quick and must
/// not call back into the engine. Lookups that a native plan answers are not reported individually;
/// the [`Snapshot`](crate::Snapshot) counts them. Without telemetry, an engine does not read the clock for it.
pub trait Telemetry: Debug + Send + Sync {
    /// A cache layer was searched.
    fn on_cache(&self, layer: Layer, outcome: CacheOutcome) {
        let _ = (layer, outcome);
    }

    /// A reload succeeded or failed.
    fn on_reload(&self, outcome: Outcome, elapsed: Duration) {
        let _ = (outcome, elapsed);
    }

    /// A query of a database succeeded or failed.
    fn on_query(&self, kind: QueryKind, outcome: Outcome, elapsed: Duration) {
        let _ = (kind, outcome, elapsed);
    }

    /// A flight of `query_count` queries to a provider was answered or failed.
    fn on_flight(&self, provider: &str, query_count: usize, elapsed: Duration) {
        let _ = (provider, query_count, elapsed);
    }

    /// A provider failed, and its last good answer, of this age, was returned.
    fn on_stale(&self, provider: &str, age: Duration) {
        let _ = (provider, age);
    }

    /// A change of rows was applied, which the change feed of a provider had received so long before;
    /// called once for each transaction, on the thread of the providers.
    fn on_change(&self, provider: &str, wait: Duration) {
        let _ = (provider, wait);
    }
}
