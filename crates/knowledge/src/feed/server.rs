//! The connection to the server that answers queries: what it shows, and what statements depend on.

use std::sync::Arc;
use std::time::Instant;

use lookaside_client::PostgresConfig;
use lookaside_client::postgres::feed::SlotName;
use lookaside_client::postgres::{Client, Options};
use lookaside_value::{Position, RowSet, Value};

use super::failure::Failure;
use super::gate::Probe;
use super::tracked::TrackedStatement;
use super::visibility::Snapshot;
use crate::depends::{
    Catalog, Dependency, Names, SETTINGS, Shape, classify, definitions_fingerprint_sql,
    publication_fingerprint_sql,
};

/// The first version whose slots and functions the feed uses.
const VERSION_MIN: i64 = 14_00_00;

/// The first minor releases whose streams follow a change of their publication beside older transactions:
/// those before may leave out all later changes of a table that was published.
/// <https://www.postgresql.org/docs/release/17.5/>
const FOLLOWS_PUBLICATION: [i64; 4] = [14_00_18, 15_00_13, 16_00_09, 17_00_05];

/// How long a statement of the feed may wait for a lock. Reading which tables are published locks them.
const LOCK_TIMEOUT_MS: u32 = 1000;

/// `lock_not_available`: the limit has passed.
const LOCK_NOT_AVAILABLE: &[u8] = b"55P03";

/// The smallest identifier of an ordinary transaction (`FirstNormalTransactionId`).
const XID_MIN: u32 = 3;

/// A connection of the feed to the server. Queries on it see what the queries of callers see.
#[derive(Clone)]
pub(super) struct Server {
    client: Client,
    publication: Arc<str>,
    /// The size of a page of the log, in bytes.
    wal_block_size: u64,
    /// Whether a stream goes on when its publication is changed.
    follows_publication: bool,
}

/// What the server shows.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) probe: Probe,
    /// The [settings](SETTINGS) of the session; `None` if they were not asked for.
    pub(super) settings: Option<String>,
    /// `None` if it was not asked for.
    pub(super) fingerprint: Option<String>,
    /// From where on the slot holds back the log. `None` if it was not asked for, or if there is no such
    /// slot any more.
    pub(super) restart: Option<Position>,
    /// The transaction that has been writing for longest. `None` if it was not asked for, or if there is
    /// none.
    pub(super) writer: Option<String>,
}

/// What the stream contains, as texts that change with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Published {
    /// The tables that are published.
    pub(super) publication: String,
    /// How they are defined.
    definitions: String,
}

/// The result of a classification.
pub(super) enum Classification {
    Done(Classified),
    /// The catalog changed meanwhile.
    Changed,
    /// A lock on a published table delayed it: it waits for a change of the definition.
    Locked(Vec<Arc<TrackedStatement>>),
}

/// What statements depend on.
pub(super) struct Classified {
    pub(super) statements: Vec<(Arc<TrackedStatement>, Dependency)>,
    /// The names in these statements and in those before.
    pub(super) names: Names,
    /// The fingerprint of these names at the time of the classification.
    pub(super) fingerprint: String,
    /// That of the publication.
    pub(super) publication: String,
}

/// The transaction that has been writing for longest, which anyone may see.
const WRITER: &str = "(select coalesce('process ' || l.pid, 'prepared transaction ' || p.gid) \
      || ' in the database ' || coalesce(a.datname, p.database) \
    from pg_catalog.pg_locks l left join pg_catalog.pg_stat_activity a on a.pid = l.pid \
    left join pg_catalog.pg_prepared_xacts p on p.transaction = l.transactionid \
    where l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock' \
    order by pg_catalog.age(l.transactionid) desc limit 1)";

/// What a slot holds back that is being created, and why that takes long.
pub(super) struct Creation {
    /// In bytes; `None` if the slot does not exist yet.
    pub(super) wal_size: Option<u64>,
    pub(super) writer: Option<String>,
}

/// What to ask for of what statements depend on.
pub(super) enum Asked {
    Nothing,
    /// What may change without a transaction that has an identifier.
    Settings,
    /// The settings and the fingerprint.
    Fingerprint(Arc<Names>),
}

