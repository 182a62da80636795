//! `mysql://` and `mariadb://`: with settings named like the options of the `mysql` client.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::host::write_url;
use super::settings::{Key, Settings};
use super::tls::{ClientCertificate, RootCertificates, SslMode, Tls};
use super::url::{Url, parse_port};
use super::{ConfigError, Environment, Host, HostAddress, Keepalives, Secret};

const PORT: u16 = 3306;

pub(super) const KEYS: &[Key] = &[
    Key::or("socket", "MYSQL_UNIX_PORT"),
    Key::or("host", "MYSQL_HOST"),
    Key::or("port", "MYSQL_TCP_PORT"),
    Key::new("user"),
    Key::or("password", "MYSQL_PWD"),
    Key::new("connect-timeout"),
    Key::new("charset"),
    Key::new("ssl-mode"),
    Key::new("ssl-ca"),
    Key::new("ssl-cert"),
    Key::new("ssl-key"),
    Key::new("get-server-public-key"),
    Key::new("server-public-key-path"),
];

const UNSUPPORTED: &[(&str, &str)] = &[
    ("allow-local-infile", "servers may not request files"),
    ("local-infile", "servers may not request files"),
    ("compress", "compression is not supported"),
    ("compression", "compression is not supported"),
    ("compression-algorithms", "compression is not supported"),
    ("collation", "set it by a session statement"),
    ("default-auth", "the server selects it"),
    ("ssl-capath", "name a single file with `ssl-ca`"),
    ("ssl-cipher", "it is negotiated"),
    ("ssl-crl", "revocation lists are not supported"),
    ("tls-version", "it is 1.3, or 1.2 with older servers"),
];

/// The complete configuration of a connection to MySQL or MariaDB.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MysqlConfig {
    /// The servers, tried in this order; at least one.
    pub hosts: Vec<Host>,
    /// The user.
    pub user: String,
    /// The user's password.
    pub password: Option<Secret>,
    /// The initial database, if any.
    pub database: Option<String>,
    /// Encryption.
    pub tls: Tls,
    /// How the password is encrypted on a connection without TLS.
    pub server_key: ServerKey,
    /// How long to try one host: 30 seconds by default, and without a limit if the URL has 0.
    pub connect_timeout: Option<Duration>,
    /// How a dead peer is detected; there is no URL setting for it.
    pub keepalives: Keepalives,
}

/// The source of the RSA key that encrypts the password of `caching_sha2_password` on a connection
/// without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKey {
    /// No key: such a log-in fails.
    Refuse,
    /// The key that the server sends: a man in the middle can send another one and read the
    /// password.
    Ask,
    /// From a file, PEM.
    File(PathBuf),
}

const SSL_MODES: &[(&str, SslMode)] = &[
    ("DISABLED", SslMode::Disable),
    ("PREFERRED", SslMode::Prefer),
    ("REQUIRED", SslMode::Require),
    ("VERIFY_CA", SslMode::VerifyCa),
    ("VERIFY_IDENTITY", SslMode::VerifyFull),
];

impl MysqlConfig {
    pub(super) fn of(mut url: Url, environment: &Environment) -> Result<Self, ConfigError> {
        // The client takes `ssl_mode` for `ssl-mode` too.
        let query = std::mem::take(&mut url.query);
        let query = query
            .into_iter()
            .map(|(key, value)| (key.replace('_', "-"), value));
        let settings = Settings::new(query.collect(), KEYS, UNSUPPORTED, environment)?;
        settings.choice("charset", &[("utf8mb4", ())])?;
        let user = match settings.in_url("user") {
            Some(user) => Some(user.to_owned()),
            None => url.user.take().or_else(|| environment.user()),
        };
        let password = match (settings.in_url("password"), url.password.take()) {
            (Some(password), _) => Some(Secret::from(password)),
            (None, Some(password)) => Some(password),
            (None, None) => settings.text("password").map(Secret::from),
        };
        let asks = settings.flag("get-server-public-key")?.unwrap_or(false);
        Ok(Self {
            hosts: hosts(&url, &settings)?,
            user: user
                .filter(|user| !user.is_empty())
                .ok_or_else(ConfigError::no_user)?,
            password: password.filter(|password| !password.expose().is_empty()),
            database: url.database,
            tls: tls(&settings)?,
            server_key: match settings.path("server-public-key-path") {
                Some(path) => ServerKey::File(path),
                None if asks => ServerKey::Ask,
                None => ServerKey::Refuse,
            },
            connect_timeout: settings.connect_timeout("connect-timeout")?,
            keepalives: Keepalives {
                enabled: true,
                idle: None,
                interval: None,
                count: None,
                user_timeout: None,
            },
        })
    }
}

