//! TLS for listeners.

mod certificates;
mod fuzz;
mod session;
#[cfg(test)]
mod tests;

pub use fuzz::TlsFuzz;
pub(crate) use session::{Failure, TlsSession};

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;

use crate::{Error, Result};
use certificates::Certificates;

/// The ALPN protocol. A client that offers only others is refused; one that offers none is served.
const PROTOCOL: &[u8] = b"http/1.1";

/// A server's configuration for TLS 1.2 and 1.3: a certificate chain and its private key.
///
/// Clones share the configuration, so a [reload](Self::reload) of one affects all.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
}

impl Tls {
    /// Loads two PEM files: the server's certificate followed by the intermediate ones, and its key
    /// as PKCS #8, PKCS #1 or SEC 1.
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
        // Sessions are resumed by tickets that the client stores; a session cache would have to be
        // shared by all threads. The ticketer changes its key every few hours.
        config.ticketer = ring::Ticketer::new().map_err(Error::no_randomness)?;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Self {
            config: Arc::new(config),
            certificates,
        })
    }

    /// Reads the files again. New handshakes use the new certificate; on an error, the old one
    /// stays in use.
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
