//! TLS for what a server listens on.

mod certificates;
mod fuzz;
mod session;
#[cfg(test)]
mod tests;

pub use fuzz::TlsFuzz;
pub(crate) use session::{Failure, Session};

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;

use crate::{Error, Result};
use certificates::Certificates;

/// The protocol that is spoken within. A client that names protocols and not this one is refused,
/// one that names none is served.
const PROTOCOL: &[u8] = b"http/1.1";

/// What a server needs to speak TLS 1.2 and 1.3: a chain of certificates and the key of the first.
///
/// Clones share it, so what one of them [reloads](Self::reload) all use from then on.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
}

impl Tls {
    /// From two PEM files: the server's certificate followed by those that lead to its root, and
    /// its key as PKCS #8, PKCS #1 or SEC 1.
    pub fn from_files(certificates: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        let certificates = Certificates::load(certificates.as_ref(), key.as_ref())?;
        Self::new(certificates)
    }

    fn new(certificates: Certificates) -> Result<Self> {
        let certificates = Arc::new(certificates);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has a cipher for each version")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificates) as Arc<_>);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Sessions live in tickets that the client holds; a table of them would be shared by all
        // threads. The ticketer changes its key every few hours.
        config.ticketer = ring::Ticketer::new().map_err(Error::no_randomness)?;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Self {
            config: Arc::new(config),
            certificates,
        })
    }

    /// Reads the files again. Handshakes from now on use what they say; if they cannot be used,
    /// what was there stays.
    pub fn reload(&self) -> Result<()> {
        self.certificates.reload()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tls")
            .field("certificates", &self.certificates)
            .finish_non_exhaustive()
    }
}
