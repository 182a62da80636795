//! `[server]`: the time limits and minimum rates of clients.

use std::time::Duration;

use lookaside_http::Options;

use super::reader::Section;
use crate::failure::Failure;

/// The keys of [`Timeouts`].
pub(super) const KEYS: [&str; 6] = [
    "header_timeout_ms",
    "idle_timeout_ms",
    "body_timeout_ms",
    "body_rate_min",
    "stream_idle_timeout_ms",
    "stream_rate_min",
];

/// A day: a longer timeout is hardly intended, and has no effect that matters.
const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Bytes a second; more would refuse clients of a fast network.
const RATE_MAX: u64 = 1 << 30;

/// The limits for slow clients. The meaning of each key is that of the field of the same name in
/// [`Options`], whose defaults hold here too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    header: Duration,
    idle: Duration,
    body: Duration,
    /// From 1.
    body_rate_min: u64,
    stream_idle: Duration,
    stream_rate_min: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        let options = Options::default();
        Self {
            header: options.header_timeout,
            idle: options.idle_timeout,
            body: options.body_timeout,
            body_rate_min: options.body_rate_min,
            stream_idle: options.stream_idle_timeout,
            stream_rate_min: options.stream_rate_min,
        }
    }
}

impl Timeouts {
    pub(super) fn read(section: &Section<'_>) -> Result<Self, Failure> {
        let default = Self::default();
        let millis = |key: &str| section.millis(key, 1, TIMEOUT_MS_MAX);
        let body_rate_min = section.bytes("body_rate_min", 1, RATE_MAX)?;
        let stream_rate_min = section.bytes("stream_rate_min", 0, RATE_MAX)?;
        Ok(Self {
            header: millis("header_timeout_ms")?.unwrap_or(default.header),
            idle: millis("idle_timeout_ms")?.unwrap_or(default.idle),
            body: millis("body_timeout_ms")?.unwrap_or(default.body),
            body_rate_min: body_rate_min.unwrap_or(default.body_rate_min),
            stream_idle: millis("stream_idle_timeout_ms")?.unwrap_or(default.stream_idle),
            stream_rate_min: stream_rate_min.unwrap_or(default.stream_rate_min),
        })
    }

    /// Copies the values into the options of the server library.
    pub(crate) fn apply(&self, options: Options) -> Options {
        Options {
            header_timeout: self.header,
            idle_timeout: self.idle,
            body_timeout: self.body,
            body_rate_min: self.body_rate_min,
            stream_idle_timeout: self.stream_idle,
            stream_rate_min: self.stream_rate_min,
            ..options
        }
    }

    /// The keys that differ.
    pub(super) fn changes(&self, next: &Self) -> impl Iterator<Item = &'static str> {
        let is_changed = [
            self.header != next.header,
            self.idle != next.idle,
            self.body != next.body,
            self.body_rate_min != next.body_rate_min,
            self.stream_idle != next.stream_idle,
            self.stream_rate_min != next.stream_rate_min,
        ];
        let keys = KEYS.into_iter().zip(is_changed);
        keys.filter_map(|(key, is_changed)| is_changed.then_some(key))
    }
}
