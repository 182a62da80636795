//! The answer to a query.

use std::sync::Arc;

use lookaside_value::{RowError, RowRef, RowSet, Value};
use serde::de::DeserializeOwned;

use crate::raw_rows::RawRows;
use crate::{Description, Error, Result, ScriptPart};

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The rows; without columns if the statement returns none.
    pub rows: RowSet,
    /// The rows as the server sent them, if [requested](crate::Request::raw_rows).
    pub raw: Option<Box<RawRows>>,
    /// How many rows were selected or changed, if the server counts them.
    pub row_count: Option<u64>,
    /// The parameters and columns of the statement, if [requested](crate::Request::describe).
    pub description: Option<Arc<Description>>,
    /// Further results of a statement of a script, if it is one. In that case, the answer's
    /// description has the types of its columns.
    pub script: Option<Box<ScriptPart>>,
    /// The first number that MySQL or MariaDB gave to an `AUTO_INCREMENT` column for this
    /// statement, if it gave one. With PostgreSQL, use `RETURNING`.
    pub last_insert_id: Option<u64>,
    /// How many warnings MySQL or MariaDB has for this statement. Their texts are returned by `show
    /// warnings`, if that is the next statement on the same connection.
    pub warning_count: u16,
    /// The results after this one, if [requested](crate::Request::all_results): for a procedure,
    /// one for each of its statements that returns rows, and at the end that of the `CALL` itself.
    pub further_results: Vec<Answer>,
}

impl Answer {
    /// An answer with only rows.
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

    /// Converts each row by `read`; see [`RowSet::map`].
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
    /// The first error of `read`, for example if a column does not fit the type.
    pub fn map<'a, T>(
        &'a self,
        read: impl FnMut(RowRef<'a>) -> Result<T, RowError>,
    ) -> Result<Vec<T>> {
        self.rows.map(read).map_err(Error::row)
    }

    /// Deserializes the rows to a type of the caller; see [`RowSet::deserialize`].
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