impl Server {
    /// Connects, and checks that this is a server whose changes can be followed.
    pub(super) async fn connect(
        config: &PostgresConfig,
        publication: &str,
    ) -> Result<Self, Failure> {
        let client = Client::connect_with(config, Options::default()).await?;
        let sql = format!(
            "select current_setting('server_version_num')::bigint, \
             pg_is_in_recovery(), \
             current_setting('wal_block_size')::bigint, \
             set_config('lock_timeout', '{LOCK_TIMEOUT_MS}', false)"
        );
        let answer = client.query(&*sql, &[]).await?;
        let row = answer.rows.first();
        let Some(
            [
                Value::Int(version),
                Value::Bool(is_standby),
                Value::Int(wal_block_size),
                _,
            ],
        ) = row.as_deref()
        else {
            return Err(unexpected());
        };
        if *version < VERSION_MIN {
            return Err(Failure::refused(
                "the server is older than PostgreSQL 14; upgrade it",
            ));
        }
        if *is_standby {
            return Err(Failure::refused(
                "the server is a standby, whose changes cannot be followed yet; \
                 use the URL of the primary",
            ));
        }
        Ok(Self {
            client,
            publication: publication.into(),
            wal_block_size: wal_block_size.unsigned_abs(),
            follows_publication: follows_publication(*version),
        })
    }

    /// Asks which transactions the server shows, and for what statements depend on; with a slot, also what
    /// it holds back and which transaction has been writing for longest.
    pub(super) async fn shown(
        self,
        asked: Asked,
        slot: Option<SlotName>,
    ) -> Result<Shown, Failure> {
        let (settings, fingerprint) = match asked {
            Asked::Nothing => ("null", "null".to_owned()),
            Asked::Settings => (SETTINGS, "null".to_owned()),
            Asked::Fingerprint(names) => (SETTINGS, names.fingerprint_sql(&self.publication)),
        };
        // The name of a slot has no character that would have to be quoted.
        let restart = slot.map_or_else(
            || "null::text, null::text".to_owned(),
            |slot| {
                format!(
                    "(select restart_lsn::text from pg_replication_slots where slot_name = '{slot}'), \
                     {WRITER}"
                )
            },
        );
        // The snapshot of a statement is taken before its functions are called. `age` subtracts from the
        // next identifier of a transaction.
        let sql = format!(
            "select pg_current_snapshot()::text, pg_catalog.age('{XID_MIN}'::pg_catalog.xid)::text, \
             pg_current_wal_insert_lsn()::text, {settings}, {fingerprint}, {restart}"
        );
        let sent = Instant::now();
        let answer = self.client.query(&*sql, &[]).await?;
        let [snapshot, age, end, settings, fingerprint, restart, writer] =
            texts(&answer.rows).ok_or_else(unexpected)?;
        let snapshot: Option<Snapshot> = snapshot.and_then(|it| it.parse().ok());
        let age: Option<i32> = age.and_then(|it| it.parse().ok());
        let (snapshot, age) = snapshot.zip(age).ok_or_else(unexpected)?;
        let snapshot = snapshot.with_next(XID_MIN.wrapping_add(age.cast_unsigned()));
        let end: Position = end.and_then(|it| it.parse().ok()).ok_or_else(unexpected)?;
        Ok(Shown {
            probe: Probe {
                sent,
                end: self.end_of_records(end),
                snapshot,
            },
            settings,
            fingerprint,
            restart: restart.and_then(|it| it.parse().ok()),
            writer,
        })
    }

    /// The end of the last record of the log, if `next` is where the next one is inserted. At the
    /// beginning of a page that is behind the page's header, which is not written before there is a
    /// record; so the stream would never reach it.
    fn end_of_records(&self, next: Position) -> Position {
        match next.0 % self.wal_block_size.max(1) {
            header @ (24 | 40) => Position(next.0 - header),
            _ => next,
        }
    }

    /// Checks that the stream has the changes of the database which answers queries: a copy of its cluster
    /// may have the same identifier and timeline, but not the slot of the stream.
    pub(super) async fn check_slot(&self, slot: &SlotName) -> Result<(), Failure> {
        let sql = "select database::text, current_database()::text from pg_replication_slots \
                   where slot_name = $1";
        let slot = [Value::from(slot.as_str())];
        let answer = self.client.query(sql, &slot).await?;
        let Some([sent, answered]) = texts(&answer.rows) else {
            return Err(Failure::refused(
                "the changes come from another server than the answers; correct feed_uri",
            ));
        };
        match (sent, answered) {
            (Some(sent), Some(answered)) if sent != answered => Err(Failure::refused(format!(
                "the changes come from the database {sent}, but the answers from {answered}; \
                 correct feed_uri"
            ))),
            _ => Ok(()),
        }
    }

    /// How the creation of a slot goes.
    pub(super) async fn creation(&self, slot: &SlotName) -> Result<Creation, Failure> {
        let sql = format!(
            "select (pg_current_wal_insert_lsn() - restart_lsn)::text, {WRITER} \
             from (select) as one left join pg_replication_slots on slot_name = $1"
        );
        let slot = [Value::from(slot.as_str())];
        let answer = self.client.query(&*sql, &slot).await?;
        let [size, writer] = texts(&answer.rows).ok_or_else(unexpected)?;
        Ok(Creation {
            wal_size: size.and_then(|it| it.parse().ok()),
            writer,
        })
    }

