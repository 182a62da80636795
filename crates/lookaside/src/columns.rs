//! Duplicate column names.

use std::collections::HashSet;

use lookaside_value::Text;

/// The first column name that occurs twice. A row is encoded as an object, and readers disagree on
/// which of two members of the same name they take.
pub(crate) fn doubled(columns: &[Text]) -> Option<&Text> {
    let mut seen = HashSet::new();
    columns.iter().find(|column| !seen.insert(*column))
}

/// The hint for such columns.
pub(crate) const DOUBLED_HELP: &str = "rename one of them, as in select a.id, b.id as other_id";
