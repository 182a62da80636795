//! The OAEP padding of RSA encryption, with SHA-1 as in MySQL.
//!
//! ```text
//!   00 │ seed ⊕ mask │ (hash of nothing ‖ 00 … 00 ‖ 01 ‖ message) ⊕ mask
//!    1 │ 20          │ all the rest
//! ```
//!
//! <https://www.rfc-editor.org/rfc/rfc8017#section-7.1.1>

use sha1::{Digest, Sha1};

const HASH_SIZE: usize = 20;

/// The padded message, as long as the modulus; `None` if the message does not fit.
pub(super) fn pad(message: &[u8], seed: &[u8; HASH_SIZE], size: usize) -> Option<Vec<u8>> {
    if message.len() + 2 * HASH_SIZE + 2 > size {
        return None;
    }
    let mut padded = vec![0; size];
    let (masked_seed, block) = padded[1..].split_at_mut(HASH_SIZE);
    let message_start = block.len() - message.len();
    block[..HASH_SIZE].copy_from_slice(&Sha1::digest(b""));
    block[message_start - 1] = 1;
    block[message_start..].copy_from_slice(message);
    mask(block, seed);
    masked_seed.copy_from_slice(seed);
    mask(masked_seed, block);
    Some(padded)
}

/// MGF1: XORs a stream of hashes of `seed` into `bytes`.
fn mask(bytes: &mut [u8], seed: &[u8]) {
    for (counter, piece) in (0_u32..).zip(bytes.chunks_mut(HASH_SIZE)) {
        let mut hash = Sha1::new();
        hash.update(seed);
        hash.update(counter.to_be_bytes());
        for (byte, mask) in piece.iter_mut().zip(hash.finalize()) {
            *byte ^= mask;
        }
    }
}
