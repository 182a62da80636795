//! Snapshots: copies of databases, whose comments name the database and the snapshot.

use super::Cluster;
use super::owner_role::is_owner_role;
use crate::Result;
use crate::admin::literal;

/// The prefix of the comment on a snapshot, followed by `<database>: <name>`.
pub(super) const SNAPSHOT: &str = "lookaside snapshot of ";

/// The prefix of the comments on the snapshots of one database.
pub(crate) fn snapshot_prefix(database: &str) -> String {
    format!("{SNAPSHOT}{database}: ")
}

impl Cluster {
    /// The names of all databases whose comment begins with `prefix`, with the rest of it.
    pub(crate) fn commented(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        let (size, prefix) = (prefix.chars().count(), literal(prefix));
        let sql = format!(
            "SELECT datname, substr(comment, {size} + 1) \
             FROM (SELECT datname, shobj_description(oid, 'pg_database') AS comment FROM pg_database) AS d \
             WHERE left(comment, {size}) = {prefix} ORDER BY 2"
        );
        let rows = self.query("listing databases", &sql)?;
        Ok(rows
            .into_iter()
            .filter_map(|row| match <[_; 2]>::try_from(row) {
                Ok([Some(name), Some(rest)]) => Some((name, rest)),
                _ => None,
            })
            .collect())
    }

    /// Drops a database, its snapshots, and `user` if that is the role of a database.
    pub(crate) fn drop_with_snapshots(&self, database: &str, user: &str) -> Result<()> {
        let snapshots = self.commented(&snapshot_prefix(database))?;
        for (snapshot, _) in snapshots {
            self.drop_database(&snapshot)?;
        }
        self.drop_database(database)?;
        match is_owner_role(user) {
            true => self.drop_role(user),
            false => Ok(()),
        }
    }
}
