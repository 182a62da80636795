//! The way in for a service, which says with each answer who gave it and how old it is.
//!
//! A thread that serves many asks [`Session::at_hand`] first, which never waits. What is not at hand
//! is asked for by [`Knowledge::answer_async`], on no thread of the service; a batch by
//! [`Session::answer_each`], on a thread that may wait.

use std::ops::ControlFlow;
use std::time::Duration;

use lookaside_value::{ParamBatch, RowSet};

use super::{Elsewhere, Session, Value};
use crate::Result;
use crate::ask::{Ask, Asker, Moment};
use crate::cache::{Entry, Extent};
use crate::cancel::CancelOnDrop;
use crate::clock::Ticks;
use crate::elsewhere::{Pass, StandIns};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::generation::Prepared;
use crate::knowledge::Knowledge;
use crate::plan::{Probe, ProbeAll};
use crate::provider::Answerer;
use crate::rows::Rows;
use crate::statement::{Query, Statement};
use crate::telemetry::{CacheOutcome, Layer};

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnsweredBy {
    /// A native plan.
    Native,
    /// The session's own cache.
    L0,
    /// The cache that all sessions share, or another session that was just asking.
    L1,
    /// SQLite.
    Sqlite,
    /// Another database.
    Provider,
}

impl AnsweredBy {
    /// The name in headers and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::L0 => "l0",
            Self::L1 => "l1",
            Self::Sqlite => "sqlite",
            Self::Provider => "provider",
        }
    }
}

/// Where an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// Who gave it.
    pub by: AnsweredBy,
    /// How long ago, when it was given out, a database was asked for it: the time that the database
    /// took counts. Nothing for a native plan, whose answers hold as long as the tables.
    pub age: Duration,
    /// For how much longer it may be given out; nothing if it took longer than an answer is kept,
    /// and [`Duration::MAX`] for a native plan.
    pub fresh_for: Duration,
    /// It is an old answer in place of one that a provider did not give.
    pub stands_in: bool,
}

impl Provenance {
    fn native() -> Self {
        Self {
            by: AnsweredBy::Native,
            age: Duration::ZERO,
            fresh_for: Duration::MAX,
            stands_in: false,
        }
    }

