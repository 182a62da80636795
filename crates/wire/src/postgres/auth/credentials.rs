//! What the log-in needs from the caller: secrets, random bytes, and the channel binding of TLS.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Whether the log-in is bound to its TLS connection, as libpq's `channel_binding`.
///
/// A bound log-in fails if there is a man in the middle with another certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Channel binding is never used.
    Disable,
    /// Whenever both sides support it. The default, as in libpq.
    #[default]
    Prefer,
    /// Channel binding, or the log-in fails.
    Require,
}

/// The credentials of a log-in.
#[derive(Clone)]
pub struct Credentials {
    pub(super) nonce: Box<str>,
    pub(super) password: Option<Box<[u8]>>,
    pub(super) channel_binding: ChannelBinding,
    pub(super) transport: Transport,
}

/// The transport of the connection.
#[derive(Clone)]
pub(super) enum Transport {
    /// A socket without TLS.
    Plain,
    /// TLS; without a hash if the server's certificate does not allow one.
    Tls { end_point: Option<Box<[u8]>> },
}

impl Credentials {
    /// A log-in without password or TLS. `nonce` must be unpredictable random bytes, new for each
    /// connection.
    pub fn new(nonce: [u8; 18]) -> Self {
        Self {
            nonce: STANDARD.encode(nonce).into(),
            password: None,
            channel_binding: ChannelBinding::default(),
            transport: Transport::Plain,
        }
    }

    /// Sets the password, which is sent or proven if the server requires it; an empty one means no
    /// password, as in libpq.
    pub fn password(self, password: &[u8]) -> Self {
        Self {
            password: (!password.is_empty()).then(|| password.into()),
            ..self
        }
    }

    /// Sets whether the log-in is bound to the TLS connection.
    pub fn channel_binding(self, channel_binding: ChannelBinding) -> Self {
        Self {
            channel_binding,
            ..self
        }
    }

    /// Declares that the connection runs within TLS.
    ///
    /// `server_end_point` is the channel binding `tls-server-end-point`: the server's certificate,
    /// hashed with the hash of its signature, or with SHA-256 if that is MD5 or SHA-1; `None` if
    /// the signature has no hash, as with Ed25519.
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

    /// Whether the password contains a NUL, so that no message can contain it.
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
