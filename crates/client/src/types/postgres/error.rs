//! Fields that do not decode, and values that do not fit a parameter.

use std::error::Error;
use std::fmt;

use lookaside_value::Type;

use super::PgType;
use crate::types::field_error::FieldError;
use crate::types::param_error;

/// A field that is not what the server writes for its type: the peer broke the protocol, or the
/// column changed its type under a cached description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    pg_type: PgType,
    error: FieldError,
}

impl DecodeError {
    pub(super) fn new(pg_type: PgType, error: FieldError) -> Self {
        Self { pg_type, error }
    }

    /// The type that the field was read as.
    pub fn pg_type(self) -> PgType {
        self.pg_type
    }

    /// The byte of the field, from 0, where it goes wrong.
    pub fn offset(self) -> usize {
        self.error.offset
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pg_type.name(), self.error)
    }
}

impl Error for DecodeError {}

/// A value that does not fit a parameter's type; the value itself is left out, it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    from: Type,
    pg_type: PgType,
    misfit: Misfit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// No value of this type, or not this text, is one of that type.
    Other,
    /// It is of that kind, but too large or too small.
    OutOfRange,
    /// PostgreSQL's text holds no zero byte.
    ZeroByte,
    /// The arrays in an array differ in length, or are nested too deep.
    Ragged,
    /// JSON has no such number.
    NoJson,
    /// A `cidr` has no bits right of its mask.
    HostBits,
    /// The type keeps no zone, and the server would drop that of the text without a word.
    Zone,
}

impl EncodeError {
    pub(super) fn new(from: Type, pg_type: PgType, misfit: Misfit) -> Self {
        Self {
            from,
            pg_type,
            misfit,
        }
    }

    /// The type of the value.
    pub fn value_type(self) -> Type {
        self.from
    }

    /// The type that the server declared for the parameter.
    pub fn pg_type(self) -> PgType {
        self.pg_type
    }

    /// The error of the parameter with that name, such as `id` or `$1`.
    pub fn in_parameter(self, name: impl Into<Box<str>>) -> ParamError {
        ParamError::new(name.into(), self)
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from, self.pg_type.name());
        match self.misfit {
            Misfit::Other => write!(f, "this {from} is not a valid {to}"),
            Misfit::OutOfRange => write!(f, "this {from} is out of range for {to}"),
            Misfit::ZeroByte => write!(
                f,
                "this {from} contains a zero byte, which {to} does not allow"
            ),
            Misfit::Ragged => write!(
                f,
                "this {from} is not a valid {to}: the arrays in it differ in length, or nest deeper than 6"
            ),
            Misfit::NoJson => write!(
                f,
                "this {from} contains a number that {to} does not support"
            ),
            Misfit::Zone => write!(
                f,
                "this {from} has a time zone, which {to} does not store: write the complete time \
                 with its offset, such as 2026-01-31T08:00:00+01:00, which is converted to UTC"
            ),
            Misfit::HostBits => write!(
                f,
                "this {from} is not a valid {to}: it has bits right of its mask"
            ),
        }
    }
}

impl Error for EncodeError {}

/// A parameter whose value does not fit the type that the server declared for it.
pub type ParamError = param_error::ParamError<EncodeError>;
