//! Words that several messages share: type ids and formats.

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// The id of a data type, `pg_type.oid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(pub u32);

impl Oid {
    /// Leaves the choice of a parameter's type to the server.
    pub const UNSPECIFIED: Self = Self(0);
}

/// How a value is written.
///
/// <https://www.postgresql.org/docs/current/protocol-overview.html#PROTOCOL-FORMAT-CODES>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As `psql` shows it.
    #[default]
    Text,
    /// As the type's send function writes it; often shorter, and never in need of parsing.
    Binary,
}

impl Format {
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// Reads a code of 16 bits.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let before = *reader;
        let code = reader.u16_be()?;
        Self::known(code).ok_or_else(|| {
            before.error(Reason::UnknownValue {
                what: "format code",
                value: code.into(),
            })
        })
    }

    pub(crate) fn known(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }
}

/// The formats of a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formats<'a> {
    /// One for all of them.
    All(Format),
    /// One for each of them.
    Each(&'a [Format]),
}

impl Formats<'_> {
    /// All of them as text.
    pub const TEXT: Self = Self::All(Format::Text);

    /// All of them binary.
    pub const BINARY: Self = Self::All(Format::Binary);
}
