//! Tests of the connectors with real brokers.
#![allow(clippy::print_stderr, reason = "seeds of random tests are printed")]

#[cfg(feature = "kafka")]
mod kafka;
