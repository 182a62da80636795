//! A protocol with optional TLS, as one protocol for the owner of the socket.

use std::ops::{Deref, DerefMut};
use std::time::Instant;

use super::tls::{Channel, Peer};
use crate::Error;
use crate::driver::{Driver, Protocol, Sealed, Upgrade};

/// A protocol, inside of TLS once it requests that. Without TLS, bytes are passed through.
pub(crate) struct MaybeTls<T> {
    protocol: T,
    stage: Stage,
}

enum Stage {
    /// Without TLS.
    Plain,
    /// TLS may be started.
    Before(Peer),
    Inside(Box<Channel>),
}

impl<T: Upgrade> MaybeTls<T> {
    /// `peer` is the peer for TLS, if TLS may be used.
    pub(crate) fn new(protocol: T, peer: Option<Peer>) -> Self {
        let stage = peer.map_or(Stage::Plain, Stage::Before);
        Self { protocol, stage }
    }

    /// Protects an auxiliary connection in the same way.
    pub(crate) fn pair<E: Upgrade>(&self, auxiliary: E) -> MaybeTls<E> {
        let peer = match &self.stage {
            Stage::Inside(channel) => Some(channel.peer().clone()),
            Stage::Plain | Stage::Before(_) => None,
        };
        MaybeTls::new(auxiliary, peer)
    }

    fn begin_tls(&mut self) {
        let Stage::Before(peer) = std::mem::replace(&mut self.stage, Stage::Plain) else {
            panic!("TLS begins once");
        };
        match Channel::begin(peer) {
            Ok(channel) => self.stage = Stage::Inside(Box::new(channel)),
            Err(error) => self.protocol.fail(error),
        }
    }
}

impl<D: Driver> MaybeTls<D> {
    /// Ends the connection; the output contains the terminate message.
    pub(crate) fn close(&mut self) {
        self.protocol.close();
        if let Stage::Inside(channel) = &mut self.stage {
            channel.close(&mut self.protocol);
        }
    }
}

/// Everything except the bytes is delegated to the protocol.
impl<T> Deref for MaybeTls<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.protocol
    }
}

impl<T> DerefMut for MaybeTls<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.protocol
    }
}

impl<T> Sealed for MaybeTls<T> {}

impl<T: Upgrade> Protocol for MaybeTls<T> {
    fn output(&mut self) -> &[u8] {
        if matches!(self.stage, Stage::Before(_))
            && self.protocol.wants_tls()
            && self.protocol.output().is_empty()
        {
            self.begin_tls();
        }
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.protocol.output(),
            Stage::Inside(channel) => channel.output(&mut self.protocol),
        }
    }

    fn written(&mut self, size: usize) {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.protocol.written(size),
            Stage::Inside(channel) => channel.written(size),
        }
    }

    fn receive_space(&mut self, size: usize) -> &mut [u8] {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.protocol.receive_space(size),
            Stage::Inside(_) if self.protocol.is_over() => &mut [],
            Stage::Inside(channel) => channel.receive_space(size),
        }
    }

    fn received(&mut self, size: usize) {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.protocol.received(size),
            Stage::Inside(channel) => channel.received(&mut self.protocol, size),
        }
    }

    fn end_of_input(&mut self) {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.protocol.end_of_input(),
            Stage::Inside(channel) => channel.end_of_input(&mut self.protocol),
        }
    }

    fn is_input_ended(&self) -> bool {
        self.protocol.is_input_ended()
    }

    fn fail(&mut self, error: Error) {
        self.protocol.fail(error);
    }

    fn advance(&mut self, now: Instant) {
        self.protocol.advance(now);
    }

    fn is_over(&self) -> bool {
        self.protocol.is_over()
    }
}
