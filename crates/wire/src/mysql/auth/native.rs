//! `mysql_native_password`: `SHA1(password) ⊕ SHA1(challenge ‖ SHA1(SHA1(password)))`.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_authentication_methods_native_password_authentication.html>

use sha1::{Digest, Sha1};

pub(super) fn prove(password: &[u8], challenge: &[u8]) -> [u8; 20] {
    let once: [u8; 20] = Sha1::digest(password).into();
    let twice = Sha1::digest(once);
    let mut hash = Sha1::new();
    hash.update(challenge);
    hash.update(twice);
    let mask: [u8; 20] = hash.finalize().into();
    std::array::from_fn(|index| once[index] ^ mask[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_finds_the_stored_hash() {
        // What a server does: it has SHA1(SHA1(password)), here `PASSWORD('secret')` of MariaDB.
        let stored =
            b"\x14\xe6\x55\x67\xab\xdb\x51\x35\xd0\xcf\xd9\xa7\x0b\x30\x32\xc1\x79\xa4\x9e\xe7";
        let challenge = [7; 20];
        let proof = prove(b"secret", &challenge);
        let mut hash = Sha1::new();
        hash.update(challenge);
        hash.update(stored);
        let mask: [u8; 20] = hash.finalize().into();
        let once: [u8; 20] = std::array::from_fn(|index| proof[index] ^ mask[index]);
        assert_eq!(Sha1::digest(once)[..], stored[..]);
    }
}
