//! Names from digests, and names that cannot be guessed.

use sha2::{Digest as _, Sha256};

/// The number of digest bytes in a name: 64 bits are enough for the clusters and schemas of a
/// machine.
const NAME_BYTE_COUNT: usize = 8;

/// A name of 16 hexadecimal digits, from a digest of the bytes.
pub(crate) fn of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..NAME_BYTE_COUNT])
}

/// `byte_count` random bytes, in hexadecimal digits.
pub(crate) fn random(byte_count: usize) -> String {
    let mut bytes = vec![0; byte_count];
    getrandom::fill(&mut bytes).expect("every supported system has a source of random bytes");
    hex(&bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing into a string succeeds");
        text
    })
}
