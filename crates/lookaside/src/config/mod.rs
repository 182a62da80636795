//! The sections of `knowdb.toml` other than tables: `[enrich]`, `[lookups.NAME]` and `[server]`.

mod enrich;
mod entry;
mod lookups;
mod outputs;
mod param_type;
mod rate;
mod reader;
mod server;
#[cfg(test)]
mod tests;
mod timeouts;

use std::time::Duration;

pub(crate) use self::enrich::EnrichSettings;
pub(crate) use self::entry::ENRICH;
pub(crate) use self::lookups::{DeclaredParam, LOOKUPS, LookupConfig, OnBehind, read_lookups};
pub(crate) use self::outputs::OutputSettings;
pub(crate) use self::param_type::ParamType;
pub(crate) use self::rate::Rate;
pub(crate) use self::server::{
    ClientFreshness, KeyConfig, ListenAddress, PER_SECOND_MAX, SERVER, ServerConfig, key_name,
    read_server,
};

/// The default limit for ending a run: longer than queries take, shorter than service managers wait
/// before they kill (90 s).
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
