//! Which numbers of collations mean UTF-8. Tests compare with the servers' own lists.

/// Of what is not text.
pub(super) const BINARY: u16 = 63;

/// Whether text of that collation is ASCII or UTF-8.
pub(super) fn is_utf8(collation: u16) -> bool {
    match collation {
        // MariaDB's collations without padding are those with padding, so much further up.
        1025..=1279 => is_utf8(collation - 1024),
        // ascii; utf8mb3, then utf8mb4, of both servers.
        11 | 65 | 33 | 76 | 83 | 192..=215 | 223 | 45 | 46 | 224..=247 => true,
        // MySQL 8 and later: utf8mb4 from 255 on, and nothing else.
        255..=575 => true,
        // MariaDB: Croatian, Myanmar and Thai for utf8mb3 and utf8mb4, then UCA 14.0.0 for both.
        576..=578 | 608..=610 | 2048..=2559 => true,
        _ => false,
    }
}
