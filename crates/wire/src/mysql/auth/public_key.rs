//! A server's RSA key: parsed from PEM, and used once per log-in to encrypt the password.
//!
//! ```text
//!   SEQUENCE { SEQUENCE { OID rsaEncryption, NULL }, BIT STRING { SEQUENCE { modulus, exponent } } }
//! ```
//!
//! <https://www.rfc-editor.org/rfc/rfc5280#section-4.1.2.7>, <https://www.rfc-editor.org/rfc/rfc8017>

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};

use super::oaep;

/// The sizes that are secure and take no noticeable time. MySQL generates keys of 2,048 bits.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 1024..=16_384;

/// The maximal size of the exponent in bytes; nearly all keys have 65,537.
const EXPONENT_SIZE_MAX: usize = 8;

/// 1.2.840.113549.1.1.1, with NULL parameters.
const RSA_ENCRYPTION: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;

/// A server's public key.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Without leading zeros, and odd.
    modulus: Box<[u8]>,
    exponent: u64,
}

/// Why a text is not a usable public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// It is not a PEM of a `PUBLIC KEY`.
    Pem,
    /// Its structure is broken, or it is not an RSA key.
    Structure,
    /// Its numbers are too small or too large.
    Size,
}

impl PublicKey {
    /// Reads what is between `-----BEGIN PUBLIC KEY-----` and `-----END PUBLIC KEY-----`.
    ///
    /// # Errors
    ///
    /// When there is no such key, or it cannot be used to encrypt a password.
    pub fn from_pem(pem: &[u8]) -> Result<Self, PublicKeyError> {
        let text = std::str::from_utf8(pem).map_err(|_| PublicKeyError::Pem)?;
        let (_, behind) = text
            .split_once("-----BEGIN PUBLIC KEY-----")
            .ok_or(PublicKeyError::Pem)?;
        let (base64, _) = behind
            .split_once("-----END PUBLIC KEY-----")
            .ok_or(PublicKeyError::Pem)?;
        let base64: String = base64.split_ascii_whitespace().collect();
        let der = STANDARD.decode(base64).map_err(|_| PublicKeyError::Pem)?;
        Self::from_der(&der)
    }

    fn from_der(der: &[u8]) -> Result<Self, PublicKeyError> {
        let numbers = numbers(der).ok_or(PublicKeyError::Structure)?;
        let [modulus, exponent] = numbers.map(|number| {
            let zero_count = number.iter().take_while(|&&byte| byte == 0).count();
            &number[zero_count..]
        });
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
        let bits = modulus.len() * 8
            - modulus
                .first()
                .map_or(0, |byte| byte.leading_zeros() as usize);
        if !MODULUS_BITS.contains(&bits)
            || exponent.len() > EXPONENT_SIZE_MAX
            || exponent == [1]
            || !is_odd(modulus)
            || !is_odd(exponent)
        {
            return Err(PublicKeyError::Size);
        }
        let exponent = exponent
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        Ok(Self {
            modulus: modulus.into(),
            exponent,
        })
    }

    /// `OAEP(message) ^ exponent mod modulus`; `None` if the message is too long for the key.
    pub(super) fn encrypt(&self, message: &[u8], seed: &[u8; 20]) -> Option<Vec<u8>> {
        const FITS: &str = "a number fits into as many bits as its bytes have";
        let size = self.modulus.len();
        let padded = oaep::pad(message, seed, size)?;
        let bits = u32::try_from(size * 8).expect("a modulus has at most 16,384 bits");
        let modulus = BoxedUint::from_be_slice(&self.modulus, bits).expect(FITS);
        let modulus = Odd::new(modulus).into_option();
        let modulus = modulus.expect("it was checked to be odd when the key was read");
        let message = BoxedUint::from_be_slice(&padded, bits).expect(FITS);
        let parameters = BoxedMontyParams::new_vartime(modulus);
        let message = BoxedMontyForm::new(message, &parameters);
        let power = message.pow(&BoxedUint::from(self.exponent)).retrieve();
        let bytes = power.to_be_bytes();
        // The number may have been rounded up to whole words.
        Some(bytes[bytes.len() - size..].to_vec())
    }
}

/// The content octets of modulus and exponent.
fn numbers(der: &[u8]) -> Option<[&[u8]; 2]> {
    let (key, behind) = element(SEQUENCE, der)?;
    let (algorithm, key) = element(SEQUENCE, key)?;
    let (bits, behind_bits) = element(BIT_STRING, key)?;
    let (&unused_bit_count, bits) = bits.split_first()?;
    let (pair, behind_pair) = element(SEQUENCE, bits)?;
    let (modulus, pair) = element(INTEGER, pair)?;
    let (exponent, behind_exponent) = element(INTEGER, pair)?;
    let is_whole = [behind, behind_bits, behind_pair, behind_exponent]
        .iter()
        .all(|behind| behind.is_empty());
    let is_positive = |number: &[u8]| number.first().is_some_and(|first| first & 0x80 == 0);
    (algorithm == RSA_ENCRYPTION
        && unused_bit_count == 0
        && is_whole
        && is_positive(modulus)
        && is_positive(exponent))
    .then_some([modulus, exponent])
}

/// The content of the first element, which must have this tag, and the rest after it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (size, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let size = bytes
                .iter()
                .fold(0, |size, &byte| size << 8 | usize::from(byte));
            (size, rest)
        }
        _ => return None,
    };
    (found == tag).then_some(())?;
    rest.split_at_checked(size)
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} bytes)", self.modulus.len())
    }
}

impl PublicKeyError {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pem => "there is no `-----BEGIN PUBLIC KEY-----` with its base64 and its end",
            Self::Structure => "it is not an RSA key",
            Self::Size => "its modulus has not 1,024 to 16,384 bits, or its exponent is unusual",
        }
    }
}

impl fmt::Display for PublicKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for PublicKeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of 1,024 bits.
    const KEY: &str = "
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCpFEyRvQanMP2hnQe0GqHOuj/N
        oEC+8V2RLb7+KZv3qxnsCH/7FfbGaf7cJjO7aJyhbVFLb/8LwE5LumOyYKbqXmqx
        BVO3E8N1yzVsxeX9L83v3XP1nMn7RjPDFuCR1bR7On4IVQE0nIvmQaRillYWzgSR
        avfEUPsXq0w8NWx+zQIDAQAB";

    fn der() -> Vec<u8> {
        let base64: String = KEY.split_ascii_whitespace().collect();
        STANDARD.decode(base64).unwrap()
    }

    #[test]
    fn any_byte_of_a_key_may_be_another_one() {
        let der = der();
        assert!(PublicKey::from_der(&der).is_ok());
        for index in 0..der.len() {
            assert!(PublicKey::from_der(&der[..index]).is_err());
            for change in [0x01, 0x7f, 0x80, 0xff] {
                let mut other = der.clone();
                other[index] ^= change;
                if let Ok(key) = PublicKey::from_der(&other) {
                    let hidden = key.encrypt(b"secret", &[7; 20]).unwrap();
                    assert_eq!(hidden.len(), key.modulus.len());
                }
            }
        }
    }

    #[test]
    fn a_message_has_to_fit() {
        let key = PublicKey::from_der(&der()).unwrap();
        assert!(key.encrypt(&[7; 128 - 42], &[7; 20]).is_some());
        assert!(key.encrypt(&[7; 128 - 41], &[7; 20]).is_none());
    }
}
