//! The table of a sink, as the catalog describes it, and the statements that write to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lookaside_client::params;
use lookaside_client::postgres::blocking::Connection;

use super::client::{Client, Failure};
use super::options::{Conflict, Extra, SinkOptions};
use super::unavailable;
use crate::{Error, Result};

/// The temporary table of a session, which `COPY` fills and `INSERT` empties into the table.
const STAGE: &str = "pg_temp.lookaside_stage";

/// Its column with the number of the row, which is not a name that a table is likely to have.
const STAGE_NUMBER: &str = "lookaside row number";

/// How many columns `describe` names.
const DESCRIBED_COUNT_MAX: usize = 10;

const TABLE: &str = "\
select c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text,
    has_any_column_privilege(c.oid, 'insert'),
    has_any_column_privilege(c.oid, 'update'),
    has_any_column_privilege(c.oid, 'select'),
    has_database_privilege(current_database(), 'temporary')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass($1::text)";

/// A domain is treated as its type.
const COLUMNS: &str = "\
select a.attname::text, format_type(a.atttypid, a.atttypmod),
    case when b.oid in (114, 3802) then 'json'
        when b.typcategory = 'A' and b.typelem in (114, 3802) then 'json[]'
        when b.typcategory = 'A' then 'array'
        else '' end,
    a.attgenerated <> '' or a.attidentity = 'a'
from pg_attribute a
join pg_type t on t.oid = a.atttypid
join pg_type b on b.oid = case t.typtype when 'd' then t.typbasetype else t.oid end
where a.attrelid = $1::int8::oid and a.attnum > 0 and not a.attisdropped
order by a.attnum";

/// The columns of all indexes that a conflict can be found by.
const KEYS: &str = "\
select i.indexrelid::int8, i.indisprimary, a.attname::text
from pg_index i
cross join lateral unnest(i.indkey) with ordinality k(attnum, number)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = $1::int8::oid and i.indisunique and i.indisvalid and i.indimmediate
    and i.indpred is null and i.indexprs is null and k.number <= i.indnkeyatts
order by 1, k.number";

/// A table with the columns that a result can have.
#[derive(Debug)]
pub(crate) struct Table {
    /// Schema and table, for messages.
    name: String,
    /// The schema in SQL.
    schema_sql: String,
    /// Schema and table in SQL.
    sql: String,
    columns: Vec<Column>,
    /// The columns that only the server sets.
    generated: Vec<String>,
    conflict: Conflict,
    /// The positions of the columns that a conflict is found by.
    key: Vec<u16>,
    pub(super) extra: Extra,
}

#[derive(Debug)]
struct Column {
    name: String,
    sql: String,
    type_name: String,
    kind: ColumnKind,
}

/// How a JSON value becomes a field of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// As it is written.
    Json,
    /// An array, each of whose elements is as it is written.
    JsonArray,
    /// An array becomes one.
    Array,
    /// A string becomes its text.
    Plain,
}

/// What a result has a member for.
pub(super) enum Member {
    Column(u16, ColumnKind),
    /// The server sets the column.
    Generated,
    Unknown,
}

impl Table {
    /// Reads the catalog, and checks the rights.
    pub(super) fn read(client: &mut Client, options: &SinkOptions) -> Result<Self> {
        let name = &options.name;
        let table = &options.table;
        let found = client.run(|connection| find(connection, table));
        let found = match found {
            Err(Failure::Refused(reason)) => {
                let hint = "write `table=TABLE` or `table=SCHEMA.TABLE` as in SQL, and grant the \
                            user USAGE on the schema";
                return Err(Error::unavailable(
                    name,
                    &format!("`{table}`: {reason}"),
                    hint,
                ));
            }
            found => found.map_err(|failure| unavailable(name, failure))?,
        };
        let Some(found) = found else {
            let reason = format!("the table `{table}` does not exist");
            let hint = "create the table, or correct the option `table`; a name with capitals is \
                        written in double quotes";
            return Err(Error::unavailable(name, &reason, hint));
        };
        found.check_kind(name)?;
        found.check_rights(name, options.conflict)?;
        let (columns, keys) = client
            .run(|connection| Ok((columns(connection, found.id)?, keys(connection, found.id)?)))
            .map_err(|failure| unavailable(name, failure))?;
        let (generated, columns): (Vec<_>, Vec<_>) = columns
            .into_iter()
            .partition(|(_, is_generated)| *is_generated);
        let table = Self {
            name: format!("{}.{}", found.schema, found.table),
            schema_sql: quoted(&found.schema),
            sql: format!("{}.{}", quoted(&found.schema), quoted(&found.table)),
            columns: columns.into_iter().map(|(column, _)| column).collect(),
            generated: generated
                .into_iter()
                .map(|(column, _)| column.name)
                .collect(),
            conflict: options.conflict,
            key: Vec::new(),
            extra: options.extra,
        };
        let key = table.find_key(name, options, &keys)?;
        Ok(Self { key, ..table })
    }

