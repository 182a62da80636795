//! TupleData: the values of a row, decoded in place.
//!
//! ```text
//!   ┌───────┬──────┬────────┬───────┬──────┬─
//!   │ count │ kind │ length │ value │ kind │ …     kind 'n', NULL, and 'u', unchanged TOAST:
//!   │   2   │  1   │   4    │       │  1   │       without length and value
//!   └───────┴──────┴────────┴───────┴──────┴─
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `TupleData`

use std::fmt;
use std::iter::FusedIterator;

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

const MESSAGE: &str = "TupleData";

/// The values of a row; iterates over them, in the order of
/// [`Relation::columns`](super::Relation::columns).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tuple<'a> {
    count: u16,
    fields: &'a [u8],
}

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TupleField<'a> {
    /// NULL; in [`OldTuple::Key`] also each column outside of the key.
    Null,
    /// The value is stored outside of the row and was not changed, so the log does not have it.
    UnchangedToast,
    /// The value as text.
    Text(&'a [u8]),
    /// The value as the type's send function writes it.
    Binary(&'a [u8]),
}

/// The values of a row before its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldTuple<'a> {
    /// Those of the key; all others are [`TupleField::Null`].
    Key(Tuple<'a>),
    /// All of them, because the replica identity is full.
    Full(Tuple<'a>),
}

/// Reads the byte that says which tuple follows, one of `kinds`.
pub(super) fn part(reader: &mut Reader<'_>, kinds: &[u8]) -> Result<u8, ProtocolError> {
    let before = *reader;
    let kind = reader.u8()?;
    if kinds.contains(&kind) {
        Ok(kind)
    } else {
        Err(before.error(Reason::UnknownValue {
            what: "kind of tuple here",
            value: kind.into(),
        }))
    }
}

impl<'a> OldTuple<'a> {
    /// Reads an old tuple of this kind, `K` or `O`.
    pub(super) fn decode(kind: u8, reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let tuple = Tuple::decode(reader)?;
        Ok(match kind {
            b'K' => Self::Key(tuple),
            _ => Self::Full(tuple),
        })
    }

    /// The values.
    pub fn tuple(self) -> Tuple<'a> {
        match self {
            Self::Key(tuple) | Self::Full(tuple) => tuple,
        }
    }
}

impl<'a> Tuple<'a> {
    /// Checks all fields once, so that reading them again cannot fail.
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let count = reader.count_be()?;
        let fields = reader.unread();
        for _ in 0..count {
            TupleField::decode(reader)?;
        }
        let size = fields.len() - reader.unread().len();
        Ok(Self {
            count,
            fields: &fields[..size],
        })
    }

    /// How many values the row has.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Whether it is a row without columns.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its values as they were sent, each with its kind and length. All are valid.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.fields
    }

    /// Its values from first to last.
    pub fn fields(&self) -> TupleFields<'a> {
        TupleFields {
            count: self.count,
            reader: Reader::new(MESSAGE, self.fields),
        }
    }
}

impl<'a> TupleField<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let before = *reader;
        match reader.u8()? {
            b'n' => Ok(Self::Null),
            b'u' => Ok(Self::UnchangedToast),
            b't' => reader.sized_bytes_be().map(Self::Text),
            b'b' => reader.sized_bytes_be().map(Self::Binary),
            byte => Err(before.error(Reason::UnknownValue {
                what: "kind of value",
                value: byte.into(),
            })),
        }
    }
}

impl<'a> IntoIterator for Tuple<'a> {
    type Item = TupleField<'a>;
    type IntoIter = TupleFields<'a>;

    fn into_iter(self) -> TupleFields<'a> {
        self.fields()
    }
}

impl fmt::Debug for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fields()).finish()
    }
}

impl fmt::Debug for TupleField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::UnchangedToast => f.write_str("unchanged"),
            Self::Text(value) => write!(f, "\"{}\"", value.escape_ascii()),
            Self::Binary(value) => write!(f, "b\"{}\"", value.escape_ascii()),
        }
    }
}

/// The values of a row.
#[derive(Clone)]
pub struct TupleFields<'a> {
    count: u16,
    reader: Reader<'a>,
}

impl<'a> Iterator for TupleFields<'a> {
    type Item = TupleField<'a>;

    fn next(&mut self) -> Option<TupleField<'a>> {
        self.count = self.count.checked_sub(1)?;
        let field = TupleField::decode(&mut self.reader);
        Some(field.expect("the fields were read when the message was decoded"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count.into(), Some(self.count.into()))
    }
}

impl ExactSizeIterator for TupleFields<'_> {}
impl FusedIterator for TupleFields<'_> {}