    /// Of an answer that is given out now.
    fn of(by: AnsweredBy, entry: &Entry, now: Ticks) -> Self {
        Self {
            by,
            age: entry.age(now),
            fresh_for: entry.fresh_for(now),
            stands_in: entry.stands_in(),
        }
    }
}

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
    pub fn at_hand(
        &mut self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        age_max: Option<Duration>,
    ) -> Result<Option<Served<'_>>> {
        self.enter(statement)?;
        statement.0.check_count(params.len())?;
        let Self {
            engine,
            generation,
            asker,
            picks,
        } = self;
        let Some(prepared) = generation.prepared(statement.id()) else {
            return Ok(None);
        };
        if let Some(set) = planned(prepared, params, extent, picks) {
            asker.counters.native(!picks.is_empty());
            return Ok(Some(Served {
                rows: Rows::picked(set, picks),
                provenance: Provenance::native(),
            }));
        }
        let ask = Ask {
            engine,
            generation,
            info: &statement.0,
            description: &prepared.description,
        };
        Ok(asker.served(&ask, params, extent, age_max))
    }

    /// Asks a database that answers in this process, by way of the caches.
    fn answer_here(
        &mut self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        age_max: Option<Duration>,
    ) -> Result<(RowSet, Provenance)> {
        if let Some(served) = self.at_hand(statement, params, extent, age_max)? {
            return Ok((served.rows.to_row_set(), served.provenance));
        }
        let Self {
            engine,
            generation,
            asker,
            ..
        } = self;
        let prepared = asker.prepared(generation, &statement.0)?;
        let ask = Ask {
            engine,
            generation,
            info: &statement.0,
            description: &prepared.description,
        };
        let moment = Moment::with_age_max(engine.clock.now(), generation.ttl, age_max);
        let key = ask.key(params, extent);
        let Some(cache) = generation.cache.as_ref().filter(|_| moment.is_shared) else {
            let entry = asker.asked_entry(&ask, &key)?;
            let provenance = Provenance::of(AnsweredBy::Sqlite, &entry, engine.clock.now());
            return Ok((entry.rows, provenance));
        };
        asker.count(&ask, Layer::L0, CacheOutcome::Miss);
        let (entry, by) = match asker.turn(&ask, cache, &key, moment.look)? {
            Ok(entry) => {
                asker.count(&ask, Layer::L1, CacheOutcome::Hit);
                (entry, AnsweredBy::L1)
            }
            Err(fill) => {
                asker.count(&ask, Layer::L1, CacheOutcome::Miss);
                let entry = asker.asked_entry(&ask, &key)?;
                fill.put(&key, entry.clone(), engine.clock.now());
                (entry, AnsweredBy::Sqlite)
            }
        };
        let now = engine.clock.now();
        let answer = (entry.rows.clone(), Provenance::of(by, &entry, now));
        // If there is no room, the shared cache has it.
        let _ = asker.local.insert(&key, entry, now);
        Ok(answer)
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
    ) -> Result<Option<StandIns>> {
        self.enter(statement)?;
        statement.0.check_count(params.width())?;
        let Self {
            engine,
            generation,
            asker,
            picks,
        } = self;
        let prepared = asker.prepared(generation, &statement.0)?;
        let ask = Ask {
            engine,
            generation,
            info: &statement.0,
            description: &prepared.description,
        };
        let moment = Moment::with_age_max(engine.clock.now(), generation.ttl, age_max);
        if let Answerer::Remote { remote, statement } = &prepared.description.answerer {
            let elsewhere = (&**remote, &**statement);
            let mut pass = Pass::new(moment);
            let (mut start, mut count) = (0, first_flight_count(extent));
            while start < params.len() {
                let range = start..params.len().min(start + count);
                let mut size = 0;
                let mut found = vec![None; range.len()];
                let keep = |index: usize, rows: Result<&RowSet>| {
                    size += rows.as_ref().map_or(0, |rows| rows.heap_size());
                    found[index - start] = Some(rows.cloned());
                };
                let of = (params, range.clone(), extent);
                asker.sets_elsewhere(&ask, elsewhere, of, &mut pass, keep);
                for rows in found {
                    let rows = rows.expect("each set has its answer");
                    asker.check_cancelled(&ask)?;
                    if visit(rows.as_ref().map(Rows::whole).map_err(Clone::clone)).is_break() {
                        return Ok(pass.stand_ins);
                    }
                }
                count = next_flight_count(range.len(), size);
                start = range.end;
            }
            return Ok(pass.stand_ins);
        }
        for set in params.iter() {
            // Also where native plans answer: two loads beside the hundred nanoseconds of a set.
            asker.check_cancelled(&ask)?;
            if let Some(rows) = planned(prepared, set, extent, picks) {
                asker.counters.native(!picks.is_empty());
                if visit(Ok(Rows::picked(rows, picks))).is_break() {
                    break;
                }
                continue;
            }
            let policy = match age_max {
                // An answer of now is fresh enough for whoever wants a younger one than is kept.
                Some(age_max) if age_max < generation.ttl => super::Policy::Bypass,
                _ => super::Policy::Global,
            };
            let rows = match asker.rows(&ask, set, extent, policy) {
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                rows => rows,
            };
            if visit(rows.map(Rows::whole)).is_break() {
                break;
            }
        }
        Ok(None)
    }
}

/// Bytes of rows that one flight brings, as far as the one before tells.
const FLIGHT_SIZE: usize = 16 << 20;

/// How many times as many sets as the one before a flight has at most: its answers may be larger.
const FLIGHT_GROWTH_MAX: usize = 16;

/// Parameter sets of the first flight of a batch, whose answers may be of any size.
fn first_flight_count(extent: Extent) -> usize {
    match extent {
        Extent::First => 1024,
        Extent::All => 64,
    }
}

/// Parameter sets of the next flight, after one of `count` brought `size` bytes.
fn next_flight_count(count: usize, size: usize) -> usize {
    let fitting = count.saturating_mul(FLIGHT_SIZE) / size.max(1);
    fitting.clamp(1, count * FLIGHT_GROWTH_MAX)
}

/// The rows of a native plan and which of them are the answer, if it has one.
#[inline]
fn planned<'p>(
    prepared: &'p Prepared,
    params: &[Value],
    extent: Extent,
    picks: &mut Vec<usize>,
) -> Option<&'p RowSet> {
    let set = prepared.plan.rows()?;
    picks.clear();
    let is_answered = match extent {
        Extent::All => prepared.plan.all(params, picks) == ProbeAll::Rows,
        Extent::First => match prepared.plan.first(params) {
            Probe::Row(index) => {
                picks.push(index);
                true
            }
            Probe::Absent => true,
            Probe::AskSqlite => false,
        },
    };
    is_answered.then_some(set)
}

