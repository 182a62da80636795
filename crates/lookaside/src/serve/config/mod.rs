//! What `knowdb.toml` says to the server: `[server]` and `[lookups.NAME]`.

mod lookups;
mod reader;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use self::lookups::{LOOKUPS, LookupConfig, read_lookups};
pub(crate) use self::server::{KeyConfig, Place, SERVER, ServerConfig, read_server};
