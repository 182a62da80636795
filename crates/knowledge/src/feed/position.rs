//! Positions in the log of a server.

use std::fmt;
use std::str::FromStr;

/// A position in PostgreSQL's log of changes (an LSN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The position just before this one.
    pub(crate) fn before(self) -> Self {
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

/// A position in the log of a certain server, which a client can keep: `pg:SYSTEM:TIMELINE:POSITION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The system identifier of the cluster.
    pub system_id: u64,
    /// The timeline of the cluster's history.
    pub timeline: u32,
    /// The position.
    pub position: Position,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system_id, timeline) = (self.system_id, self.timeline);
        write!(f, "pg:{system_id}:{timeline}:{}", self.position)
    }
}

impl FromStr for LogPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(());
        if next()? != "pg" {
            return Err(());
        }
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (system_id, timeline, position) = (next()?, next()?, next()?);
        if parts.next().is_some() || !is_number(system_id) || !is_number(timeline) {
            return Err(());
        }
        Ok(Self {
            system_id: system_id.parse().map_err(drop)?,
            timeline: timeline.parse().map_err(drop)?,
            position: position.parse()?,
        })
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
        let whole = LogPosition {
            system_id: 7_000_000_000_000_000_000,
            timeline: 3,
            position,
        };
        assert_eq!(whole.to_string(), "pg:7000000000000000000:3:16/B374D848");
        assert_eq!(whole.to_string().parse(), Ok(whole));
        for text in [
            "",
            "pg:1:2",
            "pg:1:2:0/1:",
            "my:1:2:0/1",
            "pg:+1:2:0/1",
            "pg:1:-2:0/1",
        ] {
            assert_eq!(text.parse::<LogPosition>(), Err(()), "{text}");
        }
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
