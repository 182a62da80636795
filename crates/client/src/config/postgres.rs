//! `postgres://`: with the settings and defaults of `libpq`.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::host::write_url;
use super::passfile::passfile_password;
use super::settings::{Key, Settings};
use super::tls::{
    ChannelBinding, ClientCertificate, RootCertificates, SslMode, Tls, TlsNegotiation,
};
use super::url::{Url, UrlHost, parse_port};
use super::{ConfigError, Environment, Host, HostAddress, Secret};

const PORT: u16 = 5432;

/// The socket folders of local servers: that of Debian, Red Hat and others, and the default of
/// source builds. Without a host, both are tried.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

pub(super) const KEYS: &[Key] = &[
    Key::or("host", "PGHOST"),
    Key::or("hostaddr", "PGHOSTADDR"),
    Key::or("port", "PGPORT"),
    Key::or("dbname", "PGDATABASE"),
    Key::or("user", "PGUSER"),
    Key::or("password", "PGPASSWORD"),
    Key::or("passfile", "PGPASSFILE"),
    Key::or("connect_timeout", "PGCONNECT_TIMEOUT"),
    Key::or("application_name", "PGAPPNAME"),
    Key::new("fallback_application_name"),
    Key::or("options", "PGOPTIONS"),
    Key::new("client_encoding"),
    Key::or("sslmode", "PGSSLMODE"),
    Key::new("ssl"),
    Key::or("sslrootcert", "PGSSLROOTCERT"),
    Key::or("sslcert", "PGSSLCERT"),
    Key::or("sslkey", "PGSSLKEY"),
    Key::or("sslsni", "PGSSLSNI"),
    Key::or("sslnegotiation", "PGSSLNEGOTIATION"),
    Key::or("channel_binding", "PGCHANNELBINDING"),
    Key::or("target_session_attrs", "PGTARGETSESSIONATTRS"),
    Key::or("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    Key::new("keepalives"),
    Key::new("keepalives_idle"),
    Key::new("keepalives_interval"),
    Key::new("keepalives_count"),
    Key::new("tcp_user_timeout"),
];

/// Other settings of `libpq`. Each is an error: ignoring it silently could weaken security that the
/// user has requested.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("gssencmode", "connections are encrypted by TLS only"),
    ("gssdelegation", "Kerberos is not supported"),
    ("gsslib", "Kerberos is not supported"),
    ("krbsrvname", "Kerberos is not supported"),
    ("max_protocol_version", "it is always 3.0"),
    ("min_protocol_version", "it is always 3.0"),
    ("oauth_client_id", "OAuth is not supported"),
    ("oauth_client_secret", "OAuth is not supported"),
    ("oauth_issuer", "OAuth is not supported"),
    ("oauth_scope", "OAuth is not supported"),
    ("replication", "replication is not supported"),
    (
        "require_auth",
        "use `channel_binding=require` or `sslmode=verify-full`",
    ),
    ("requirepeer", "the owner of a socket cannot be checked"),
    ("scram_client_key", "give the password itself"),
    ("scram_server_key", "give the password itself"),
    ("service", "write the complete URL"),
    ("servicefile", "write the complete URL"),
    (
        "ssl_max_protocol_version",
        "it is 1.3, or 1.2 with older servers",
    ),
    ("ssl_min_protocol_version", "it is 1.2"),
    ("sslcertmode", "omit `sslcert`, or name a file"),
    (
        "sslcompression",
        "compression of TLS is no longer supported",
    ),
    ("sslcrl", "revocation lists are not supported"),
    ("sslcrldir", "revocation lists are not supported"),
    ("sslkeylogfile", "TLS keys are not logged"),
    ("sslpassword", "decrypt the key first"),
];

/// The complete configuration of a connection to PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// The servers, tried in this order; at least one.
    pub hosts: Vec<Host>,
    /// Whether they are tried in this order or randomly.
    pub load_balance: LoadBalance,
    /// The required session attributes.
    pub target_session: TargetSession,
    /// The user.
    pub user: String,
    /// The user's password, unless it comes from a password file.
    pub password: Option<Secret>,
    /// The password file, used if there is no other password.
    pub passfile: Option<PathBuf>,
    /// The database; named as the user by default.
    pub database: String,
    /// Encryption.
    pub tls: Tls,
    /// How TLS is negotiated.
    pub tls_negotiation: TlsNegotiation,
    /// Whether authentication is bound to the TLS channel.
    pub channel_binding: ChannelBinding,
    /// How long to try one host: 30 seconds by default, and without a limit if the URL has 0.
    pub connect_timeout: Option<Duration>,
    /// Shown in `pg_stat_activity`.
    pub application_name: Option<String>,
    /// Settings of the session as on the server's command line: `-c statement_timeout=5s`.
    pub options: Option<String>,
    /// How a dead peer is detected.
    pub keepalives: Keepalives,
}

