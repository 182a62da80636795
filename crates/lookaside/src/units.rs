//! Sizes and times that are written with a unit.

use std::num::NonZero;
use std::time::Duration;

/// What a size is, for messages.
pub(crate) const SIZE: &str = "a number of bytes of at least 1, such as 100MiB; the units are KiB, \
                               MiB and GiB";

/// What a time is, for messages.
pub(crate) const TIME: &str = "a time of at least 1s, such as 1h; the units are s, m, h and d";

/// Parses a number of bytes: `1048576`, `1024KiB`, `1MiB`, `1GiB`.
pub(crate) fn size(text: &str) -> Option<NonZero<u64>> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    NonZero::new(number.checked_mul(factor)?)
}

/// Parses a time of at least a second: `30s`, `15m`, `1h`, `1d`.
pub(crate) fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let seconds = NonZero::new(number.checked_mul(factor)?)?;
    Some(Duration::from_secs(seconds.get()))
}

/// The number at the beginning, and what follows.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        for (text, expected) in [
            ("1", Some(1)),
            ("100MiB", Some(100 << 20)),
            ("2KiB", Some(2048)),
            ("3GiB", Some(3 << 30)),
            ("0", None),
            ("0MiB", None),
            ("", None),
            ("MiB", None),
            ("1MB", None),
            ("1 MiB", None),
            ("-1", None),
            ("1.5GiB", None),
            ("99999999999999999999", None),
            ("18446744073709551615GiB", None),
        ] {
            assert_eq!(size(text).map(NonZero::get), expected, "{text:?}");
        }
        for (text, expected) in [
            ("1s", Some(1)),
            ("15m", Some(900)),
            ("1h", Some(3600)),
            ("7d", Some(604_800)),
            ("0s", None),
            ("1", None),
            ("500ms", None),
            ("18446744073709551615d", None),
        ] {
            assert_eq!(time(text), expected.map(Duration::from_secs), "{text:?}");
        }
    }
}
