//! What a statement leaves behind in its session.

use crate::Error;

/// What a statement leaves behind in its session, as far as its words tell. What a function, a
/// procedure or a comment that servers execute hides is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEffect {
    /// Nothing.
    None,
    /// An open transaction, or one that is prepared to be committed from another session.
    Transaction,
    /// Settings, names, locks, channels or statements.
    Settings,
}

impl SessionEffect {
    /// Why it is refused in a session that others use as well, if it is.
    pub(crate) fn refusal(self) -> Option<Error> {
        match self {
            Self::None => None,
            Self::Transaction => Some(Error::shared_transaction()),
            Self::Settings => Some(Error::shared_session()),
        }
    }
}
