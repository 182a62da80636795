//! The HTTP source of `lookaside enrich`: events that arrive as POST requests, each answered when
//! its events are delivered.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`options`] | the options of the URL |
//! | [`events`] | how a body is cut into events |
//! | [`buffer`] | the limit of the bytes that are under way |
//! | [`queue`] | the requests that wait for the run |
//! | [`shared`] | the state that the I/O threads and the run share |
//! | [`answer`] | the answers |
//! | [`service`] | the request handler, one value per I/O thread |
//! | [`body`] | the body of a request while it is received |
//! | [`pending`] | the requests of an I/O thread that wait for their delivery |
//! | [`source`] | the end that the run reads, and the server |
//!
//! A request is a [`Partition`](lookaside_stream::Partition): the acknowledged position of a
//! partition has no gaps, so that with one partition for all requests, a result that a sink delivers
//! late, such as a row that is tried again, would hold back the answers to all later requests. The
//! run reads requests in the order in which their bodies were complete, and writes their results in
//! that order. A sink of bytes delivers in the order of writing, so that there a request waits for
//! those before it in any case.

mod answer;
mod body;
mod buffer;
mod events;
mod options;
mod pending;
mod queue;
mod service;
mod shared;
mod source;

pub(crate) use self::options::WebhookOptions;
pub(crate) use self::source::{Webhook, WebhookEnd, check, open};
