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
            "{place} offers no TLS; switch it on there, or ask for less than `sslmode=require` \
             (MySQL: `ssl-mode=REQUIRED`) on a network that you trust"
        );
        Self::new(ErrorKind::Tls, Sent::Nothing, message)
    }

    pub(crate) fn protocol_unconfirmed(host: &Host) -> Self {
        let message = format!(
            "{host} does not confirm by ALPN that it speaks PostgreSQL, as `sslnegotiation=direct` \
             needs and PostgreSQL does since version 17; leave the setting out"
        );
        Self::new(ErrorKind::Tls, Sent::Nothing, message)
    }

    pub(crate) fn name_unverifiable(host: &Host) -> Self {
        let message = format!(
            "no certificate can be made out to {host}; name the host as in its certificate, or do \
             not ask for its name (`sslmode=verify-ca`, `ssl-mode=VERIFY_CA`)"
        );
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn no_roots(missing: Option<&Path>) -> Self {
        let place = missing.map(|path| format!(" in `{}`", path.display()));
        let message = format!(
            "there are no root certificates{} to check the server's with; name a file of them by \
             `sslrootcert` (MySQL: `ssl-ca`), or trust the system's by `sslrootcert=system`",
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
                "{host} ended the TLS connection; its log says why, often because of the \
                 certificate shown to it (`sslcert`, `ssl-cert`)"
            ),
            TlsError::InvalidMessage(_) => {
                format!("what {host} says is not TLS; is there a proxy in between?")
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
            format!("the certificate of {host} is not valid yet; is a clock wrong?")
        }
        E::UnknownIssuer => format!(
            "the certificate of {host} comes from an issuer that is not trusted; name the issuer's \
             own certificate by `sslrootcert` (MySQL: `ssl-ca`)"
        ),
        E::NotValidForName => other_name(host, &[]),
        E::NotValidForNameContext { presented, .. } => other_name(host, presented),
        E::BadSignature => format!("the certificate of {host} is not signed by who it says"),
        _ => format!("the certificate of {host} cannot be trusted"),
    }
}

fn other_name(host: &Host, presented: &[String]) -> String {
    let names = match presented {
        [] => "it names no host (a `commonName` does not count)".to_owned(),
        names => format!("it names {}", names.join(", ")),
    };
    format!(
        "the certificate of {host} is not made out to that host: {names}; connect by such a name, \
         or check the issuer only (`sslmode=verify-ca`, MySQL: `ssl-mode=VERIFY_CA`)"
    )
}
