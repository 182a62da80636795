//! What a connection asks of TLS.

use std::path::PathBuf;

/// Encryption and what of the server's certificate is checked, weakest first.
///
/// The words are `libpq`'s; MySQL's `PREFERRED`, `REQUIRED`, `VERIFY_CA` and `VERIFY_IDENTITY` mean
/// the same. On a Unix socket there is no TLS, whatever is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server refuses to talk otherwise.
    Allow,
    /// Encrypted if the server can.
    Prefer,
    /// Always encrypted. The server is not checked, unless there are root certificates: then as `VerifyCa`,
    /// which is what `libpq` does.
    Require,
    /// Encrypted, and the certificate comes from one of the roots.
    VerifyCa,
    /// And it is made out to the name of the host.
    VerifyFull,
}

/// Which issuers of certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootCertificates {
    /// None is known, so that nothing can be checked.
    None,
    /// Those of the system (`sslrootcert=system`).
    System,
    /// Those in a file; it must be there.
    File(PathBuf),
    /// Those in the user's own file. Where it is missing, nothing can be checked.
    FileIfPresent(PathBuf),
}

/// The certificate that the client shows when the server asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Whether the files must be there; the user's own ones need not.
    pub required: bool,
}

/// Whether authentication is bound to the TLS channel (SCRAM-SHA-256-PLUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where both sides can.
    Prefer,
    /// A server that cannot is refused.
    Require,
}

/// How PostgreSQL is asked for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsNegotiation {
    /// By a message of its own, which every version understands.
    Postgres,
    /// By beginning with it, which saves a round trip and needs PostgreSQL 17.
    Direct,
}

/// What a connection asks of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Encryption and checks.
    pub mode: SslMode,
    /// Who may have issued the server's certificate.
    pub roots: RootCertificates,
    /// The client's own certificate.
    pub certificate: Option<ClientCertificate>,
    /// Whether the name of the host is sent in the clear, for proxies that route by it.
    pub server_name: bool,
}
