//! Timestamp: a time as the server counts it.

/// Microseconds from 1970-01-01 to 2000-01-01: 30 years, 7 of them leap years.
const UNIX_MICROS_AT_EPOCH: i64 = (30 * 365 + 7) * 86_400 * 1_000_000;

/// A time in microseconds since 2000-01-01 00:00 UTC (`TimestampTz`).
///
/// This crate reads no clock: the caller passes times in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time of these microseconds since 1970-01-01 00:00 UTC; saturates at the least
    /// value.
    pub fn from_unix_micros(micros: i64) -> Self {
        Self(micros.saturating_sub(UNIX_MICROS_AT_EPOCH))
    }

    /// The microseconds since 1970-01-01 00:00 UTC; `i64::MAX` if they are more.
    pub fn unix_micros(self) -> i64 {
        self.0.saturating_add(UNIX_MICROS_AT_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_the_year_2000() {
        // `date --date=2000-01-01T00:00Z +%s`
        let epoch = 946_684_800_000_000;
        assert_eq!(Timestamp(0).unix_micros(), epoch);
        assert_eq!(Timestamp::from_unix_micros(epoch + 7), Timestamp(7));
        assert_eq!(Timestamp::from_unix_micros(0).unix_micros(), 0);
    }

    #[test]
    fn times_that_do_not_exist_do_not_overflow() {
        assert_eq!(Timestamp(i64::MAX).unix_micros(), i64::MAX);
        assert_eq!(Timestamp::from_unix_micros(i64::MIN).0, i64::MIN);
    }
}
