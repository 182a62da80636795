//! Fields that do not decode, and values that no parameter can carry.

use std::error::Error;
use std::fmt;

use lookaside_value::Type;

use super::MyType;
use crate::types::field_error::FieldError;
use crate::types::param_error;

/// A field that is not what a server writes for its type: the peer broke the protocol, or the column
/// changed its type under a cached description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    my_type: MyType,
    error: FieldError,
}

impl DecodeError {
    pub(super) fn new(my_type: MyType, error: FieldError) -> Self {
        Self { my_type, error }
    }

    /// The type that the field was read as.
    pub fn my_type(self) -> MyType {
        self.my_type
    }

    /// The byte of the field, from 0, where it goes wrong.
    pub fn offset(self) -> usize {
        self.error.offset
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.my_type.name(), self.error)
    }
}

impl Error for DecodeError {}

/// A value that would lose something on its way to the server; the value itself is left out, it may
/// be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    from: Type,
    loss: Loss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The servers have no such number.
    NoNumber,
    /// A decimal holds 65 digits, 30 of them after the point.
    Digits,
    /// JSON has no such number.
    NoJson,
    /// A `datetime` counts microseconds.
    Nanoseconds,
    /// A `datetime` has the years 0 to 9999.
    Year,
}

impl EncodeError {
    pub(super) fn new(from: Type, loss: Loss) -> Self {
        Self { from, loss }
    }

    /// The type of the value.
    pub fn value_type(self) -> Type {
        self.from
    }

    /// The error of the parameter with that name, such as `id` or `?2`.
    pub fn in_parameter(self, name: impl Into<Box<str>>) -> ParamError {
        ParamError::new(name.into(), self)
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from;
        match self.loss {
            Loss::NoNumber => write!(
                f,
                "this {from} is not finite, and MySQL supports finite numbers only"
            ),
            Loss::Digits => write!(
                f,
                "this {from} has more digits than MySQL keeps: 65, of which 30 after the point"
            ),
            Loss::NoJson => write!(
                f,
                "this {from} contains a number that JSON does not support"
            ),
            Loss::Nanoseconds => write!(
                f,
                "this {from} has a precision finer than a microsecond, which MySQL does not store: \
                 round it"
            ),
            Loss::Year => write!(
                f,
                "this {from} is before the year 0, which MySQL does not support"
            ),
        }
    }
}

impl Error for EncodeError {}

/// A parameter whose value would lose something on its way.
pub type ParamError = param_error::ParamError<EncodeError>;
