//! API keys: shown once, stored as a hash, compared in constant time.
//!
//! A key is 256 random bits, so its plain SHA-256 is as good as a slow password hash: dictionary
//! attacks do not apply, and requests stay fast.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The prefix of a key, by which people and scanners for leaked secrets recognize it.
const PREFIX: &str = "lsk_";

const KEY_SIZE: usize = 32;

/// The SHA-256 of a key, which is not a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash([u8; 32]);

impl KeyHash {
    /// The hash of a key as it is in a request.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// A hash from 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            // Two digits of four bits each.
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Self(hash))
    }

    /// The position of this hash among `known`. The search takes the same time wherever the match
    /// is, and if there is none.
    pub(crate) fn find(&self, known: impl Iterator<Item = Self>) -> Option<usize> {
        let mut found = None;
        for (index, hash) in known.enumerate() {
            if self.0.ct_eq(&hash.0).into() {
                found = Some(index);
            }
        }
        found
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A new key and its hash.
///
/// # Errors
/// When the operating system has no random numbers.
pub(crate) fn new_key() -> Result<(String, KeyHash), getrandom::Error> {
    let mut bytes = [0; KEY_SIZE];
    getrandom::fill(&mut bytes)?;
    let mut key = String::from(PREFIX);
    for byte in bytes {
        key.push_str(&format!("{byte:02x}"));
    }
    let hash = KeyHash::of(key.as_bytes());
    Ok((key, hash))
}

/// The key of a request: `Authorization: Bearer …`, or else `X-API-Key`.
pub(crate) fn presented<'a>(
    authorization: Option<&'a [u8]>,
    api_key: Option<&'a [u8]>,
) -> Option<&'a [u8]> {
    const SCHEME: usize = "Bearer ".len();
    let bearer = authorization
        .filter(|value| value.len() > SCHEME && value[..SCHEME].eq_ignore_ascii_case(b"Bearer "));
    match bearer {
        Some(value) => Some(value[SCHEME..].trim_ascii()),
        None => api_key.map(<[u8]>::trim_ascii),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_hash() {
        let (key, hash) = new_key().unwrap();
        let (other, other_hash) = new_key().unwrap();
        assert_ne!(key, other);
        assert_eq!(key.len(), PREFIX.len() + 2 * KEY_SIZE);
        let text = hash.to_string();
        assert_eq!(KeyHash::parse(&text), Some(hash));
        assert_eq!(KeyHash::parse(&text.to_uppercase()), Some(hash));
        for bad in [&text[1..], "", &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(KeyHash::parse(bad), None, "{bad}");
        }
        let known = [other_hash, hash];
        let find = |key: &str| KeyHash::of(key.as_bytes()).find(known.into_iter());
        assert_eq!(find(&key), Some(1));
        assert_eq!(find(&other), Some(0));
        assert_eq!(find(&key[..key.len() - 1]), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn the_hash_is_what_sha256sum_says() {
        let hash = KeyHash::of(b"abc").to_string();
        assert_eq!(
            hash,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_key_comes_in_either_header() {
        for (authorization, api_key, expected) in [
            (Some("Bearer a"), None, Some("a")),
            (Some("bearer  a "), Some("b"), Some("a")),
            (Some("Basic a"), Some("b"), Some("b")),
            (Some("Bearer"), None, None),
            (None, Some(" b"), Some("b")),
            (None, None, None),
        ] {
            let found = presented(authorization.map(str::as_bytes), api_key.map(str::as_bytes));
            assert_eq!(found, expected.map(str::as_bytes), "{authorization:?}");
        }
    }
}