/// Which sessions are acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSession {
    /// Any.
    Any,
    /// One that accepts writes by default.
    ReadWrite,
    /// One that does not.
    ReadOnly,
    /// One that is not a standby.
    Primary,
    /// A standby.
    Standby,
    /// A standby, or any if there is no standby.
    PreferStandby,
}

/// In which order several servers are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalance {
    /// In the order of the URL.
    Disable,
    /// In random order for each connection.
    Random,
}

/// How a dead peer is detected on TCP; `None` uses the system's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalives {
    /// Whether an idle connection is probed at all; it is by default.
    pub enabled: bool,
    /// The idle time before the first probe.
    pub idle: Option<Duration>,
    /// A probe without an answer is sent again after this.
    pub interval: Option<Duration>,
    /// The number of unanswered probes that end the connection.
    pub count: Option<u32>,
    /// The time after which unacknowledged data ends the connection.
    pub user_timeout: Option<Duration>,
}

impl PostgresConfig {
    pub(super) fn of(mut url: Url, environment: &Environment) -> Result<Self, ConfigError> {
        let query = std::mem::take(&mut url.query);
        let settings = Settings::new(query, KEYS, UNSUPPORTED, environment)?;
        check_encoding(&settings)?;
        let hosts = hosts(&url.hosts, &settings)?;
        // As with libpq, a setting overrides the corresponding part of the URL.
        let user = match (settings.in_url("user"), url.user) {
            (Some(user), _) => Some(user.to_owned()),
            (None, Some(user)) => Some(user),
            (None, None) => settings.text("user").or_else(|| environment.user()),
        };
        let user = user
            .filter(|user| !user.is_empty())
            .ok_or_else(ConfigError::no_user)?;
        let password = match (settings.in_url("password"), url.password) {
            (Some(password), _) => Some(Secret::from(password)),
            (None, Some(password)) => Some(password),
            (None, None) => settings.text("password").map(Secret::from),
        };
        let database = match (settings.in_url("dbname"), url.database) {
            (Some(database), _) => Some(database.to_owned()),
            (None, Some(database)) => Some(database),
            (None, None) => settings.text("dbname"),
        };
        let passfile = settings.path("passfile");
        let application_name = settings.text("application_name");
        let tls = tls(&settings, environment)?;
        Ok(Self {
            hosts,
            load_balance: settings
                .choice("load_balance_hosts", LOAD_BALANCES)?
                .unwrap_or(LoadBalance::Disable),
            target_session: settings
                .choice("target_session_attrs", TARGET_SESSIONS)?
                .unwrap_or(TargetSession::Any),
            database: database
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| user.clone()),
            user,
            password: password.filter(|password| !password.expose().is_empty()),
            passfile: passfile.or_else(|| environment.home_file(".pgpass")),
            tls_negotiation: negotiation(&settings, &tls)?,
            tls,
            channel_binding: settings
                .choice("channel_binding", CHANNEL_BINDINGS)?
                .unwrap_or(ChannelBinding::Prefer),
            connect_timeout: settings.connect_timeout("connect_timeout")?,
            application_name: application_name
                .or_else(|| settings.text("fallback_application_name")),
            options: settings.text("options"),
            keepalives: Keepalives {
                enabled: settings.flag("keepalives")?.unwrap_or(true),
                idle: settings.seconds("keepalives_idle")?,
                interval: settings.seconds("keepalives_interval")?,
                count: settings.count("keepalives_count")?,
                user_timeout: settings.millis("tcp_user_timeout")?,
            },
        })
    }

    /// Reads the passwords of the hosts from the password file, if there is one and no password
    /// yet.
    ///
    /// # Errors
    /// When the file cannot be read, or when it is readable by other users; in the latter case
    /// `libpq` only prints a warning and ignores the file.
    pub fn read_passfile(&mut self) -> Result<(), ConfigError> {
        let path = match (&self.password, &self.passfile) {
            (None, Some(path)) => path,
            _ => return Ok(()),
        };
        let Some(text) = read_private(path)? else {
            return Ok(());
        };
        for host in &mut self.hosts {
            let name = match &host.address {
                HostAddress::Tcp { name, .. } => name.clone(),
                HostAddress::Unix(folder)
                    if SOCKET_FOLDERS
                        .iter()
                        .any(|known| folder == Path::new(known)) =>
                {
                    "localhost".to_owned()
                }
                HostAddress::Unix(folder) => folder.to_string_lossy().into_owned(),
            };
            host.password = passfile_password(&text, &name, host.port, &self.database, &self.user);
        }
        Ok(())
    }

    /// The password for one of the hosts.
    pub fn password_for<'a>(&'a self, host: &'a Host) -> Option<&'a Secret> {
        self.password.as_ref().or(host.password.as_ref())
    }
}

