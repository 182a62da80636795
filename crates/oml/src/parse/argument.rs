//! Arguments of functions that are not valid.

/// The index of an invalid argument, and what it should be.
pub(super) struct InvalidArgument {
    pub(super) index: usize,
    pub(super) expected: String,
}

pub(super) fn invalid_argument(index: usize, expected: impl Into<String>) -> InvalidArgument {
    InvalidArgument {
        index,
        expected: expected.into(),
    }
}
