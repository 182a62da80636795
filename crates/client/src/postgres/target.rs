//! What of a PostgreSQL URL concerns sockets.

use std::path::PathBuf;
use std::time::Duration;

use crate::drive::{Sealed, Target};
use crate::{Host, Keepalives, PostgresConfig};

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
}
