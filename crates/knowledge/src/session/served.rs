//! The interface for a service: answers with their origin and age.
//!
//! A thread that serves many clients calls [`Session::try_local`] first, which never blocks. Other
//! answers are queried by [`Knowledge::answer_async`](crate::Knowledge::answer_async), which blocks
//! no thread of the service, or as a batch by [`Session::answer_each`], on a thread that may block.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookaside_value::{Extent, ParamBatch, RowSet};

use super::{Session, Value};
use crate::Result;
use crate::description::Answerer;
use crate::error::ErrorKind;
use crate::feed::{LogPosition, TrackedStatement};
use crate::freshness::{Freshness, age_max, is_age_within};
use crate::policy::Policy;
use crate::provenance::{Provenance, StaleAnswers};
use crate::remote::Remote;
use crate::resolver::{AgeLimit, StaleCount};
use crate::rows::Rows;
use crate::statement::Statement;
use crate::versions::DataVersion;
use crate::wait::block_on_unless;

/// Rows with their origin.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Served<'a> {
    /// The rows; at most one if only the first was requested.
    pub rows: Rows<'a>,
    /// The origin of the rows.
    pub provenance: Provenance,
}

/// How far the change feed of a provider has brought the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Whether the configuration sets a change feed for the provider.
    pub is_followed: bool,
    /// Valid answers are as fresh as a query that was sent at this moment; `None` while the feed is not
    /// live.
    pub horizon: Option<Instant>,
    /// All commits up to this position were applied.
    pub position: Option<LogPosition>,
    /// Where the log of the server that answers ended when the feed asked it last. A later position may
    /// exist meanwhile: [`Session::log_end`] asks.
    pub log_end: Option<LogPosition>,
}

/// A feed asks the server four times a second.
const BEHIND_AGE: Duration = Duration::from_secs(1);

impl Coverage {
    pub(crate) fn of(tracked: Option<&TrackedStatement>) -> Self {
        Self {
            is_followed: tracked.is_some(),
            horizon: tracked.and_then(|it| it.horizon.fresh_as_of()),
            position: tracked.and_then(|it| it.horizon.log_position()),
            log_end: tracked.and_then(|it| it.horizon.log_end()),
        }
    }
}

