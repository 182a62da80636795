//! Authentication: the client's answers to the server's authentication requests, and what it
//! refuses to send.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/1-connecting/connection>

mod credentials;
mod ed25519;
mod native;
mod oaep;
mod public_key;
mod sha2;

pub use credentials::{Credentials, Transport};
pub use public_key::{PublicKey, PublicKeyError};

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

use credentials::KeySource;

/// How often a server may switch the authentication plugin. MariaDB does so once for each plugin
/// that an account allows.
const SWITCH_COUNT_MAX: u32 = 8;

/// The size of a challenge, except that of `client_ed25519`, which is longer.
const CHALLENGE_SIZE: usize = 20;

/// An authentication plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthPlugin {
    /// `mysql_native_password`: SHA-1.
    NativePassword,
    /// `caching_sha2_password`: SHA-256, or the password itself, encrypted or on a protected
    /// transport.
    CachingSha2Password,
    /// `sha256_password`: the password itself, encrypted or on a protected transport. MySQL also
    /// pretends that accounts that do not exist use it.
    Sha256Password,
    /// `client_ed25519`: a signature.
    Ed25519,
    /// `mysql_clear_password`: the password itself, for PAM and LDAP.
    ClearPassword,
}

impl AuthPlugin {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::NativePassword => "mysql_native_password",
            Self::CachingSha2Password => "caching_sha2_password",
            Self::Sha256Password => "sha256_password",
            Self::Ed25519 => "client_ed25519",
            Self::ClearPassword => "mysql_clear_password",
        }
    }

    fn of(name: &[u8]) -> Option<Self> {
        let all = [
            Self::NativePassword,
            Self::CachingSha2Password,
            Self::Sha256Password,
            Self::Ed25519,
            Self::ClearPassword,
        ];
        all.into_iter()
            .find(|plugin| plugin.name().as_bytes() == name)
    }
}

/// The error for an unsupported plugin; only known names are shown.
fn unsupported(name: &[u8]) -> Reason {
    let known = [
        "mysql_old_password",
        "dialog",
        "parsec",
        "auth_gssapi_client",
        "authentication_kerberos_client",
        "authentication_ldap_sasl_client",
        "authentication_oci_client",
        "authentication_openid_connect_client",
        "authentication_webauthn_client",
    ];
    let known = known.into_iter().find(|known| known.as_bytes() == name);
    Reason::PluginUnsupported(known.unwrap_or("a plugin of another name"))
}

/// A step of the authentication that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authentication {
    /// The server switched to this plugin.
    Switch(AuthPlugin),
    /// The server had cached the client's hash.
    FastPassed,
    /// The server requested the password, which was sent, encrypted or on a protected transport.
    FullBegun,
    /// The server sent its public key, and the password was sent encrypted with it.
    PublicKey,
}

/// The authentication of one connection.
pub(crate) struct Login {
    credentials: Credentials,
    transport: Transport,
    plugin: AuthPlugin,
    challenge: Box<[u8]>,
    state: State,
    switch_count: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first proof was sent.
    Proven,
    /// The public key was requested by `caching_sha2_password`.
    KeyAsked,
    /// Only the result is missing.
    Passed,
}

impl Login {
    /// Chooses the plugin that the server prefers, if supported, and returns the first proof.
    pub(crate) fn begin(
        credentials: Credentials,
        transport: Transport,
        plugin: &[u8],
        challenge: Vec<u8>,
    ) -> Result<(Self, AuthPlugin, Vec<u8>), ProtocolError> {
        let plugin = match AuthPlugin::of(plugin) {
            // The plugin is only a default: the server requests that of the account after the first
            // attempt.
            Some(plugin @ (AuthPlugin::NativePassword | AuthPlugin::CachingSha2Password)) => plugin,
            _ => AuthPlugin::NativePassword,
        };
        let mut login = Self {
            credentials,
            transport,
            plugin,
            challenge: challenge.into(),
            state: State::Proven,
            switch_count: 0,
        };
        let proof = login.prove("greeting")?;
        Ok((login, plugin, proof))
    }

    /// AuthSwitchRequest: begins again with another plugin.
    pub(crate) fn switch(
        &mut self,
        mut reader: Reader<'_>,
    ) -> Result<(Authentication, Vec<u8>), ProtocolError> {
        reader.u8()?;
        if reader.unread().is_empty() {
            return Err(reader.error(Reason::PluginUnsupported("mysql_old_password")));
        }
        let before = reader;
        let name = reader.c_str()?.to_bytes();
        self.switch_count += 1;
        if self.switch_count > SWITCH_COUNT_MAX {
            return Err(before.error(Reason::AuthSwitches(SWITCH_COUNT_MAX)));
        }
        self.plugin = AuthPlugin::of(name).ok_or_else(|| before.error(unsupported(name)))?;
        self.challenge = reader.rest().into();
        let proof = self.prove("AuthSwitchRequest")?;
        Ok((Authentication::Switch(self.plugin), proof))
    }

