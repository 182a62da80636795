//! The lasting effect of a statement on its session.

use crate::Error;

/// The lasting effect of a statement on its session, as far as its keywords tell. Effects within
/// functions, procedures or executable comments are not detected.
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
    /// The error if it is refused in a shared session.
    pub(crate) fn refusal(self) -> Option<Error> {
        match self {
            Self::None => None,
            Self::Transaction => Some(Error::shared_transaction()),
            Self::Settings => Some(Error::shared_session()),
        }
    }
}
