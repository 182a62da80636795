//! `lookaside pg url`: the address of a server, in the forms that clients accept.

use std::env;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lookaside_client::{HostAddress, SslMode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

use super::instance::{at, running, tcp_url};
use super::shell_word::shell_word;
use super::target::PostgresTarget;
use crate::cli::output::finish_stdout;
use crate::failure::{CommandResult, Failure};

/// The port that clients assume.
const PORT_DEFAULT: u16 = 5432;

/// The characters that are escaped in a URL: all except RFC 3986's unreserved ones.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// As [`ESCAPED`], for the folder of a socket.
const ESCAPED_PATH: &AsciiSet = &ESCAPED.remove(b'/');

/// Print the URL of a server, in the form that a client accepts
///
/// Without a folder, the server is that of DATABASE_URL, which `lookaside pg run` sets for its
/// command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  export DATABASE_URL=\"$(lookaside pg url ./data)\"
  lookaside pg url ./data --format jdbc                 # the server was started with --tcp
  set -a; eval \"$(lookaside pg url ./data --format env)\"; set +a
  lookaside pg run -- sh -c 'lookaside pg url --format sqlalchemy-asyncpg'")]
pub(super) struct UrlArguments {
    /// The data folder; by default the server of DATABASE_URL
    dir: Option<PathBuf>,

    /// Print the address on 127.0.0.1 instead of the Unix socket; the server must have been started
    /// with --tcp
    #[arg(long)]
    tcp: bool,

    /// The form of the output: for libpq and most other clients, for another client, or all values
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = UrlFormat::Libpq)]
    format: UrlFormat,
}

/// How an address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum UrlFormat {
    /// postgresql://user:password@host:port/database?sslmode=disable
    Libpq,
    /// jdbc:postgresql://host:port/database?user=…&password=…&sslmode=disable, which needs TCP
    Jdbc,
    /// postgresql+asyncpg://user:password@host:port/database?ssl=disable
    SqlalchemyAsyncpg,
    /// Variables for a shell, one NAME=VALUE per line
    Env,
    /// An object with each part and each URL
    Json,
}

pub(super) fn run(arguments: &UrlArguments) -> CommandResult {
    let wants_tcp = arguments.tcp || arguments.format == UrlFormat::Jdbc;
    let reason = match arguments.format {
        UrlFormat::Jdbc => "JDBC requires TCP, and ",
        _ => "",
    };
    let mut listening = None;
    let url = match &arguments.dir {
        None => database_url()?,
        Some(folder) => {
            let running = running(folder, &at(folder)?)?;
            listening = running
                .tcp_url
                .as_deref()
                .map(PostgresTarget::of_ours)
                .transpose()?;
            match wants_tcp {
                true => tcp_url(folder, &running, reason)?.to_owned(),
                false => running.url,
            }
        }
    };
    let target = match arguments.dir {
        Some(_) => PostgresTarget::of_ours(&url)?,
        None => PostgresTarget::of_ours(&url).map_err(|_| foreign())?,
    };
    let is_plain = match target.host().address {
        HostAddress::Unix(_) if wants_tcp => return Err(socket_only(reason)),
        HostAddress::Unix(_) => true,
        HostAddress::Tcp { .. } => target.config().tls.mode == SslMode::Disable,
    };
    // Only possible with `DATABASE_URL`: the server of a folder is always an embedded one.
    if !is_plain {
        return Err(foreign());
    }
    let jdbc = jdbc(listening.as_ref().unwrap_or(&target));
    let text = arguments.format.write(&url, &target, jdbc.as_deref());
    finish_stdout(|out| writeln!(out, "{text}"))
}

fn database_url() -> Result<String, Failure> {
    let url = env::var("DATABASE_URL").unwrap_or_default();
    if url.is_empty() {
        return Err(
            Failure::usage("no folder was given, and DATABASE_URL is not set").with_help(
                "name the folder of `lookaside pg start`, or run this in `lookaside pg run -- …`",
            ),
        );
    }
    Ok(url)
}

/// A foreign server may require TLS and settings that each other form spells differently.
fn foreign() -> Failure {
    Failure::new("DATABASE_URL is not an address that `lookaside pg run` sets")
        .with_help("name the folder of `lookaside pg start`")
}

/// The error for a server without TCP; `reason` is why TCP is needed, or empty.
fn socket_only(reason: &str) -> Failure {
    Failure::new(format!(
        "{reason}DATABASE_URL is the address of a Unix socket"
    ))
    .with_help(
        "`lookaside pg start DIR --tcp` starts a server that listens on TCP, and so does \
         `lookaside pg run`",
    )
}

impl UrlFormat {
    /// The output for an embedded server, whose URL is `url`; `jdbc` is the one of the same server
    /// over TCP, if it listens there.
    fn write(self, url: &str, target: &PostgresTarget, jdbc: Option<&str>) -> String {
        match self {
            Self::Libpq => url.to_owned(),
            // Checked before: it is present.
            Self::Jdbc => jdbc.unwrap_or_default().to_owned(),
            Self::SqlalchemyAsyncpg => sqlalchemy_asyncpg(target),
            Self::Env => env_lines(url, target, jdbc),
            Self::Json => json_object(url, target, jdbc).to_string(),
        }
    }
}

/// The URL for Java's driver, which has no support for Unix sockets and takes the user as a
/// parameter.
pub(super) fn jdbc(target: &PostgresTarget) -> Option<String> {
    let (host, config) = (target.host(), target.config());
    let HostAddress::Tcp { name, .. } = &host.address else {
        return None;
    };
    let mut url = format!(
        "jdbc:postgresql://{name}:{}/{}?user={}",
        host.port,
        escape(&config.database),
        escape(&config.user)
    );
    if let Some(password) = &config.password {
        url += &format!("&password={}", escape(password.expose()));
    }
    Some(url + "&sslmode=disable")
}

