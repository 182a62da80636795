//! Scripts: statements as text, and their answers as text.

use lookaside_value::Text;

/// What the answer to one statement of a script has besides its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptPart {
    /// What was done, as the server says it: `INSERT 0 1`.
    pub tag: Text,
    /// How many rows came beyond those that were to be kept.
    pub left_out_count: u64,
    /// What `COPY … TO STDOUT` wrote.
    pub copied: Vec<u8>,
}
