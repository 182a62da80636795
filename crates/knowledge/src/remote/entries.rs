//! Keys that no cache holds: all of them in one flight, each asked for by one caller at a time.
//!
//! A caller takes the keys that nobody else is asking for, asks for all of them at once, and only
//! then waits for those that others ask for. It so never waits while others wait for it, and two
//! batches with common keys cannot stand in each other's way.

use std::time::{Duration, Instant};

use lookaside_value::Value;

use super::stale::{STANDS_IN, Stale};
use super::{Remote, RemoteStatement};
use crate::Result;
use crate::ask::{Ask, Moment};
use crate::cache::{Entry, Extent, Fill, KeyRef, SharedCache, TryTurn};
use crate::clock::Ticks;
use crate::error::Error;
use crate::telemetry::{CacheOutcome, Layer, Outcome, QueryKind};

/// Keys of one statement that a session's own caches do not hold.
pub(crate) struct Misses<'a> {
    pub(crate) ask: Ask<'a>,
    pub(crate) remote: &'a Remote,
    pub(crate) statement: &'a RemoteStatement,
    pub(crate) extent: Extent,
    /// The cache that is filled, unless answers are not to be kept.
    pub(crate) cache: Option<&'a SharedCache>,
    /// When the caller looked into its caches; the question may be asked much later.
    pub(crate) moment: Moment,
}

