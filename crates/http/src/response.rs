//! Replies that are independent of a connection.

use crate::render::is_header;

/// A reply that owns its contents, for a [`Deferred`](crate::Deferred) or a cache.
#[derive(Clone, Debug)]
pub struct Response {
    status: u16,
    /// The headers, in wire format.
    lines: Vec<u8>,
    body: Vec<u8>,
}

impl Response {
    /// A reply without headers and body.
    pub fn new(status: u16) -> Self {
        Self {
            status,
            lines: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Adds a header. One with a line feed in it, or one about the framing, is an error, and turns
    /// the reply into a 500.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        if !is_header(name, value) {
            return Self::new(500);
        }
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
        self
    }

    /// Adds the header `Content-Type`.
    pub fn content_type(self, content_type: &str) -> Self {
        self.header("Content-Type", content_type)
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The body.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }
}
