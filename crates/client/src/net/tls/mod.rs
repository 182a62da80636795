//! TLS as a stage between a dialogue and its socket; it knows neither.

mod channel;
mod context;
mod end_point;
mod verifier;

pub(super) use channel::Channel;
pub(crate) use context::Context;

use std::sync::Arc;

use crate::Host;

/// The peer that TLS is negotiated with, if it is.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) context: Arc<Context>,
    pub(crate) host: Arc<Host>,
}
