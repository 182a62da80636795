//! A request, as passed to a service.

use std::borrow::Cow;

use crate::parse::{Framing, Head};
use crate::peer::Origin;
use crate::query::{QueryPairs, decode_path};
use crate::{Method, Peer, Route};

/// A request. It borrows the received bytes; nothing is copied.
pub struct Request<'a> {
    head: &'a Head<'a>,
    body: &'a [u8],
    route: &'a Route,
    origin: &'a Origin,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        head: &'a Head<'a>,
        body: &'a [u8],
        route: &'a Route,
        origin: &'a Origin,
    ) -> Self {
        Self {
            head,
            body,
            route,
            origin,
        }
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The method as it was sent.
    pub fn method_name(&self) -> &'a str {
        ascii(self.head.method_name)
    }

    /// The path as it was sent, percent-encoded. It begins with `/`, or is the `*` of an `OPTIONS`
    /// for the whole server.
    pub fn path(&self) -> &'a str {
        self.head.path
    }

    /// The part after the question mark, as it was sent.
    pub fn query(&self) -> Option<&'a str> {
        self.head.query
    }

    /// The query's names and values, decoded.
    pub fn query_pairs(&self) -> QueryPairs<'a> {
        QueryPairs::new(self.head.query.unwrap_or_default())
    }

    /// The first value of a name in the query, decoded.
    pub fn query_value(&self, name: &str) -> Option<Cow<'a, str>> {
        self.query_pairs().find(name)
    }

    /// The first header of a name, case-insensitively.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.header_values(name).next()
    }

    /// The first header of a name; `None` also when it is not UTF-8.
    pub fn header_str(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.header(name)?).ok()
    }

    /// The values of all headers of a name, in order.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> + Clone {
        let fields = self.head.fields();
        fields
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// All headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let fields = self.head.fields();
        fields.map(|(name, value)| (ascii(name), value))
    }

    /// The requested host, possibly with a port. HTTP/1.0 clients may omit it.
    pub fn host(&self) -> Option<&'a str> {
        self.head.host.map(ascii)
    }

    /// The body. On a [streamed](Route::streamed) route it is empty here.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The length of the body; `None` if it is chunked.
    pub fn content_length(&self) -> Option<u64> {
        match self.head.framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }

    /// A named part of the path, by the pattern of a [`Router`](crate::Router), as it was sent.
    pub fn param(&self, name: &str) -> Option<&'a str> {
        self.route.params.find(name, self.head.path)
    }

    /// A named part of the path, decoded; `None` also if that is not UTF-8.
    pub fn param_decoded(&self, name: &str) -> Option<Cow<'a, str>> {
        decode_path(self.param(name)?)
    }

    /// The client.
    pub fn peer(&self) -> Peer {
        self.origin.peer
    }

    /// Whether it was received over TLS.
    pub fn is_tls(&self) -> bool {
        self.origin.is_tls
    }

    /// The minor version, 0 or 1; later 1.x versions count as 1.
    pub fn version_minor(&self) -> u8 {
        self.head.minor
    }

    /// The route returned by [`Service::route`](crate::Service::route).
    pub fn route(&self) -> &'a Route {
        self.route
    }
}

/// Converts text that the parser has checked as a token or a host.
fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the parser takes ASCII only here")
}