/// Reads a file that other users cannot read; `None` if it is missing.
fn read_private(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |error| ConfigError::passfile_unreadable(path, error);
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(unreadable)?,
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if metadata.mode() & 0o077 != 0 {
            return Err(ConfigError::passfile_open(path));
        }
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    fs::read_to_string(path).map(Some).map_err(unreadable)
}

const TARGET_SESSIONS: &[(&str, TargetSession)] = &[
    ("any", TargetSession::Any),
    ("read-write", TargetSession::ReadWrite),
    ("read-only", TargetSession::ReadOnly),
    ("primary", TargetSession::Primary),
    ("standby", TargetSession::Standby),
    ("prefer-standby", TargetSession::PreferStandby),
];

const LOAD_BALANCES: &[(&str, LoadBalance)] = &[
    ("disable", LoadBalance::Disable),
    ("random", LoadBalance::Random),
];

const CHANNEL_BINDINGS: &[(&str, ChannelBinding)] = &[
    ("disable", ChannelBinding::Disable),
    ("prefer", ChannelBinding::Prefer),
    ("require", ChannelBinding::Require),
];

const NEGOTIATIONS: &[(&str, TlsNegotiation)] = &[
    ("postgres", TlsNegotiation::Postgres),
    ("direct", TlsNegotiation::Direct),
];