/// The socket or the hosts of the URL, or else those of the environment.
fn hosts(url: &Url, settings: &Settings<'_>) -> Result<Vec<Host>, ConfigError> {
    let host = |address, port| Host {
        address,
        port,
        password: None,
    };
    let port = match settings.setting("port") {
        None => PORT,
        Some(setting) => parse_port(setting.value).ok_or_else(|| {
            ConfigError::bad_value(&setting.origin, setting.value, "a number from 1 to 65535")
        })?,
    };
    let address = |name: &str| match name {
        "" => HostAddress::Tcp {
            name: "localhost".to_owned(),
            address: None,
        },
        path if path.starts_with('/') => HostAddress::Unix(path.into()),
        name => HostAddress::Tcp {
            name: name.to_owned(),
            address: None,
        },
    };
    let said = |name| settings.in_url(name).filter(|value| !value.is_empty());
    if let Some(socket) = said("socket") {
        return Ok(vec![host(HostAddress::Unix(socket.into()), port)]);
    }
    if let Some(name) = said("host") {
        return Ok(vec![host(address(name), port)]);
    }
    if !url.hosts.is_empty() {
        let hosts = url.hosts.iter();
        return Ok(hosts
            .map(|at| host(address(&at.name), at.port.unwrap_or(port)))
            .collect());
    }
    Ok(vec![
        match (settings.text("host"), settings.path("socket")) {
            (Some(name), _) => host(address(&name), port),
            (None, Some(socket)) => host(HostAddress::Unix(socket), port),
            (None, None) => host(address(""), port),
        },
    ])
}

fn tls(settings: &Settings<'_>) -> Result<Tls, ConfigError> {
    let mode = settings.choice("ssl-mode", SSL_MODES)?;
    let checked = mode.is_some_and(|mode| mode >= SslMode::VerifyCa);
    let roots = match settings.path("ssl-ca") {
        Some(path) => RootCertificates::File(path),
        // The system's root certificates instead of an error: they issue the certificates of most
        // hosted servers.
        None if checked => RootCertificates::System,
        None => RootCertificates::None,
    };
    let mode = mode.unwrap_or(match roots {
        // Root certificates imply verification, as in the `mysql` client.
        RootCertificates::File(_) => SslMode::VerifyCa,
        _ => SslMode::Prefer,
    });
    Ok(Tls {
        mode,
        roots,
        certificate: certificate(settings)?,
        server_name: true,
    })
}

fn certificate(settings: &Settings<'_>) -> Result<Option<ClientCertificate>, ConfigError> {
    match (settings.path("ssl-cert"), settings.path("ssl-key")) {
        (Some(certificate), Some(key)) => Ok(Some(ClientCertificate {
            certificate,
            key,
            required: true,
        })),
        (None, None) => Ok(None),
        _ => Err(ConfigError::contradiction(
            "`ssl-cert` and `ssl-key` go together: name both",
        )),
    }
}

/// The URL without password and settings.
impl fmt::Display for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_url(
            f,
            "mysql",
            &self.user,
            &self.hosts,
            self.database.as_deref(),
        )
    }
}
