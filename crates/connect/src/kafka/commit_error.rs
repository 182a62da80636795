//! How a commit ended that did not succeed.

use std::io;

/// The consequence of a failed commit, or of a failed step of one, with the reason.
pub(crate) enum CommitError {
    /// The transaction is aborted, and what is under way is read again.
    Abort(String),
    /// Neither this nor another transaction is possible.
    Fatal(String),
    /// The run gives up.
    GivenUp,
}

impl From<CommitError> for io::Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::GivenUp => io::ErrorKind::Interrupted.into(),
            CommitError::Abort(reason) | CommitError::Fatal(reason) => Self::other(reason),
        }
    }
}
