//! Where questions leave the engine: the SQLite store of a generation, asked by one session.
//!
//! This module is the boundary behind which another database will stand: everything above it
//! (statements, plans, caches, sessions) asks only to [`describe`](Reader::describe) a statement and
//! for its [`rows`](Reader::rows), and knows neither connections nor their transactions. Which
//! database a statement belongs to is decided when it is described: by the name before its table
//! ([`route`]), or else it is the default one.

mod hint;
mod route;

use lookaside_value::{RowSet, RowSetBuilder, Text, Value};
use rusqlite::Connection;

use crate::Result;
use crate::bind::{SqlValue, value_of};
use crate::cache::Extent;
use crate::config::Config;
use crate::error::Error;
use crate::statement::StatementInfo;
use crate::store::Store;

pub(crate) use self::route::route;

/// The databases that answer, by the names that may stand before their tables; the first one
/// answers statements that name none.
pub(crate) const PROVIDERS: &[&str] = &["default"];

/// What the database says about a statement.
#[derive(Debug)]
pub(crate) struct Description {
    /// The text without its provider's name, if it has one.
    routed: Option<Box<str>>,
    /// The names of the columns.
    pub(crate) columns: Box<[Text]>,
    /// For each of SQLite's parameters, from its first, the position of the value to bind.
    binds: Box<[usize]>,
}

impl Description {
    /// The statement as the database is to read it.
    #[inline]
    pub(crate) fn sql<'a>(&'a self, info: &'a StatementInfo) -> &'a str {
        self.routed.as_deref().unwrap_or(&info.sql)
    }
}

/// A connection of one session to the store of one generation.
///
/// Statements are kept by rusqlite's own cache. Holding them here instead would save 85 ns of
/// 320 (hash of the text, one small allocation), but a held statement cannot move between threads,
/// and a session that cannot is of no use to a pool.
#[derive(Debug)]
pub(crate) struct Reader {
    connection: Connection,
    /// Room for the text of values that SQLite does not know.
    scratch: String,
}

impl Reader {
    pub(crate) fn open(store: &Store) -> Result<Self> {
        Ok(Self {
            connection: store.reader()?,
            scratch: String::new(),
        })
    }

    /// Compiles a statement; it must read only, and its parameters must be those that the scanner
    /// found, or values would be bound to the wrong ones. The configuration is for the hint at what
    /// is missing.
    pub(crate) fn describe(
        &self,
        info: &StatementInfo,
        config: Option<&Config>,
    ) -> Result<Description> {
        let routed = route(&info.sql, PROVIDERS).map(|(_, sql)| sql.into_boxed_str());
        let sql = routed.as_deref().unwrap_or(&info.sql);
        let refused = |source| match route::unknown_prefix(&info.sql, PROVIDERS) {
            Some(prefix) => Error::provider_unknown(&info.sql, prefix, PROVIDERS),
            None => {
                let hint = hint::hint(&self.connection, config, sql, &source);
                Error::statement_with_hint(&info.sql, source, hint)
            }
        };
        let statement = self.connection.prepare_cached(sql).map_err(refused)?;
        if !statement.readonly() {
            return Err(Error::not_a_query(&info.sql));
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
        Ok(Description {
            routed,
            columns,
            binds: binds.into(),
        })
    }

    /// The names of the tables and views, sorted.
    pub(crate) fn tables(&self) -> Result<Vec<String>> {
        hint::tables(&self.connection).map_err(|source| Error::statement(hint::TABLES_SQL, source))
    }

    /// Runs a statement and reads its first row or all rows.
    pub(crate) fn rows(
        &mut self,
        info: &StatementInfo,
        description: &Description,
        params: &[Value],
        extent: Extent,
    ) -> Result<RowSet> {
        self.read(info, description, params, extent)
            .map_err(|source| Error::statement(&info.sql, source))
    }

    fn read(
        &mut self,
        info: &StatementInfo,
        description: &Description,
        params: &[Value],
        extent: Extent,
    ) -> rusqlite::Result<RowSet> {
        let mut statement = self.connection.prepare_cached(description.sql(info))?;
        for (index, &position) in description.binds.iter().enumerate() {
            let value = SqlValue::of(&params[position], &mut self.scratch);
            statement.raw_bind_parameter(index + 1, value)?;
        }
        let mut rows = RowSetBuilder::new(description.columns.iter().cloned());
        let column_count = description.columns.len();
        let mut cursor = statement.raw_query();
        while let Some(row) = cursor.next()? {
            // The columns were counted on the same statement over a schema that never changes.
            rows.push((0..column_count).map(|column| value_of(row.get_ref_unwrap(column))));
            if extent == Extent::First {
                break;
            }
        }
        Ok(rows.build())
    }
}
