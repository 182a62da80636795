//! Loads the TLS configuration of a connection from its files.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};

use super::verifier::{Issuers, Verifier};
use crate::config::{ClientCertificate, RootCertificates};
use crate::driver::{Check, Trust};
use crate::{Error, Result};

/// The state that all handshakes with one configuration share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(super) config: Arc<ClientConfig>,
    /// Whether a server that does not confirm the protocol is refused.
    pub(super) confirms_protocol: bool,
    pub(super) checks_name: bool,
}

impl Context {
    /// Reads the files.
    pub(crate) fn load(trust: &Trust<'_>) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let checks_name = trust.check == Check::Name;
        let verifier = Verifier {
            issuers: issuers(trust)?,
            checks_name,
            algorithms: provider.signature_verification_algorithms,
        };
        let own = match &trust.tls.certificate {
            Some(files) => certified_key(files, trust.keeps_key_private, &provider)?,
            None => None,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has a cipher for each version")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match own {
            Some(own) => {
                let resolver = rustls::sign::SingleCertAndKey::from(own);
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
            None => builder.with_no_client_auth(),
        };
        config.enable_sni = trust.tls.server_name;
        config.alpn_protocols = trust.protocol.map(<[u8]>::to_vec).into_iter().collect();
        // Each connection reads the files again, so sessions cannot be resumed.
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            confirms_protocol: trust.confirms_protocol,
            checks_name,
        })
    }
}

/// The trusted issuers; `None` if the issuer is not checked.
fn issuers(trust: &Trust<'_>) -> Result<Option<Issuers>> {
    if trust.check == Check::Nothing {
        return Ok(None);
    }
    let certificates = match &trust.tls.roots {
        RootCertificates::System => system_roots()?,
        RootCertificates::File(path) => certificates(path)?,
        RootCertificates::FileIfPresent(path) if path.exists() => certificates(path)?,
        RootCertificates::FileIfPresent(path) if trust.check >= Check::Issuer => {
            return Err(Error::no_roots(Some(path)));
        }
        RootCertificates::None if trust.check >= Check::Issuer => {
            return Err(Error::no_roots(None));
        }
        RootCertificates::FileIfPresent(_) | RootCertificates::None => return Ok(None),
    };
    let mut roots = RootCertStore::empty();
    // Root certificates that cannot be parsed are ignored.
    roots.add_parsable_certificates(certificates.iter().cloned());
    Ok(Some(Issuers {
        roots,
        certificates,
    }))
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    if !found.certs.is_empty() {
        return Ok(found.certs);
    }
    let cause = found.errors.into_iter().next();
    Err(Error::no_system_roots(cause.map(Into::into)))
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let error = |cause| Error::bad_tls_file("certificates", path, cause);
    let found = CertificateDer::pem_file_iter(path).map_err(|cause| error(cause.into()))?;
    let found: Vec<_> = found
        .collect::<Result<_, _>>()
        .map_err(|cause| error(cause.into()))?;
    if found.is_empty() {
        return Err(error("it contains no `BEGIN CERTIFICATE`".into()));
    }
    Ok(found)
}

/// The client certificate and its key; `None` if the user's default files do not exist.
fn certified_key(
    files: &ClientCertificate,
    keeps_key_private: bool,
    provider: &CryptoProvider,
) -> Result<Option<CertifiedKey>> {
    if !files.required && !files.certificate.exists() {
        return Ok(None);
    }
    let chain = certificates(&files.certificate)?;
    let error = |cause| Error::bad_tls_file("the key", &files.key, cause);
    if keeps_key_private && is_open(&files.key).map_err(|cause| error(cause.into()))? {
        return Err(error(
            "other users can read it; run `chmod 600` on it, or 640 if it belongs to root".into(),
        ));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|cause| error(cause.into()))?;
    let own = CertifiedKey::from_der(chain, key, provider);
    own.map(Some).map_err(|cause| error(cause.into()))
}

/// Whether others can read a key, by the rules of libpq: root's key may be readable by its group.
fn is_open(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(path)?;
    let forbidden = if metadata.uid() == 0 { 0o027 } else { 0o077 };
    Ok(metadata.mode() & forbidden != 0)
}
