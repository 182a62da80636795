//! PostgreSQL's types.
//!
//! ```
//! use lookaside_client::types::postgres::{Format, PgType};
//! use lookaside_value::Value;
//!
//! let int4 = PgType::of(23);
//! assert_eq!(int4.result_format(), Format::Binary);
//! assert_eq!(int4.decode(Format::Binary, &[0, 0, 0, 42])?, Value::Int(42));
//!
//! let mut out = Vec::new();
//! int4.encode(&Value::from("42"), &mut out).expect("text that is an integer");
//! assert_eq!(out, [0, 0, 0, 42]);
//! # Ok::<(), lookaside_client::types::postgres::DecodeError>(())
//! ```

mod array;
mod binary;
mod encode;
mod error;
mod numeric;
mod param;
mod reader;
mod table;
mod text;
mod time;
mod zone;

pub use encode::Encoded;
pub use error::{DecodeError, EncodeError, ParamError};

use lookaside_value::Value;

use table::{Scalar, TypeEntry};

use super::text_or_bytes;

/// How a field travels; the number is the one of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum Format {
    /// As the type's output function writes it.
    Text = 0,
    /// As the type's send function writes it.
    Binary = 1,
}

/// A type as a server names it, with what is to be done about it: made once for a column or a
/// parameter, then used for each of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgType {
    oid: u32,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Scalar(Scalar),
    /// An array, with its elements' type and that type's number.
    Array(Scalar, u32),
    /// What a database defined itself: enums, domains, composites, types of extensions.
    Unknown,
}

impl PgType {
    /// The type with that object identifier. Every number is accepted; a type that this crate does
    /// not support is read and written as text.
    pub fn of(oid: u32) -> Self {
        let shape = match TypeEntry::of(oid) {
            Some(entry) if entry.oid == oid => Shape::Scalar(entry.scalar),
            Some(entry) => Shape::Array(entry.scalar, entry.oid),
            None => Shape::Unknown,
        };
        Self { oid, shape }
    }

    /// The server's object identifier of the type.
    pub fn oid(self) -> u32 {
        self.oid
    }

    /// The type's name for messages, such as `int4` or `int4[]`.
    pub fn name(self) -> String {
        match (TypeEntry::of(self.oid), self.shape) {
            (Some(entry), Shape::Array(..)) => format!("{}[]", entry.name),
            (Some(entry), _) => entry.name.to_owned(),
            (None, _) => format!("type {}", self.oid),
        }
    }

    /// The format to request for results: binary where this crate decodes it, else text.
    pub fn result_format(self) -> Format {
        match self.shape {
            Shape::Scalar(Scalar::Other) | Shape::Array(Scalar::Other, _) | Shape::Unknown => {
                Format::Text
            }
            Shape::Scalar(_) | Shape::Array(..) => Format::Binary,
        }
    }

    /// The type of the times in an array or a range that keep no zone.
    fn wall_times(self) -> Option<Scalar> {
        match self.shape {
            Shape::Array(scalar @ (Scalar::Date | Scalar::Time | Scalar::Timestamp), _) => {
                Some(scalar)
            }
            Shape::Scalar(Scalar::Other) | Shape::Array(Scalar::Other, _) => {
                match TypeEntry::of(self.oid)?.name {
                    "tsrange" | "tsmultirange" => Some(Scalar::Timestamp),
                    "daterange" | "datemultirange" => Some(Scalar::Date),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether it is a type of text, which is the same in both formats.
    pub(crate) fn is_text(self) -> bool {
        matches!(self.shape, Shape::Scalar(Scalar::Text | Scalar::Json))
    }

    /// The value in a field that is not NULL.
    ///
    /// Both formats give equal values as long as the session keeps PostgreSQL's own `DateStyle` and
    /// `IntervalStyle`. What a type of ours cannot hold (infinite times, years past 9999) is text.
    /// Text that is not UTF-8, as an `SQL_ASCII` database may send it, and the binary form of a type
    /// that this crate does not know, are bytes.
    ///
    /// # Errors
    /// When the field is not what the server writes for this type.
    #[inline]
    pub fn decode(self, format: Format, field: &[u8]) -> Result<Value, DecodeError> {
        let decoded = match (self.shape, format) {
            (Shape::Scalar(scalar), Format::Binary) => binary::decode(scalar, field),
            (Shape::Array(scalar, oid), Format::Binary) => array::decode_binary(scalar, oid, field),
            (Shape::Unknown, Format::Binary) => Ok(Value::Bytes(field.into())),
            (Shape::Scalar(scalar), Format::Text) => text::decode(scalar, field),
            (Shape::Array(scalar, _), Format::Text) => array::decode_text(scalar, field),
            (Shape::Unknown, Format::Text) => Ok(text_or_bytes(field)),
        };
        decoded.map_err(|error| DecodeError::new(self, error))
    }
}

/// The format to request for results of the type with that object identifier, see
/// [`PgType::result_format`].
pub fn result_format(oid: u32) -> Format {
    PgType::of(oid).result_format()
}

#[cfg(test)]
mod tests {
    mod hostile;
}
