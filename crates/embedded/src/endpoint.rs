//! The connection URLs of a database.

use std::fmt::Write as _;
use std::path::Path;

/// The port of a server without TCP: it only names its socket, and is the default of clients.
pub(crate) const PORT_DEFAULT: u16 = 5432;

/// The parts of a URL.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint<'a> {
    pub(crate) socket_folder: &'a Path,
    pub(crate) port: u16,
    pub(crate) user: &'a str,
    /// For TCP; `None` without TCP.
    pub(crate) password: Option<&'a str>,
    pub(crate) database: &'a str,
}

impl Endpoint<'_> {
    /// The URL for the Unix socket. Its folder is in the query, because Go's and other clients
    /// refuse it as a host, and so is the user, because a user without a host is not valid in a
    /// URL. The scheme is `postgresql`, because SQLAlchemy supports no other.
    pub(crate) fn url(&self) -> String {
        let mut url = String::from("postgresql:///");
        escape(self.database.as_bytes(), "", &mut url);
        url.push_str("?host=");
        escape(
            self.socket_folder.as_os_str().as_encoded_bytes(),
            "/",
            &mut url,
        );
        url.push_str("&user=");
        escape(self.user.as_bytes(), "", &mut url);
        if self.port != PORT_DEFAULT {
            write!(url, "&port={}", self.port).expect("writing into a string succeeds");
        }
        url
    }

    /// The URL for 127.0.0.1, including the password. The server has no certificate, so TLS is
    /// disabled explicitly: Go's `lib/pq` requires it by default.
    pub(crate) fn tcp_url(&self) -> Option<String> {
        let password = self.password?;
        let mut url = String::from("postgresql://");
        escape(self.user.as_bytes(), "", &mut url);
        write!(url, ":{password}@127.0.0.1:{}/", self.port)
            .expect("writing into a string succeeds");
        escape(self.database.as_bytes(), "", &mut url);
        url.push_str("?sslmode=disable");
        Some(url)
    }
}

/// Percent-encodes all but RFC 3986's unreserved characters and those in `also`.
fn escape(bytes: &[u8], also: &str, url: &mut String) {
    for &byte in bytes {
        let is_plain = byte.is_ascii_alphanumeric()
            || b"-._~".contains(&byte)
            || also.as_bytes().contains(&byte);
        if is_plain {
            url.push(char::from(byte));
        } else {
            write!(url, "%{byte:02X}").expect("writing into a string succeeds");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_hold_any_name() {
        let mut endpoint = Endpoint {
            socket_folder: Path::new("/dev/shm/my folder/s"),
            port: 5432,
            user: "postgres",
            password: None,
            database: "t_1",
        };
        assert_eq!(
            endpoint.url(),
            "postgresql:///t_1?host=/dev/shm/my%20folder/s&user=postgres"
        );
        assert_eq!(endpoint.tcp_url(), None);
        endpoint.port = 40000;
        endpoint.password = Some("0af1");
        endpoint.database = "a/b?c é";
        assert_eq!(
            endpoint.url(),
            "postgresql:///a%2Fb%3Fc%20%C3%A9?host=/dev/shm/my%20folder/s&user=postgres&port=40000"
        );
        assert_eq!(
            endpoint.tcp_url().unwrap(),
            "postgresql://postgres:0af1@127.0.0.1:40000/a%2Fb%3Fc%20%C3%A9?sslmode=disable"
        );
    }
}
