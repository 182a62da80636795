//! TLS as a layer between a protocol and its socket, independent of both.

mod channel;
mod context;
mod end_point;
mod verifier;

pub(super) use channel::Channel;
pub(crate) use context::Context;

use std::sync::Arc;

use crate::Host;

/// The peer for TLS, if it is used.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) context: Arc<Context>,
    pub(crate) host: Arc<Host>,
}
