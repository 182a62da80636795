//! The error response of a server to a statement.

use std::fmt;

use lookaside_wire::postgres::ErrorResponse;

/// The fields of an ErrorResponse that matter here.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerError {
    pub(crate) sqlstate: String,
    pub(crate) message: String,
    pub(crate) detail: String,
    /// The position in the query, in characters from 1.
    pub(crate) position: Option<usize>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.sqlstate)?;
        if !self.detail.is_empty() {
            write!(f, "; {}", self.detail)?;
        }
        Ok(())
    }
}

impl From<ErrorResponse<'_>> for ServerError {
    fn from(error: ErrorResponse<'_>) -> Self {
        Self {
            sqlstate: error
                .sqlstate()
                .map(|state| state.to_string())
                .unwrap_or_default(),
            message: error.message().unwrap_or_default().into_owned(),
            detail: error.detail().unwrap_or_default().into_owned(),
            position: error
                .position()
                .and_then(|position| position.try_into().ok()),
        }
    }
}
