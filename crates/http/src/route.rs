//! How requests are received, and the named parts of their paths.

use std::sync::Arc;

/// How a request is received.
#[derive(Clone, Debug)]
pub struct Route {
    /// An arbitrary id, by which [`Service::call`](crate::Service::call) recognizes the route.
    pub id: u32,
    /// How the body is received.
    pub body: BodyMode,
    /// Whether the body is a live stream, see [`live`](Self::live).
    pub(crate) is_live: bool,
    /// The tag of a serial route.
    pub(crate) serial: Option<u32>,
    pub(crate) params: Params,
}

/// How a body is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyMode {
    /// As a whole, before the call. A longer one is 413; the default limit is
    /// [`Options::body_size_max`](crate::Options::body_size_max).
    Buffered {
        /// The limit, in bytes.
        size_max: Option<usize>,
    },
    /// In pieces, after the call. A longer one is 413, or a closed connection when the reply has
    /// begun.
    Streamed {
        /// The limit, in bytes, if there is one.
        size_max: Option<u64>,
    },
}

impl Route {
    /// A route whose body is received as a whole before the call.
    pub const fn buffered() -> Self {
        Self::with(BodyMode::Buffered { size_max: None })
    }

    /// A route whose body is received in pieces; the call passes it to a sink by
    /// [`Reply::receive`](crate::Reply::receive), or answers without it.
    pub fn streamed() -> Self {
        Self::with(BodyMode::Streamed { size_max: None })
    }

    /// A route whose requests are answered by the [`SerialStage`](crate::SerialStage), which gets
    /// the tag. The body is received as a whole.
    pub fn serial(tag: u32) -> Self {
        Self {
            serial: Some(tag),
            ..Self::buffered()
        }
    }

    const fn with(body: BodyMode) -> Self {
        Self {
            id: 0,
            body,
            is_live: false,
            serial: None,
            params: Params {
                names: None,
                ranges: [(0, 0); PARAM_COUNT_MAX],
            },
        }
    }

    /// Marks the body of a streamed route as a live stream: its duration is not limited, and it has
    /// the limits of [`Options::stream_idle_timeout`](crate::Options::stream_idle_timeout) and
    /// [`Options::stream_rate_min`](crate::Options::stream_rate_min) in place of those of other
    /// bodies.
    pub fn live(mut self) -> Self {
        self.is_live = true;
        self
    }

    /// Sets the limit of the body in bytes.
    pub fn limit(mut self, limit: usize) -> Self {
        match &mut self.body {
            BodyMode::Buffered { size_max } => *size_max = Some(limit),
            BodyMode::Streamed { size_max } => *size_max = Some(limit as u64),
        }
        self
    }
}

/// The number of named parts in a pattern.
pub(crate) const PARAM_COUNT_MAX: usize = 8;

/// The named parts of a path. A target has less than 2^16 bytes, see the check of the options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    pub(crate) names: Option<Arc<[Box<str>]>>,
    pub(crate) ranges: [(u16, u16); PARAM_COUNT_MAX],
}

impl Params {
    pub(crate) fn find<'a>(&self, name: &str, path: &'a str) -> Option<&'a str> {
        let index = self
            .names
            .as_ref()?
            .iter()
            .position(|other| **other == *name)?;
        let (from, to) = self.ranges[index];
        path.get(from.into()..to.into())
    }
}
