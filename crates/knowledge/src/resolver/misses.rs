//! Cache misses of a statement that a provider answers: all keys in one request, each key queried
//! by only one caller at a time (single flight).
//!
//! A caller becomes the leader of all keys that no other caller is querying, sends one request for
//! them, and only then waits for the keys of other leaders. So it never waits while others wait for
//! it, and two batches with common keys cannot deadlock.

use std::time::{Duration, Instant};

use lookaside_value::{Extent, Value};

use super::{AgeLimit, Provider, StatementContext};
use crate::Result;
use crate::cache::{CacheEntry, Flight, KeyRef, Leader, SharedCache};
use crate::clock::Ticks;
use crate::error::Error;
use crate::event::{CacheOutcome, Layer, Outcome, QueryKind};
use crate::mutant::Mutant;
use crate::remote::{Pooled, STALE_LIFETIME, Stale, Transport};

impl StatementContext<'_> {
    /// The provider's answer to one key. No session is held while waiting.
    pub(crate) async fn fetch_from_provider(
        &self,
        provider: Provider<'_>,
        cache: Option<&SharedCache>,
        key: &KeyRef<'_>,
        limit: &AgeLimit,
        transport: &impl Transport,
    ) -> Result<CacheEntry> {
        let misses = MissBatch {
            transport,
            context: *self,
            provider,
            extent: key.extent,
            cache,
            limit: *limit,
        };
        let mut entries = misses.entries(&[key.params]).await;
        entries.pop().expect("one entry a key")
    }
}

/// Keys of one statement that a session's own caches do not have.
pub(super) struct MissBatch<'a, T> {
    pub(super) transport: &'a T,
    pub(super) context: StatementContext<'a>,
    pub(super) provider: Provider<'a>,
    pub(super) extent: Extent,
    /// The cache to fill; `None` if answers are not cached.
    pub(super) cache: Option<&'a SharedCache>,
    /// As of the time when the caller searched its caches; the request may be sent much later.
    pub(super) limit: AgeLimit,
}

