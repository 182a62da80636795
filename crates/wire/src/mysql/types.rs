//! Numeric codes: types and flags of columns, the status of a session, statement ids.

use std::fmt;

/// The type of a column or parameter. Servers may send any number; those without a constant are
/// read as text.
///
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html>
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnType(pub u8);

impl ColumnType {
    /// `DECIMAL` before MySQL 5.0.
    pub const DECIMAL: Self = Self(0);
    /// 8 bits.
    pub const TINY: Self = Self(1);
    /// 16 bits.
    pub const SHORT: Self = Self(2);
    /// 32 bits.
    pub const LONG: Self = Self(3);
    /// `FLOAT`, 32 bits.
    pub const FLOAT: Self = Self(4);
    /// `DOUBLE`, 64 bits.
    pub const DOUBLE: Self = Self(5);
    /// Always NULL.
    pub const NULL: Self = Self(6);
    /// `TIMESTAMP`
    pub const TIMESTAMP: Self = Self(7);
    /// 64 bits.
    pub const LONGLONG: Self = Self(8);
    /// `MEDIUMINT`, sent with 32 bits.
    pub const INT24: Self = Self(9);
    /// `DATE`
    pub const DATE: Self = Self(10);
    /// `TIME`
    pub const TIME: Self = Self(11);
    /// `DATETIME`
    pub const DATETIME: Self = Self(12);
    /// `YEAR`, sent with 16 bits.
    pub const YEAR: Self = Self(13);
    /// `VARCHAR`; columns are `VAR_STRING`.
    pub const VARCHAR: Self = Self(15);
    /// `BIT`, the most significant byte first.
    pub const BIT: Self = Self(16);
    /// MySQL's `VECTOR`.
    pub const VECTOR: Self = Self(242);
    /// `JSON`; MariaDB's is text.
    pub const JSON: Self = Self(245);
    /// `DECIMAL`, as text.
    pub const NEWDECIMAL: Self = Self(246);
    /// `ENUM`; columns are `STRING` with a flag.
    pub const ENUM: Self = Self(247);
    /// `SET`; columns are `STRING` with a flag.
    pub const SET: Self = Self(248);
    /// `TINYBLOB` and `TINYTEXT`
    pub const TINY_BLOB: Self = Self(249);
    /// `MEDIUMBLOB` and `MEDIUMTEXT`
    pub const MEDIUM_BLOB: Self = Self(250);
    /// `LONGBLOB` and `LONGTEXT`
    pub const LONG_BLOB: Self = Self(251);
    /// `BLOB` and `TEXT`; columns of any length.
    pub const BLOB: Self = Self(252);
    /// `VARCHAR` and `VARBINARY`
    pub const VAR_STRING: Self = Self(253);
    /// `CHAR` and `BINARY`
    pub const STRING: Self = Self(254);
    /// `GEOMETRY` and its subtypes.
    pub const GEOMETRY: Self = Self(255);

    /// The width of a value in a row of a prepared statement.
    pub(crate) fn width(self) -> Width {
        match self {
            Self::TINY => Width::Fixed(1),
            Self::SHORT | Self::YEAR => Width::Fixed(2),
            Self::LONG | Self::INT24 | Self::FLOAT => Width::Fixed(4),
            Self::LONGLONG | Self::DOUBLE => Width::Fixed(8),
            Self::NULL => Width::Fixed(0),
            // The length of a date is one byte of at most 12, which decodes the same.
            _ => Width::Prefixed,
        }
    }
}

/// The width of a binary value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// A fixed number of bytes.
    Fixed(u8),
    /// Prefixed with its length.
    Prefixed,
}

impl fmt::Debug for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::DECIMAL => "DECIMAL",
            Self::TINY => "TINY",
            Self::SHORT => "SHORT",
            Self::LONG => "LONG",
            Self::FLOAT => "FLOAT",
            Self::DOUBLE => "DOUBLE",
            Self::NULL => "NULL",
            Self::TIMESTAMP => "TIMESTAMP",
            Self::LONGLONG => "LONGLONG",
            Self::INT24 => "INT24",
            Self::DATE => "DATE",
            Self::TIME => "TIME",
            Self::DATETIME => "DATETIME",
            Self::YEAR => "YEAR",
            Self::VARCHAR => "VARCHAR",
            Self::BIT => "BIT",
            Self::VECTOR => "VECTOR",
            Self::JSON => "JSON",
            Self::NEWDECIMAL => "NEWDECIMAL",
            Self::ENUM => "ENUM",
            Self::SET => "SET",
            Self::TINY_BLOB => "TINY_BLOB",
            Self::MEDIUM_BLOB => "MEDIUM_BLOB",
            Self::LONG_BLOB => "LONG_BLOB",
            Self::BLOB => "BLOB",
            Self::VAR_STRING => "VAR_STRING",
            Self::STRING => "STRING",
            Self::GEOMETRY => "GEOMETRY",
            Self(number) => return write!(f, "type {number}"),
        };
        f.write_str(name)
    }
}

/// The flags of a column.
///
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__column__definition__flags.html>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnFlags(pub u16);

impl ColumnFlags {
    /// Its numbers are unsigned.
    pub fn is_unsigned(self) -> bool {
        self.0 & 32 != 0
    }

    /// Its texts are compared bytewise. The character set tells whether they are text.
    pub fn is_binary(self) -> bool {
        self.0 & 128 != 0
    }
}

/// The state of the session after an answer.
///
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html#a1d854e841086925be1883e4d7b4e8cad>
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusFlags(pub u16);

impl StatusFlags {
    const MORE_RESULTS_EXIST: u16 = 0x0008;

    /// A transaction is open.
    pub fn is_in_transaction(self) -> bool {
        self.0 & 0x0001 != 0
    }

    /// Statements outside of a transaction are committed automatically.
    pub fn is_autocommit(self) -> bool {
        self.0 & 0x0002 != 0
    }

    /// Another result of the same request follows.
    pub fn has_more_results(self) -> bool {
        self.0 & Self::MORE_RESULTS_EXIST != 0
    }

    /// The rows are in a cursor on the server.
    pub fn is_cursor_open(self) -> bool {
        self.0 & 0x0040 != 0
    }

    /// The number of columns of a prepared statement has changed.
    pub fn is_metadata_changed(self) -> bool {
        self.0 & 0x0400 != 0
    }

    /// The answer contains changes of the session.
    pub fn is_session_changed(self) -> bool {
        self.0 & 0x4000 != 0
    }
}

impl fmt::Debug for StatusFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// The id of a prepared statement of one connection, assigned by its server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementId(pub(crate) u32);

impl StatementId {
    /// MariaDB: the statement that the connection prepared last, so that an Execute can be sent
    /// together with its Prepare. If the Prepare fails, the Execute fails too.
    ///
    /// Refused with [`RequestError::Unsupported`](crate::RequestError::Unsupported) if the server
    /// does not support it; see
    /// [`Connection::can_execute_last`](super::Connection::can_execute_last).
    pub const LAST: Self = Self(u32::MAX);

    /// The server's number.
    pub fn as_u32(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for StatementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LAST => f.write_str("last statement"),
            Self(number) => write!(f, "statement {number}"),
        }
    }
}
