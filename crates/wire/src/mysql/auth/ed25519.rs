//! `client_ed25519`: MariaDB's challenge, signed with the password as the secret key.
//!
//! This is Ed25519 except for the secret: 32 bytes there, the unmodified password here. Signature
//! libraries do not accept such a secret, so the signing steps of RFC 8032 are implemented here.
//!
//! <https://mariadb.com/docs/server/reference/plugins/authentication-plugins/authentication-plugin-ed25519>,
//! <https://www.rfc-editor.org/rfc/rfc8032#section-5.1.6>

use ::sha2::{Digest, Sha512};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};

pub(super) const CHALLENGE_SIZE: usize = 32;

pub(super) fn sign(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    let hash: [u8; 64] = Sha512::digest(password).into();
    let (secret, prefix) = hash.split_at(32);
    let secret = clamp_integer(secret.try_into().expect("it is half of 64 bytes"));
    let secret = Scalar::from_bytes_mod_order(secret);
    let public = EdwardsPoint::mul_base(&secret).compress();
    let nonce = scalar(&[prefix, challenge]);
    let commitment = EdwardsPoint::mul_base(&nonce).compress();
    let proof = nonce + scalar(&[commitment.as_bytes(), public.as_bytes(), challenge]) * secret;
    [*commitment.as_bytes(), proof.to_bytes()].concat()
}

fn scalar(parts: &[&[u8]]) -> Scalar {
    let mut hash = Sha512::new();
    for part in parts {
        hash.update(part);
    }
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_standard() {
        // RFC 8032, section 7.1, test 2: its secret of 32 bytes is used as the password.
        let secret = hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let signature = hex(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        );
        assert_eq!(sign(&secret, b"\x72"), signature);
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }
}
