//! Identifiers of deferred requests.

use std::marker::PhantomData;

use crate::slab::Key;

/// Identifies a request that is answered later, on the same thread.
///
/// It can be stored as a number, for example in the token of a timer. A ticket whose client has
/// disconnected never refers to a later request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    bits: u64,
    /// On another thread, the same number refers to another request.
    _not_send: PhantomData<*const ()>,
}

/// The connection's index is above the number of the reply, which is unique on its thread unless a
/// million requests a second are deferred for twelve days.
const SEQUENCE_BITS: u32 = 40;
pub(crate) const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

// The index of a connection, of which a ticket has the lower bits, has 32.
const _: () = assert!(SEQUENCE_BITS < u64::BITS);
const _: () = assert!(u64::BITS - SEQUENCE_BITS <= u32::BITS);

impl Ticket {
    pub(crate) fn new(key: Key, sequence: u64) -> Self {
        assert!(
            key.index < 1 << (64 - SEQUENCE_BITS),
            "connections are fewer than 2^24"
        );
        let sequence = sequence & SEQUENCE_MASK;
        Self::from_u64(u64::from(key.index) << SEQUENCE_BITS | sequence)
    }

    /// Converts the number of a ticket back to the ticket.
    pub fn from_u64(bits: u64) -> Self {
        Self {
            bits,
            _not_send: PhantomData,
        }
    }

    pub(crate) fn index(self) -> u32 {
        (self.bits >> SEQUENCE_BITS) as u32
    }

    pub(crate) fn sequence(self) -> u64 {
        self.bits & SEQUENCE_MASK
    }
}

impl From<Ticket> for u64 {
    fn from(ticket: Ticket) -> Self {
        ticket.bits
    }
}
