//! Errors of a server's TLS files.

use std::path::Path;

use rustls::pki_types::pem;

use crate::{Error, ErrorKind};

impl Error {
    pub(crate) fn unusable_certificates(path: &Path, cause: pem::Error) -> Self {
        Self::new(
            kind_of(&cause),
            format!(
                "cannot read the certificates in `{}`; the server's own comes first, as PEM",
                path.display()
            ),
        )
        .because(cause)
    }

    pub(crate) fn no_certificate(path: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "there is no `BEGIN CERTIFICATE` in `{}`; is this the file of the key?",
                path.display()
            ),
        )
    }

    pub(crate) fn unusable_key(path: &Path, cause: pem::Error) -> Self {
        let message = match cause {
            pem::Error::NoItemsFound => format!(
                "there is no private key in `{}`; one with a passphrase has to be decrypted first, \
                 as by `openssl pkey`",
                path.display()
            ),
            _ => format!("cannot read the private key in `{}`", path.display()),
        };
        Self::new(kind_of(&cause), message).because(cause)
    }

    pub(crate) fn certificate_and_key(chain: &Path, key: &Path, cause: rustls::Error) -> Self {
        let message = match cause {
            rustls::Error::InconsistentKeys(_) => format!(
                "the key in `{}` is not that of the first certificate in `{}`",
                key.display(),
                chain.display()
            ),
            _ => format!(
                "cannot use the certificate in `{}` with the key in `{}`",
                chain.display(),
                key.display()
            ),
        };
        Self::new(ErrorKind::Misuse, message).because(cause)
    }

    pub(crate) fn no_randomness(cause: rustls::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            "cannot make a key for session tickets",
        )
        .because(cause)
    }
}

fn kind_of(cause: &pem::Error) -> ErrorKind {
    match cause {
        pem::Error::Io(_) => ErrorKind::Environment,
        _ => ErrorKind::Misuse,
    }
}
