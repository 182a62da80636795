//! What the log-in needs from outside: secrets, random bytes, and who may listen.

use std::fmt;

use super::PublicKey;

/// Who can read what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Anybody on the way, as on TCP without TLS.
    Plain,
    /// Only the server: a Unix socket, or TLS.
    Protected,
}

/// What a log-in may use.
#[derive(Clone)]
pub struct Credentials {
    password: Option<Box<[u8]>>,
    pub(super) seed: [u8; 20],
    pub(super) public_key: KeySource,
    pub(super) clear_password_allowed: bool,
}

/// Where the key is from that hides the password on a plain connection.
#[derive(Clone)]
pub(super) enum KeySource {
    Refuse,
    Ask,
    Known(Box<PublicKey>),
}

impl Credentials {
    /// A log-in without a password. `seed` must be random bytes that nobody can guess, and new ones
    /// for each connection.
    pub fn new(seed: [u8; 20]) -> Self {
        Self {
            password: None,
            seed,
            public_key: KeySource::Refuse,
            clear_password_allowed: false,
        }
    }

    /// The password; an empty one is none.
    pub fn password(self, password: &[u8]) -> Self {
        Self {
            password: (!password.is_empty()).then(|| password.into()),
            ..self
        }
    }

    /// The server's RSA key, under which `caching_sha2_password` may have the password on a plain
    /// connection. Without any, such a log-in works only while the server remembers our hash.
    pub fn public_key(self, key: PublicKey) -> Self {
        Self {
            public_key: KeySource::Known(Box::new(key)),
            ..self
        }
    }

    /// Takes whichever key the server sends. Somebody on the way can send their own, and read the
    /// password.
    pub fn ask_public_key(self) -> Self {
        Self {
            public_key: KeySource::Ask,
            ..self
        }
    }

    /// Lets `mysql_clear_password` have the password on a protected connection; never on a plain
    /// one. A server that asks for it learns the password.
    pub fn allow_clear_password(self) -> Self {
        Self {
            clear_password_allowed: true,
            ..self
        }
    }

    pub(super) fn known_password(&self) -> Option<&[u8]> {
        self.password.as_deref()
    }

    /// Whether a message can carry the password.
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
