//! Hints for connections that could not be established.

use std::error::Error as _;
use std::io;

use lookaside_wire::ProtocolError;

use super::{Error, ErrorKind, Sent};

impl Error {
    /// Whether a server was reached but refused the log-in, because of the user, the database, or
    /// its own state.
    pub fn is_log_in_refused(&self) -> bool {
        self.0.kind == ErrorKind::Refused && self.0.sent == Sent::Nothing
    }

    /// A hint for the user, if there is one, as half a sentence. TLS errors contain their hint in
    /// the message itself.
    pub fn hint(&self) -> Option<&'static str> {
        match self.0.kind {
            ErrorKind::Refused if self.is_log_in_refused() => self.log_in_hint(),
            ErrorKind::Connection if self.0.sent == Sent::Nothing => self.host_hint(),
            _ => None,
        }
    }

    /// The hint for the server's error code of a refused log-in.
    fn log_in_hint(&self) -> Option<&'static str> {
        if let Some(error) = self.mysql() {
            return Some(match error.code() {
                // Access denied, also by a plugin without a password.
                1045 | 1698 => {
                    "check user and password; accounts of MySQL and MariaDB also depend on the \
                     client's host (`'user'@'host'`)"
                }
                // Access denied to a database.
                1044 => "grant the user access to the database",
                1049 => "create the database, or name another one at the end of the URL's path",
                1040 | 1203 => "increase the server's `max_connections`, or open fewer connections",
                // This host is blocked, or not allowed.
                1129 | 1130 => {
                    "permit this machine on the server, whose accounts depend on the client's host"
                }
                // Connections using insecure transport are prohibited.
                3159 => "use TLS: `ssl-mode=REQUIRED`",
                _ => return None,
            });
        }
        if self.is_password_missing() {
            return Some(
                "give one in the URL, in `PGPASSWORD`, or in the file that `PGPASSFILE` names",
            );
        }
        let state = self.sqlstate()?;
        Some(match state.as_bytes() {
            b"28P01" => "check user and password (`PGPASSWORD`, or the file of `PGPASSFILE`)",
            b"28000" => {
                "the server's pg_hba.conf defines which users may connect, from which hosts, and \
                 whether with TLS (`sslmode=require`)"
            }
            b"3D000" => "create the database, or name another one at the end of the URL's path",
            // The message itself says what to do.
            b"53300" if self.is_out_of_walsenders() => return None,
            b"53300" => "increase the server's `max_connections`, or open fewer connections",
            b"57P03" => "the server is starting or stopping; try again",
            _ => return None,
        })
    }

    /// Whether a PostgreSQL requested a password, and there was none.
    fn is_password_missing(&self) -> bool {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<ProtocolError>() {
                return error.is_password_missing();
            }
            cause = error.source();
        }
        false
    }

    /// The hint if no server was reached.
    fn host_hint(&self) -> Option<&'static str> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return match error.kind() {
                    io::ErrorKind::ConnectionRefused => {
                        Some("no server listens on that port; check host and port")
                    }
                    io::ErrorKind::NotFound => Some(
                        "the socket does not exist: is the server running, and does it use that \
                         folder?",
                    ),
                    io::ErrorKind::PermissionDenied => Some("this user may not open the socket"),
                    io::ErrorKind::TimedOut
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable => Some(
                        "the host does not answer: is it the right host, and is there a firewall?",
                    ),
                    _ => None,
                };
            }
            cause = error.source();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Host, HostAddress};

    #[test]
    fn who_cannot_connect_hears_where_to_look() {
        let host = Host {
            address: HostAddress::Tcp {
                name: "db".to_owned(),
                address: None,
            },
            port: 5432,
            password: None,
        };
        for (kind, expected) in [
            (
                io::ErrorKind::ConnectionRefused,
                Some("check host and port"),
            ),
            (io::ErrorKind::NotFound, Some("the socket does not exist")),
            (io::ErrorKind::TimedOut, Some("a firewall")),
            (
                io::ErrorKind::PermissionDenied,
                Some("this user may not open"),
            ),
            (io::ErrorKind::OutOfMemory, None),
        ] {
            let error = Error::cannot_connect(&host, kind.into());
            // Also where a pool adds its context.
            let waited = Error::no_connection(Duration::from_secs(1), Some(error.clone()));
            for error in [error, waited] {
                let found = error.hint();
                assert_eq!(found.is_some(), expected.is_some(), "{kind}: {found:?}");
                assert!(
                    found
                        .unwrap_or_default()
                        .contains(expected.unwrap_or_default())
                );
                assert!(!error.is_log_in_refused());
            }
        }
        assert_eq!(Error::deadline(Sent::Nothing).hint(), None);
    }
}
