//! Writes messages with the time at a fixed rate, and looks at the time when their results arrive.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::Value;

use crate::{TIMEOUT, consumer_config, next, producer_config};

/// Write JSON events with the time in `sent` at a fixed rate, read their results from another topic,
/// and print the distribution of the time from one to the other
#[derive(Args)]
pub(crate) struct ClockArguments {
    #[arg(long)]
    to: String,
    #[arg(long)]
    from: String,
    /// Messages in a second.
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The first seconds, which do not count.
    #[arg(long, default_value_t = 5)]
    warm_up: u64,
    /// How long the writer collects messages.
    #[arg(long, default_value = "1")]
    linger_ms: String,
}

/// Fills a message to 200 bytes.
const FILLER: &str = "a filler whose text has no meaning, so that a message has the length that is common for \
    an event of a web server, which names an agent and a referer";

pub(crate) fn run(broker: &str, arguments: &ClockArguments) -> Result<()> {
    let group = format!("clock-{}", std::process::id());
    let consumer: BaseConsumer = consumer_config(broker, &group)
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "5")
        .create()?;
    consumer.subscribe(&[&arguments.from])?;
    let count = arguments.rate * arguments.seconds;
    let begun = Instant::now();
    let writer = thread::spawn({
        let (broker, topic) = (broker.to_owned(), arguments.to.clone());
        let (rate, linger) = (arguments.rate, arguments.linger_ms.clone());
        move || write(&broker, &topic, rate, count, &linger, begun)
    });
    let mut times = Vec::with_capacity(count as usize);
    let warm_up = arguments.warm_up * 1_000_000_000;
    let mut read = 0;
    while read < count {
        let message = next(&consumer)?;
        let event: Value = serde_json::from_slice(message.payload().context("no payload")?)?;
        let sent = event["sent"].as_u64().context("no time in a result")?;
        read += 1;
        if sent >= warm_up {
            times.push(begun.elapsed().as_nanos() as u64 - sent);
        }
    }
    writer.join().expect("the writer does not panic")?;
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    let line = serde_json::json!({
        "messages": times.len(), "rate": arguments.rate, "linger_ms": arguments.linger_ms,
        "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": at(1.0),
    });
    println!("{line}");
    Ok(())
}

/// The time of a message is that at which it was due, also if it is written later.
fn write(
    broker: &str,
    topic: &str,
    rate: u64,
    count: u64,
    linger_ms: &str,
    begun: Instant,
) -> Result<()> {
    let producer: ThreadedProducer<DefaultProducerContext> = producer_config(broker)
        .set("linger.ms", linger_ms)
        .create()?;
    let mut sent = 0;
    while sent < count {
        let due = (begun.elapsed().as_nanos() * u128::from(rate) / 1_000_000_000) as u64;
        while sent < due.min(count) {
            let time = sent * 1_000_000_000 / rate;
            let address = sent.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            let [a, b, c, d, ..] = address;
            let event = format!(r#"{{"sent":{time},"ip":"{a}.{b}.{c}.{d}","text":"{FILLER}"}}"#);
            let key = (sent % 1000).to_string();
            let record = BaseRecord::to(topic).key(&key).payload(&event);
            producer.send(record).map_err(|(error, _)| error)?;
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(producer.flush(TIMEOUT)?)
}
