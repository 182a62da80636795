//! The types of MySQL and MariaDB.
//!
//! ```
//! use lookaside_client::types::mysql::{Format, MyType};
//! use lookaside_value::Value;
//!
//! // A result's column definition says code, flags, collation and decimals.
//! let int_unsigned = MyType::of(3, 32, 63, 0);
//! assert_eq!(int_unsigned.name(), "int unsigned");
//! assert_eq!(int_unsigned.decode(Format::Binary, &[42, 0, 0, 0])?, Value::Int(42));
//! assert_eq!(int_unsigned.decode(Format::Text, b"42")?, Value::Int(42));
//! # Ok::<(), lookaside_client::types::mysql::DecodeError>(())
//! ```

mod binary;
mod collation;
mod encode;
mod error;
mod kind;
mod text;
mod time;

pub use encode::{ParamType, encode};
pub use error::{DecodeError, EncodeError, ParamError};

use lookaside_value::Value;

use kind::CellKind;

/// How a field travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// As queries without parameters bring it.
    Text,
    /// As prepared statements bring it.
    Binary,
}

/// What a server reports about a column, and how its values are decoded: created once for a column,
/// then used for each of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MyType {
    kind: CellKind,
    name: &'static str,
    /// Digits of a second's fraction; above 6 where the server does not report them.
    decimals: u8,
}

impl MyType {
    /// The type that a column definition describes with its type code, flags, collation and
    /// decimals. Every code is accepted; one that this crate does not support is text or bytes,
    /// depending on the collation.
    pub fn of(code: u8, flags: u16, collation: u16, decimals: u8) -> Self {
        let (kind, name) = CellKind::of(code, flags, collation);
        Self {
            kind,
            name,
            decimals,
        }
    }

    /// The type with what MariaDB's extended metadata add: the name of a type that looks like
    /// another one otherwise, such as `uuid` or `inet6`, and the format of text, such as `json`.
    #[must_use]
    pub fn extended(self, type_name: &[u8], format: &[u8]) -> Self {
        match CellKind::extended(type_name, format) {
            Some((kind, name)) => Self { kind, name, ..self },
            None => self,
        }
    }

    /// The type's name, such as `int unsigned` or `varchar`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The value in a field that is not NULL, without the length before it.
    ///
    /// Both formats give equal values but for `float`, of which text has six digits. What a type of
    /// ours cannot hold (the date 0000-00-00) is text, and text of another character set than UTF-8
    /// is bytes.
    ///
    /// # Errors
    /// When the field is not what a server writes for this type.
    #[inline]
    pub fn decode(self, format: Format, field: &[u8]) -> Result<Value, DecodeError> {
        let decoded = match format {
            Format::Binary => binary::decode(self.kind, self.decimals, field),
            Format::Text => text::decode(self.kind, field),
        };
        decoded.map_err(|error| DecodeError::new(self, error))
    }
}

impl MyType {
    /// The same for a whole number, where that is all there is to it: most columns of most tables.
    #[inline]
    pub(crate) fn decode_int(self, format: Format, field: &[u8]) -> Option<i64> {
        match format {
            Format::Binary => binary::decode_int(self.kind, field),
            Format::Text => None,
        }
    }
}

#[cfg(test)]
mod tests {
    mod hostile;
}
