//! What a query brings.

use std::sync::Arc;

use lookaside_value::{RowError, RowRef, RowSet, Value};
use serde::de::DeserializeOwned;

use crate::raw_rows::RawRows;
use crate::{Description, Error, Result, ScriptPart};

/// What a query brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its rows; without columns where the statement gives none.
    pub rows: RowSet,
    /// Its rows as the server sent them, if that was [asked](crate::Request::raw_rows).
    pub raw: Option<Box<RawRows>>,
    /// How many rows were selected or changed, where the server counts them.
    pub row_count: Option<u64>,
    /// What the statement takes and gives, if that was [asked](crate::Request::describe).
    pub description: Option<Arc<Description>>,
    /// What belongs to a statement of a script, if it was one. The answer's description has the
    /// types of its columns then.
    pub script: Option<Box<ScriptPart>>,
    /// The first number that MySQL or MariaDB gave to an `AUTO_INCREMENT` column for this
    /// statement, if it gave one. PostgreSQL tells what it gave by `RETURNING`.
    pub last_insert_id: Option<u64>,
    /// How many warnings MySQL or MariaDB has for this statement. Their texts are what `show
    /// warnings` gives, as the next statement on the same connection.
    pub warning_count: u16,
    /// The results after this one, if that was [asked](crate::Request::all_results): of a procedure, one
    /// for each of its statements that gives rows, and in the end that of the `CALL` itself.
    pub further_results: Vec<Answer>,
}

impl Answer {
    /// Rows, and nothing else.
    pub(crate) fn of_rows(rows: RowSet) -> Self {
        Self {
            rows,
            raw: None,
            row_count: None,
            description: None,
            script: None,
            last_insert_id: None,
            warning_count: 0,
            further_results: Vec::new(),
        }
    }

    /// What `read` makes of each row; see [`RowSet::map`].
    ///
    /// ```no_run
    /// # fn example(answer: lookaside_client::Answer) -> lookaside_client::Result<()> {
    /// let goods = answer.map(|row| Ok((row.get::<i64>("id")?, row.get::<String>(1)?)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The first that `read` gives, such as that a column does not fit the type.
    pub fn map<'a, T>(
        &'a self,
        read: impl FnMut(RowRef<'a>) -> Result<T, RowError>,
    ) -> Result<Vec<T>> {
        self.rows.map(read).map_err(Error::row)
    }

    /// The rows as a type of the caller's; see [`RowSet::deserialize`].
    ///
    /// # Errors
    ///
    /// When a row does not fit the type; the source of the error names its column.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        self.rows.deserialize().map_err(Error::row)
    }

    /// Whether its only value is true.
    pub(crate) fn is_true(&self) -> bool {
        let row = self.rows.iter().next();
        row.is_some_and(|row| matches!(row[0], Value::Bool(true)))
    }
}
