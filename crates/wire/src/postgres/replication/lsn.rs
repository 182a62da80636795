//! Lsn: a position in the write-ahead log.

use std::fmt;
use std::str::FromStr;

/// A log sequence number, the byte position of a record in the write-ahead log (`XLogRecPtr`).
///
/// Its text is two hexadecimal numbers of 32 bits, as the server writes it:
///
/// ```
/// use lookaside_wire::postgres::replication::Lsn;
///
/// let lsn: Lsn = "16/B374D848".parse()?;
/// assert_eq!(lsn, Lsn(0x16_b374_d848));
/// assert_eq!(lsn.to_string(), "16/B374D848");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// <https://www.postgresql.org/docs/current/datatype-pg-lsn.html>
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// No position (`InvalidXLogRecPtr`): the log does not begin at 0.
    pub const INVALID: Self = Self(0);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error of a text that is not an [`Lsn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLsnError(());

impl fmt::Display for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a log sequence number; one looks like 16/B374D848")
    }
}

impl std::error::Error for ParseLsnError {}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    /// Parses what the type `pg_lsn` accepts: one to eight hexadecimal digits on each side.
    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let half = |digits: &str| {
            let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_half = is_hexadecimal && digits.len() <= 8;
            // An empty text is not a number.
            let number = is_half.then(|| u32::from_str_radix(digits, 16).ok());
            number.flatten().ok_or(ParseLsnError(()))
        };
        let (high, low) = text.split_once('/').ok_or(ParseLsnError(()))?;
        Ok(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_server() {
        for (text, lsn) in [
            ("0/0", Lsn::INVALID),
            ("16/B374D848", Lsn(0x16_b374_d848)),
            ("0/1000028", Lsn(0x0100_0028)),
            ("FFFFFFFF/FFFFFFFF", Lsn(u64::MAX)),
        ] {
            assert_eq!(text.parse(), Ok(lsn));
            assert_eq!(lsn.to_string(), text);
        }
        // Version 19 writes leading zeros.
        assert_eq!("1/00000028".parse(), Ok(Lsn(0x1_0000_0028)));
        assert_eq!("a/b".parse(), Ok(Lsn(0xa_0000_000b)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "/",
            "1",
            "1/",
            "/1",
            "1/2/3",
            "1/g",
            "+1/2",
            "1/-2",
            " 1/2",
            "1/2 ",
            "123456789/0",
            "0/123456789",
            "0x1/2",
            "1/é",
        ] {
            assert_eq!(text.parse::<Lsn>(), Err(ParseLsnError(())), "{text}");
        }
    }

    #[test]
    fn positions_are_ordered() {
        let parse = |text: &str| text.parse::<Lsn>().unwrap();
        assert!(parse("2/0") > parse("1/FFFFFFFF"));
    }
}
