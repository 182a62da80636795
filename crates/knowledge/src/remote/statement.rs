//! A statement of another database: the text that is sent, and its description.

use std::collections::HashMap;
use std::sync::Arc;

use lookaside_client::Description;
use lookaside_value::{Extent, ParamBatch, RowSet, RowSetBuilder, Text, Value};

use super::Remote;
use crate::Result;
use crate::error::Error;
use crate::scan::{Dialect, Numbered, numbered, scan};
use crate::statement::StatementInfo;

/// A statement with the server's numbers for its parameters, before it is described.
pub(super) struct Reading {
    params: Box<[Text]>,
    numbered: Numbered,
}

/// A statement that the server has described.
#[derive(Debug)]
pub(crate) struct RemoteStatement {
    params: Box<[Text]>,
    all_sql: Arc<str>,
    first_sql: Arc<str>,
    /// For each of the server's parameters, the position of the value to bind.
    binds: Vec<usize>,
    pub(crate) description: Arc<Description>,
}

impl Reading {
    /// Parses a text, whose parameters must be those of the statement.
    pub(super) fn of(info: &StatementInfo, sql: &str, dialect: Dialect) -> Result<Self> {
        let found = scan(sql, dialect)?;
        if let Some(name) = found.iter().find(|name| !info.params.contains(name)) {
            return Err(Error::parameter_missing(&info.sql, &[name]));
        }
        if let Some(name) = info.params.iter().find(|name| !found.contains(name)) {
            return Err(Error::parameter_unused(&info.sql, name));
        }
        Ok(Self {
            params: info.params.clone(),
            numbered: numbered(sql, dialect, &info.params),
        })
    }

    pub(super) fn all_sql(&self) -> &str {
        &self.numbered.sql
    }

    pub(super) fn described(self, description: Arc<Description>) -> RemoteStatement {
        RemoteStatement {
            params: self.params,
            all_sql: self.numbered.sql.as_str().into(),
            first_sql: self.numbered.first_row_sql().into(),
            binds: self.numbered.binds,
            description,
        }
    }
}

impl RemoteStatement {
    pub(crate) fn has_params(&self, params: &[Text]) -> bool {
        *self.params == *params
    }

    /// The SQL that is sent.
    pub(crate) fn sql(&self, extent: Extent) -> &Arc<str> {
        match extent {
            Extent::First => &self.first_sql,
            Extent::All => &self.all_sql,
        }
    }

    /// The text that is sent for all rows, and for each of its numbered parameters the position of the
    /// value to bind.
    pub(super) fn numbered(&self) -> (&str, &[usize]) {
        (&self.all_sql, &self.binds)
    }

    /// The name of the server's parameter with this number, counted from 1.
    pub(super) fn param(&self, number: usize) -> Option<&Text> {
        let position = *self.binds.get(number.checked_sub(1)?)?;
        self.params.get(position)
    }

    /// Each of the parameters with the type that the server declares.
    pub(crate) fn param_types(&self) -> Vec<(Text, Text)> {
        let types = self.description.parameter_types.iter().cloned();
        let names = self
            .binds
            .iter()
            .map(|position| self.params[*position].clone());
        names.zip(types).collect()
    }

    /// Parameter sets in the server's order.
    pub(super) fn batch(&self, sets: &[&[Value]]) -> ParamBatch {
        let mut batch = ParamBatch::new(self.binds.len());
        for set in sets {
            batch.push(self.binds.iter().map(|position| set[*position].clone()));
        }
        batch
    }

    /// Converts rows to the columns that the statement was described with, which callers rely on.
    ///
    /// The table of a `select *` may have changed since: moved columns are reordered, new ones are
    /// left out, and if one is missing the statement fails.
    pub(super) fn conform(
        &self,
        remote: &Remote,
        info: &StatementInfo,
        rows: RowSet,
    ) -> Result<RowSet> {
        let described = &self.description.columns;
        if rows.columns() == &**described {
            return Ok(rows);
        }
        let mut positions = HashMap::new();
        let mut doubled = None;
        for (position, column) in rows.columns().iter().enumerate() {
            if positions.insert(column.as_str(), position).is_some() {
                doubled = Some(column);
            }
        }
        let places: Option<Vec<usize>> = described
            .iter()
            .map(|column| positions.get(column.as_str()).copied())
            .collect();
        let Some(places) = places.filter(|_| doubled.is_none()) else {
            return Err(Error::columns_changed(
                remote,
                info,
                described,
                rows.columns(),
            ));
        };
        let mut conformed = RowSetBuilder::new(described.iter().cloned());
        conformed.reserve(rows.len());
        for row in rows.iter() {
            conformed.push(places.iter().map(|place| row[*place].clone()));
        }
        Ok(conformed.build())
    }
}
