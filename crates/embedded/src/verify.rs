//! The level of verification of the cache.

use std::env;

use crate::{Error, Result};

/// The level of verification of a cached server or template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Check its manifest and the sizes of its programs; see `file_manifest.rs` for templates.
    Quick,
    /// Check each byte.
    Full,
}

impl Verify {
    /// The level that `LOOKASIDE_PG_VERIFY` sets.
    pub(crate) fn of_process() -> Result<Self> {
        let value = env::var_os("LOOKASIDE_PG_VERIFY").filter(|value| !value.is_empty());
        match value {
            None => Ok(Self::Quick),
            Some(value) if value == "full" => Ok(Self::Full),
            Some(value) => {
                let value = value.to_string_lossy();
                let known = "set it to `full` to compare each file with its manifest";
                Err(Error::bad_variable("LOOKASIDE_PG_VERIFY", &value, known))
            }
        }
    }
}
