//! The part of a MySQL URL that concerns sockets.

use std::path::PathBuf;
use std::time::Duration;

use crate::driver::{Check, Sealed, Target, Transport, Trust};
use crate::{
    Host, HostAddress, Keepalives, LoadBalance, MysqlConfig, Result, SslMode, TargetSession,
};

impl Sealed for MysqlConfig {}

impl Target for MysqlConfig {
    fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    fn socket_path(host: &Host) -> Option<PathBuf> {
        match &host.address {
            HostAddress::Unix(path) => Some(path.clone()),
            HostAddress::Tcp { .. } => None,
        }
    }

    fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    fn keepalives(&self) -> Keepalives {
        self.keepalives
    }

    fn resolved(&self) -> Result<Self> {
        Ok(self.clone())
    }

    fn load_balance(&self) -> LoadBalance {
        LoadBalance::Disable
    }

    fn target_session(&self) -> TargetSession {
        TargetSession::Any
    }

    /// As in the `mysql` client: there is no second attempt.
    fn transports(&self, host: &Host) -> (Transport, Option<Transport>) {
        let transport = match (&host.address, self.tls.mode) {
            (HostAddress::Unix(_), _) | (_, SslMode::Disable) => Transport::Plain,
            (_, SslMode::Allow | SslMode::Prefer) => Transport::TlsIfOffered,
            (_, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => Transport::Tls,
        };
        (transport, None)
    }

    fn trust(&self) -> Trust<'_> {
        Trust {
            tls: &self.tls,
            check: match self.tls.mode {
                SslMode::VerifyFull => Check::Name,
                SslMode::VerifyCa => Check::Issuer,
                _ => Check::Nothing,
            },
            protocol: None,
            confirms_protocol: false,
            keeps_key_private: false,
        }
    }
}
