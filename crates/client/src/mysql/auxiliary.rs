//! Operations over a second connection.

use std::time::Instant;

use super::{KillConnection, Probe};
use crate::Error;
use crate::driver::{Protocol, Sealed, Upgrade};

/// A second connection to the same server, for a driver.
pub enum AuxiliaryConnection {
    /// Cancels a query.
    Kill(Box<KillConnection>),
    /// Determines why the server does not respond.
    Probe(Probe),
}

/// Calls a method of whichever it is.
macro_rules! either {
    ($auxiliary:expr, $each:ident => $call:expr) => {
        match $auxiliary {
            AuxiliaryConnection::Kill($each) => $call,
            AuxiliaryConnection::Probe($each) => $call,
        }
    };
}

impl Sealed for AuxiliaryConnection {}

impl Protocol for AuxiliaryConnection {
    fn output(&mut self) -> &[u8] {
        either!(self, each => each.output())
    }

    fn written(&mut self, size: usize) {
        either!(self, each => each.written(size));
    }

    fn receive_space(&mut self, size: usize) -> &mut [u8] {
        either!(self, each => each.receive_space(size))
    }

    fn received(&mut self, size: usize) {
        either!(self, each => each.received(size));
    }

    fn end_of_input(&mut self) {
        either!(self, each => each.end_of_input());
    }

    fn is_input_ended(&self) -> bool {
        either!(self, each => each.is_input_ended())
    }

    fn fail(&mut self, error: Error) {
        either!(self, each => each.fail(error));
    }

    fn advance(&mut self, now: Instant) {
        either!(self, each => each.advance(now));
    }

    fn is_over(&self) -> bool {
        either!(self, each => each.is_over())
    }
}

impl Upgrade for AuxiliaryConnection {
    fn wants_tls(&self) -> bool {
        either!(self, each => each.wants_tls())
    }

    fn tls_started(&mut self, server_end_point: Option<&[u8]>) {
        either!(self, each => each.tls_started(server_end_point));
    }
}
