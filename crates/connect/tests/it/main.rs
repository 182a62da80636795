//! Tests of the connectors with real brokers and servers.
#![cfg(any(
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
#![allow(clippy::print_stderr, reason = "seeds of random tests are printed")]

#[cfg(any(feature = "http", feature = "postgres"))]
mod flush;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "nats")]
mod jetstream;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis_streams;
#[cfg(any(
    feature = "kafka",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
#[cfg_attr(
    not(any(feature = "kafka", feature = "nats", feature = "redis")),
    allow(dead_code, reason = "a table is not a source")
)]
mod running;
