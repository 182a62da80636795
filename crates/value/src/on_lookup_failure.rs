//! What happens to an event when a lookup for it fails.

use std::fmt;
use std::str::FromStr;

/// What happens to an event when a lookup for it fails.
///
/// ```
/// use lookaside_value::OnLookupFailure;
///
/// assert_eq!("reject".parse(), Ok(OnLookupFailure::Reject));
/// assert_eq!(OnLookupFailure::Wait.to_string(), "wait");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnLookupFailure {
    /// The lookup is repeated until its database is available again. If it would fail again, for
    /// example because the database refuses it, the event is rejected, so that it does not block
    /// the events after it.
    Wait,
    /// The event is rejected: it is not written, and its line is among the rejected ones.
    Reject,
    /// The event is written without the fields of the lookup, and the failure is counted. The
    /// default, as it is the only policy that needs neither time nor a place for rejected lines.
    #[default]
    Emit,
}

impl OnLookupFailure {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Wait, Self::Reject, Self::Emit];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Reject => "reject",
            Self::Emit => "emit",
        }
    }
}

impl fmt::Display for OnLookupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `wait`, `reject` or `emit`.
impl FromStr for OnLookupFailure {
    type Err = ParseOnLookupFailureError;

    fn from_str(text: &str) -> Result<Self, ParseOnLookupFailureError> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or(ParseOnLookupFailureError)
    }
}

/// A text does not name a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOnLookupFailureError;

impl fmt::Display for ParseOnLookupFailureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be \"wait\", \"reject\" or \"emit\"")
    }
}

impl std::error::Error for ParseOnLookupFailureError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        for policy in OnLookupFailure::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for text in ["", "Wait", "wait ", "drop"] {
            let parsed = text.parse::<OnLookupFailure>();
            assert_eq!(parsed, Err(ParseOnLookupFailureError), "{text:?}");
        }
    }
}
