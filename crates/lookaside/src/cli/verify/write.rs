//! A writer: a connection that makes the next version of a key, past all caches.

use std::num::NonZeroU64;
use std::process;
use std::thread;
use std::time::Instant;

use lookaside_client::TransactionOptions;
use lookaside_client::postgres::blocking::Connection;
use lookaside_value::Value;
use lookaside_verify::history::{Key, Position, Presence, State, Version, WriteOutcome};
use lookaside_verify::run::{WriteConnection, Written};

use super::Cause;
use super::pattern::{Pattern, Patterns};
use super::registers::{FOREIGN_ID_MIN, STATES, VIEW, is_toggled};
use super::server::{self, WRITER_NAME, int};

/// The next version of a plain key, and the counter of one that is inserted and deleted in turn.
const UPDATE: &str = "update lookaside_verify.registers set version = version + 1 \
                      where id = $1 returning version";
const COUNT: &str = "update lookaside_verify.counters set version = version + 1 \
                     where id = $1 returning version";
const DELETE: &str = "delete from lookaside_verify.registers where id = $1";
const INSERT: &str = "insert into lookaside_verify.registers (id, version) values ($1, $2)";

/// Rows between this and [`FOREIGN_ID_MIN`] are those of keys that have none: their id was increased by it.
const MOVED_ID_MIN: i64 = 500_000_000;

/// Removes and inserts the row of a key by another id.
const MOVE_AWAY: &str = "update lookaside_verify.registers set id = id + $2 where id = $1";
const MOVE_BACK: &str = "update lookaside_verify.registers set id = $1, version = $2 \
                         where id = $3";

/// Where the log is after a commit.
const POSITION: &str = "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";

/// How many rows a large transaction inserts and deletes again, beside its key: from 100,000 changes on, a
/// feed counts a change of the table, not of rows.
const LARGE_ROW_COUNT: u32 = 50_000;

/// A feed takes this many events in one go, if they are there. A transaction that updates all rows inserts
/// up to three times as many other rows before, so that one of those that are read is likely to be the
/// last. Far more are a change of the table for a feed, not of rows.
const BULK_RUN_LEN: u32 = 1024;

/// All keys that are updated in place and are read by number, up to some, in one transaction.
const UPDATE_TOGETHER: &str = "update lookaside_verify.registers set version = version + 1 \
                               where id < 2000 and id % 4 <> 3 returning id, version";

/// About how many rows these are with the default number of keys.
const TOGETHER_COUNT: u32 = 75;

/// How long it waits for the row of a writer that has not ended.
const TOGETHER_LOCK_TIMEOUT_MS: u32 = 2_000;

/// A connection of one writer, opened again when it is lost.
pub(super) struct Writer<'a> {
    url: &'a str,
    number: usize,
    patterns: &'a Patterns<'a>,
    random: fastrand::Rng,
    connection: Option<Connection>,
    /// A second one, which commits what the first has prepared.
    second: Option<Connection>,
    /// The name of a transaction that may still be prepared, and its locks with it.
    unresolved: Option<String>,
    prepared_count: u64,
}

/// How a transaction that was not acknowledged ended.
struct Failed {
    outcome: WriteOutcome,
    others: Vec<(Key, WriteOutcome)>,
    is_connection_lost: bool,
}

impl Failed {
    /// Before `commit` was sent: it is rolled back, or was never begun.
    fn aborted(error: &lookaside_client::Error, state: Option<State>) -> Self {
        Self {
            outcome: WriteOutcome::Aborted(state),
            others: Vec::new(),
            is_connection_lost: error.is_connection_lost(),
        }
    }

    /// `commit` was sent. An error does not tell what became of it: a session that is terminated while
    /// it waits for a standby has committed already.
    fn unknown(error: &lookaside_client::Error, changed: Changed) -> Self {
        let unknown = |state| WriteOutcome::Unknown(Some(state));
        let others = changed.others.into_iter();
        Self {
            outcome: unknown(changed.state),
            others: others.map(|(key, state)| (key, unknown(state))).collect(),
            is_connection_lost: error.is_connection_lost(),
        }
    }
}

/// What a transaction changed.
struct Changed {
    state: State,
    others: Vec<(Key, State)>,
}

impl From<State> for Changed {
    fn from(state: State) -> Self {
        Self {
            state,
            others: Vec::new(),
        }
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        url: &'a str,
        number: usize,
        patterns: &'a Patterns<'a>,
        random: fastrand::Rng,
    ) -> Self {
        Self {
            url,
            number,
            patterns,
            random,
            connection: None,
            second: None,
            unresolved: None,
            prepared_count: 0,
        }
    }