    /// The positions of the columns that identify a row.
    fn find_key(
        &self,
        name: &str,
        options: &SinkOptions,
        keys: &[UniqueIndex],
    ) -> Result<Vec<u16>> {
        if self.conflict == Conflict::Refuse {
            return Ok(Vec::new());
        }
        let columns = match &options.conflict_columns {
            Some(columns) => {
                let same = |key: &&UniqueIndex| {
                    key.columns.len() == columns.len()
                        && columns.iter().all(|column| key.columns.contains(column))
                };
                if !keys.iter().any(|key| same(&key)) {
                    let columns: Vec<_> = columns.iter().map(|column| quoted(column)).collect();
                    let columns = columns.join(", ");
                    let reason =
                        format!("no unique index of {} has the columns {columns}", self.name);
                    let hint = format!("create unique index on {} ({columns})", self.sql);
                    return Err(Error::unavailable(name, &reason, &hint));
                }
                columns
            }
            None => match keys.iter().find(|key| key.is_primary) {
                Some(key) => &key.columns,
                None => {
                    let reason = format!("{} has no primary key", self.name);
                    let hint = "add one, or name the columns of a unique index with \
                                `conflict_columns=a,b`";
                    return Err(Error::unavailable(name, &reason, hint));
                }
            },
        };
        let positions = columns.iter().map(|column| match self.member(column) {
            Member::Column(position, _) => Ok(position),
            _ => {
                let reason = format!("the server generates the column `{column}`");
                let hint = "name the columns of another unique index with `conflict_columns=a,b`";
                Err(Error::unavailable(name, &reason, hint))
            }
        });
        positions.collect()
    }

    /// What a member of a result is for.
    pub(super) fn member(&self, name: &str) -> Member {
        match self.columns.iter().position(|column| column.name == name) {
            Some(position) => {
                let kind = self.columns[position].kind;
                let position = u16::try_from(position).expect("a table has at most 1,600 columns");
                Member::Column(position, kind)
            }
            None if self.generated.iter().any(|column| column == name) => Member::Generated,
            None => Member::Unknown,
        }
    }

    /// A table of the same schema, in SQL.
    pub(crate) fn sibling(&self, table: &str) -> String {
        format!("{}.{}", self.schema_sql, quoted(table))
    }

    /// The name for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn column_name(&self, position: u16) -> &str {
        &self.columns[usize::from(position)].name
    }

    /// The columns that each result needs with a value: those that tell rows apart of which the last
    /// one counts.
    pub(super) fn required(&self) -> &[u16] {
        match self.conflict {
            Conflict::Update => &self.key,
            Conflict::Refuse | Conflict::Ignore => &[],
        }
    }

    /// Whether rows go through the temporary table.
    pub(super) fn is_staged(&self) -> bool {
        self.conflict != Conflict::Refuse
    }

    /// One line on what was found.
    pub(super) fn describe(&self) -> String {
        let count = self.columns.len();
        let columns = self.columns.iter().take(DESCRIBED_COUNT_MAX);
        let mut columns: Vec<_> = columns
            .map(|column| format!("{} {}", column.name, column.type_name))
            .collect();
        if count > DESCRIBED_COUNT_MAX {
            columns.push("…".to_owned());
        }
        let plural = if count == 1 { "" } else { "s" };
        let columns = columns.join(", ");
        let mut text = format!(
            "table {} with {count} column{plural} ({columns})",
            self.name
        );
        if self.is_staged() {
            let key: Vec<_> = self.key.iter().map(|it| self.column_name(*it)).collect();
            let _ = write!(text, ", conflicts by {}", key.join(", "));
        }
        text
    }

    /// The statement that a session begins with, which creates the temporary table. `AS` copies
    /// types and collations, and no constraints: what is missing or null there is decided by the
    /// table.
    pub(super) fn session(&self) -> Option<String> {
        let all: Vec<_> = (0..self.columns.len()).map(|it| it as u16).collect();
        self.is_staged().then(|| {
            format!(
                "create temporary table {} on commit delete rows as \
                 select 0::int8 as {}, {} from {} with no data",
                STAGE.trim_start_matches("pg_temp."),
                quoted(STAGE_NUMBER),
                self.list(&all),
                self.sql,
            )
        })
    }

    /// The statement that copies rows of these columns into the table.
    pub(super) fn copy(&self, columns: &[u16]) -> String {
        format!("copy {} ({}) from stdin", self.sql, self.list(columns))
    }

    /// The statement that copies rows, each with its number first, into the temporary table.
    pub(super) fn copy_staged(&self, columns: &[u16]) -> String {
        let number = quoted(STAGE_NUMBER);
        format!("copy {STAGE} ({number}, {}) from stdin", self.list(columns))
    }

    /// The statement that takes the rows from `first` to before `end`, which name these columns, out
    /// of the temporary table.
    pub(super) fn insert(&self, columns: &[u16], first: usize, end: usize) -> String {
        let Self { sql, key, .. } = self;
        let (list, number) = (self.list(columns), quoted(STAGE_NUMBER));
        let key_list = self.list(key);
        let rows = format!("from {STAGE} where {number} >= {first} and {number} < {end}");
        let set: Vec<_> = columns
            .iter()
            .filter(|column| !key.contains(column))
            .map(|column| {
                let column = &self.columns[usize::from(*column)].sql;
                format!("{column} = excluded.{column}")
            })
            .collect();
        match self.conflict {
            // An INSERT updates no row twice. The order by key is also the one in which rows are
            // locked, so that processes that write the same keys do not deadlock.
            Conflict::Update => {
                let action = match set.is_empty() {
                    true => "nothing".to_owned(),
                    false => format!("update set {}", set.join(", ")),
                };
                format!(
                    "insert into {sql} ({list}) select {list} from (select distinct on ({key_list}) \
                     * {rows} order by {key_list}, {number} desc) last \
                     on conflict ({key_list}) do {action}"
                )
            }
            Conflict::Refuse | Conflict::Ignore => format!(
                "insert into {sql} ({list}) select {list} {rows} order by {number} \
                 on conflict ({key_list}) do nothing"
            ),
        }
    }

    fn list(&self, columns: &[u16]) -> String {
        let columns = columns
            .iter()
            .map(|it| &*self.columns[usize::from(*it)].sql);
        columns.collect::<Vec<_>>().join(", ")
    }
}

