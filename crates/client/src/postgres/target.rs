//! The part of a PostgreSQL URL that concerns sockets.

use std::path::PathBuf;
use std::time::Duration;

use crate::driver::{Check, Sealed, Target, Transport, Trust};
use crate::{
    Error, Host, HostAddress, Keepalives, LoadBalance, PostgresConfig, Result, SslMode,
    TargetSession, TlsNegotiation,
};

impl Sealed for PostgresConfig {}

impl Target for PostgresConfig {
    fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    fn socket_path(host: &Host) -> Option<PathBuf> {
        host.postgres_socket()
    }

    fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    fn keepalives(&self) -> Keepalives {
        self.keepalives
    }

    fn resolved(&self) -> Result<Self> {
        let mut resolved = self.clone();
        resolved.read_passfile().map_err(Error::configuration)?;
        Ok(resolved)
    }

    fn load_balance(&self) -> LoadBalance {
        self.load_balance
    }

    fn target_session(&self) -> TargetSession {
        self.target_session
    }

    /// As in libpq: `allow` and `prefer` try both transports.
    fn transports(&self, host: &Host) -> (Transport, Option<Transport>) {
        if matches!(host.address, HostAddress::Unix(_)) {
            return (Transport::Plain, None);
        }
        match self.tls.mode {
            SslMode::Disable => (Transport::Plain, None),
            SslMode::Allow => (Transport::Plain, Some(Transport::Tls)),
            SslMode::Prefer => (Transport::TlsIfOffered, Some(Transport::Plain)),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => (Transport::Tls, None),
        }
    }

    /// As in libpq: root certificates are used if there are any, whatever the mode.
    fn trust(&self) -> Trust<'_> {
        Trust {
            tls: &self.tls,
            check: match self.tls.mode {
                SslMode::VerifyFull => Check::Name,
                SslMode::VerifyCa => Check::Issuer,
                _ => Check::IssuerIfKnown,
            },
            protocol: Some(b"postgresql"),
            confirms_protocol: self.tls_negotiation == TlsNegotiation::Direct,
            keeps_key_private: true,
        }
    }
}
