//! `lookaside serve` from the outside: the program itself, over real sockets.

mod access;
mod behind;
pub(crate) mod client;
mod coding;
mod console;
#[cfg(feature = "http")]
mod data_file;
mod ending;
mod error_detail;
mod feed;
mod freshness;
mod holding;
mod lookups;
mod model_freshness;
mod models;
mod openapi;
mod providers;
mod reload;
mod running;
mod starting;
mod streams;
mod times;
mod values;

use std::time::Duration;

use self::client::{Answer, Client};
use self::running::{Running, SERVED, project, serve};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
