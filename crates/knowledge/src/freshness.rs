//! How fresh an answer has to be.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::clock::CLOCK_TICK;
use crate::feed::Position;

/// How fresh the answer of a provider has to be. Answers of the folder's own tables are as fresh as the
/// last load, whatever is required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// An answer whose query was sent longer ago is not used; `None` is the `ttl_ms` of `[cache]`, which
    /// also bounds any other value.
    pub age_max: Option<Duration>,
    /// What the answer must include.
    pub contract: Contract,
}

/// The changes of the database that an answer has to include.
///
/// A cached answer satisfies a contract if the change feed of its provider shows that it is valid.
/// Without a feed, or if the feed is behind, its age alone counts. If no cached answer satisfies the
/// contract, the database is queried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contract {
    /// No more than the lifetime of cached answers and the change feed ensure. Only with this contract,
    /// a stale answer may replace one that a failing server does not give.
    #[default]
    Any,
    /// All changes that were visible in the database this long before the call.
    Within(Duration),
    /// All changes that were committed up to this position of the provider's log.
    After(Position),
    /// All changes that were visible in the database when the call was made.
    Now,
}

/// `any`, `now`, or how long before the call: `50ms`, `2s`, `1m`.
impl FromStr for Contract {
    type Err = ParseContractError;

    fn from_str(text: &str) -> Result<Self, ParseContractError> {
        match text {
            "any" => return Ok(Self::Any),
            "now" => return Ok(Self::Now),
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
        Ok(match number {
            0 => Self::Now,
            number => Self::Within(unit * number),
        })
    }
}

/// A text is not a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseContractError;

impl fmt::Display for ParseContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be \"any\", \"now\", or a time such as \"50ms\" or \"2s\"")
    }
}

impl std::error::Error for ParseContractError {}

impl Contract {
    /// The contract that includes all changes which this one and another one include.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Any, it) | (it, Self::Any) => it,
            (Self::Within(one), Self::Within(other)) => Self::Within(one.min(other)),
            (Self::After(one), Self::After(other)) => Self::After(one.max(other)),
            // What the database shows now includes all that was committed before.
            _ => Self::Now,
        }
    }

    /// Whether an answer satisfies the contract by its age alone: its query was sent so long ago.
    pub(crate) fn is_met_by_age(self, age: Duration) -> bool {
        match self {
            Self::Any => true,
            Self::Within(age_max) => age + CLOCK_TICK <= age_max,
            Self::After(_) | Self::Now => false,
        }
    }
}

impl Freshness {
    /// Whether any answer that the caches keep is fresh enough.
    #[inline]
    pub(crate) fn is_default(&self) -> bool {
        self.age_max.is_none() && matches!(self.contract, Contract::Any)
    }

    /// What the caches keep, no older than `age_max`.
    pub fn aged(age_max: Option<Duration>) -> Self {
        Self {
            age_max,
            contract: Contract::Any,
        }
    }
}

impl From<Contract> for Freshness {
    fn from(contract: Contract) -> Self {
        Self {
            age_max: None,
            contract,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_written_as_words_and_times() {
        let within = |ms| Ok(Contract::Within(Duration::from_millis(ms)));
        for (text, expected) in [
            ("any", Ok(Contract::Any)),
            ("now", Ok(Contract::Now)),
            ("50ms", within(50)),
            ("2s", within(2000)),
            ("1m", within(60_000)),
            ("1h", within(3_600_000)),
            ("0s", Ok(Contract::Now)),
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
    fn two_contracts_are_met_by_the_stricter_one() {
        let [short, long] = [1, 2].map(|ms| Contract::Within(Duration::from_millis(ms)));
        let [first, last] = [1, 2].map(|number| Contract::After(Position(number)));
        for (one, other, both) in [
            (Contract::Any, long, long),
            (short, long, short),
            (first, last, last),
            (short, Contract::Now, Contract::Now),
            (short, first, Contract::Now),
            (Contract::Any, Contract::Any, Contract::Any),
        ] {
            assert_eq!(one.and(other), both);
            assert_eq!(other.and(one), both);
        }
    }
}