/// A row of the catalog.
struct Found {
    id: i64,
    schema: String,
    table: String,
    kind: String,
    may_insert: bool,
    may_update: bool,
    may_select: bool,
    may_create_temporary: bool,
}

impl Found {
    fn check_kind(&self, name: &str) -> Result<()> {
        match &*self.kind {
            // A table, a partitioned one, a foreign one.
            "r" | "p" | "f" => Ok(()),
            _ => {
                let reason = format!("`{}.{}` is not a table", self.schema, self.table);
                Err(Error::unavailable(name, &reason, "name a table"))
            }
        }
    }

    fn check_rights(&self, name: &str, conflict: Conflict) -> Result<()> {
        let table = format!("{}.{}", quoted(&self.schema), quoted(&self.table));
        let is_staged = conflict != Conflict::Refuse;
        let rights = [
            ("insert", self.may_insert, true),
            ("select", self.may_select, is_staged),
            ("update", self.may_update, conflict == Conflict::Update),
        ];
        let missing = rights
            .iter()
            .find(|(_, is_given, is_needed)| *is_needed && !is_given);
        if let Some((right, ..)) = missing {
            let reason = format!("the user may not {right} rows of {table}");
            let hint = format!("grant {right} on {table} to the user");
            return Err(Error::unavailable(name, &reason, &hint));
        }
        if is_staged && !self.may_create_temporary {
            let reason =
                "the user may not create temporary tables, which the option `conflict` needs";
            let hint = "grant temporary on the database to the user";
            return Err(Error::unavailable(name, reason, hint));
        }
        Ok(())
    }
}

/// A unique index and its columns.
struct UniqueIndex {
    is_primary: bool,
    columns: Vec<String>,
}

fn find(connection: &mut Connection, table: &str) -> lookaside_client::Result<Option<Found>> {
    let answer = connection.query(TABLE, params![table])?;
    let found = answer.map(|row| {
        Ok(Found {
            id: row.get(0)?,
            schema: row.get(1)?,
            table: row.get(2)?,
            kind: row.get(3)?,
            may_insert: row.get(4)?,
            may_update: row.get(5)?,
            may_select: row.get(6)?,
            may_create_temporary: row.get(7)?,
        })
    })?;
    Ok(found.into_iter().next())
}

/// The columns, and whether the server generates each.
fn columns(connection: &mut Connection, id: i64) -> lookaside_client::Result<Vec<(Column, bool)>> {
    let answer = connection.query(COLUMNS, params![id])?;
    answer.map(|row| {
        let name: String = row.get(0)?;
        let kind: String = row.get(2)?;
        let column = Column {
            sql: quoted(&name),
            name,
            type_name: row.get(1)?,
            kind: match &*kind {
                "json" => ColumnKind::Json,
                "json[]" => ColumnKind::JsonArray,
                "array" => ColumnKind::Array,
                _ => ColumnKind::Plain,
            },
        };
        Ok((column, row.get(3)?))
    })
}

fn keys(connection: &mut Connection, id: i64) -> lookaside_client::Result<Vec<UniqueIndex>> {
    let answer = connection.query(KEYS, params![id])?;
    let rows = answer.map(|row| {
        let (index, is_primary): (i64, bool) = (row.get(0)?, row.get(1)?);
        Ok((index, is_primary, row.get::<String>(2)?))
    })?;
    let mut indexes = BTreeMap::new();
    for (index, is_primary, column) in rows {
        let new = || UniqueIndex {
            is_primary,
            columns: Vec::new(),
        };
        indexes
            .entry(index)
            .or_insert_with(new)
            .columns
            .push(column);
    }
    Ok(indexes.into_values().collect())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
