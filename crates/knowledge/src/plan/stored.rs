//! The rows that the answers of native plans refer to.

use lookaside_value::{RowSet, Text};

use crate::table::PackedRows;

/// The rows of a table, in the columns of one statement.
#[derive(Clone, Debug)]
pub(crate) enum StoredRows {
    /// Values, which answers borrow or share.
    Set(RowSet),
    /// A large table, whose answers are made when they are returned.
    Packed(PackedRows),
}

impl StoredRows {
    /// The names of the columns.
    pub(crate) fn columns(&self) -> &[Text] {
        match self {
            Self::Set(rows) => rows.columns(),
            Self::Packed(rows) => rows.columns(),
        }
    }
}
