//! What of a MySQL URL concerns sockets.

use std::path::PathBuf;
use std::time::Duration;

use crate::drive::{Sealed, Target};
use crate::{Host, Keepalives, MysqlConfig, Place};

impl Sealed for MysqlConfig {}

impl Target for MysqlConfig {
    fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    fn socket_path(host: &Host) -> Option<PathBuf> {
        match &host.place {
            Place::Unix(path) => Some(path.clone()),
            Place::Tcp { .. } => None,
        }
    }

    fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    fn keepalives(&self) -> Keepalives {
        self.keepalives
    }
}
