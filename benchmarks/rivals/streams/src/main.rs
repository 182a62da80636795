//! Streams of Redis and NATS JetStream by their libraries alone, beside `lookaside enrich`: loops from
//! stream to stream, which is what reading, writing and acknowledging costs without any work on the
//! messages. Each message is acknowledged after the server has confirmed its copy.

mod nats;
mod redis_streams;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Streams of Redis and NATS by their libraries alone
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    Redis(CopyArguments),
    Nats(CopyArguments),
}

/// Copy a number of messages from stream to stream, at least once
#[derive(Args)]
struct CopyArguments {
    /// The server, as HOST:PORT.
    #[arg(long)]
    server: String,
    /// The stream that is read; `g` is its consumer group.
    #[arg(long)]
    from: String,
    /// The stream or the subject that is written.
    #[arg(long)]
    to: String,
    /// How many messages are copied.
    #[arg(long)]
    count: u64,
    /// How many messages are read, and written, at once.
    #[arg(long, default_value_t = 1000)]
    batch: usize,
}

fn main() -> Result<()> {
    match Arguments::parse().program {
        Program::Redis(arguments) => redis_streams::copy(&arguments),
        Program::Nats(arguments) => nats::copy(&arguments),
    }
}