impl Asker {
    /// What a cache holds. Where none does, nothing is counted: whoever asks on counts that.
    fn served(
        &mut self,
        ask: &Ask<'_>,
        params: &[Value],
        extent: Extent,
        age_max: Option<Duration>,
    ) -> Option<Served<'_>> {
        let cache = ask.generation.cache.as_ref()?;
        let moment = Moment::with_age_max(ask.engine.clock.now(), ask.generation.ttl, age_max);
        let key = ask.key(params, extent);
        let (slot, by) = match self.local.find(&key, moment.look) {
            Some(slot) => {
                self.count(ask, Layer::L0, CacheOutcome::Hit);
                (slot, AnsweredBy::L0)
            }
            None => {
                let entry = cache.find(&key, moment.look)?;
                self.count(ask, Layer::L0, CacheOutcome::Miss);
                self.count(ask, Layer::L1, CacheOutcome::Hit);
                match self.local.insert(&key, entry, moment.now) {
                    Ok(slot) => (slot, AnsweredBy::L1),
                    Err(entry) => {
                        let provenance = Provenance::of(AnsweredBy::L1, &entry, moment.now);
                        let rows = Rows::whole(self.keep(entry.rows));
                        return Some(Served { rows, provenance });
                    }
                }
            }
        };
        let entry = self.local.entry(slot);
        Some(Served {
            rows: Rows::whole(&entry.rows),
            provenance: Provenance::of(by, entry, moment.now),
        })
    }
}

impl Elsewhere {
    /// The rows and where they are from; for a caller who has looked into the session's cache.
    async fn served(
        &self,
        engine: &Engine,
        params: &[Value],
        extent: Extent,
        age_max: Option<Duration>,
    ) -> Result<(RowSet, Provenance)> {
        let moment = Moment::with_age_max(engine.clock.now(), self.ttl(), age_max);
        let entry = self.entry(engine, params, extent, moment, Some(Layer::L0));
        let entry = entry.await?;
        // An answer that was asked for before we came is somebody else's.
        let is_ours = entry.age(moment.now).is_zero() || entry.stands_in();
        let by = match is_ours {
            true => AnsweredBy::Provider,
            false => AnsweredBy::L1,
        };
        let provenance = Provenance::of(by, &entry, engine.clock.now());
        Ok((entry.rows, provenance))
    }
}

impl Knowledge {
    /// The rows that [`Session::at_hand`] has not, without holding up a thread: by waiting for
    /// another database, or on a thread of their own for SQLite. It needs no runtime. Dropping the
    /// future cancels a query of SQLite.
    ///
    /// # Errors
    /// When there is not one value a parameter, or the database refuses or is away.
    pub async fn answer_async(
        &self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        age_max: Option<Duration>,
    ) -> Result<(RowSet, Provenance)> {
        if let Some(elsewhere) = self.elsewhere(Query::Statement(statement)).await? {
            statement.0.check_count(params.len())?;
            return elsewhere
                .served(self.engine(), params, extent, age_max)
                .await;
        }
        let mut session = self.take_session();
        let (statement, params) = (statement.clone(), params.to_vec());
        let guard = CancelOnDrop::new(session.cancel_handle());
        let (session, answer) = blocking::unblock(move || {
            let answer = session.answer_here(&statement, &params, extent, age_max);
            (session, answer)
        })
        .await;
        guard.disarm();
        self.put_session(session);
        answer
    }

    /// Lets go of a statement that was prepared: a reload may lose it from now on. Whoever uses it
    /// after such a reload gets an error.
    ///
    /// # Errors
    /// When the statement is of another engine.
    pub fn release(&self, statement: &Statement) -> Result<()> {
        match statement.0.engine == self.engine().number {
            true => {
                statement.0.unpin();
                Ok(())
            }
            false => Err(Error::foreign_statement(statement.sql())),
        }
    }
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
            (64, FLIGHT_SIZE, 64),
            (1, 1 << 40, 1),
        ] {
            assert_eq!(next_flight_count(count, size), expected, "{count}, {size}");
        }
    }
}
