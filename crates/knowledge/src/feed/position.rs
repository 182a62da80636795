//! Positions in the log of a certain server.

use std::fmt;
use std::str::FromStr;

use lookaside_value::Position;

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
    fn positions_are_written_with_their_server() {
        let whole = LogPosition {
            system_id: 7_000_000_000_000_000_000,
            timeline: 3,
            position: Position(0x16_b374_d848),
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
    }
}
