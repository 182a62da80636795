//! The way in for a service, which says with each answer who gave it and how old it is.
//!
//! A thread that serves many asks [`Session::try_local`] first, which never waits. What is not at hand
//! is asked for by [`Knowledge::answer_async`](crate::Knowledge::answer_async), on no thread of the service; a batch by
//! [`Session::answer_each`], on a thread that may wait.

use std::ops::ControlFlow;
use std::time::Duration;

use lookaside_value::{ParamBatch, RowSet};

use super::{Session, Value};
use crate::Result;
use crate::cache::Extent;
use crate::error::ErrorKind;
use crate::policy::Policy;
use crate::provenance::{Provenance, StaleAnswers};
use crate::resolver::{Freshness, StaleCount};
use crate::rows::Rows;
use crate::statement::Statement;

/// Rows with where they are from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Served<'a> {
    /// The rows; at most one if the first was asked for.
    pub rows: Rows<'a>,
    /// Where they are from.
    pub provenance: Provenance,
}

impl Session {
    /// The rows, if a native plan or a cache has them: nothing here waits. Answers that are older
    /// than `age_max` do not count; nor is there one that is older than the `ttl_ms` of `[cache]`.
    ///
    /// # Errors
    /// When there is not one value a parameter, or the statement is of another engine.
    #[inline]
    pub fn try_local(
        &mut self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        age_max: Option<Duration>,
    ) -> Result<Option<Served<'_>>> {
        let Some(bound) = self.bind_prepared(statement)? else {
            return Ok(None);
        };
        bound.context.info.check_count(params.len())?;
        let answer = bound.try_local(params, extent, &mut Policy::Global, age_max);
        Ok(answer.map(|answer| Served {
            rows: answer.rows(),
            provenance: answer.provenance(),
        }))
    }

    /// The answer of a database in this process, by way of the caches.
    pub(crate) fn answer_local(
        &mut self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        age_max: Option<Duration>,
    ) -> Result<(RowSet, Provenance)> {
        let bound = self.bind(statement)?;
        bound.context.info.check_count(params.len())?;
        let answer = bound.answer(params, extent, Policy::Global, age_max)?;
        Ok((answer.rows().to_row_set(), answer.provenance()))
    }

    /// The rows for each parameter set, in order, given to `visit` until it breaks; all answers come
    /// from one state of the tables. This may wait. A set that fails leaves its neighbours alone.
    /// Gives the stale answers in place of those that another database did not give, if there are
    /// any.
    ///
    /// Up to 1,024 answers that another database has to give come in one flight, and 64 where all
    /// rows are asked for. A larger batch takes several: each next one asks for as many as make
    /// about 16 MiB of rows, going by the answers before, so that the memory of a batch is bounded
    /// by that and what `visit` keeps.
    ///
    /// # Errors
    /// When the statement cannot be asked at all, or when the session is cancelled: then no further
    /// set is asked, and `visit` is not called for the one that was just asked.
    pub fn answer_each(
        &mut self,
        statement: &Statement,
        params: &ParamBatch,
        extent: Extent,
        age_max: Option<Duration>,
        mut visit: impl FnMut(Result<Rows<'_>>) -> ControlFlow<()>,
    ) -> Result<Option<StaleAnswers>> {
        let mut bound = self.bind(statement)?;
        bound.context.info.check_count(params.width())?;
        if let Some(provider) = bound.context.provider() {
            let (context, resolver) = (bound.context, bound.resolver);
            let freshness = Freshness::with_age_max(
                context.engine.clock.now(),
                context.generation.ttl,
                age_max,
            );
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
                resolver.resolve_range(&context, provider, of, freshness, &mut stale, keep);
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
            // Also where native plans answer: two loads beside the hundred nanoseconds of a set.
            bound.resolver.check_cancelled(&bound.context)?;
            let answer = bound
                .reborrow()
                .answer(set, extent, Policy::Global, age_max);
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

/// Bytes of rows that one flight brings, as far as the one before tells.
const BATCH_SIZE: usize = 16 << 20;

/// How many times as many sets as the one before a flight has at most: its answers may be larger.
const BATCH_GROWTH_MAX: usize = 16;

/// Parameter sets of the first flight of a batch, whose answers may be of any size.
fn first_batch_len(extent: Extent) -> usize {
    match extent {
        Extent::First => 1024,
        Extent::All => 64,
    }
}

/// Parameter sets of the next flight, after one of `count` brought `size` bytes.
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
