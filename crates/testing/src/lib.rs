//! Helpers for the tests of several crates: MySQL and MariaDB servers, each with its own folder,
//! socket and port, a Kafka broker, a Redis, a NATS, a ClickHouse, a PgBouncer, mutations of a corpus,
//! and waiting for a condition. For PostgreSQL there is `lookaside-embedded`.
//!
//! A server ends with the process that started it, even if that is killed: its parent is a shell
//! that waits for the end of a pipe from the test. So a server that all tests of a binary share
//! need not be stopped.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stderr,
    reason = "what a test has to leave out is said where people look"
)]

mod clickhouse;
mod install;
mod kafka;
mod mutations;
mod nats;
mod pooler;
mod postgres;
mod process;
mod redis;
mod server;
mod wait;

pub use clickhouse::ClickHouseServer;
pub use install::{Brand, mysql_folder};
pub use kafka::{KafkaBroker, kafka_folder};
pub use mutations::{mutation_numbers, mutations_never_panic, never_panics};
pub use nats::NatsServer;
pub use pooler::Pooler;
pub use postgres::kill_postgres;
pub use process::ServerProcess;
pub use redis::RedisServer;
pub use server::Server;
pub use wait::{WAIT_MAX, wait_for, wait_for_async, wait_until, wait_until_async};
