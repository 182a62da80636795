//! Tests of the connectors with real brokers.
#![cfg(any(
    feature = "kafka",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
#![allow(clippy::print_stderr, reason = "seeds of random tests are printed")]

#[cfg(feature = "nats")]
mod jetstream;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis_streams;
mod running;
