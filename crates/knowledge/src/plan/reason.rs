//! Why a statement has no native plan.

use std::borrow::Cow;
use std::fmt;

use lookaside_value::Text;

use super::invalid_keys::InvalidKeys;
use crate::config::ProviderKind;
use crate::index::TooLarge;

/// A lower-case clause that completes "SQLite answers, because …", or the provider that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    text: Cow<'static, str>,
    pub(super) provider: Option<(Text, ProviderKind)>,
    /// The values because of which queries fail.
    pub(super) invalid_keys: Option<Box<InvalidKeys>>,
}

impl Reason {
    pub(super) const fn fixed(text: &'static str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            provider: None,
            invalid_keys: None,
        }
    }

    pub(super) fn new(text: String) -> Self {
        Self {
            text: Cow::Owned(text),
            provider: None,
            invalid_keys: None,
        }
    }

    /// The queries fail, and SQLite reports why.
    pub(super) fn invalid_keys(text: String, keys: InvalidKeys) -> Self {
        Self {
            text: Cow::Owned(text),
            provider: None,
            invalid_keys: Some(Box::new(keys)),
        }
    }

    /// Another database answers.
    pub(super) fn provider(name: &str, kind: ProviderKind) -> Self {
        Self {
            text: Cow::Borrowed("its tables are there"),
            provider: Some((name.into(), kind)),
            invalid_keys: None,
        }
    }
}

impl From<TooLarge> for Reason {
    fn from(why: TooLarge) -> Self {
        Self::fixed(match why {
            TooLarge::Rows => "the table has more rows than an index can number",
            TooLarge::Keys => "the keys are larger than an index can hold",
            TooLarge::Lists => {
                "the lists of rows with equal keys are larger than an index can hold"
            }
            TooLarge::Overlaps => "too many of the ranges overlap",
        })
    }
}

impl From<rusqlite::Error> for Reason {
    fn from(error: rusqlite::Error) -> Self {
        Self::new(format!("SQLite reports: {error}"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
