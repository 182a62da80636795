//! The table with the positions of partitions.

use lookaside_client::blocking::Queryable;
use lookaside_client::params;

use crate::Result;
use crate::postgres::{Client, Table, create_missing};

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
        create_missing(client, name, &table, COLUMNS)?;
        Ok(Self {
            table,
            source_name: source_name.to_owned(),
        })
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
