//! What the log-in needs from outside: secrets, random bytes, and what TLS knows of the server.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Whether the log-in is tied to the TLS connection that it runs on, as libpq's `channel_binding`.
///
/// A log-in that is tied fails when somebody stands in between with a certificate of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Whenever both sides can. The default, as libpq's.
    #[default]
    Prefer,
    /// Or there is no log-in.
    Require,
}

/// What a log-in may use.
#[derive(Clone)]
pub struct Credentials {
    pub(super) nonce: Box<str>,
    pub(super) password: Option<Box<[u8]>>,
    pub(super) channel_binding: ChannelBinding,
    pub(super) transport: Transport,
}

/// What the connection runs on.
#[derive(Clone)]
pub(super) enum Transport {
    /// A socket.
    Plain,
    /// TLS; without a hash where the server's certificate does not allow one.
    Tls { end_point: Option<Box<[u8]>> },
}

impl Credentials {
    /// A log-in without password or TLS. `nonce` must be random bytes that nobody can guess, and
    /// new ones for each connection.
    pub fn new(nonce: [u8; 18]) -> Self {
        Self {
            nonce: STANDARD.encode(nonce).into(),
            password: None,
            channel_binding: ChannelBinding::default(),
            transport: Transport::Plain,
        }
    }

    /// The password, sent or proven if the server asks for it; an empty one is none, as in libpq.
    pub fn password(self, password: &[u8]) -> Self {
        Self {
            password: (!password.is_empty()).then(|| password.into()),
            ..self
        }
    }

    /// Whether the log-in is tied to the TLS connection.
    pub fn channel_binding(self, channel_binding: ChannelBinding) -> Self {
        Self {
            channel_binding,
            ..self
        }
    }

    /// The connection runs inside of TLS.
    ///
    /// `server_end_point` is the channel binding of that name: the server's certificate, hashed
    /// with the hash of its signature, or with SHA-256 where that is MD5 or SHA-1; `None` where the
    /// signature has no hash, as with Ed25519.
    ///
    /// <https://www.rfc-editor.org/rfc/rfc5929#section-4>
    pub fn tls(self, server_end_point: Option<&[u8]>) -> Self {
        Self {
            transport: Transport::Tls {
                end_point: server_end_point.map(Into::into),
            },
            ..self
        }
    }

    /// Whether a message can carry the password.
    pub(crate) fn has_nul(&self) -> bool {
        let password = self.password.as_deref();
        password.is_some_and(|password| password.contains(&0))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("channel_binding", &self.channel_binding)
            .finish_non_exhaustive()
    }
}
