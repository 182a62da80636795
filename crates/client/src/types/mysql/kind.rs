//! The types by their codes (`enum_field_types` of the servers' sources).

use super::collation;

/// `UNSIGNED_FLAG`, `ENUM_FLAG` and `SET_FLAG` of a column definition.
const UNSIGNED: u16 = 0x20;
const ENUM: u16 = 0x100;
const SET: u16 = 0x800;

/// How a cell is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellKind {
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Float,
    Double,
    Decimal,
    /// Big-endian, as many bytes as the bits need, in both formats.
    Bit,
    Date,
    Time,
    Datetime,
    /// The text is the same in both formats from here on.
    Json,
    Uuid,
    Inet,
    /// UTF-8.
    Text,
    /// Bytes, or text of another character set.
    Bytes,
}

/// All types whose cells are read differently.
#[cfg(test)]
pub(super) const KINDS: &[CellKind] = &[
    CellKind::Int8,
    CellKind::UInt8,
    CellKind::Int16,
    CellKind::UInt16,
    CellKind::Int32,
    CellKind::UInt32,
    CellKind::Int64,
    CellKind::UInt64,
    CellKind::Float,
    CellKind::Double,
    CellKind::Decimal,
    CellKind::Bit,
    CellKind::Date,
    CellKind::Time,
    CellKind::Datetime,
    CellKind::Json,
    CellKind::Uuid,
    CellKind::Inet,
    CellKind::Text,
    CellKind::Bytes,
];

impl CellKind {
    pub(super) fn of(code: u8, flags: u16, collation: u16) -> (Self, &'static str) {
        let is_unsigned = flags & UNSIGNED != 0;
        let int = |signed, unsigned| if is_unsigned { unsigned } else { signed };
        // The members of an enum or a set are text, and so are the rest from here on, or bytes.
        let string = |text, bytes| {
            if collation::is_utf8(collation) {
                (Self::Text, text)
            } else if collation == collation::BINARY {
                (Self::Bytes, bytes)
            } else {
                (Self::Bytes, text)
            }
        };
        match code {
            1 => int((Self::Int8, "tinyint"), (Self::UInt8, "tinyint unsigned")),
            2 => int(
                (Self::Int16, "smallint"),
                (Self::UInt16, "smallint unsigned"),
            ),
            // Travels with four bytes, as an int does.
            9 => int(
                (Self::Int32, "mediumint"),
                (Self::UInt32, "mediumint unsigned"),
            ),
            3 => int((Self::Int32, "int"), (Self::UInt32, "int unsigned")),
            8 => int((Self::Int64, "bigint"), (Self::UInt64, "bigint unsigned")),
            13 => (Self::UInt16, "year"),
            4 => (Self::Float, "float"),
            5 => (Self::Double, "double"),
            0 | 246 => (Self::Decimal, "decimal"),
            16 => (Self::Bit, "bit"),
            10 | 14 => (Self::Date, "date"),
            11 => (Self::Time, "time"),
            7 => (Self::Datetime, "timestamp"),
            12 => (Self::Datetime, "datetime"),
            245 => (Self::Json, "json"),
            6 => string("null", "null"),
            15 | 253 => string("varchar", "varbinary"),
            247 => string("enum", "enum"),
            248 => string("set", "set"),
            254 if flags & ENUM != 0 => string("enum", "enum"),
            254 if flags & SET != 0 => string("set", "set"),
            254 => string("char", "binary"),
            249..=252 => string("text", "blob"),
            242 => (Self::Bytes, "vector"),
            255 => (Self::Bytes, "geometry"),
            _ => string("unknown text", "unknown"),
        }
    }

    pub(super) fn extended(type_name: &[u8], format: &[u8]) -> Option<(Self, &'static str)> {
        match (type_name, format) {
            (b"uuid", _) => Some((Self::Uuid, "uuid")),
            (b"inet4", _) => Some((Self::Inet, "inet4")),
            (b"inet6", _) => Some((Self::Inet, "inet6")),
            (_, b"json") => Some((Self::Json, "json")),
            _ => None,
        }
    }
}