    /// Finds out what statements depend on, beside those with the names before, whose fingerprint has
    /// to be the same still.
    pub(super) async fn classify(
        self,
        statements: Vec<Arc<TrackedStatement>>,
        before: Option<(Arc<Names>, String)>,
    ) -> Result<Classification, Failure> {
        let shapes: Vec<Shape> = statements.iter().map(|it| Shape::of(&it.sql)).collect();
        let mut names = before
            .as_ref()
            .map_or_else(Names::default, |it| (*it.0).clone());
        let is_usable = |shape: &&Shape| shape.refused().is_none();
        shapes
            .iter()
            .filter(is_usable)
            .for_each(|shape| names.add(shape));
        let fingerprint = self.fingerprint(&names).await?;
        let params = names.catalog_params(&self.publication);
        let catalog = match self.client.query(Catalog::sql(), &params).await {
            Err(error) if is_locked(&error) => {
                return Ok(Classification::Locked(statements));
            }
            answer => answer?,
        };
        let catalog = Catalog::from_rows(&catalog.rows)
            .map_err(|error| Failure::server(format!("its catalog cannot be read: {error}")))?
            .ok_or_else(unexpected)?;
        let publication = self
            .text(&publication_fingerprint_sql(&self.publication))
            .await?;
        let is_same = self.fingerprint(&names).await? == fingerprint;
        let is_same_before = match &before {
            Some((names, fingerprint)) => self.fingerprint(names).await? == *fingerprint,
            None => true,
        };
        if !is_same || !is_same_before {
            return Ok(Classification::Changed);
        }
        let dependencies = shapes.iter().map(|shape| classify(shape, &catalog));
        Ok(Classification::Done(Classified {
            statements: statements.iter().cloned().zip(dependencies).collect(),
            names,
            fingerprint,
            publication,
        }))
    }

    /// Whether a stream goes on when its publication is changed.
    pub(super) fn follows_publication(&self) -> bool {
        self.follows_publication
    }

    /// What a stream contains that begins now.
    pub(super) async fn published(&self) -> Result<Published, Failure> {
        let publication = publication_fingerprint_sql(&self.publication);
        let definitions = definitions_fingerprint_sql(&self.publication);
        let sql = format!("select {publication}, {definitions}");
        let answer = self.client.query(sql, &[]).await?;
        match texts(&answer.rows) {
            Some([Some(publication), Some(definitions)]) => Ok(Published {
                publication,
                definitions,
            }),
            _ => Err(unexpected()),
        }
    }

    async fn fingerprint(&self, names: &Names) -> Result<String, Failure> {
        self.text(&names.fingerprint_sql(&self.publication)).await
    }

    /// The value of a scalar subquery.
    async fn text(&self, subquery: &str) -> Result<String, Failure> {
        let answer = self.client.query(format!("select {subquery}"), &[]).await?;
        let [text] = texts(&answer.rows).ok_or_else(unexpected)?;
        text.ok_or_else(unexpected)
    }
}

fn follows_publication(version: i64) -> bool {
    let same_major = |first: &&i64| *first / 10_000 == version / 10_000;
    let first = FOLLOWS_PUBLICATION.iter().find(same_major);
    first.is_none_or(|first| version >= *first)
}

/// Whether a lock delayed a statement for too long.
fn is_locked(error: &lookaside_client::Error) -> bool {
    let state = error.sqlstate();
    state.is_some_and(|state| state.as_bytes() == LOCK_NOT_AVAILABLE)
}

/// The texts of the only row.
fn texts<const COUNT: usize>(rows: &RowSet) -> Option<[Option<String>; COUNT]> {
    let row = rows.first()?;
    let text = |value: &Value| match value {
        Value::Text(text) => Some(text.as_str().to_owned()),
        _ => None,
    };
    let texts: Vec<Option<String>> = row.iter().map(text).collect();
    texts.try_into().ok()
}

fn unexpected() -> Failure {
    Failure::server("the server gave an unexpected answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_releases_that_lose_changes_are_known() {
        for (version, follows) in [
            (14_00_17, false),
            (14_00_18, true),
            (15_00_12, false),
            (15_00_13, true),
            (16_00_08, false),
            (17_00_04, false),
            (17_00_05, true),
            (18_00_00, true),
            (19_00_01, true),
        ] {
            assert_eq!(follows_publication(version), follows, "{version}");
        }
    }
}