    fn prove(&mut self, message: &'static str) -> Result<Vec<u8>, ProtocolError> {
        self.state = State::Proven;
        let challenge = |size| {
            let challenge = self.challenge.get(..size);
            challenge.ok_or_else(|| ProtocolError::new(message, 0, Reason::ShortChallenge))
        };
        let Some(password) = self.credentials.known_password() else {
            return Ok(match self.plugin {
                AuthPlugin::NativePassword => Vec::new(),
                AuthPlugin::CachingSha2Password | AuthPlugin::Sha256Password => vec![0],
                // An empty password is signed like any other.
                AuthPlugin::Ed25519 => ed25519::sign(b"", challenge(ed25519::CHALLENGE_SIZE)?),
                AuthPlugin::ClearPassword => vec![0],
            });
        };
        Ok(match self.plugin {
            AuthPlugin::NativePassword => {
                native::prove(password, challenge(CHALLENGE_SIZE)?).to_vec()
            }
            AuthPlugin::CachingSha2Password => {
                sha2::prove(password, challenge(CHALLENGE_SIZE)?).to_vec()
            }
            AuthPlugin::Sha256Password => {
                let message = Reader::new(message, &[]);
                let (answer, state) = self.full(message, sha2::SHA256_KEY_WANTED)?;
                self.state = state;
                answer
            }
            AuthPlugin::Ed25519 => ed25519::sign(password, challenge(ed25519::CHALLENGE_SIZE)?),
            AuthPlugin::ClearPassword => {
                let allowed = self.credentials.clear_password_allowed;
                if !allowed || self.transport == Transport::Plain {
                    return Err(ProtocolError::new(message, 0, Reason::ClearPassword));
                }
                [password, &[0]].concat()
            }
        })
    }

    /// AuthMoreData: data of a plugin; returns the answer, if it requires one.
    pub(crate) fn more_data(
        &mut self,
        mut reader: Reader<'_>,
    ) -> Result<(Authentication, Option<Vec<u8>>), ProtocolError> {
        reader.u8()?;
        let before = reader;
        let unexpected = Err(before.error(Reason::Unexpected("at this point of the log-in")));
        let is_caching = self.plugin == AuthPlugin::CachingSha2Password;
        match (self.state, reader.rest()) {
            (State::Proven, [sha2::FAST_PASSED]) if is_caching => {
                self.state = State::Passed;
                Ok((Authentication::FastPassed, None))
            }
            (State::Proven, [sha2::FULL_WANTED]) if is_caching => {
                let (answer, state) = self.full(before, sha2::KEY_WANTED)?;
                self.state = state;
                Ok((Authentication::FullBegun, Some(answer)))
            }
            (State::KeyAsked, pem) => {
                let key = PublicKey::from_pem(pem);
                let key = key.map_err(|error| before.error(Reason::PublicKey(error.as_str())))?;
                let hidden = self.hide(&key, before)?;
                self.state = State::Passed;
                Ok((Authentication::PublicKey, Some(hidden)))
            }
            _ => unexpected,
        }
    }

    /// Sends the password itself, but never readable on the network.
    fn full(&self, reader: Reader<'_>, key_wanted: u8) -> Result<(Vec<u8>, State), ProtocolError> {
        let password = self.credentials.known_password().unwrap_or_default();
        Ok(match &self.credentials.public_key {
            _ if self.transport == Transport::Protected => {
                ([password, &[0]].concat(), State::Passed)
            }
            KeySource::Known(key) => (self.hide(key, reader)?, State::Passed),
            KeySource::Ask => (vec![key_wanted], State::KeyAsked),
            KeySource::Refuse => return Err(reader.error(Reason::NoPublicKey)),
        })
    }

    fn hide(&self, key: &PublicKey, reader: Reader<'_>) -> Result<Vec<u8>, ProtocolError> {
        let password = self.credentials.known_password().unwrap_or_default();
        let challenge = self.challenge.get(..CHALLENGE_SIZE);
        let challenge = challenge.ok_or_else(|| reader.error(Reason::ShortChallenge))?;
        let hidden = sha2::hide(password, challenge, key, &self.credentials.seed);
        hidden.ok_or_else(|| reader.error(Reason::PasswordTooLong))
    }
}
