//! Errors of TLS, with hints.

use std::fmt;
use std::path::Path;

use rustls::{CertificateError, Error as TlsError};

use super::{Cause, Error, ErrorKind, Sent};
use crate::Host;

/// Why a file cannot be used.
type FileCause = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// The server does not support TLS, which the configuration requires.
    pub(crate) fn server_without_tls(place: impl fmt::Display) -> Self {
        let message = format!(
            "{place} does not offer TLS; enable it there, or use a weaker mode than \
             `sslmode=require` (MySQL: `ssl-mode=REQUIRED`) if the network is trusted"
        );
        Self::new(ErrorKind::Tls, Sent::Nothing, message)
    }

    pub(crate) fn protocol_unconfirmed(host: &Host) -> Self {
        let message = format!(
            "{host} does not confirm the PostgreSQL protocol by ALPN, which \
             `sslnegotiation=direct` requires and PostgreSQL supports since version 17; omit the \
             setting"
        );
        Self::new(ErrorKind::Tls, Sent::Nothing, message)
    }

    pub(crate) fn name_unverifiable(host: &Host) -> Self {
        let message = format!(
            "{host} cannot be the name in a certificate; use the host name of the certificate, or \
             do not verify the name (`sslmode=verify-ca`, `ssl-mode=VERIFY_CA`)"
        );
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn no_roots(missing: Option<&Path>) -> Self {
        let place = missing.map(|path| format!(" in `{}`", path.display()));
        let message = format!(
            "there are no root certificates{} to verify the server's certificate; name a file with \
             `sslrootcert` (MySQL: `ssl-ca`), or use those of the system with \
             `sslrootcert=system`",
            place.unwrap_or_default()
        );
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn no_system_roots(cause: Option<FileCause>) -> Self {
        let message = "the system has no root certificates; install its `ca-certificates`, or name \
                       a file by `sslrootcert` (MySQL: `ssl-ca`)";
        match cause {
            Some(cause) => {
                let cause = Cause::Other(cause);
                Self::because(ErrorKind::Misuse, Sent::Nothing, message, cause)
            }
            None => Self::new(ErrorKind::Misuse, Sent::Nothing, message),
        }
    }

    pub(crate) fn bad_tls_file(what: &str, path: &Path, cause: FileCause) -> Self {
        let message = format!("{what} in `{}` cannot be used", path.display());
        Self::because(
            ErrorKind::Misuse,
            Sent::Nothing,
            message,
            Cause::Other(cause),
        )
    }

    /// The connection ended before the handshake was complete, for example because the server is
    /// stopping, or a proxy has no server. Another attempt may succeed, unless the handshake began
    /// without a request for it, which older servers do not understand.
    pub(crate) fn tls_interrupted(host: &Host, is_direct: bool) -> Self {
        let message = format!("{host} closed the connection during the TLS handshake");
        match is_direct {
            true => Self::new(ErrorKind::Tls, Sent::Something, message),
            false => Self::new(ErrorKind::Connection, Sent::Nothing, message),
        }
    }

    /// The handshake, or TLS after it, failed.
    pub(crate) fn tls(host: &Host, error: TlsError) -> Self {
        let message = match &error {
            TlsError::InvalidCertificate(reason) => certificate_message(host, reason),
            TlsError::AlertReceived(_) => format!(
                "{host} ended the TLS connection; its log has the reason, which is often the \
                 client certificate (`sslcert`, `ssl-cert`)"
            ),
            TlsError::InvalidMessage(_) => {
                format!("the answer of {host} is not TLS; is there a proxy?")
            }
            _ => format!("TLS with {host} failed"),
        };
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Tls, Sent::Something, message, cause)
    }
}

fn certificate_message(host: &Host, reason: &CertificateError) -> String {
    use CertificateError as E;
    match reason {
        E::Expired | E::ExpiredContext { .. } => {
            format!("the certificate of {host} has expired; renew it on the server")
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            format!("the certificate of {host} is not valid yet; is the clock correct?")
        }
        E::UnknownIssuer => format!(
            "the issuer of the certificate of {host} is not trusted; name the issuer's certificate \
             with `sslrootcert` (MySQL: `ssl-ca`)"
        ),
        E::NotValidForName => other_name(host, &[]),
        E::NotValidForNameContext { presented, .. } => other_name(host, presented),
        E::BadSignature => {
            format!("the signature of the certificate of {host} is not that of its issuer")
        }
        _ => format!("the certificate of {host} cannot be trusted"),
    }
}

fn other_name(host: &Host, presented: &[String]) -> String {
    let names = match presented {
        [] => "it names no host (a `commonName` does not count)".to_owned(),
        names => format!("it names {}", names.join(", ")),
    };
    format!(
        "the certificate of {host} does not name that host: {names}; connect with a name of the \
         certificate, or verify only the issuer (`sslmode=verify-ca`, MySQL: \
         `ssl-mode=VERIFY_CA`)"
    )
}
