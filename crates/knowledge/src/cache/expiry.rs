//! The expiry and the size of an entry in one word, so that a slot of a session's cache is one cache
//! line.

use crate::clock::Ticks;

/// A moment in ticks of 2^-12 seconds (42 bits: 34 years), and a size in units of 64 bytes (22 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpiryAndSize(u64);

const SIZE_BITS: u32 = 22;
const SIZE_UNIT: u64 = 64;

/// This size and all larger ones: an entry that no cache keeps.
const SIZE_MAX: u64 = (1 << SIZE_BITS) - 1;

impl ExpiryAndSize {
    /// The moment is rounded down and the size, in bytes, is rounded up.
    pub(super) fn new(expires: Ticks, size: usize) -> Self {
        let units = (size as u64).div_ceil(SIZE_UNIT).min(SIZE_MAX);
        Self(expires.coarse() << SIZE_BITS | units)
    }

    pub(super) fn expires(self) -> Ticks {
        Ticks::from_coarse(self.0 >> SIZE_BITS)
    }

    #[inline]
    pub(super) fn is_after(self, now: Ticks) -> bool {
        now.coarse() < self.0 >> SIZE_BITS
    }

    /// In bytes; the greatest number for the size of an entry that no cache keeps.
    #[inline]
    pub(super) fn size(self) -> u64 {
        match self.0 & SIZE_MAX {
            SIZE_MAX => u64::MAX,
            units => units * SIZE_UNIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_parts_are_kept() {
        for millis in [0, 1, 999, 1000, 86_400_000, 30 * 365 * 86_400_000] {
            let expires = Ticks::START.after(Duration::from_millis(millis));
            for (size, rounded) in [
                (0, 0),
                (1, 64),
                (64, 64),
                (65, 128),
                ((256 << 20) - 128, (256 << 20) - 128),
                ((256 << 20) - 64, u64::MAX),
                (usize::MAX, u64::MAX),
            ] {
                let packed = ExpiryAndSize::new(expires, size);
                assert_eq!(packed.size(), rounded);
                assert!(packed.expires() <= expires);
                assert!(packed.expires().until(expires) < Duration::from_micros(245));
                assert!(!packed.is_after(expires));
                assert_eq!(packed.is_after(Ticks::START), millis > 0);
            }
        }
        let never = ExpiryAndSize::new(Ticks::START.after(Duration::MAX), 1);
        assert!(never.is_after(Ticks::START.after(Duration::from_secs(1 << 29))));
    }
}
