//! What librdkafka tells: its log, and errors that concern a client as a whole.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Statistics};
use tracing::{debug, error, warn};

/// Passes librdkafka's log and errors on, for the connector of this name.
pub(super) struct Log {
    name: String,
    /// When a warning was logged last.
    warned: Mutex<Option<Instant>>,
}

/// How often a warning is logged that the library repeats ten times a second.
const WARN_INTERVAL: Duration = Duration::from_secs(30);

impl Log {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            warned: Mutex::default(),
        }
    }

    /// Whether a warning is due.
    fn is_due(&self) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned.is_none_or(|warned| warned.elapsed() >= WARN_INTERVAL);
        if is_due {
            *warned = Some(Instant::now());
        }
        is_due
    }
}

impl ClientContext for Log {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let name = &*self.name;
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                error!(connector = name, facility, "{message}")
            }
            // Lost connections are among them, which are opened again. What needs attention is also
            // an error of the client.
            _ => debug!(connector = name, facility, "{message}"),
        }
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let name = &*self.name;
        match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::Authentication
                | RDKafkaErrorCode::Resolve
                | RDKafkaErrorCode::SSL
                | RDKafkaErrorCode::Fatal,
            ) if self.is_due() => warn!(connector = name, "{reason}"),
            _ => debug!(connector = name, "{error}: {reason}"),
        }
    }
}

impl ConsumerContext for Log {}