    /// Rolls back what an earlier write may have left prepared. Its outcome was recorded as unknown, or
    /// as aborted if nobody could have committed it.
    fn resolve(&mut self) -> Result<(), Cause> {
        let Some(name) = &self.unresolved else {
            return Ok(());
        };
        let connection = opened(&mut self.connection, self.url)?;
        let sql = "select count(*) from pg_prepared_xacts where gid = $1";
        let found = connection.query(sql, &[Value::from(name.as_str())])?;
        if int(found.rows.row(0), 0) > Some(0) {
            connection.batch_execute(format!("rollback prepared '{name}'"))?;
        }
        self.unresolved = None;
        Ok(())
    }

    fn write_as(
        &mut self,
        key: Key,
        pattern: Pattern,
        is_asynchronous: bool,
    ) -> Result<Changed, Failed> {
        let never_begun = |_| Failed {
            outcome: WriteOutcome::Aborted(None),
            others: Vec::new(),
            is_connection_lost: true,
        };
        self.resolve().map_err(never_begun)?;
        if pattern == Pattern::Prepared {
            return self.write_prepared(key).map(Changed::from);
        }
        let connection = opened(&mut self.connection, self.url).map_err(never_begun)?;
        let aborted = |error| Failed::aborted(&error, None);
        let mut transaction = (connection.begin(TransactionOptions::default())).map_err(aborted)?;
        let mut execute = |sql: &str| transaction.batch_execute(sql).map_err(aborted);
        if is_asynchronous {
            execute("set local synchronous_commit = off")?;
        }
        match pattern {
            Pattern::Large => execute(&large(LARGE_ROW_COUNT))?,
            Pattern::Savepoint if !is_toggled(key) => {
                execute("savepoint one")?;
                let key = [Value::Int(key.0.into())];
                transaction.execute(UPDATE, &key).map_err(aborted)?;
                let back = "rollback to savepoint one; savepoint two";
                transaction.batch_execute(back).map_err(aborted)?;
            }
            _ => {}
        }
        let query = &mut |sql: &str, params: &[Value]| transaction.query(sql, params);
        let changed = match pattern {
            Pattern::Truncate => truncate(query, key),
            Pattern::ChangeColumnType => change_column_type(query, key),
            Pattern::Together => update_together(query, key),
            Pattern::Slow(_) if !is_toggled(key) && self.random.bool() => {
                update_together(query, key)
            }
            Pattern::Bulk => bulk_update(query, key, &mut self.random),
            _ => change(query, key).map(Changed::from),
        };
        let changed = changed.map_err(aborted)?;
        if let Pattern::Slow(length) = pattern {
            // sleep: a transaction that stays open
            thread::sleep(length);
        }
        match transaction.commit() {
            Ok(()) => Ok(changed),
            Err(error) => Err(Failed::unknown(&error, changed)),
        }
    }

    /// Prepares the transaction, and commits it on the other connection.
    fn write_prepared(&mut self, key: Key) -> Result<State, Failed> {
        let never_begun = |_| Failed {
            outcome: WriteOutcome::Aborted(None),
            others: Vec::new(),
            is_connection_lost: true,
        };
        self.prepared_count += 1;
        let name = format!(
            "lookaside_verify_{}_{}_{}",
            process::id(),
            self.number,
            self.prepared_count
        );
        let connection = opened(&mut self.connection, self.url).map_err(never_begun)?;
        let aborted = |error| Failed::aborted(&error, None);
        connection.batch_execute("begin").map_err(aborted)?;
        let changed = change(
            &mut |sql: &str, params: &[Value]| connection.query(sql, params),
            key,
        );
        let state = match changed {
            Ok(state) => state,
            Err(error) => {
                // If that fails too, the connection is lost, and the transaction with it.
                let _ = connection.batch_execute("rollback");
                return Err(Failed::aborted(&error, None));
            }
        };
        // Until it is committed below, nobody else does that.
        self.unresolved = Some(name.clone());
        (connection.batch_execute(format!("prepare transaction '{name}'")))
            .map_err(|error| Failed::aborted(&error, Some(state)))?;
        let second = match opened(&mut self.second, self.url) {
            Ok(second) => second,
            Err(_) => {
                return Err(Failed {
                    outcome: WriteOutcome::Aborted(Some(state)),
                    others: Vec::new(),
                    is_connection_lost: false,
                });
            }
        };
        if let Err(error) = second.batch_execute(format!("commit prepared '{name}'")) {
            self.second = None;
            return Err(Failed::unknown(&error, state.into()));
        }
        self.unresolved = None;
        Ok(state)
    }

