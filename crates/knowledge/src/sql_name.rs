//! Names in SQL that is made here.

/// What the names of these indexes begin with. A copy into an embedded PostgreSQL leaves them out:
/// other statements ask there, and its indexes refuse long texts.
pub(crate) const INDEX_PREFIX: &str = "lookaside_key_";

/// A name as SQL text, whatever is in it.
pub(crate) fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
