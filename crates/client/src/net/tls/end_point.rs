//! `tls-server-end-point`: binds a log-in to the certificate of the server.
//!
//! <https://www.rfc-editor.org/rfc/rfc5929#section-4>

use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// The certificate, hashed with the hash of its signature, or with SHA-256 if that is MD5 or SHA-1.
/// `None` if the signature has no separate hash, as with Ed25519, or is unknown here.
pub(super) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    match signature_hash(certificate)? {
        Hash::Sha256 => Some(Sha256::digest(certificate).to_vec()),
        Hash::Sha384 => Some(Sha384::digest(certificate).to_vec()),
        Hash::Sha512 => Some(Sha512::digest(certificate).to_vec()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

// The contents of object identifiers: RFC 8017 (RSA), RFC 5758 (ECDSA), RFC 4055 (hashes).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const RSA_PSS: u8 = 10;
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const EXPLICIT_0: u8 = 0xa0;

/// `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }`, RFC 5280.
fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (name, parameters) = element(algorithm, OBJECT_IDENTIFIER)?;
    if name == ECDSA_SHA1 {
        return Some(Hash::Sha256);
    }
    match (name.split_last()?, name) {
        ((&RSA_PSS, RSA), _) => pss_hash(parameters),
        // With MD5 and with SHA-1; then SHA-256, SHA-384 and SHA-512.
        ((4 | 5 | 11, RSA), _) => Some(Hash::Sha256),
        ((12, RSA), _) => Some(Hash::Sha384),
        ((13, RSA), _) => Some(Hash::Sha512),
        ((2, ECDSA_SHA2), _) => Some(Hash::Sha256),
        ((3, ECDSA_SHA2), _) => Some(Hash::Sha384),
        ((4, ECDSA_SHA2), _) => Some(Hash::Sha512),
        _ => None,
    }
}

/// `RSASSA-PSS-params ::= SEQUENCE { hashAlgorithm [0] AlgorithmIdentifier DEFAULT sha1, … }`.
fn pss_hash(parameters: &[u8]) -> Option<Hash> {
    let (parameters, _) = element(parameters, SEQUENCE)?;
    let Some((algorithm, _)) = element(parameters, EXPLICIT_0) else {
        return Some(Hash::Sha256);
    };
    let (algorithm, _) = element(algorithm, SEQUENCE)?;
    let (name, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    if name == SHA1 {
        return Some(Hash::Sha256);
    }
    match name.split_last()? {
        (1, SHA2) => Some(Hash::Sha256),
        (2, SHA2) => Some(Hash::Sha384),
        (3, SHA2) => Some(Hash::Sha512),
        _ => None,
    }
}

/// The contents of the first element, which must be of that kind, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    if found != tag {
        return None;
    }
    let (&first, rest) = rest.split_first()?;
    let (size, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // No certificate is longer than a TLS message, whose size has three bytes.
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let size = digits
                .iter()
                .fold(0, |size, &digit| size << 8 | usize::from(digit));
            (size, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(size)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    use super::*;

    fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(vec!["db".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_signature_says_the_hash() {
        let ecdsa = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(signature_hash(&ecdsa), Some(Hash::Sha256));
        assert_eq!(
            server_end_point(&ecdsa),
            Some(Sha256::digest(&ecdsa).to_vec())
        );
        let ecdsa = certificate(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(signature_hash(&ecdsa), Some(Hash::Sha384));
        let ed25519 = certificate(&rcgen::PKCS_ED25519);
        assert_eq!(signature_hash(&ed25519), None);
    }

    /// Algorithms by their names only, in a certificate with nothing else.
    #[test]
    fn algorithms_that_others_sign_with() {
        let sequence = |content: &[u8]| {
            let size = u8::try_from(content.len()).unwrap();
            [&[SEQUENCE, size], content].concat()
        };
        let named = |prefix: &[u8], last: u8, parameters: &[u8]| {
            let size = u8::try_from(prefix.len() + 1).unwrap();
            let name = [&[OBJECT_IDENTIFIER, size], prefix, &[last]].concat();
            sequence(&[name, parameters.to_vec()].concat())
        };
        let pss = |hash: Option<Vec<u8>>| {
            let hash = hash.map(|hash| {
                let size = u8::try_from(hash.len()).unwrap();
                [&[EXPLICIT_0, size], hash.as_slice()].concat()
            });
            named(RSA, RSA_PSS, &sequence(&hash.unwrap_or_default()))
        };
        for (algorithm, expected) in [
            (named(RSA, 4, b"\x05\0"), Some(Hash::Sha256)),
            (named(RSA, 5, b"\x05\0"), Some(Hash::Sha256)),
            (named(RSA, 11, b"\x05\0"), Some(Hash::Sha256)),
            (named(RSA, 12, b"\x05\0"), Some(Hash::Sha384)),
            (named(RSA, 13, b"\x05\0"), Some(Hash::Sha512)),
            (named(RSA, 14, b"\x05\0"), None),
            (named(ECDSA_SHA2, 4, b""), Some(Hash::Sha512)),
            (pss(None), Some(Hash::Sha256)),
            (pss(Some(named(SHA2, 1, b""))), Some(Hash::Sha256)),
            (pss(Some(named(SHA2, 2, b""))), Some(Hash::Sha384)),
            (pss(Some(named(SHA2, 3, b""))), Some(Hash::Sha512)),
            (pss(Some(named(SHA2, 4, b""))), None),
        ] {
            let body = [sequence(b""), algorithm, b"\x03\x01\0".to_vec()].concat();
            let certificate = sequence(&body);
            assert_eq!(signature_hash(&certificate), expected, "{certificate:x?}");
            for size in 0..certificate.len() {
                let _ = signature_hash(&certificate[..size]);
            }
        }
    }
}
