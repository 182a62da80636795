//! Databases of processes that have ended without dropping them.
//!
//! The name of a database contains its owner's number, and a session of the owner holds an advisory
//! lock of that number, which the server releases when the owner ends. Processes are often too
//! short-lived to drop their own databases, for example with a test runner that starts a process
//! for each test. So every process that joins a shared server first drops some orphans, and
//! long-running ones drop the rest when they are idle (see `janitor.rs`). Roles of single databases
//! go with them.

use std::collections::HashSet;

use super::snapshot::SNAPSHOT;
use super::{Cluster, owner_of};
use crate::Result;
use crate::admin::{Connection, Failure, identifier, literal};
use crate::names::ADMIN_DATABASE;

/// The number of databases that a process drops at once in a shared server: more than a process
/// leaves (one in use and one prepared in advance), so that they do not accumulate, and few enough
/// to keep a start short.
pub(crate) const SWEEP_COUNT_MAX: usize = 5;

/// Which databases are swept, and how.
pub(crate) struct Sweep<'a> {
    /// The owner that sweeps, if it owns any.
    pub(crate) own: Option<i64>,
    /// Databases that last as long as a folder: they and their snapshots are kept.
    pub(crate) kept: &'a [String],
    pub(crate) count_max: usize,
    /// Only lists them.
    pub(crate) is_dry_run: bool,
    /// Queries their sizes.
    pub(crate) is_measured: bool,
}

/// A database of an owner that is gone.
pub(crate) struct Orphan {
    pub(crate) name: String,
    /// In bytes; 0 if it was not queried.
    pub(crate) size: u64,
}

impl Cluster {
    /// Drops at most `count_max` databases of owners that are gone. Those that last as long as a
    /// folder are kept: those that are `kept`, and all snapshots of others than temporary
    /// databases. Returns how many were dropped.
    pub(crate) fn drop_orphans(&self, kept: &[String], count_max: usize) -> Result<usize> {
        let doing = "dropping databases of processes that have ended";
        // A separate session, since the locks taken here end with it.
        let mut session = self.open(ADMIN_DATABASE, doing)?;
        let sweep = Sweep {
            own: Some(self.owner()),
            kept,
            count_max,
            is_dry_run: false,
            is_measured: false,
        };
        let swept = sweep_databases(&mut session, &sweep);
        swept
            .map(|swept| swept.len())
            .map_err(|failure| self.explain(failure, doing))
    }
}

/// Drops databases of owners that are gone, in a session whose end releases the locks that it takes.
/// Returns those that were dropped, or would be.
pub(crate) fn sweep_databases(
    session: &mut Connection,
    sweep: &Sweep<'_>,
) -> Result<Vec<Orphan>, Failure> {
    let mut ask = |sql: &str| session.query(sql);
    // The databases are listed before the locks are tried: an owner takes its lock before it
    // creates a database.
    let databases = ask("SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database")?;
    let roles = ask("SELECT rolname FROM pg_roles")?;
    let held = ask(&format!(
        "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks \
         WHERE locktype = 'advisory' AND objsubid = 1 AND granted \
         AND database = (SELECT oid FROM pg_database WHERE datname = {})",
        literal(ADMIN_DATABASE)
    ))?;
    let held: HashSet<i64> = held
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|number| number.parse().ok())
        .collect();
    let mut locked = HashSet::new();
    let mut swept = Vec::new();
    for row in databases {
        if swept.len() == sweep.count_max {
            break;
        }
        let Ok([Some(name), comment]) = <[_; 2]>::try_from(row) else {
            continue;
        };
        let Some(owner) = owner_of(&name) else {
            continue;
        };
        let is_spared = sweep.kept.contains(&name) || is_spared(comment.as_deref(), sweep.kept);
        if is_spared || sweep.own == Some(owner) || held.contains(&owner) {
            continue;
        }
        // Of several processes that sweep, one has the lock.
        if !sweep.is_dry_run && !locked.contains(&owner) {
            let free = ask(&format!("SELECT pg_try_advisory_lock({owner})"))?;
            if free != [[Some("t".to_owned())]] {
                continue;
            }
            locked.insert(owner);
        }
        let mut size = 0;
        if sweep.is_measured {
            // A database that another process has dropped meanwhile has no size.
            let sql = format!("SELECT pg_database_size({})", literal(&name));
            let answer = ask(&sql)
                .unwrap_or_default()
                .into_iter()
                .flatten()
                .flatten()
                .next();
            size = answer
                .and_then(|size| size.parse().ok())
                .unwrap_or_default();
        }
        // One that cannot be dropped, because of a replication slot for example, does not prevent
        // the others from being dropped.
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", identifier(&name));
        if sweep.is_dry_run || ask(&drop).is_ok() {
            swept.push(Orphan { name, size });
        }
    }
    for role in roles.into_iter().flatten().flatten() {
        if owner_of(&role).is_some_and(|owner| locked.contains(&owner)) {
            // Fails as long as a database of the role is left.
            let _ = ask(&format!("DROP ROLE IF EXISTS {}", identifier(&role)));
        }
    }
    Ok(swept)
}

/// Whether a database with this comment is a snapshot that lasts as long as a folder.
fn is_spared(comment: Option<&str>, kept: &[String]) -> bool {
    let Some(of) = comment.and_then(|comment| comment.strip_prefix(SNAPSHOT)) else {
        return false;
    };
    owner_of(of).is_none() || kept.iter().any(|kept| of.starts_with(&format!("{kept}: ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_of_a_folder_are_spared() {
        let kept = ["t_00000000000001_2".to_owned()];
        for (comment, expected) in [
            (None, false),
            (Some("of another program"), false),
            (Some("lookaside snapshot of main: a"), true),
            (Some("lookaside snapshot of t_00000000000001_2: a"), true),
            (Some("lookaside snapshot of t_00000000000001_3: a"), false),
        ] {
            assert_eq!(is_spared(comment, &kept), expected, "{comment:?}");
        }
    }
}