const SSL_MODES: &[(&str, SslMode)] = &[
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

/// Text is always UTF-8 here; any other encoding is refused.
fn check_encoding(settings: &Settings<'_>) -> Result<(), ConfigError> {
    let known = ["utf8", "utf-8", "unicode", "auto"].map(|word| (word, ()));
    settings.choice("client_encoding", &known).map(|_| ())
}

/// The hosts, from the settings `host`, `hostaddr` and `port`, or the URL, or the default.
fn hosts(url: &[UrlHost], settings: &Settings<'_>) -> Result<Vec<Host>, ConfigError> {
    let list = |text: String| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let url_names: Vec<_> = url.iter().map(|host| host.name.clone()).collect();
    let names = match settings.in_url("host") {
        Some(names) => list(names.to_owned()),
        // `postgres://:5433/` has a port and no host.
        None if url_names.iter().any(|name| !name.is_empty()) => url_names,
        None => settings.text("host").map(list).unwrap_or_default(),
    };
    let addresses = addresses(settings)?;
    if !addresses.is_empty() && !names.is_empty() && names.len() != addresses.len() {
        return Err(ConfigError::counts_differ(
            "addresses",
            addresses.len(),
            names.len(),
        ));
    }
    let mut host_addresses: Vec<HostAddress> = (0..names.len().max(addresses.len()))
        .map(|index| host_address(names.get(index), addresses.get(index).copied().flatten()))
        .collect();
    if host_addresses.is_empty() {
        host_addresses.extend(SOCKET_FOLDERS.map(|folder| HostAddress::Unix(folder.into())));
    }
    let ports = ports(url, settings, host_addresses.len())?;
    let hosts = host_addresses.into_iter().zip(ports);
    Ok(hosts
        .map(|(address, port)| Host {
            address,
            port,
            password: None,
        })
        .collect())
}

fn host_address(name: Option<&String>, address: Option<IpAddr>) -> HostAddress {
    let name = name.map(String::as_str).unwrap_or_default();
    match address {
        _ if name.starts_with('/') && address.is_none() => HostAddress::Unix(name.into()),
        None if name.is_empty() => HostAddress::Unix(SOCKET_FOLDERS[0].into()),
        None => HostAddress::Tcp {
            name: name.to_owned(),
            address: None,
        },
        Some(address) if name.is_empty() => HostAddress::Tcp {
            name: address.to_string(),
            address: Some(address),
        },
        Some(_) => HostAddress::Tcp {
            name: name.to_owned(),
            address,
        },
    }
}

fn addresses(settings: &Settings<'_>) -> Result<Vec<Option<IpAddr>>, ConfigError> {
    let Some(setting) = settings.setting("hostaddr") else {
        return Ok(Vec::new());
    };
    let parse = |word: &str| match word.parse() {
        _ if word.is_empty() => Ok(None),
        Ok(address) => Ok(Some(address)),
        Err(_) => Err(ConfigError::bad_value(
            &setting.origin,
            word,
            "an IP address",
        )),
    };
    setting.value.split(',').map(parse).collect()
}

/// One port per host; a single port applies to all.
fn ports(
    url: &[UrlHost],
    settings: &Settings<'_>,
    host_count: usize,
) -> Result<Vec<u16>, ConfigError> {
    let said: Vec<Option<u16>> =
        if settings.in_url("port").is_none() && url.iter().any(|host| host.port.is_some()) {
            url.iter().map(|host| host.port).collect()
        } else {
            match settings.setting("port") {
                None => return Ok(vec![PORT; host_count]),
                Some(setting) => {
                    let parse = |word: &str| match parse_port(word) {
                        _ if word.is_empty() => Ok(None),
                        None => Err(ConfigError::bad_value(
                            &setting.origin,
                            word,
                            "a number from 1 to 65535",
                        )),
                        port => Ok(port),
                    };
                    setting
                        .value
                        .split(',')
                        .map(parse)
                        .collect::<Result<_, _>>()?
                }
            }
        };
    match said.as_slice() {
        [port] => Ok(vec![port.unwrap_or(PORT); host_count]),
        ports if ports.len() == host_count => {
            Ok(ports.iter().map(|port| port.unwrap_or(PORT)).collect())
        }
        ports => Err(ConfigError::counts_differ("ports", ports.len(), host_count)),
    }
}

fn tls(settings: &Settings<'_>, environment: &Environment) -> Result<Tls, ConfigError> {
    let mut mode = settings.choice("sslmode", SSL_MODES)?;
    // The setting of JDBC.
    if settings.flag("ssl")? == Some(true) && mode.is_none() {
        mode = Some(SslMode::Require);
    }
    let home = |name: &str| {
        environment
            .home_file(".postgresql")
            .map(|home| home.join(name))
    };
    let roots = match settings.path("sslrootcert") {
        Some(word) if word == Path::new("system") => RootCertificates::System,
        Some(path) => RootCertificates::File(path),
        None => home("root.crt").map_or(RootCertificates::None, RootCertificates::FileIfPresent),
    };
    if roots == RootCertificates::System && mode.is_some_and(|mode| mode < SslMode::VerifyFull) {
        return Err(ConfigError::contradiction(
            "`sslrootcert=system` trusts every holder of a certificate; use it with \
             `sslmode=verify-full` only",
        ));
    }
    let mode = mode.unwrap_or(match roots {
        RootCertificates::System => SslMode::VerifyFull,
        _ => SslMode::Prefer,
    });
    let (certificate, key) = (settings.path("sslcert"), settings.path("sslkey"));
    let required = certificate.is_some() || key.is_some();
    let certificate = certificate.or_else(|| home("postgresql.crt"));
    let key = key.or_else(|| home("postgresql.key"));
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(ClientCertificate {
            certificate,
            key,
            required,
        }),
        _ if required => {
            return Err(ConfigError::contradiction(
                "`sslcert` and `sslkey` must both be set",
            ));
        }
        _ => None,
    };
    Ok(Tls {
        mode,
        roots,
        certificate,
        server_name: settings.flag("sslsni")?.unwrap_or(true),
    })
}

fn negotiation(settings: &Settings<'_>, tls: &Tls) -> Result<TlsNegotiation, ConfigError> {
    let negotiation = settings.choice("sslnegotiation", NEGOTIATIONS)?;
    if negotiation == Some(TlsNegotiation::Direct) && tls.mode < SslMode::Require {
        return Err(ConfigError::contradiction(
            "`sslnegotiation=direct` requires TLS; use it with `sslmode=require` or stronger",
        ));
    }
    Ok(negotiation.unwrap_or(TlsNegotiation::Postgres))
}

/// The URL without password and settings.
impl fmt::Display for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_url(f, "postgres", &self.user, &self.hosts, Some(&self.database))
    }
}
