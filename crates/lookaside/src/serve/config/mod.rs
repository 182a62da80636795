//! What `knowdb.toml` says to the server: `[server]` and `[lookups.NAME]`.

mod lookups;
mod reader;
mod server;
#[cfg(test)]
mod tests;
mod timeouts;

pub(crate) use self::lookups::{DeclaredParam, LOOKUPS, LookupConfig, read_lookups};
pub(crate) use self::server::{
    KeyConfig, PER_SECOND_MAX, Place, SERVER, ServerConfig, key_name, read_server,
};
