//! The TLS configuration of a connection.

use std::path::PathBuf;

/// Encryption and verification of the server's certificate, weakest first.
///
/// The names are those of `libpq`; MySQL's `PREFERRED`, `REQUIRED`, `VERIFY_CA` and
/// `VERIFY_IDENTITY` mean the same. TLS is never used on a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted only if the server refuses an unencrypted connection.
    Allow,
    /// Encrypted if the server supports it.
    Prefer,
    /// Always encrypted. The certificate is not verified unless there are root certificates; then
    /// as `VerifyCa`, as in `libpq`.
    Require,
    /// Encrypted, and the certificate must be issued by one of the roots.
    VerifyCa,
    /// Like `VerifyCa`, and the certificate must match the host name.
    VerifyFull,
}

/// The trusted root certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootCertificates {
    /// None, so the certificate cannot be verified.
    None,
    /// Those of the system (`sslrootcert=system`).
    System,
    /// Those in a file, which must exist.
    File(PathBuf),
    /// Those in the user's default file. If it is missing, the certificate is not verified.
    FileIfPresent(PathBuf),
}

/// The client certificate, which is sent if the server requests one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Whether the files must exist; the user's default files need not.
    pub required: bool,
}

/// Whether authentication is bound to the TLS channel (SCRAM-SHA-256-PLUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// If both sides support it.
    Prefer,
    /// A server without support is refused.
    Require,
}

/// How TLS is negotiated with PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsNegotiation {
    /// By an `SSLRequest` message, which every version supports.
    Postgres,
    /// By starting the handshake directly, which saves a round trip and needs PostgreSQL 17.
    Direct,
}

/// The TLS configuration of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Encryption and verification.
    pub mode: SslMode,
    /// The trusted root certificates.
    pub roots: RootCertificates,
    /// The client's own certificate.
    pub certificate: Option<ClientCertificate>,
    /// Whether the name of the host is sent in the clear, for proxies that route by it.
    pub server_name: bool,
}