impl<T: Transport> MissBatch<'_, T> {
    /// The answers to distinct parameter sets.
    pub(crate) async fn entries(&self, sets: &[&[Value]]) -> Vec<Result<CacheEntry>> {
        let keys: Vec<KeyRef<'_>> = sets
            .iter()
            .map(|set| self.context.key(set, self.extent))
            .collect();
        let Some(cache) = self.cache.filter(|_| self.limit.joins_inflight) else {
            let all: Vec<usize> = (0..keys.len()).collect();
            let entries = self.send(&keys, &all).await;
            if let Some(cache) = self.cache {
                // Later answers of caches must not be older than these.
                let now = self.context.engine.clock.now();
                for (key, entry) in keys.iter().zip(&entries) {
                    if let Ok(entry) = entry {
                        cache.insert_newer(key, entry.clone(), now);
                    }
                }
            }
            return entries;
        };
        let began = Instant::now();
        let mut found: Vec<Option<Result<CacheEntry>>> = vec![None; keys.len()];
        // Each key is counted once, as a hit or a miss.
        let mut open: Vec<usize> = (0..keys.len()).collect();
        let mut leaders: Vec<(usize, Leader<'_>)> = Vec::new();
        let mut has_waited = false;
        loop {
            let mut others = Vec::new();
            for index in open {
                // Entries that were inserted after this call began are accepted however long their
                // query took, unless there is a contract.
                let fresh_at = match has_waited && self.limit.is_lenient {
                    true => Ticks::START,
                    false => self.limit.fresh_at(&keys[index]),
                };
                match cache.join(&keys[index], fresh_at, |entry| self.limit.permits(|| entry)) {
                    Flight::Answered(entry) => {
                        self.count(CacheOutcome::Hit);
                        found[index] = Some(Ok(entry));
                    }
                    Flight::Lead(leader) => {
                        // None has failed since this call began until it waited.
                        let failed = has_waited
                            .then(|| self.provider.0.key_failed_since(&keys[index], began));
                        match failed.flatten() {
                            Some(error) => {
                                found[index] = Some(self.stale_or(&keys[index], error));
                            }
                            None => leaders.push((index, leader)),
                        }
                    }
                    Flight::Follow => others.push(index),
                }
            }
            if !leaders.is_empty() {
                let asked: Vec<usize> = leaders.iter().map(|(index, _)| *index).collect();
                for _ in &asked {
                    self.count(CacheOutcome::Miss);
                }
                let entries = self.send(&keys, &asked).await;
                let now = self.context.engine.clock.now();
                let failures = asked.iter().zip(&entries).filter_map(|(index, entry)| {
                    let error = entry.as_ref().err().filter(|error| error.is_retryable())?;
                    Some((keys[*index].hash, error.clone()))
                });
                // Before the leaders are dropped: dropping one passes its role to a waiting caller.
                self.provider.0.note_failed_keys(failures.collect());
                for ((index, leader), entry) in leaders.drain(..).zip(entries) {
                    if let Ok(entry) = &entry {
                        leader.put(&keys[index], entry.clone(), now);
                    }
                    found[index] = Some(entry);
                }
            }
            let Some(&next) = others.first() else {
                break;
            };
            has_waited = true;
            match cache.follow_async(&keys[next].to_key()).await {
                Ok(entry) if !self.accepts(&keys[next], &entry) => {}
                Ok(entry) => {
                    self.count(CacheOutcome::Hit);
                    found[next] = Some(Ok(entry));
                    others.remove(0);
                }
                // The query for it failed, or its caller was cancelled. If the server failed, this
                // fails too: otherwise the followers of one key would wait for one timeout each.
                Err(leader) => {
                    match self.provider.0.key_failed_since(&keys[next], began) {
                        Some(error) => {
                            drop(leader);
                            found[next] = Some(self.stale_or(&keys[next], error));
                        }
                        None => leaders.push((next, leader)),
                    }
                    others.remove(0);
                }
            }
            open = others;
        }
        let found = found.into_iter();
        found
            .map(|entry| entry.expect("every key was found or failed"))
            .collect()
    }

    /// Whether the answer of a query that was under way when this call began satisfies the contract.
    fn accepts(&self, key: &KeyRef<'_>, entry: &CacheEntry) -> bool {
        self.limit.is_lenient || !entry.is_stale() && entry.answers(key, self.limit.fresh_at(key))
    }

    fn count(&self, outcome: CacheOutcome) {
        self.context.count_shared(Layer::L1, outcome);
    }

    /// Queries the keys in one request.
    async fn send(&self, keys: &[KeyRef<'_>], asked: &[usize]) -> Vec<Result<CacheEntry>> {
        let started = Instant::now();
        // The age counts from here, whatever delays the answer.
        let asked_at = self.context.engine.clock.now();
        let sets: Vec<&[Value]> = asked.iter().map(|index| keys[*index].params).collect();
        let has_stale_answers = |stale: &Stale| asked.iter().all(|index| stale.has(&keys[*index]));
        let info = self.context.info;
        let (remote, statement) = self.provider;
        let stale = remote.stale();
        let sets = &sets[..];
        let sql = self.context.sql_to_send(statement, self.extent);
        let is_replaceable = self.limit.is_lenient && stale.is_some_and(has_stale_answers);
        let answers = match is_replaceable {
            // It polls while it waits, so it must not block in the transport.
            true if T::BLOCKS => {
                let asking = remote.ask_with_stale_timeout(&Pooled, info, statement, sql, sets);
                asking.await
            }
            true => {
                let asking =
                    remote.ask_with_stale_timeout(self.transport, info, statement, sql, sets);
                asking.await
            }
            false => {
                let asking = remote.ask(self.transport, info, statement, sql, sets);
                asking.await
            }
        };
        self.record_telemetry(started.elapsed(), &answers);
        let lifetime = self.context.generation.ttl;
        let expires = asked_at.after(lifetime);
        asked
            .iter()
            .zip(answers)
            .map(|(index, answer)| match answer {
                Ok(rows) => {
                    if let Some(stale) = stale {
                        stale.keep(&keys[*index], &rows, started);
                        if stale.ends() {
                            let provider = remote.name();
                            tracing::warn!(
                                provider,
                                "a provider answers again; stale answers are no longer used"
                            );
                        }
                    }
                    if let Some(tracked) = self.context.tracked() {
                        tracked.count_fill(keys[*index].version);
                    }
                    let key = match Mutant::NoLease.is_active() {
                        true => self.context.key(keys[*index].params, self.extent),
                        false => keys[*index],
                    };
                    Ok(CacheEntry::new(&key, rows, expires, lifetime))
                }
                Err(error) => self.stale_or(&keys[*index], error),
            })
            .collect()
    }

    /// The last good answer in place of an error, if the configuration enables it.
    fn stale_or(&self, key: &KeyRef<'_>, error: Error) -> Result<CacheEntry> {
        let (remote, _) = self.provider;
        let stale = remote.stale();
        let stale = stale.filter(|_| self.limit.is_lenient && error.is_retryable());
        let found = stale.and_then(|stale| Some((stale, stale.find(key)?)));
        let Some((stale, (rows, age))) = found else {
            return Err(error);
        };
        if stale.begins() {
            let provider = remote.name();
            tracing::warn!(provider, %error, "a provider does not answer; stale answers are used");
        }
        self.context.engine.counters.count_stale(age);
        if let Some(telemetry) = &self.context.engine.telemetry {
            telemetry.on_stale(remote.name(), age);
        }
        let rest = stale.age_max.saturating_sub(age);
        let lifetime = STALE_LIFETIME.min(self.context.generation.ttl).min(rest);
        let expires = self.context.engine.clock.now().after(lifetime);
        Ok(CacheEntry::new(key, rows, expires, age + lifetime).stale())
    }

    fn record_telemetry<A>(&self, elapsed: Duration, answers: &[Result<A>]) {
        let counters = &self.context.engine.counters.shared;
        let failure_count = answers.iter().filter(|answer| answer.is_err()).count() as u64;
        counters.flights.add_among(1);
        counters.queries.add_among(answers.len() as u64);
        counters.metadata_hits.add_among(answers.len() as u64);
        counters.query_failures.add_among(failure_count);
        let Some(telemetry) = &self.context.engine.telemetry else {
            return;
        };
        telemetry.on_flight(self.provider.0.name(), answers.len(), elapsed);
        let kind = QueryKind::of(self.extent);
        for answer in answers {
            telemetry.on_query(kind, Outcome::of(answer), elapsed);
        }
    }
}
