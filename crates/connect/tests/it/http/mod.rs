//! HTTP servers: a scripted one, and a real ClickHouse.

mod clickhouse;
mod elasticsearch;
mod failures;
mod messages;
mod server;

use std::sync::Arc;

use lookaside_connect::check_sink;
use lookaside_stream::{MessageSink, Messages, Partition, Receipt, RefusedMessage};
use lookaside_testing::{wait_for, wait_until};

use super::flush::flush;

/// A sink, and the partition that its messages were read from.
struct Writing {
    sink: Box<dyn MessageSink>,
    partition: Arc<Partition>,
    next: u64,
}

impl Writing {
    fn open(url: &str) -> Self {
        Self::of(url, Partition::with_stable_positions("clicks", 0))
    }

    fn of(url: &str, partition: Arc<Partition>) -> Self {
        let opened = lookaside_connect::open_sink(&url.parse().unwrap()).unwrap();
        Self {
            sink: opened.sink,
            partition,
            next: 0,
        }
    }

    /// Writes events as one block, as a run does.
    fn write(&mut self, events: &[String]) {
        let events: Vec<_> = events.iter().map(|event| (&**event, None)).collect();
        self.write_keyed(&events);
    }

    fn write_keyed(&mut self, events: &[(&str, Option<&str>)]) {
        let mut messages = Messages::new();
        for (event, key) in events {
            let key = key.map(str::as_bytes);
            messages.push(&self.partition, self.next, Some(event.as_bytes()), key);
            self.next += 1;
        }
        self.write_messages(&messages).unwrap();
    }

    fn write_messages(&mut self, messages: &Messages) -> std::io::Result<()> {
        let receipt = Receipt::of(messages);
        for message in messages.iter() {
            receipt.add(message.segment(), 1);
        }
        let written = self.sink.write(messages, &receipt);
        if written.is_ok() {
            receipt.release();
        }
        written
    }

    fn flush(&mut self) {
        flush(&mut *self.sink).unwrap();
    }

    fn acknowledged(&self) -> u64 {
        self.partition.acknowledged().unwrap_or(0)
    }

    fn wait_acknowledged(&self, count: u64) {
        wait_until("messages are acknowledged", || self.acknowledged() == count);
    }

    /// The refused messages, which count as processed afterwards, as those of a run.
    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        let refused = self.sink.take_refused();
        for message in &refused {
            message.receipt.deliver(message.segment, 1);
        }
        refused
    }

    /// The payloads and reasons of refused messages.
    fn refusals(&mut self) -> Vec<(String, String)> {
        let refused = self.take_refused().into_iter();
        let texts = refused.map(|message| {
            let payload = message.payload.unwrap_or_default();
            (String::from_utf8(payload).unwrap(), message.reason)
        });
        texts.collect()
    }

    /// The error after which nothing is written any more.
    fn failure(&mut self) -> String {
        wait_for("the sink fails", || {
            let error = flush(&mut *self.sink).err()?;
            Some(error.to_string())
        })
    }
}

/// Events with consecutive numbers.
fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("{{\"n\":{n}}}")).collect()
}

/// What is wrong with a URL, by the check and when it is opened.
fn problem(url: &str) -> String {
    let url = url.parse().unwrap();
    let error = check_sink(&url).unwrap_err();
    let opened = lookaside_connect::open_sink(&url).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), opened.to_string());
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    format!("{error}; {}", error.hint().unwrap_or_default())
}
