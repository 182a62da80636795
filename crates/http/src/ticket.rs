//! Names of requests that wait for their answers.

use std::marker::PhantomData;

use crate::slab::Key;

/// The name of a request that is answered later, on the same thread.
///
/// It can be stored as a number, in the token of a timer say. A ticket whose client has gone names
/// nobody ever after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    bits: u64,
    /// Another thread has other requests by the same number.
    _not_send: PhantomData<*const ()>,
}

/// The connection's index is above the number of the reply, which is unique on its thread for as
/// long as a million requests a second are put off for twelve days.
const SEQUENCE_BITS: u32 = 40;
pub(crate) const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

impl Ticket {
    pub(crate) fn new(key: Key, sequence: u64) -> Self {
        assert!(
            key.index < 1 << (64 - SEQUENCE_BITS),
            "connections are fewer than 2^24"
        );
        let sequence = sequence & SEQUENCE_MASK;
        Self::from_u64(u64::from(key.index) << SEQUENCE_BITS | sequence)
    }

    /// The ticket of a number that came from one.
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