impl Misses<'_> {
    /// The answers to different parameter sets.
    pub(crate) async fn entries(&self, sets: &[&[Value]]) -> Vec<Result<Entry>> {
        let keys: Vec<KeyRef<'_>> = sets
            .iter()
            .map(|set| self.ask.key(set, self.extent))
            .collect();
        let Some(cache) = self.cache.filter(|_| self.moment.is_shared) else {
            let all: Vec<usize> = (0..keys.len()).collect();
            return self.fly(&keys, &all).await;
        };
        let began = Instant::now();
        let mut found: Vec<Option<Result<Entry>>> = vec![None; keys.len()];
        // Each key is counted once, as found or as asked for.
        let mut open: Vec<usize> = (0..keys.len()).collect();
        let mut fills: Vec<(usize, Fill<'_>)> = Vec::new();
        let mut look = self.moment.look;
        loop {
            let mut others = Vec::new();
            for index in open {
                match cache.try_turn(&keys[index].to_key(), look) {
                    TryTurn::Answered(entry) => {
                        self.count(CacheOutcome::Hit);
                        found[index] = Some(Ok(entry));
                    }
                    TryTurn::Ask(fill) => fills.push((index, fill)),
                    TryTurn::Busy => others.push(index),
                }
            }
            if !fills.is_empty() {
                let asked: Vec<usize> = fills.iter().map(|(index, _)| *index).collect();
                for _ in &asked {
                    self.count(CacheOutcome::Miss);
                }
                let entries = self.fly(&keys, &asked).await;
                let now = self.ask.engine.clock.now();
                // A fill that is dropped passes the turn to one who waits.
                for ((index, fill), entry) in fills.drain(..).zip(entries) {
                    if let Ok(entry) = &entry {
                        fill.put(&keys[index], entry.clone(), now);
                    }
                    found[index] = Some(entry);
                }
            }
            let Some(&next) = others.first() else {
                break;
            };
            // All that is found from here on arrived after this caller came, and goes to those who
            // wait for it, however long it took.
            look = Ticks::START;
            match cache.wait_turn(&keys[next].to_key()).await {
                Ok(entry) => {
                    self.count(CacheOutcome::Hit);
                    found[next] = Some(Ok(entry));
                    others.remove(0);
                }
                // Whoever asked for it failed. If it was the server, then this fails too: those
                // who wait for one key would else wait for one time-out each.
                Err(fill) => match self.remote.failed_since(began) {
                    Some(error) => {
                        drop(fill);
                        for index in others {
                            found[index] = Some(self.stand_in(&keys[index], error.clone()));
                        }
                        break;
                    }
                    None => {
                        fills.push((next, fill));
                        others.remove(0);
                    }
                },
            }
            open = others;
        }
        let found = found.into_iter();
        found
            .map(|entry| entry.expect("every key was found or failed"))
            .collect()
    }

    fn count(&self, outcome: CacheOutcome) {
        self.ask.count_elsewhere(Layer::L1, outcome);
    }

    /// Asks for those keys in one flight.
    async fn fly(&self, keys: &[KeyRef<'_>], asked: &[usize]) -> Vec<Result<Entry>> {
        let started = Instant::now();
        // Age counts from here, wherever the time goes until the answer is there.
        let asked_at = self.ask.engine.clock.now();
        let sets: Vec<&[Value]> = asked.iter().map(|index| keys[*index].params).collect();
        let can_stand_in = |stale: &Stale| asked.iter().all(|index| stale.has(&keys[*index]));
        let (info, statement) = (self.ask.info, self.statement);
        let stale = self.remote.stale.as_ref();
        let answers = match stale.is_some_and(can_stand_in) {
            true => {
                let asking = self.remote.ask_briefly(info, statement, self.extent, &sets);
                asking.await
            }
            false => self.remote.ask(info, statement, self.extent, &sets).await,
        };
        self.tell(started.elapsed(), &answers);
        let lifetime = self.ask.generation.ttl;
        let expires = asked_at.after(lifetime);
        asked
            .iter()
            .zip(answers)
            .map(|(index, answer)| match answer {
                Ok(rows) => {
                    if let Some(stale) = &self.remote.stale {
                        stale.keep(&keys[*index], &rows, started);
                        if stale.ends() {
                            let provider = self.remote.name();
                            tracing::warn!(
                                provider,
                                "a provider answers again; stale answers are no longer used"
                            );
                        }
                    }
                    Ok(Entry::new(&keys[*index], rows, expires, lifetime))
                }
                Err(error) => self.stand_in(&keys[*index], error),
            })
            .collect()
    }

    /// The last good answer where the server gives none, if the configuration wants that.
    fn stand_in(&self, key: &KeyRef<'_>, error: Error) -> Result<Entry> {
        let stale = self.remote.stale.as_ref().filter(|_| error.is_retryable());
        let found = stale.and_then(|stale| Some((stale, stale.find(key)?)));
        let Some((stale, (rows, age))) = found else {
            return Err(error);
        };
        if stale.begins() {
            let provider = self.remote.name();
            tracing::warn!(provider, %error, "a provider does not answer, and its old answers stand in");
        }
        self.ask.engine.counters.stood_in(age);
        if let Some(telemetry) = &self.ask.engine.telemetry {
            telemetry.on_stale(self.remote.name(), age);
        }
        let rest = stale.age_max.saturating_sub(age);
        let lifetime = STANDS_IN.min(self.ask.generation.ttl).min(rest);
        let expires = self.ask.engine.clock.now().after(lifetime);
        Ok(Entry::new(key, rows, expires, age + lifetime).standing_in())
    }

    fn tell<T>(&self, elapsed: Duration, answers: &[Result<T>]) {
        let counters = &self.ask.engine.counters.elsewhere;
        let failure_count = answers.iter().filter(|answer| answer.is_err()).count() as u64;
        counters.flights.add_among(1);
        counters.queries.add_among(answers.len() as u64);
        counters.metadata_hits.add_among(answers.len() as u64);
        counters.query_failures.add_among(failure_count);
        let Some(telemetry) = &self.ask.engine.telemetry else {
            return;
        };
        telemetry.on_flight(self.remote.name(), answers.len(), elapsed);
        let kind = match self.extent {
            Extent::First => QueryKind::First,
            Extent::All => QueryKind::All,
        };
        for answer in answers {
            telemetry.on_query(kind, Outcome::of(answer), elapsed);
        }
    }
}
