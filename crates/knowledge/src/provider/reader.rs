//! A session's reader of the SQLite store of a generation.

use std::sync::Arc;
use std::time::Duration;

use lookaside_value::{Extent, RowSet, RowSetBuilder, Text, Value};
use rusqlite::{Connection, OptionalExtension as _};

use super::{Names, hint, route};
use crate::Result;
use crate::bind::{SqlValue, value_of};
use crate::cancel::{CancelHandle, QueryGuard};
use crate::config::Config;
use crate::error::Error;
use crate::plan::BoolWords;
use crate::scan::Dialect;
use crate::sql_name::quote_name;
use crate::statement::StatementInfo;
use crate::store::Store;

/// A statement in its form for SQLite.
#[derive(Debug)]
pub(crate) struct StoreStatement {
    /// The text without the name of the database, if it has one.
    routed: Option<Box<str>>,
    /// For each of SQLite's parameters, from its first, the position of the value to bind.
    binds: Box<[usize]>,
    /// For each value by position, the words that replace a boolean; may be shorter.
    words: Box<[Option<BoolWords>]>,
    /// The packed tables that it reads, in lower case.
    packed_tables: Box<[Text]>,
    /// A query that fails as the statement does if its parameters are refused. Then it has a native plan,
    /// which answers all other parameters.
    refusal: Option<Box<str>>,
}

impl StoreStatement {
    /// The text for SQLite.
    #[inline]
    pub(crate) fn sql<'a>(&'a self, info: &'a StatementInfo) -> &'a str {
        self.routed.as_deref().unwrap_or(&info.sql)
    }

    /// Sets which values are compared with booleans that are stored as words.
    pub(crate) fn set_words(&mut self, words: Box<[Option<BoolWords>]>) {
        self.words = words;
    }

    /// Sets which packed tables it reads.
    pub(crate) fn set_packed_tables(&mut self, tables: Box<[Text]>) {
        self.packed_tables = tables;
    }

    /// Sets the query that fails as the statement does if its parameters are refused.
    pub(crate) fn set_refusal(&mut self, sql: String) {
        self.refusal = Some(sql.into());
    }

    /// The packed tables that it reads, in lower case.
    pub(crate) fn packed_tables(&self) -> &[Text] {
        &self.packed_tables
    }
}

/// A connection of one session to the store of one generation.
///
/// Statements are cached by rusqlite. Storing them here instead would save 85 ns of 320 (hash of
/// the text, one small allocation), but a stored statement cannot move between threads, and a
/// session that cannot move cannot be pooled.
#[derive(Debug)]
pub(crate) struct Reader {
    connection: Connection,
    guard: QueryGuard,
    /// A buffer for the text of values whose types SQLite does not have.
    scratch: String,
}

impl Reader {
    /// Opens a connection whose queries have this time limit and can be cancelled.
    pub(crate) fn open(
        store: &Store,
        limit: Option<Duration>,
        cancel: CancelHandle,
    ) -> Result<Self> {
        let mut connection = store.reader()?;
        let guard = QueryGuard::new(&mut connection, limit, cancel)
            .map_err(|source| Error::sqlite("opening a reader of the store", source))?;
        Ok(Self {
            connection,
            guard,
            scratch: String::new(),
        })
    }

