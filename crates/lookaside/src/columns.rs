//! Names of columns that stand twice.

use std::collections::HashSet;

use lookaside_value::Text;

/// The first name that two columns have. A row as an object has one member of a name; readers take
/// one of two, and not all of them the same.
pub(crate) fn doubled(columns: &[Text]) -> Option<&Text> {
    let mut seen = HashSet::new();
    columns.iter().find(|column| !seen.insert(*column))
}

/// What to do about such columns.
pub(crate) const DOUBLED_HELP: &str =
    "name one of them otherwise, as in select a.id, b.id as other_id";