    /// Where the log is. A writer whose connection is lost here has its acknowledgement, and no position.
    fn position(&mut self) -> Option<Position> {
        let connection = self.connection.as_mut()?;
        let answer = connection.query(POSITION, &[]).ok()?;
        let number = u64::try_from(int(answer.rows.row(0), 0)?).ok()?;
        NonZeroU64::new(number).map(Position)
    }
}

impl WriteConnection for Writer<'_> {
    fn write(&mut self, key: Key) -> Written {
        let patterns = self.patterns;
        let write = patterns.begin(&mut self.random, |pattern| match pattern {
            // The version of the key alone is written by the truncation.
            Pattern::Truncate => is_toggled(key),
            Pattern::ChangeColumnType | Pattern::Together | Pattern::Bulk => !is_toggled(key),
            _ => true,
        });
        let result = self.write_as(key, write.pattern, write.is_asynchronous);
        let ended = Some(Instant::now());
        match result {
            Ok(changed) => {
                let acknowledged = WriteOutcome::Acknowledged;
                // A row that was inserted was not truncated.
                match write.pattern == Pattern::Truncate
                    && changed.state.presence == Presence::Present
                {
                    true => write.give_back(),
                    false => write.done(),
                }
                drop(write);
                let others = changed.others.into_iter();
                Written {
                    ended,
                    position: self.position(),
                    others: others
                        .map(|(key, state)| (key, acknowledged(state)))
                        .collect(),
                    ..Written::new(acknowledged(changed.state))
                }
            }
            Err(failed) => {
                write.give_back();
                if failed.is_connection_lost {
                    self.connection = None;
                }
                Written {
                    ended,
                    others: failed.others,
                    ..Written::new(failed.outcome)
                }
            }
        }
    }

    fn states(&mut self, keys: &[Key]) -> Result<Vec<(Key, State)>, Cause> {
        // A fault may have been the last thing before.
        let mut connection = server::wait_until_ready(self.url)?;
        let count = i64::try_from(keys.len())?;
        let answer = connection.query(STATES, &[Value::Int(count)])?;
        answer.rows.iter().map(read_state).collect()
    }
}

fn opened<'c>(slot: &'c mut Option<Connection>, url: &str) -> Result<&'c mut Connection, Cause> {
    if slot.as_ref().is_none_or(Connection::is_closed) {
        *slot = Some(server::connect(url, WRITER_NAME)?);
    }
    Ok(slot.as_mut().expect("it was opened"))
}

/// Runs a statement in the transaction.
type Query<'q> =
    dyn FnMut(&str, &[Value]) -> lookaside_client::Result<lookaside_client::Answer> + 'q;

/// Makes the next version of a key.
fn change(query: &mut Query<'_>, key: Key) -> lookaside_client::Result<State> {
    let id = [Value::Int(key.0.into())];
    if !is_toggled(key) {
        let version = returned_version(&query(UPDATE, &id)?);
        return Ok(State::present(version));
    }
    let version = returned_version(&query(COUNT, &id)?);
    // A row is inserted and removed in turn, so this alternates among the removals.
    let removed = match version % 4 < 2 {
        true => query(DELETE, &id)?,
        false => query(MOVE_AWAY, &[id[0].clone(), Value::Int(MOVED_ID_MIN)])?,
    };
    if removed.row_count > Some(0) {
        return Ok(State::absent(version));
    }
    insert(query, key, version)
}

/// Inserts the row of a key, or moves it back.
fn insert(query: &mut Query<'_>, key: Key, version: u32) -> lookaside_client::Result<State> {
    let id = i64::from(key.0);
    let row = [Value::Int(id), Value::Int(version.into())];
    let moved = Value::Int(id + MOVED_ID_MIN);
    let back = [row[0].clone(), row[1].clone(), moved];
    if query(MOVE_BACK, &back)?.row_count == Some(0) {
        query(INSERT, &row)?;
    }
    Ok(State::present(version))
}

/// Adds very many changes of other rows to a transaction.
fn large(row_count: u32) -> String {
    let last = FOREIGN_ID_MIN + i64::from(row_count) - 1;
    format!(
        "insert into lookaside_verify.registers (id, version) \
         select id, 0 from generate_series({FOREIGN_ID_MIN}, {last}) id; \
         delete from lookaside_verify.registers where id >= {FOREIGN_ID_MIN}"
    )
}