    /// Compiles a statement, which must be read-only, and whose parameters must be those that the
    /// scanner found, as values would otherwise be bound to wrong ones. The configuration is used
    /// for hints about missing names.
    pub(crate) fn describe(
        &self,
        info: &StatementInfo,
        routed: Option<Box<str>>,
        config: Option<&Config>,
        names: &Names,
    ) -> Result<(Arc<[Text]>, StoreStatement)> {
        let sql = routed.as_deref().unwrap_or(&info.sql);
        let prefix = route::unknown_prefix(&info.sql, names, Dialect::Sqlite);
        let refused = |source| match (self.guard.ended(&info.sql, &source), prefix) {
            (Some(ended), _) => ended,
            (None, Some(prefix)) => Error::provider_unknown(&info.sql, prefix, names),
            (None, None) => {
                let hint = hint::hint(&self.connection, config, names, sql, &source);
                Error::statement_with_hint(&info.sql, source, hint)
            }
        };
        self.guard.begin();
        let statement = self.connection.prepare_cached(sql).map_err(refused)?;
        if !statement.readonly() {
            return Err(Error::not_a_query(&info.sql, Dialect::Sqlite));
        }
        let mut binds = Vec::with_capacity(statement.parameter_count());
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).unwrap_or("?");
            let bare = name.strip_prefix(':').unwrap_or(name);
            match info.params.iter().position(|param| *param == bare) {
                Some(position) => binds.push(position),
                None => return Err(Error::parameter_form(&info.sql, name)),
            }
        }
        let unused = (0..info.params.len()).find(|position| !binds.contains(position));
        if let Some(position) = unused {
            return Err(Error::parameter_unused(&info.sql, &info.params[position]));
        }
        let columns = statement.column_names().map(Text::from).collect();
        let statement = StoreStatement {
            routed,
            binds: binds.into(),
            words: Box::default(),
            packed_tables: Box::default(),
            refusal: None,
        };
        Ok((columns, statement))
    }

    /// Whether a statement aggregates rows, by SQLite's program for it.
    pub(crate) fn is_aggregate(&self, info: &StatementInfo, sql: &str) -> Result<bool> {
        let is_aggregate = || {
            let mut program = self.connection.prepare(&format!("explain {sql}"))?;
            let mut steps = program.raw_query();
            while let Some(step) = steps.next()? {
                let opcode: String = step.get("opcode")?;
                if opcode.starts_with("Agg") || opcode == "Count" {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        self.guard.begin();
        is_aggregate().map_err(|source| Error::statement(&info.sql, source))
    }

    /// The tables that a statement reads, by SQLite's program for it.
    pub(crate) fn tables_of(&self, info: &StatementInfo, sql: &str) -> Result<Vec<String>> {
        let tables = || {
            let mut program = self.connection.prepare(&format!("explain {sql}"))?;
            let mut names = self.connection.prepare_cached(
                "select tbl_name from sqlite_schema where rootpage = ?1 and rootpage > 0",
            )?;
            let (mut steps, mut tables) = (program.raw_query(), Vec::new());
            while let Some(step) = steps.next()? {
                let opcode: String = step.get("opcode")?;
                if opcode == "OpenRead" || opcode == "ReopenIdx" {
                    let page: i64 = step.get("p2")?;
                    let name = names.query_row([page], |row| row.get(0)).optional()?;
                    tables.extend(name);
                }
            }
            Ok(tables)
        };
        self.guard.begin();
        tables().map_err(|source| Error::statement(&info.sql, source))
    }

    /// The names of the columns of a table.
    pub(crate) fn columns(&self, table: &str) -> Result<Vec<String>> {
        self.guard.begin();
        let sql = format!("select * from {}", quote_name(table));
        let statement = self.connection.prepare(&sql);
        let columns = statement.map(|it| it.column_names().map(str::to_owned).collect());
        columns.map_err(|source| Error::statement(&sql, source))
    }

    /// The names of the tables and views, sorted.
    pub(crate) fn tables(&self) -> Result<Vec<String>> {
        self.guard.begin();
        hint::tables(&self.connection).map_err(|source| Error::statement(hint::TABLES_SQL, source))
    }

    /// Runs a statement and reads its first row or all rows.
    pub(crate) fn rows(
        &mut self,
        info: &StatementInfo,
        (columns, statement): (&Arc<[Text]>, &StoreStatement),
        params: &[Value],
        extent: Extent,
    ) -> Result<RowSet> {
        self.guard.begin();
        if let Some(sql) = &statement.refusal {
            self.refuse(info, sql, params)
                .map_err(|source| Error::statement(&info.sql, source))?;
        }
        self.read(info, (columns, statement), params, extent)
            .map_err(|source| {
                let ended = self.guard.ended(&info.sql, &source);
                ended.unwrap_or_else(|| Error::statement(&info.sql, source))
            })
    }

    /// Evaluates the operands of a statement, without its table.
    fn refuse(
        &mut self,
        info: &StatementInfo,
        sql: &str,
        params: &[Value],
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).unwrap_or_default();
            let name = name.trim_start_matches(':');
            let position = info.params.iter().position(|param| *param == name);
            if let Some(value) = position.and_then(|position| params.get(position)) {
                let value = SqlValue::of(value, &mut self.scratch);
                statement.raw_bind_parameter(index, value)?;
            }
        }
        statement.raw_query().next().map(drop)
    }

    fn read(
        &mut self,
        info: &StatementInfo,
        (columns, ours): (&Arc<[Text]>, &StoreStatement),
        params: &[Value],
        extent: Extent,
    ) -> rusqlite::Result<RowSet> {
        let mut statement = self.connection.prepare_cached(ours.sql(info))?;
        for (index, &position) in ours.binds.iter().enumerate() {
            let words = ours.words.get(position).copied().flatten();
            let value = match (&params[position], words) {
                (Value::Bool(bool), Some(words)) => SqlValue::Text(words.word(*bool)),
                (value, _) => SqlValue::of(value, &mut self.scratch),
            };
            statement.raw_bind_parameter(index + 1, value)?;
        }
        let mut rows = RowSetBuilder::with_columns(Arc::clone(columns));
        let column_count = columns.len();
        let mut cursor = statement.raw_query();
        while let Some(row) = cursor.next()? {
            // The columns were counted on the same statement, and the schema never changes.
            rows.push((0..column_count).map(|column| value_of(row.get_ref_unwrap(column))));
            if extent == Extent::First {
                break;
            }
        }
        Ok(rows.build())
    }
}
