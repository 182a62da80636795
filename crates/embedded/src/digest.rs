//! Short names for long things, and names that cannot be guessed.

use sha2::{Digest as _, Sha256};

/// Bytes of a digest that go into a name: 64 bits tell a machine's clusters and schemas apart.
const NAME_BYTE_COUNT: usize = 8;

/// A name of 16 hexadecimal digits for what the bytes say.
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
