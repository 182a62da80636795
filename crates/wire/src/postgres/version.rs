//! Versions of the protocol.

/// A version of the protocol.
///
/// Ordered by version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// Since PostgreSQL 7.4. The default, because some proxies reject other versions.
    #[default]
    V3_0,
    /// Since PostgreSQL 18: a longer secret for cancelling queries.
    V3_2,
}

impl ProtocolVersion {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::V3_0 => 3 << 16,
            Self::V3_2 => 3 << 16 | 2,
        }
    }
}
