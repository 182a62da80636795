//! A certificate chain and its key, from files that may be replaced.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::{Error, Result};

pub(super) struct Certificates {
    chain_path: PathBuf,
    key_path: PathBuf,
    current: ArcSwap<CertifiedKey>,
}

impl Certificates {
    pub(super) fn load(chain_path: &Path, key_path: &Path) -> Result<Self> {
        Ok(Self {
            chain_path: chain_path.to_owned(),
            key_path: key_path.to_owned(),
            current: ArcSwap::from_pointee(certified_key(chain_path, key_path)?),
        })
    }

    pub(super) fn reload(&self) -> Result<()> {
        let fresh = certified_key(&self.chain_path, &self.key_path)?;
        self.current.store(Arc::new(fresh));
        Ok(())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Certificates")
            .field("chain_path", &self.chain_path)
            .field("key_path", &self.key_path)
            .finish_non_exhaustive()
    }
}

fn certified_key(chain_path: &Path, key_path: &Path) -> Result<CertifiedKey> {
    let unusable = |cause: pem::Error| Error::unusable_certificates(chain_path, cause);
    let chain = CertificateDer::pem_file_iter(chain_path).map_err(unusable)?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(unusable)?;
    if chain.is_empty() {
        return Err(Error::no_certificate(chain_path));
    }
    let key = PrivateKeyDer::from_pem_file(key_path);
    let key = key.map_err(|cause| Error::unusable_key(key_path, cause))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|cause| Error::certificate_and_key(chain_path, key_path, cause))
}
