//! Types that several messages share: type ids and formats.

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// The id of a data type, `pg_type.oid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(pub u32);

impl Oid {
    /// Leaves the choice of a parameter's type to the server.
    pub const UNSPECIFIED: Self = Self(0);
}

/// The format of a value.
///
/// <https://www.postgresql.org/docs/current/protocol-overview.html#PROTOCOL-FORMAT-CODES>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As text, as `psql` shows it.
    #[default]
    Text,
    /// As the type's send function writes it; often shorter, and without parsing.
    Binary,
}

impl Format {
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// Decodes a code of 16 bits.
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
    /// Text for all values.
    pub const TEXT: Self = Self::All(Format::Text);

    /// Binary for all values.
    pub const BINARY: Self = Self::All(Format::Binary);
}
