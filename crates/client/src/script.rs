//! Scripts: statements and results as text.

use lookaside_value::Text;

/// The results of one statement of a script besides its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptPart {
    /// The command tag of the server, such as `INSERT 0 1`.
    pub tag: Text,
    /// The number of rows beyond those that are kept.
    pub left_out_count: u64,
    /// The output of `COPY … TO STDOUT`.
    pub copied: Vec<u8>,
}
