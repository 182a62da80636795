//! A dialogue and what protects it, as one dialogue to whoever owns the socket.

use std::ops::{Deref, DerefMut};
use std::time::Instant;

use super::tls::{Channel, Peer};
use crate::Error;
use crate::drive::{Drive, Sealed, Talk, Upgrade};

/// A dialogue, inside of TLS once it wants that. Without, bytes go straight through.
pub(crate) struct MaybeTls<T> {
    talk: T,
    stage: Stage,
}

enum Stage {
    /// There is no TLS.
    Plain,
    /// It may come to that.
    Before(Peer),
    Inside(Box<Channel>),
}

impl<T: Upgrade> MaybeTls<T> {
    /// The peer is whom to speak TLS with, if it comes to that.
    pub(crate) fn new(talk: T, peer: Option<Peer>) -> Self {
        let stage = peer.map_or(Stage::Plain, Stage::Before);
        Self { talk, stage }
    }

    /// Gives an errand the same protection.
    pub(crate) fn pair<E: Upgrade>(&self, errand: E) -> MaybeTls<E> {
        let peer = match &self.stage {
            Stage::Inside(channel) => Some(channel.peer().clone()),
            Stage::Plain | Stage::Before(_) => None,
        };
        MaybeTls::new(errand, peer)
    }

    fn begin_tls(&mut self) {
        let Stage::Before(peer) = std::mem::replace(&mut self.stage, Stage::Plain) else {
            panic!("TLS begins once");
        };
        match Channel::begin(peer) {
            Ok(channel) => self.stage = Stage::Inside(Box::new(channel)),
            Err(error) => self.talk.fail(error),
        }
    }
}

impl<D: Drive> MaybeTls<D> {
    /// Ends the connection; the output holds the farewell.
    pub(crate) fn close(&mut self) {
        self.talk.close();
        if let Stage::Inside(channel) = &mut self.stage {
            channel.close(&mut self.talk);
        }
    }
}

/// All but the bytes is the dialogue's own affair.
impl<T> Deref for MaybeTls<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.talk
    }
}

impl<T> DerefMut for MaybeTls<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.talk
    }
}

impl<T> Sealed for MaybeTls<T> {}

impl<T: Upgrade> Talk for MaybeTls<T> {
    fn output(&mut self) -> &[u8] {
        if matches!(self.stage, Stage::Before(_))
            && self.talk.wants_tls()
            && self.talk.output().is_empty()
        {
            self.begin_tls();
        }
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.talk.output(),
            Stage::Inside(channel) => channel.output(&mut self.talk),
        }
    }

    fn written(&mut self, size: usize) {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.talk.written(size),
            Stage::Inside(channel) => channel.written(size),
        }
    }

    fn receive_space(&mut self, size: usize) -> &mut [u8] {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.talk.receive_space(size),
            Stage::Inside(_) if self.talk.is_over() => &mut [],
            Stage::Inside(channel) => channel.receive_space(size),
        }
    }

    fn received(&mut self, size: usize) {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.talk.received(size),
            Stage::Inside(channel) => channel.received(&mut self.talk, size),
        }
    }

    fn end_of_input(&mut self) {
        match &mut self.stage {
            Stage::Plain | Stage::Before(_) => self.talk.end_of_input(),
            Stage::Inside(channel) => channel.end_of_input(&mut self.talk),
        }
    }

    fn is_input_ended(&self) -> bool {
        self.talk.is_input_ended()
    }

    fn fail(&mut self, error: Error) {
        self.talk.fail(error);
    }

    fn advance(&mut self, now: Instant) {
        self.talk.advance(now);
    }

    fn is_over(&self) -> bool {
        self.talk.is_over()
    }
}
