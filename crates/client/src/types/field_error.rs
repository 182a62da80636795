//! What is wrong with a field that a server sent.

use std::fmt;

/// What is wrong with a field, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldError {
    pub(super) offset: usize,
    reason: &'static str,
}

impl FieldError {
    pub(super) const fn at(offset: usize, reason: &'static str) -> Self {
        Self { offset, reason }
    }

    /// The same error of a part that begins at `offset` of the whole.
    pub(super) const fn within(self, offset: usize) -> Self {
        Self {
            offset: self.offset + offset,
            reason: self.reason,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, reason } = self;
        write!(f, "at byte {offset}: {reason}")
    }
}

/// A field of exactly this size.
#[inline]
pub(super) fn fixed<const SIZE: usize>(field: &[u8]) -> Result<[u8; SIZE], FieldError> {
    field.try_into().map_err(|_| {
        if field.len() < SIZE {
            FieldError::at(field.len(), "ends early")
        } else {
            FieldError::at(SIZE, "has bytes left over")
        }
    })
}

/// A field that must be ASCII or UTF-8.
pub(super) fn utf8(field: &[u8]) -> Result<&str, FieldError> {
    str::from_utf8(field).map_err(|error| FieldError::at(error.valid_up_to(), "is not UTF-8"))
}
