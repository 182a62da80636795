//! A read in 40 bytes, so that ten million of them are 400 MB.
//!
//! The length of a read and the age of its claim are stored instead of moments, each in four bytes.
//! What is rounded is rounded so that no rule becomes stricter: the end to the future, a claim to the
//! past. Only a read of more than 35 minutes is cut to that length.

use super::contract::{ContractId, Layer};
use super::operation::{Key, Position, Read, SessionId, Source, Version};
use super::time::Time;
use crate::fault::PhaseId;

/// See [`Read`] for the meaning of the fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedRead {
    begin: u64,
    /// 0 without a token.
    token: u64,
    key: u32,
    /// 0 without a row.
    version: u32,
    /// Nanoseconds below [`LENGTH_IN_MICROS`], microseconds with that bit.
    length: u32,
    /// Microseconds before the end, or one of the two values below.
    claim_age: u32,
    session: u16,
    phase: u16,
    contract: u8,
    layer: Layer,
    has_row: bool,
    is_from_memory: bool,
}

const _: () = assert!(size_of::<PackedRead>() == 40);

const LENGTH_IN_MICROS: u32 = 1 << 31;
const CLAIM_NONE: u32 = u32::MAX;
const CLAIM_AFTER_END: u32 = u32::MAX - 1;

impl PackedRead {
    pub(super) fn pack(read: &Read) -> Self {
        let length = pack_length(read.end.nanos().saturating_sub(read.begin.nanos()));
        let end = read.begin.nanos().saturating_add(unpack_length(length));
        Self {
            begin: read.begin.nanos(),
            token: read.token.map_or(0, |token| token.0.get()),
            key: read.key.0,
            version: read.version.unwrap_or_default().0,
            length,
            claim_age: pack_claim(read.fresh_as_of, read.end, end),
            session: read.session.0,
            phase: read.phase.bits(),
            contract: read.contract.bits(),
            layer: read.layer,
            has_row: read.version.is_some(),
            is_from_memory: read.source == Source::Memory,
        }
    }

    pub(super) fn unpack(&self) -> Read {
        let end = self.begin.saturating_add(unpack_length(self.length));
        Read {
            key: self.key(),
            version: self.has_row.then_some(Version(self.version)),
            begin: Time::from_nanos(self.begin),
            end: Time::from_nanos(end),
            contract: self.contract(),
            token: self.token.try_into().ok().map(Position),
            layer: self.layer,
            session: SessionId(self.session),
            fresh_as_of: unpack_claim(self.claim_age, end),
            phase: self.phase(),
            source: match self.is_from_memory {
                true => Source::Memory,
                false => Source::Database,
            },
        }
    }

    /// What the reads of a history are ordered by.
    pub(super) fn order(&self) -> (Key, u64, u64) {
        (self.key(), self.begin, unpack_length(self.length))
    }

    pub(super) fn key(&self) -> Key {
        Key(self.key)
    }

    pub(super) fn contract(&self) -> ContractId {
        ContractId::from_bits(self.contract)
    }

    pub(super) fn phase(&self) -> PhaseId {
        PhaseId::from_bits(self.phase)
    }
}

fn pack_length(nanos: u64) -> u32 {
    match u32::try_from(nanos) {
        Ok(nanos) if nanos < LENGTH_IN_MICROS => nanos,
        _ => {
            let micros = nanos.div_ceil(1000).min(u64::from(LENGTH_IN_MICROS - 1));
            LENGTH_IN_MICROS | micros as u32
        }
    }
}

fn unpack_length(length: u32) -> u64 {
    match length & LENGTH_IN_MICROS {
        0 => u64::from(length),
        _ => u64::from(length & !LENGTH_IN_MICROS) * 1000,
    }
}

/// `end` is the moment as it was recorded, `kept_end` as it is unpacked.
fn pack_claim(claim: Option<Time>, end: Time, kept_end: u64) -> u32 {
    match claim {
        None => CLAIM_NONE,
        Some(claim) if claim > end => CLAIM_AFTER_END,
        Some(claim) => {
            let age = kept_end.saturating_sub(claim.nanos()).div_ceil(1000);
            // An older claim promises nothing that matters here.
            let age = u32::try_from(age).unwrap_or(CLAIM_NONE);
            if age == CLAIM_AFTER_END {
                CLAIM_NONE
            } else {
                age
            }
        }
    }
}

fn unpack_claim(claim_age: u32, end: u64) -> Option<Time> {
    match claim_age {
        CLAIM_NONE => None,
        CLAIM_AFTER_END => Some(Time::from_nanos(end.saturating_add(1))),
        age => Some(Time::from_nanos(end.saturating_sub(u64::from(age) * 1000))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Contract, Contracts};

    fn read(length: u64, claim: Option<u64>) -> Read {
        let contracts = Contracts::new([Contract::Now]).unwrap();
        Read {
            key: Key(7),
            version: Some(Version(u32::MAX)),
            begin: Time::from_nanos(1_000_000_000_000),
            end: Time::from_nanos(1_000_000_000_000 + length),
            contract: contracts.id(Contract::Now).unwrap(),
            token: 9.try_into().ok().map(Position),
            layer: Layer::Http,
            session: SessionId(3),
            fresh_as_of: claim.map(Time::from_nanos),
            phase: PhaseId::from_bits(4),
            source: Source::Memory,
        }
    }

    #[test]
    fn a_read_comes_back_as_it_was() {
        for (length, claim) in [
            (0, None),
            (1000, Some(1_000_000_000_000)),
            (2_000_000_000, Some(1_000_000_000_000)),
        ] {
            let read = read(length, claim);
            assert_eq!(PackedRead::pack(&read).unpack(), read);
            let absent = Read {
                version: None,
                token: None,
                source: Source::Database,
                ..read
            };
            assert_eq!(PackedRead::pack(&absent).unpack(), absent);
        }
    }

    #[test]
    fn rounding_makes_no_rule_stricter() {
        for (length, claim, kept_length, kept_claim) in [
            // A claim is rounded to the past, a long length to the future.
            (1500, Some(1_000_000_000_001), 1500, Some(999_999_999_500)),
            (3_000_000_001, None, 3_000_001_000, None),
            // Claims that are out of range.
            (10, Some(1_000_000_000_020), 10, Some(1_000_000_000_011)),
            (4_000_000_000_000, Some(0), 2_147_483_647_000, Some(0)),
        ] {
            let kept = PackedRead::pack(&read(length, claim)).unpack();
            assert_eq!(kept.end.since(kept.begin).as_nanos(), kept_length);
            assert_eq!(kept.fresh_as_of.map(Time::nanos), kept_claim, "{length}");
        }
    }
}
