//! How closely what is in the cache is looked at.

use std::env;

use crate::{Error, Result};

/// How closely a server or a template in the cache is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Its manifest and the sizes of its programs; see `file_manifest.rs` for templates.
    Quick,
    /// Each byte.
    Full,
}

impl Verify {
    /// What `LOOKASIDE_PG_VERIFY` says.
    pub(crate) fn of_process() -> Result<Self> {
        let value = env::var_os("LOOKASIDE_PG_VERIFY").filter(|value| !value.is_empty());
        match value {
            None => Ok(Self::Quick),
            Some(value) if value == "full" => Ok(Self::Full),
            Some(value) => {
                let value = value.to_string_lossy();
                let known = "write `full` to have each file compared with its manifest";
                Err(Error::bad_variable("LOOKASIDE_PG_VERIFY", &value, known))
            }
        }
    }
}