/// For SQLAlchemy over asyncpg: the scheme names the driver, and `sslmode` is called `ssl`.
fn sqlalchemy_asyncpg(target: &PostgresTarget) -> String {
    let (host, config) = (target.host(), target.config());
    let mut url = format!("postgresql+asyncpg://{}", escape(&config.user));
    if let Some(password) = &config.password {
        url += &format!(":{}", escape(password.expose()));
    }
    let database = escape(&config.database);
    match &host.address {
        HostAddress::Tcp { name, .. } => {
            url += &format!("@{name}:{}/{database}?ssl=disable", host.port);
        }
        HostAddress::Unix(folder) => {
            let folder = percent_encode(folder.as_os_str().as_bytes(), ESCAPED_PATH);
            url += &format!("@/{database}?host={folder}");
            if host.port != PORT_DEFAULT {
                url += &format!("&port={}", host.port);
            }
        }
    }
    url
}

/// The variables that `lookaside pg run` sets.
fn env_lines(url: &str, target: &PostgresTarget, jdbc: Option<&str>) -> String {
    let (host, config) = (target.host(), target.config());
    let password = config.password.as_ref().map(|password| password.expose());
    let port = host.port.to_string();
    let mut lines = String::new();
    for (name, value) in [
        ("DATABASE_URL", Some(url)),
        ("JDBC_DATABASE_URL", jdbc),
        ("PGHOST", Some(&*host_of(target))),
        ("PGPORT", Some(&port)),
        ("PGUSER", Some(&config.user)),
        ("PGPASSWORD", password),
        ("PGDATABASE", Some(&config.database)),
        ("PGSSLMODE", Some("disable")),
    ] {
        if let Some(value) = value {
            writeln!(lines, "{name}={}", shell_word(value)).expect("a string takes any text");
        }
    }
    lines.truncate(lines.trim_end().len());
    lines
}

fn json_object(url: &str, target: &PostgresTarget, jdbc: Option<&str>) -> Value {
    let (host, config) = (target.host(), target.config());
    json!({
        "url": url,
        "host": host_of(target),
        "port": host.port,
        "user": config.user,
        "password": config.password.as_ref().map(|password| password.expose()),
        "database": config.database,
        "sslmode": "disable",
        "jdbc_url": jdbc,
        "sqlalchemy_asyncpg_url": sqlalchemy_asyncpg(target),
    })
}

/// The address, or the folder of the socket, as libpq takes it for a host.
fn host_of(target: &PostgresTarget) -> String {
    match &target.host().address {
        HostAddress::Tcp { name, .. } => name.clone(),
        HostAddress::Unix(folder) => folder.display().to_string(),
    }
}

fn escape(text: &str) -> String {
    percent_encode(text.as_bytes(), ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "postgresql://o%27neil:0af1@127.0.0.1:40000/a%2Fb%20%C3%A9?sslmode=disable";
    const SOCKET: &str = "postgresql:///t_1?host=/dev/shm/my%20folder/s&user=postgres";

    #[test]
    fn each_form_says_the_same() {
        use UrlFormat::{Env, Jdbc, Libpq, SqlalchemyAsyncpg};
        for (format, url, expected) in [
            (Libpq, TCP, TCP),
            (
                Jdbc,
                TCP,
                "jdbc:postgresql://127.0.0.1:40000/a%2Fb%20%C3%A9?user=o%27neil&password=0af1&sslmode=disable",
            ),
            (
                SqlalchemyAsyncpg,
                TCP,
                "postgresql+asyncpg://o%27neil:0af1@127.0.0.1:40000/a%2Fb%20%C3%A9?ssl=disable",
            ),
            (
                Env,
                TCP,
                "DATABASE_URL='postgresql://o%27neil:0af1@127.0.0.1:40000/a%2Fb%20%C3%A9?sslmode=disable'\n\
                 JDBC_DATABASE_URL='jdbc:postgresql://127.0.0.1:40000/a%2Fb%20%C3%A9?user=o%27neil&password=0af1&sslmode=disable'\n\
                 PGHOST=127.0.0.1\nPGPORT=40000\nPGUSER='o'\\''neil'\nPGPASSWORD=0af1\n\
                 PGDATABASE='a/b é'\nPGSSLMODE=disable",
            ),
            (Libpq, SOCKET, SOCKET),
            (
                SqlalchemyAsyncpg,
                SOCKET,
                "postgresql+asyncpg://postgres@/t_1?host=/dev/shm/my%20folder/s",
            ),
            (
                Env,
                SOCKET,
                "DATABASE_URL='postgresql:///t_1?host=/dev/shm/my%20folder/s&user=postgres'\n\
                 PGHOST='/dev/shm/my folder/s'\nPGPORT=5432\nPGUSER=postgres\nPGDATABASE=t_1\n\
                 PGSSLMODE=disable",
            ),
        ] {
            let target = PostgresTarget::of_ours(url).unwrap();
            let jdbc = jdbc(&target);
            assert_eq!(
                format.write(url, &target, jdbc.as_deref()),
                expected,
                "{format:?}"
            );
        }
        assert_eq!(jdbc(&PostgresTarget::of_ours(SOCKET).unwrap()), None);
        let json = json_object(TCP, &PostgresTarget::of_ours(TCP).unwrap(), None);
        assert_eq!(json["user"], "o'neil");
        assert_eq!(json["database"], "a/b é");
        assert_eq!(json["port"], 40000);
    }
}
