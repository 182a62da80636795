//! Capabilities of client and server: 32 flags of the protocol, and 32 of MariaDB above them.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/1-connecting/connection>

use std::ops::{BitAnd, BitOr};

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// No capabilities.
    pub const NONE: Self = Self(0);
    /// Set by MySQL. A MariaDB server that does not set it has its own capabilities.
    pub const LONG_PASSWORD: Self = Self(1);
    /// Counts rows that an UPDATE found, not those that it changed.
    pub const FOUND_ROWS: Self = Self(1 << 1);
    /// Columns have 16 flags.
    pub const LONG_FLAG: Self = Self(1 << 2);
    /// The log-in names a database.
    pub const CONNECT_WITH_DB: Self = Self(1 << 3);
    /// The protocol since MySQL 4.1.
    pub const PROTOCOL_41: Self = Self(1 << 9);
    /// TLS.
    pub const SSL: Self = Self(1 << 11);
    /// Answers contain the state of the transaction.
    pub const TRANSACTIONS: Self = Self(1 << 13);
    /// Passwords are hashed as in MySQL 4.1 and later.
    pub const SECURE_CONNECTION: Self = Self(1 << 15);
    /// A query may contain several statements.
    pub const MULTI_STATEMENTS: Self = Self(1 << 16);
    /// A query may have several results.
    pub const MULTI_RESULTS: Self = Self(1 << 17);
    /// A prepared statement may have several results.
    pub const PS_MULTI_RESULTS: Self = Self(1 << 18);
    /// Authentication plugins are supported.
    pub const PLUGIN_AUTH: Self = Self(1 << 19);
    /// The log-in contains attributes of the client program.
    pub const CONNECT_ATTRS: Self = Self(1 << 20);
    /// The authentication data may be longer than 255 bytes.
    pub const PLUGIN_AUTH_LENENC: Self = Self(1 << 21);
    /// Answers contain changes of the session.
    pub const SESSION_TRACK: Self = Self(1 << 23);
    /// Rows end with an OK packet instead of an EOF packet.
    pub const DEPRECATE_EOF: Self = Self(1 << 24);
    /// The session may leave out the definitions of columns.
    pub const OPTIONAL_RESULTSET_METADATA: Self = Self(1 << 25);
    /// MariaDB: COM_STMT_BULK_EXECUTE, and −1 for the statement that was prepared last.
    pub const MARIADB_BULK: Self = Self(1 << 34);
    /// MariaDB: column definitions contain more about types.
    pub const MARIADB_EXTENDED_METADATA: Self = Self(1 << 35);
    /// MariaDB: column definitions are left out as long as they are unchanged.
    pub const MARIADB_CACHE_METADATA: Self = Self(1 << 36);

    /// Whether all of `other` are among these.
    pub fn contains(self, other: Self) -> bool {
        self & other == other
    }

    /// These, and `other` if `is_so`.
    pub(crate) fn and(self, other: Self, is_so: bool) -> Self {
        if is_so { self | other } else { self }
    }

    /// These, but none of `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The flags of the protocol.
    pub(crate) fn low(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    /// The flags of MariaDB.
    pub(crate) fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl BitOr for Capabilities {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Capabilities {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
