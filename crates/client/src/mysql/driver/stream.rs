//! The source of the rest of a result in chunks.

use std::sync::Arc;

use lookaside_value::RowSet;

use super::row_layout::RowLayout;
use super::statement::Statement;

/// The source of the rest of a result.
pub(super) enum Source {
    /// On the server.
    Cursor {
        statement: Arc<Statement>,
        layout: Arc<RowLayout>,
    },
    /// Here, from the row with this index on.
    Rows { rows: RowSet, next: usize },
}
