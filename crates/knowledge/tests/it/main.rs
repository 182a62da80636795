//! Tests of the public API.

#[cfg(feature = "parquet")]
mod columnar;
mod config;
mod first_of;
mod folder;
#[cfg(feature = "http")]
mod http;
mod live;
mod mmdb;
mod non_blocking;
mod packed;
mod provider;
mod provider_config;
mod reload;
mod served;
mod sqlite;
mod time_limits;