/// Removes the row of a key by `truncate`: of all rows, it is the one that is not inserted again. A row
/// that is not there is inserted.
fn truncate(query: &mut Query<'_>, key: Key) -> lookaside_client::Result<Changed> {
    let id = [Value::Int(key.0.into())];
    // As in each write of such a key, the counter is locked first.
    let version = returned_version(&query(COUNT, &id)?);
    query(
        "lock table lookaside_verify.registers in access exclusive mode",
        &[],
    )?;
    let found = query(
        "select 1 from lookaside_verify.registers where id = $1",
        &id,
    )?;
    if found.rows.is_empty() {
        return insert(query, key, version).map(Changed::from);
    }
    query(
        "create temporary table lookaside_verify_kept on commit drop as \
         select * from lookaside_verify.registers",
        &[],
    )?;
    query("truncate lookaside_verify.registers", &[])?;
    query(
        "insert into lookaside_verify.registers select * from lookaside_verify_kept where id <> $1",
        &id,
    )?;
    Ok(State::absent(version).into())
}

/// Makes the next version of all rows without one row event.
fn change_column_type(query: &mut Query<'_>, key: Key) -> lookaside_client::Result<Changed> {
    // Counters first, as in each write of a key that has one; then as readers do: the view, the table. The
    // view has to go, since the type of a column in it cannot be changed.
    for sql in [
        "lock table lookaside_verify.counters in access exclusive mode",
        "drop view lookaside_verify.registers_view",
        "alter table lookaside_verify.registers \
         alter column version type bigint using version + 1",
        &format!("create {VIEW}"),
        "update lookaside_verify.counters set version = version + 1 \
         where id in (select id from lookaside_verify.registers)",
    ] {
        query(sql, &[])?;
    }
    let rows = query(
        "select id, version from lookaside_verify.registers where id < $1",
        &[Value::Int(MOVED_ID_MIN)],
    )?;
    Ok(changed_rows(&rows, key))
}

/// Makes the next version of all rows that are updated in place. The key is one of them.
fn update_together(query: &mut Query<'_>, key: Key) -> lookaside_client::Result<Changed> {
    let lock_timeout = format!("set local lock_timeout = {TOGETHER_LOCK_TIMEOUT_MS}");
    query(&lock_timeout, &[])?;
    let rows = query(UPDATE_TOGETHER, &[])?;
    let mut changed = changed_rows(&rows, key);
    if changed.state.version == Version(0) {
        // There are more keys than those that are updated together.
        changed.state = change(query, key)?;
    }
    Ok(changed)
}

/// The same, between very many changes of rows that no lookup reads.
fn bulk_update(
    query: &mut Query<'_>,
    key: Key,
    random: &mut fastrand::Rng,
) -> lookaside_client::Result<Changed> {
    let count = BULK_RUN_LEN * random.u32(1..=3) - random.u32(0..TOGETHER_COUNT);
    let insert = "insert into lookaside_verify.unread select generate_series(1, $1)";
    query(insert, &[Value::Int(count.into())])?;
    let changed = update_together(query, key)?;
    query("delete from lookaside_verify.unread", &[])?;
    Ok(changed)
}

/// The rows that a statement returned with their new versions.
fn changed_rows(answer: &lookaside_client::Answer, key: Key) -> Changed {
    let mut changed = Changed::from(State::present(0));
    for row in answer.rows.iter() {
        let (Some(id), Some(version)) = (int(row, 0), int(row, 1)) else {
            continue;
        };
        match (Key(id as u32), State::present(version as u32)) {
            (of_key, state) if of_key == key => changed.state = state,
            other => changed.others.push(other),
        }
    }
    changed
}

/// The version that a statement returned. There is always one row: no statement removes a counter, or the
/// row of a plain key.
fn returned_version(answer: &lookaside_client::Answer) -> u32 {
    let row = answer.rows.iter().next();
    let version = row.and_then(|row| int(row, 0));
    version.map_or(0, |version| version as u32)
}

fn read_state(row: &[Value]) -> Result<(Key, State), Cause> {
    let (Some(id), Some(version), Some(Value::Bool(is_present))) =
        (int(row, 0), int(row, 1), row.get(2))
    else {
        return Err("the state of a key is incomplete".into());
    };
    let version = Version(u32::try_from(version)?);
    let presence = match is_present {
        true => Presence::Present,
        false => Presence::Absent,
    };
    Ok((Key(u32::try_from(id)?), State { version, presence }))
}
