//! Handles ReadyForQuery: the outcomes of all queries that share a Sync.

use lookaside_wire::postgres::{ErrorResponse, TransactionStatus};

use super::QueryRange;
use super::in_flight::{Settled, Stage, SyncedOutcome};
use super::session::ServerSession;
use super::statement_kind::StatementKind;
use crate::Error;
use crate::driver::requeue;
use crate::output::Output;
use crate::request::RequestScope;

/// How often a query is sent again because the cancellation of another query hit it.
const RETRY_COUNT_MAX: u8 = 3;

/// How often a query is sent again if its statement was outdated before it began. If tables change
/// all the time, even a newly prepared statement may be outdated.
const STALE_RETRY_COUNT_MAX: u8 = 5;

impl ServerSession {
    /// Handles the answer to a Sync: returns the settled answers, and sends repeatable queries
    /// again.
    pub(super) fn deliver(&mut self, status: TransactionStatus, output: &Output) {
        let is_idle = status == TransactionStatus::Idle;
        let was_in_transaction = std::mem::replace(&mut self.is_in_transaction, !is_idle);
        if !is_idle && self.settled.iter().any(is_shared) {
            return self.left_in_transaction(was_in_transaction, output);
        }
        self.settle_settings(is_idle);
        if is_idle {
            self.portals.clear();
        }
        // The fast path: a single successful query.
        let is_done = |settled: &Settled| matches!(settled.outcome, SyncedOutcome::Done(_));
        if self.sync_error.is_none()
            && matches!(&self.settled[..], [only] if is_done(only))
            && let Some(settled) = self.settled.pop()
            && let SyncedOutcome::Done(answer) = settled.outcome
        {
            self.requests.answer(settled.query, Ok(answer));
            return self.statements.cache.trim();
        }
        // A query must not become a part of a transaction that another one opens.
        let can_retry = is_idle && self.begin_count == 0;
        let sync_error = self.sync_error.take();
        let mut settled = std::mem::take(&mut self.settled);
        let shares_sync = settled.len() > 1;
        let mut retries = Vec::new();
        for Settled {
            query,
            statement,
            outcome,
        } in settled.drain(..)
        {
            let answer = match (outcome, &sync_error) {
                (SyncedOutcome::Skipped, _) => {
                    retries.push(QueryRange::one(query, None));
                    continue;
                }
                // It is unknown which one failed, and none took effect.
                (
                    SyncedOutcome::Done(_)
                    | SyncedOutcome::Unreadable(_)
                    | SyncedOutcome::Unforeseen(_),
                    Some(_),
                ) if shares_sync => {
                    retries.push(QueryRange::one(query, None));
                    continue;
                }
                (
                    SyncedOutcome::Done(_)
                    | SyncedOutcome::Unreadable(_)
                    | SyncedOutcome::Unforeseen(_),
                    Some(error),
                ) => Err(Error::refused(error.clone())),
                (SyncedOutcome::Unforeseen(error), None) => {
                    // A read-only query can be repeated.
                    let can_retry = can_retry && statement.kind == StatementKind::Read;
                    if can_retry && query.retry_count == 0 {
                        retries.push(QueryRange::retry(query));
                        continue;
                    }
                    Err(error)
                }
                (SyncedOutcome::Done(answer), None) => Ok(answer),
                (SyncedOutcome::Unreadable(error), None) => Err(error),
                (SyncedOutcome::Discarded, _) => continue,
                (
                    SyncedOutcome::Refused {
                        error,
                        stage,
                        at_risk,
                    },
                    _,
                ) => {
                    let is_stale = match stage {
                        Stage::Bind => is_stale(&error),
                        Stage::Execute => is_mismatched(&error) && statement.kind.is_atomic(),
                    };
                    if is_stale {
                        self.statements.cache.evict(&statement);
                    }
                    let retry_count_max = match (is_stale, at_risk) {
                        (true, _) if stage == Stage::Bind => STALE_RETRY_COUNT_MAX,
                        (true, _) => 1,
                        (_, true) if statement.kind.is_atomic() => RETRY_COUNT_MAX,
                        _ => 0,
                    };
                    if can_retry && query.retry_count < retry_count_max {
                        retries.push(QueryRange::retry(query));
                        continue;
                    }
                    Err(Error::refused(error))
                }
            };
            self.requests.answer(query, answer);
        }
        // Reuses its memory for the next Sync.
        self.settled = settled;
        requeue(&mut self.backlog, retries);
        self.statements.cache.trim();
    }

    /// Handles a transaction that was left open by one of several callers. The others' work may be
    /// a part of it, so none of their answers is valid.
    #[cold]
    fn left_in_transaction(&mut self, was_in_transaction: bool, output: &Output) {
        let error = Error::left_in_transaction();
        // A query that was alone has begun it.
        if let [only] = &self.settled[..]
            && !was_in_transaction
        {
            let query = only.query;
            self.settled.clear();
            self.requests.answer(query, Err(error.clone()));
        }
        self.end(error, output);
    }

    /// Evicts statements if names may mean something else now.
    pub(super) fn settle_settings(&mut self, is_idle: bool) {
        if self.settings_changed || (self.settings_pending && is_idle) {
            self.valid_from = self.next_sequence();
            self.settings_changed = false;
            self.settings_pending = !is_idle;
        }
    }
}

fn is_shared(settled: &Settled) -> bool {
    settled.query.scope == RequestScope::Shared
}

/// Whether what a function gives is not what the statement was planned for: a table whose rows it
/// gives has changed since, which the server does not see before it calls the function.
fn is_mismatched(error: &ErrorResponse<'_>) -> bool {
    let state = error.sqlstate();
    state.is_some_and(|state| state.as_bytes() == b"42804")
}

/// Whether it is worthwhile to prepare a statement again that Bind refused.
///
/// Besides what says so itself, that is whatever names and types can be the reason of: a column
/// that a parameter is compared with has another type now, and there is no such operator (class
/// 42); a type was made anew, and its old number is found nowhere (XX000). If the statement is
/// just wrong, then Parse says so, and where.
fn is_stale(error: &ErrorResponse<'_>) -> bool {
    let is_name = |state: lookaside_wire::postgres::SqlState| {
        state.class() == *b"42" || state.as_bytes() == b"XX000"
    };
    // A row has more or fewer columns than there are formats for.
    let is_width = |state: lookaside_wire::postgres::SqlState| state.as_bytes() == b"08P01";
    if error.sqlstate().is_some_and(is_width) {
        return true;
    }
    error.is_stale_statement() || error.sqlstate().is_some_and(is_name)
}
