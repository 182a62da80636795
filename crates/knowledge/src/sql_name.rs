//! Names in generated SQL.

/// The prefix of the names of generated indexes. A copy into an embedded PostgreSQL leaves these
/// indexes out: other statements are queried there, and its indexes refuse long texts.
pub(crate) const INDEX_PREFIX: &str = "lookaside_key_";

/// Quotes a name for SQL, whatever characters it has.
pub(crate) fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
