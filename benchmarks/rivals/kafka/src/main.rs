//! Kafka by librdkafka alone, beside `lookaside enrich`: a loop from topic to topic, which is what
//! reading and writing costs without any work on the messages, and a clock for the way of a message
//! through another process.

mod clock;
mod copy;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use rdkafka::ClientConfig;
use rdkafka::consumer::BaseConsumer;
use rdkafka::message::BorrowedMessage;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long the end of a run waits for a broker.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Topics of Kafka by librdkafka alone
#[derive(Parser)]
struct Arguments {
    /// The broker, as HOST:PORT.
    #[arg(long)]
    broker: String,
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    Copy(copy::CopyArguments),
    Clock(clock::ClockArguments),
}

fn main() -> Result<()> {
    let Arguments { broker, program } = Arguments::parse();
    match program {
        Program::Copy(arguments) => copy::run(&broker, &arguments),
        Program::Clock(arguments) => clock::run(&broker, &arguments),
    }
}

/// The next message. A poll also ends after other events, such as an assignment.
fn next(consumer: &BaseConsumer) -> Result<BorrowedMessage<'_>> {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        if let Some(message) = consumer.poll(TIMEOUT) {
            return Ok(message?);
        }
    }
    bail!("no message for {TIMEOUT:?}");
}

/// The settings of the connectors of `lookaside`, so that only the work differs.
fn consumer_config(broker: &str, group: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker)
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("queued.max.messages.kbytes", "32768")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false");
    config
}

/// As [`consumer_config`].
fn producer_config(broker: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker)
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .set("queue.buffering.max.kbytes", "32768");
    config
}