impl Session {
    /// Returns the rows if a native plan or a cache has them and they are as fresh as required; never
    /// blocks. None is older than the `ttl_ms` of `[cache]`.
    ///
    /// # Errors
    /// When there is not one value per parameter, or the statement belongs to another engine.
    #[inline]
    pub fn try_local(
        &mut self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        freshness: Freshness,
    ) -> Result<Option<Served<'_>>> {
        let Some(bound) = self.bind_prepared(statement)? else {
            return Ok(None);
        };
        bound.context.info.check_count(params.len())?;
        let answer = bound.try_local(params, extent, &mut Policy::Global, freshness);
        Ok(answer.map(|answer| Served {
            rows: answer.rows(),
            provenance: answer.provenance(),
        }))
    }

    /// What is known of valid cached answers to a statement now. To be called before an answer is
    /// looked up, which then includes at least what this says, unless it is
    /// [untracked](DataVersion::is_tracked) and from a cache.
    #[inline]
    pub fn coverage(&self, statement: &Statement) -> Coverage {
        let prepared = self.generation.prepared(statement.id());
        Coverage::of(prepared.and_then(|prepared| prepared.description.tracked.as_deref()))
    }

    /// Whether the change feed of a statement was live and is interrupted, or has not asked the server for
    /// a second: not if it has not begun to invalidate the answers to this statement, and not if it is only
    /// idle.
    pub fn is_feed_behind(&self, statement: &Statement) -> bool {
        let prepared = self.generation.prepared(statement.id());
        let tracked = prepared.and_then(|prepared| prepared.description.tracked.as_deref());
        tracked.is_some_and(|tracked| tracked.is_behind(BEHIND_AGE))
    }

    /// Asks the server that answers a statement where its log ends now: a position of another server or
    /// timeline, or a later one, is not in the log, so no answer includes what it stands for. A standby
    /// says up to where it has replayed the log. `None` if the server is not PostgreSQL, does not answer,
    /// or the folder answers. Waits for the server.
    pub fn log_end(&mut self, statement: &Statement) -> Option<LogPosition> {
        let remote = self.remote(statement)?;
        block_on_unless(&self.cancel_handle(), remote.log_end()).flatten()
    }

    /// A statement as a change feed knows it, if its provider has one.
    pub(crate) fn tracked(&self, statement: &Statement) -> Option<Arc<TrackedStatement>> {
        let prepared = self.generation.prepared(statement.id())?;
        prepared.description.tracked.clone()
    }

    /// The provider that answers a statement, if that is known without waiting.
    pub(crate) fn remote(&mut self, statement: &Statement) -> Option<Arc<Remote>> {
        self.renew();
        let prepared = self.generation.prepared(statement.id())?;
        match &prepared.description.answerer {
            Answerer::Remote { remote, .. } => Some(Arc::clone(remote)),
            Answerer::Store(_) => None,
        }
    }

    /// Whether an answer that a caller has kept may be used for a call now: no change of its data was
    /// applied since, and it is as fresh as required. `age` is the time since its query was sent; the
    /// lifetime of the answer is up to the caller. Never blocks.
    #[inline]
    pub fn may_reuse(
        &self,
        statement: &Statement,
        version: DataVersion,
        age: Duration,
        freshness: Freshness,
    ) -> bool {
        let prepared = self.generation.prepared(statement.id());
        let tracked = prepared.and_then(|prepared| prepared.description.tracked.as_deref());
        let contract = freshness.contract;
        let Some(tracked) = tracked else {
            return is_age_within(age, age_max(contract, None, Instant::now));
        };
        // Before the version is compared, which is then at least as new as the horizon.
        let horizon = version.is_tracked().then_some(&*tracked.horizon);
        let is_fresh = is_age_within(age, age_max(contract, horizon, Instant::now));
        is_fresh && tracked.is_current(version)
    }

    /// The answer of a database in this process, through the caches.
    pub(crate) fn answer_local(
        &mut self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        freshness: Freshness,
    ) -> Result<(RowSet, Provenance)> {
        let bound = self.bind(statement)?;
        bound.context.info.check_count(params.len())?;
        let answer = bound.answer(params, extent, Policy::Global, freshness)?;
        Ok((answer.rows().to_row_set(), answer.provenance()))
    }

    /// Passes the rows for each parameter set to `visit`, in order, until it breaks; all answers
    /// come from one state of the tables. May block. A set that fails does not affect the others.
    /// Returns the count and age of stale answers that replaced those of a failing provider, if
    /// there are any.
    ///
    /// The first flight to a provider queries up to 1,024 answers, or 64 if all rows are requested.
    /// A larger batch takes several flights: each later one queries as many as make about 16 MiB of
    /// rows, estimated from the previous answers, so that the memory of a batch is bounded by that
    /// and what `visit` keeps.
    ///
    /// # Errors
    /// When the statement cannot be queried at all, or when the session is cancelled: then no
    /// further set is queried, and `visit` is not called for the current one.
    pub fn answer_each(
        &mut self,
        statement: &Statement,
        params: &ParamBatch,
        extent: Extent,
        freshness: Freshness,
        mut visit: impl FnMut(Result<Rows<'_>>) -> ControlFlow<()>,
    ) -> Result<Option<StaleAnswers>> {
        let mut bound = self.bind(statement)?;
        bound.context.info.check_count(params.width())?;
        if let Some(provider) = bound.context.provider() {
            let (context, resolver) = (bound.context, bound.resolver);
            let limit = AgeLimit::of(&context, freshness);
            let mut stale = StaleCount::default();
            let (mut start, mut count) = (0, first_batch_len(extent));
            while start < params.len() {
                let range = start..params.len().min(start + count);
                let mut size = 0;
                let mut found = vec![None; range.len()];
                let keep = |index: usize, rows: Result<&RowSet>| {
                    size += rows.as_ref().map_or(0, |rows| rows.heap_size());
                    found[index - start] = Some(rows.cloned());
                };
                let of = (params, range.clone(), extent);
                resolver.resolve_range(&context, provider, of, &limit, &mut stale, keep);
                for rows in found {
                    let rows = rows.expect("each set has its answer");
                    resolver.check_cancelled(&context)?;
                    if visit(rows.as_ref().map(Rows::whole).map_err(Clone::clone)).is_break() {
                        return Ok(stale.total());
                    }
                }
                count = next_batch_len(range.len(), size);
                start = range.end;
            }
            return Ok(stale.total());
        }
        for set in params.iter() {
            // Checked for native plans, too: two loads, compared with about a hundred nanoseconds
            // per set.
            bound.resolver.check_cancelled(&bound.context)?;
            let answer = bound
                .reborrow()
                .answer(set, extent, Policy::Global, freshness);
            let rows = match answer {
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                answer => answer.map(|answer| answer.rows()),
            };
            if visit(rows).is_break() {
                break;
            }
        }
        Ok(None)
    }
}

/// The size of the rows of one flight in bytes, estimated from the previous flight.
const BATCH_SIZE: usize = 16 << 20;

/// The maximal growth of a flight over the previous one, in sets: its answers may be larger.
const BATCH_GROWTH_MAX: usize = 16;

/// The number of parameter sets in the first flight of a batch, whose answers may have any size.
fn first_batch_len(extent: Extent) -> usize {
    match extent {
        Extent::First => 1024,
        Extent::All => 64,
    }
}

/// The number of parameter sets in the next flight, after one of `count` sets returned `size`
/// bytes.
fn next_batch_len(count: usize, size: usize) -> usize {
    let fitting = count.saturating_mul(BATCH_SIZE) / size.max(1);
    fitting.clamp(1, count * BATCH_GROWTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_are_as_large_as_their_answers_let_them() {
        for (count, size, expected) in [
            (1024, 1024 * 100, 16 * 1024),
            (64, 0, 1024),
            (64, 64 << 20, 16),
            (64, BATCH_SIZE, 64),
            (1, 1 << 40, 1),
        ] {
            assert_eq!(next_batch_len(count, size), expected, "{count}, {size}");
        }
    }
}
