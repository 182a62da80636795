//! The table with the positions of partitions.

use lookaside_client::blocking::Queryable;
use lookaside_client::params;
use lookaside_client::postgres::blocking::Connection;

use crate::postgres::{Client, Table, unavailable};
use crate::{Error, Result};

/// The name of the table, which is in the schema of the table with the rows.
const TABLE: &str = "lookaside_positions";

const COLUMNS: &str = "(\"source\" text not null, \"partition\" integer not null, \
                       \"position\" bigint not null, primary key (\"source\", \"partition\"))";

/// The positions that are stored for a consumer group of a cluster.
pub(super) struct Positions {
    /// The table in SQL.
    table: String,
    /// What the column `source` begins with, before the topic.
    source_name: String,
}

/// The position of a partition, which a transaction updates.
pub(super) struct PositionUpdate {
    pub(super) topic: Box<str>,
    pub(super) number: i32,
    /// The position that was stored last as far as this process knows; `None` if none was.
    pub(super) expected: Option<u64>,
    pub(super) new: u64,
}

impl Positions {
    /// Creates the table if it does not exist.
    pub(super) fn open(
        client: &mut Client,
        name: &str,
        rows: &Table,
        source_name: &str,
    ) -> Result<Self> {
        let table = rows.sibling(TABLE);
        let create = format!("create table {table} {COLUMNS}");
        let is_found = |client: &mut Client| client.run(|connection| find(connection, &table));
        let mut found = is_found(client).map_err(|failure| unavailable(name, failure))?;
        if found.is_none() {
            let created = client.run(|connection| connection.execute(&*create, &[]));
            // Another process may have created it at the same time.
            found = is_found(client).map_err(|failure| unavailable(name, failure))?;
            if let (None, Err(failure)) = (found, created) {
                let reason = failure.into_reason();
                let reason = format!("the table {table} cannot be created: {reason}");
                let hint = format!(
                    "create it, and grant select, insert, update on it to the user: {create}"
                );
                return Err(Error::unavailable(name, &reason, &hint));
            }
        }
        match found {
            Some(true) => Ok(Self {
                table,
                source_name: source_name.to_owned(),
            }),
            _ => {
                let reason = format!("the user may not read and write rows of {table}");
                let hint = format!("grant select, insert, update on {table} to the user");
                Err(Error::unavailable(name, &reason, &hint))
            }
        }
    }

    fn source(&self, topic: &str) -> String {
        format!("{}/{topic}", self.source_name)
    }

    /// The position of a partition, if there is one.
    pub(super) fn read(
        &self,
        db: &mut impl Queryable,
        topic: &str,
        number: i32,
    ) -> lookaside_client::Result<Option<u64>> {
        let sql = format!(
            "select \"position\" from {} where \"source\" = $1 and \"partition\" = $2",
            self.table
        );
        let answer = db.query(sql, params![self.source(topic), i64::from(number)])?;
        let positions = answer.map(|row| row.get::<i64>(0))?;
        let position = positions.first();
        Ok(position.and_then(|position| u64::try_from(*position).ok()))
    }

    /// Moves a position; returns whether it was the expected one.
    pub(super) fn store(
        &self,
        db: &mut impl Queryable,
        update: &PositionUpdate,
    ) -> lookaside_client::Result<bool> {
        let table = &self.table;
        let signed = |position| i64::try_from(position).expect("offsets of Kafka are signed");
        let (source, number) = (self.source(&update.topic), i64::from(update.number));
        let new = signed(update.new);
        let count = match update.expected {
            Some(expected) => db.execute(
                format!(
                    "update {table} set \"position\" = $4 \
                     where \"source\" = $1 and \"partition\" = $2 and \"position\" = $3"
                ),
                params![source, number, signed(expected), new],
            ),
            None => db.execute(
                format!(
                    "insert into {table} (\"source\", \"partition\", \"position\") \
                     values ($1, $2, $3) on conflict do nothing"
                ),
                params![source, number, new],
            ),
        }?;
        Ok(count == 1)
    }
}

/// Whether the user has the rights on the table; `None` if it does not exist.
fn find(connection: &mut Connection, table: &str) -> lookaside_client::Result<Option<bool>> {
    let right = |right| format!("has_table_privilege(to_regclass($1::text)::oid, '{right}')");
    let rights = ["select", "insert", "update"].map(right).join(" and ");
    let answer = connection.query(format!("select {rights}"), params![table])?;
    let found = answer.map(|row| row.get::<Option<bool>>(0))?;
    Ok(found.into_iter().next().flatten())
}
