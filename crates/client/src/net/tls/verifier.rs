//! Verification of a server's certificate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Verifies as much as the configuration requires. The server's possession of the private key is
/// always verified, because a log-in may be bound to the certificate.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) issuers: Option<Issuers>,
    pub(super) checks_name: bool,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

/// The trusted issuers.
#[derive(Debug)]
pub(super) struct Issuers {
    pub(super) roots: RootCertStore,
    /// The certificates as they are in the file.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl Issuers {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        parsed: &ParsedCertificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let verified = verify_server_cert_signed_by_trust_anchor(
            parsed,
            &self.roots,
            intermediates,
            now,
            algorithms.all,
        );
        match verified {
            // A self-signed certificate, as made by one call of openssl, is both a CA and a server
            // certificate. OpenSSL accepts that as its own root; rustls rejects it with this error,
            // after it has checked the validity period.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.certificates.contains(end_entity) =>
            {
                Ok(())
            }
            verified => verified,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(issuers) = &self.issuers {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            issuers.verify(end_entity, &parsed, intermediates, now, &self.algorithms)?;
            if self.checks_name {
                verify_server_name(&parsed, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
