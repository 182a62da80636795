//! Positions in the log of a server.

use std::fmt;
use std::str::FromStr;

/// A position in PostgreSQL's log of changes (an LSN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The position just before this one.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// As PostgreSQL writes it: `16/B374D848`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let half = |digits: &str| {
            let is_hex = digits.bytes().all(|it| it.is_ascii_hexdigit());
            let number = u32::from_str_radix(digits, 16).ok();
            number.filter(|_| is_hex).map(u64::from).ok_or(())
        };
        let (high, low) = text.split_once('/').ok_or(())?;
        Ok(Self(half(high)? << 32 | half(low)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_written_as_postgresql_writes_them() {
        let position = Position(0x16_b374_d848);
        assert_eq!(position.to_string(), "16/B374D848");
        assert_eq!("16/B374D848".parse(), Ok(position));
        assert_eq!("16/b374d848".parse(), Ok(position));
        for text in [
            "",
            "16",
            "16/",
            "/16",
            "+1/2",
            "1/-2",
            "1/2/3",
            "123456789/0",
            "g/0",
        ] {
            assert_eq!(text.parse::<Position>(), Err(()), "{text}");
        }
    }
}
