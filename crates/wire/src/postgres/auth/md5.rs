//! The MD5 hash of a password: `md5(md5(password ‖ user) ‖ salt)`.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-START-UP>,
//! `AuthenticationMD5Password`

use std::fmt::Write;

use md5::{Digest, Md5};

pub(super) fn response(user: &[u8], password: &[u8], salt: [u8; 4]) -> String {
    let inner = hex(&[password, user]);
    format!("md5{}", hex(&[inner.as_bytes(), &salt]))
}

fn hex(parts: &[&[u8]]) -> String {
    let mut hash = Md5::new();
    for part in parts {
        hash.update(part);
    }
    let mut hex = String::with_capacity(32);
    for byte in hash.finalize() {
        write!(hex, "{byte:02x}").expect("a String takes everything");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_postgres() {
        // printf 'secretamy' | md5sum, then with \x01\x02\x03\x04 appended.
        assert_eq!(
            hex(&[b"secret", b"amy"]),
            "27949486401021cb102ea517e3e0a405"
        );
        assert_eq!(
            response(b"amy", b"secret", [1, 2, 3, 4]),
            "md569b0f4fbad30a05817c4e65c950f9ba7"
        );
    }
}
