//! Why a statement has no native plan.

use std::borrow::Cow;
use std::fmt;

use crate::index::TooLarge;

/// One lower-case clause that completes "SQLite answers, because …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason(Cow<'static, str>);

impl Reason {
    pub(super) const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(super) fn new(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl From<TooLarge> for Reason {
    fn from(why: TooLarge) -> Self {
        Self::fixed(match why {
            TooLarge::Rows => "the table has more rows than an index can number",
            TooLarge::Keys => "the keys are larger than an index can hold",
            TooLarge::Overlaps => "too many of the ranges overlap",
        })
    }
}

impl From<rusqlite::Error> for Reason {
    fn from(error: rusqlite::Error) -> Self {
        Self::new(format!("SQLite said: {error}"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
