//! CopyInResponse and CopyOutResponse: the start of a COPY.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `CopyInResponse`

use std::fmt;

use crate::error::{ProtocolError, Reason};
use crate::postgres::Format;
use crate::read::Reader;

/// The format of the data of a COPY.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CopyResponse<'a> {
    format: Format,
    column_formats: &'a [u8],
}

impl<'a> CopyResponse<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let before = reader;
        let code = reader.u8()?;
        let format = Format::known(code.into()).ok_or_else(|| {
            before.error(Reason::UnknownValue {
                what: "format of COPY",
                value: code.into(),
            })
        })?;
        let count = reader.count_be()?;
        let mut formats = reader;
        for _ in 0..count {
            Format::decode(&mut reader)?;
        }
        reader.finish()?;
        Ok(Self {
            format,
            column_formats: formats.rest(),
        })
    }

    /// The format of the whole stream: lines of text, or PostgreSQL's binary rows.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The format of each column.
    pub fn column_formats(&self) -> impl ExactSizeIterator<Item = Format> + 'a {
        let (codes, _) = self.column_formats.as_chunks::<2>();
        codes.iter().map(|&code| match u16::from_be_bytes(code) {
            0 => Format::Text,
            _ => Format::Binary,
        })
    }
}

impl fmt::Debug for CopyResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.column_formats().len();
        write!(f, "{:?}, {count} columns", self.format)
    }
}
