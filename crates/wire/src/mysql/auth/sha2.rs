//! `caching_sha2_password`: `SHA256(password) ⊕ SHA256(SHA256(SHA256(password)) ‖ challenge)` for a
//! server that has cached the client's hash, and the password itself for one that has not.
//!
//! ```text
//!   client:  PROOF
//!   server:  03                                          the hash is cached; OK follows
//!   or:      04                                          it is not cached
//!   client:  PASSWORD\0                                  on a protected transport
//!   or:      02                                          requests the server's key, if unknown
//!   server:  PEM
//!   client:  RSA(OAEP(PASSWORD\0 ⊕ CHALLENGE))
//! ```
//!
//! `sha256_password` has only the second half of this exchange, without the initial request.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>

use ::sha2::{Digest, Sha256};

use super::PublicKey;

pub(super) const SHA256_KEY_WANTED: u8 = 1;
pub(super) const KEY_WANTED: u8 = 2;
pub(super) const FAST_PASSED: u8 = 3;
pub(super) const FULL_WANTED: u8 = 4;

pub(super) fn prove(password: &[u8], challenge: &[u8]) -> [u8; 32] {
    let once: [u8; 32] = Sha256::digest(password).into();
    let twice = Sha256::digest(once);
    let mut hash = Sha256::new();
    hash.update(twice);
    hash.update(challenge);
    let mask: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|index| once[index] ^ mask[index])
}

/// The password, encrypted with the public key; `None` if it is too long for the key.
pub(super) fn hide(
    password: &[u8],
    challenge: &[u8],
    key: &PublicKey,
    seed: &[u8; 20],
) -> Option<Vec<u8>> {
    let bytes = password.iter().chain([&0]);
    let mask = challenge.iter().cycle();
    let masked: Vec<u8> = bytes.zip(mask).map(|(byte, mask)| byte ^ mask).collect();
    key.encrypt(&masked, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_finds_the_stored_hash() {
        let challenge = [7; 20];
        let once: [u8; 32] = Sha256::digest(b"secret").into();
        let stored = Sha256::digest(Sha256::digest(once));
        let mut hash = Sha256::new();
        hash.update(Sha256::digest(once));
        hash.update(challenge);
        let mask: [u8; 32] = hash.finalize().into();
        let proof = prove(b"secret", &challenge);
        let found: [u8; 32] = std::array::from_fn(|index| proof[index] ^ mask[index]);
        assert_eq!(Sha256::digest(Sha256::digest(found)), stored);
    }
}
