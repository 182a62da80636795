//! Which changes of a database an answer has to include.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Position;

/// The changes of the database that an answer has to include: those of both parts.
///
/// A cached answer satisfies a contract if the change feed of its provider shows that it is valid.
/// Without a feed, or if the feed is behind, its age alone counts. If no cached answer satisfies the
/// contract, the database is queried.
///
/// ```
/// use std::time::Duration;
/// use lookaside_value::{Contract, Position};
///
/// let own_write = Contract::after(Position(0x1a2b));
/// let both = own_write.and("50ms".parse()?);
/// assert_eq!(both.within, Some(Duration::from_millis(50)));
/// assert_eq!(both.after, Some(Position(0x1a2b)));
/// # Ok::<(), lookaside_value::ParseContractError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// All changes that were visible in the database this long before the call; zero: when the call
    /// was made.
    pub within: Option<Duration>,
    /// All changes that were committed up to this position of the provider's log.
    pub after: Option<Position>,
}

impl Contract {
    /// No more than the lifetime of cached answers and the change feed ensure. Only with this contract,
    /// a stale answer may replace one that a failing server does not give.
    pub const ANY: Self = Self {
        within: None,
        after: None,
    };

    /// All changes that were visible in the database when the call was made.
    pub const NOW: Self = Self::within(Duration::ZERO);

    /// All changes that were visible in the database this long before the call.
    pub const fn within(time: Duration) -> Self {
        Self {
            within: Some(time),
            after: None,
        }
    }

    /// All changes that were committed up to this position of the provider's log.
    pub const fn after(position: Position) -> Self {
        Self {
            within: None,
            after: Some(position),
        }
    }

    /// The contract that includes all changes which this one and another one include.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            within: match (self.within, other.within) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
            // `None` is less than each position.
            after: self.after.max(other.after),
        }
    }
}

/// `any`, `now`, or how long before the call: `50ms`, `2s`, `1m`.
impl FromStr for Contract {
    type Err = ParseContractError;

    fn from_str(text: &str) -> Result<Self, ParseContractError> {
        match text {
            "any" => return Ok(Self::ANY),
            "now" => return Ok(Self::NOW),
            _ => {}
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u32 = number.parse().map_err(|_| ParseContractError)?;
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(60 * 60),
            _ => return Err(ParseContractError),
        };
        Ok(Self::within(unit * number))
    }
}

/// A text is not a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseContractError;

impl fmt::Display for ParseContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be \"any\", \"now\", or a time such as \"50ms\", \"2s\", \"1m\" or \"1h\"",
        )
    }
}

impl std::error::Error for ParseContractError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_written_as_words_and_times() {
        let within = |ms| Ok(Contract::within(Duration::from_millis(ms)));
        for (text, expected) in [
            ("any", Ok(Contract::ANY)),
            ("now", Ok(Contract::NOW)),
            ("50ms", within(50)),
            ("2s", within(2000)),
            ("1m", within(60_000)),
            ("1h", within(3_600_000)),
            ("0s", Ok(Contract::NOW)),
            ("", Err(ParseContractError)),
            ("5", Err(ParseContractError)),
            ("ms", Err(ParseContractError)),
            ("-5ms", Err(ParseContractError)),
            ("1.5s", Err(ParseContractError)),
            ("99999999999s", Err(ParseContractError)),
            ("Now", Err(ParseContractError)),
        ] {
            assert_eq!(text.parse(), expected, "{text:?}");
        }
    }

    #[test]
    fn two_contracts_are_met_by_one_that_includes_both() {
        let [short, long] = [1, 2].map(|ms| Contract::within(Duration::from_millis(ms)));
        let [first, last] = [1, 2].map(|number| Contract::after(Position(number)));
        let of = |time: Contract, position: Contract| Contract {
            within: time.within,
            after: position.after,
        };
        for (one, other, both) in [
            (Contract::ANY, long, long),
            (Contract::ANY, first, first),
            (short, long, short),
            (first, last, last),
            (short, Contract::NOW, Contract::NOW),
            (short, first, of(short, first)),
            (of(short, last), of(long, first), of(short, last)),
            (Contract::NOW, last, of(Contract::NOW, last)),
            (Contract::ANY, Contract::ANY, Contract::ANY),
        ] {
            assert_eq!(one.and(other), both);
            assert_eq!(other.and(one), both);
        }
    }
}
