//! What the log-in needs from the caller: secrets, random bytes, and whether the transport is
//! protected.

use std::fmt;

use super::PublicKey;

/// Whether the transport can be read by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Readable on the network, as TCP without TLS.
    Plain,
    /// Readable by the server only: a Unix socket, or TLS.
    Protected,
}

/// The credentials of a log-in.
#[derive(Clone)]
pub struct Credentials {
    password: Option<Box<[u8]>>,
    pub(super) seed: [u8; 20],
    pub(super) public_key: KeySource,
    pub(super) clear_password_allowed: bool,
}

/// The source of the key that encrypts the password on a plain connection.
#[derive(Clone)]
pub(super) enum KeySource {
    Refuse,
    Ask,
    Known(Box<PublicKey>),
}

impl Credentials {
    /// A log-in without a password. `seed` must be unpredictable random bytes, new for each
    /// connection.
    pub fn new(seed: [u8; 20]) -> Self {
        Self {
            password: None,
            seed,
            public_key: KeySource::Refuse,
            clear_password_allowed: false,
        }
    }

    /// Sets the password; an empty one means no password.
    pub fn password(self, password: &[u8]) -> Self {
        Self {
            password: (!password.is_empty()).then(|| password.into()),
            ..self
        }
    }

    /// Sets the server's RSA key, with which the password is encrypted for `caching_sha2_password`
    /// on a plain connection. Without a key, such a log-in works only while the server has cached
    /// the client's hash.
    pub fn public_key(self, key: PublicKey) -> Self {
        Self {
            public_key: KeySource::Known(Box::new(key)),
            ..self
        }
    }

    /// Accepts any key that the server sends. A man in the middle can send another key and read the
    /// password.
    pub fn ask_public_key(self) -> Self {
        Self {
            public_key: KeySource::Ask,
            ..self
        }
    }

    /// Allows `mysql_clear_password` to send the password on a protected connection; never on a
    /// plain one. A server that requests it learns the password.
    pub fn allow_clear_password(self) -> Self {
        Self {
            clear_password_allowed: true,
            ..self
        }
    }

    pub(super) fn known_password(&self) -> Option<&[u8]> {
        self.password.as_deref()
    }

    /// Whether the password contains a NUL, so that no message can contain it.
    pub(crate) fn has_nul(&self) -> bool {
        let password = self.password.as_deref();
        password.is_some_and(|password| password.contains(&0))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}
