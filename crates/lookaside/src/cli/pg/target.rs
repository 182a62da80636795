//! Where a PostgreSQL listens and who asks: the parts of a connection URL.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

/// The server's own default.
const PORT: u16 = 5432;

/// What a shell may have set for another server, and what would lead a command there.
const VARIABLES_FOREIGN: [&str; 8] = [
    "PGHOSTADDR",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGPASSFILE",
    "PGOPTIONS",
    "PGSSLMODE",
    "PGREQUIRESSL",
    "PGTARGETSESSIONATTRS",
];

/// A server and a database of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
}

/// What to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// The folder that holds the Unix socket.
    Folder(PathBuf),
    /// A name or an address.
    Name(String),
}

impl Host {
    fn new(text: String) -> Self {
        if text.starts_with('/') {
            Self::Folder(text.into())
        } else {
            Self::Name(text)
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Target {
    /// The socket's file, where the server has one.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        match &self.host {
            Host::Folder(folder) => Some(folder.join(format!(".s.PGSQL.{}", self.port))),
            Host::Name(_) => None,
        }
    }

    /// Leads a command here by the variables that libpq and most other clients read. A password
    /// in the environment is seen by the same user only, one among the arguments by everybody.
    pub(crate) fn give_to(&self, command: &mut Command) {
        for name in VARIABLES_FOREIGN {
            command.env_remove(name);
        }
        command
            .env("PGHOST", self.host.to_string())
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", &self.user)
            .env("PGDATABASE", &self.database);
        match &self.password {
            Some(password) => command.env("PGPASSWORD", password),
            None => command.env_remove("PGPASSWORD"),
        };
    }
}

/// Where it is; never the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket() {
            Some(socket) => socket.display().fmt(f),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `postgres://user:password@host:port/database?host=/folder&sslmode=disable`, of which
    /// only a host is needed. A URL that does not fit is not repeated: it may hold a password.
    fn from_str(url: &str) -> Result<Self, String> {
        let rest = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"))
            .ok_or("a URL begins with postgres:// or postgresql://")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        let mut parts = Parts {
            user: decode(user)?,
            password: password.map(decode).transpose()?,
            database: decode(database)?,
            ..Parts::default()
        };
        parts.read_address(address)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or("a setting of the URL is written key=value")?;
            parts.set(&decode(key)?, decode(value)?)?;
        }
        parts.target()
    }
}

/// What was read so far; empty text stands for what the URL does not say.
#[derive(Default)]
struct Parts {
    host: String,
    port: String,
    user: String,
    password: Option<String>,
    database: String,
}

impl Parts {
    /// `host`, `host:port`, `[::1]:port`, or nothing.
    fn read_address(&mut self, address: &str) -> Result<(), String> {
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("`[` without `]` in the URL")?,
            None => address.split_at(address.find(':').unwrap_or(address.len())),
        };
        self.host = decode(host)?;
        port.strip_prefix(':')
            .unwrap_or(port)
            .clone_into(&mut self.port);
        Ok(())
    }

    fn set(&mut self, key: &str, value: String) -> Result<(), String> {
        match key {
            "host" => self.host = value,
            "port" => self.port = value,
            "user" => self.user = value,
            "password" => self.password = Some(value),
            "dbname" => self.database = value,
            "sslmode" if matches!(value.as_str(), "require" | "verify-ca" | "verify-full") => {
                return Err(format!(
                    "sslmode={value} needs TLS, which is not spoken here"
                ));
            }
            // They say how a client behaves, not where the server is.
            "sslmode" | "application_name" | "connect_timeout" => {}
            _ => return Err(format!("unknown setting {key} of the URL")),
        }
        Ok(())
    }

    fn target(self) -> Result<Target, String> {
        if self.host.is_empty() {
            return Err("the URL names no host: postgres://user@host/database or \
                 postgres:///database?host=/folder&user=user"
                .to_owned());
        }
        let port = match self.port.as_str() {
            "" => PORT,
            port => port
                .parse()
                .map_err(|_| format!("`{port}` is no port of a server"))?,
        };
        let user = or(self.user, "postgres");
        Ok(Target {
            host: Host::new(self.host),
            port,
            database: or(self.database, &user),
            user,
            password: self.password,
        })
    }
}

fn or(text: String, default: &str) -> String {
    if text.is_empty() {
        default.to_owned()
    } else {
        text
    }
}

/// Resolves `%20`. As in libpq, a plus sign is a plus sign.
fn decode(text: &str) -> Result<String, String> {
    let bad = || "a `%` in the URL is not followed by two hexadecimal digits".to_owned();
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).ok_or_else(bad)?;
        // `from_str_radix` would take a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| "the URL is no UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Result<(String, u16, String, Option<String>, String), String> {
        let target: Target = url.parse()?;
        let host = target.host.to_string();
        Ok((
            host,
            target.port,
            target.user,
            target.password,
            target.database,
        ))
    }

    #[test]
    fn urls_of_every_form_are_read() {
        for (url, host, port, user, password, database) in [
            ("postgres://h/d", "h", 5432, "postgres", None, "d"),
            ("postgresql://u:p@h:6000/d", "h", 6000, "u", Some("p"), "d"),
            ("postgres://u@[::1]:6000", "::1", 6000, "u", None, "u"),
            (
                "postgres:///d?host=/a+b%20c&user=u&port=7",
                "/a+b c",
                7,
                "u",
                None,
                "d",
            ),
            ("postgres://%2Ftmp/d", "/tmp", 5432, "postgres", None, "d"),
            (
                "postgres://u%40x:a%3Ab@h/?dbname=%C3%A9&sslmode=disable",
                "h",
                5432,
                "u@x",
                Some("a:b"),
                "é",
            ),
        ] {
            let found = parts(url).expect(url);
            let found = (
                found.0.as_str(),
                found.1,
                found.2.as_str(),
                found.3.as_deref(),
                found.4.as_str(),
            );
            assert_eq!(found, (host, port, user, password, database), "{url}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_without_its_password() {
        for url in [
            "mysql://u:secret@h/d",
            "postgres://u:secret@/d",
            "postgres://u:secret@h:x/d",
            "postgres://u:secret@h:70000/d",
            "postgres://u:secret@h/%",
            "postgres://u:secret@h/%+1",
            "postgres://u:secret@h/%é",
            "postgres://u:secret@h/%ff",
            "postgres://u:secret@[::1/d",
            "postgres://u:secret@h/d?sslmode=require",
            "postgres://u:secret@h/d?nope=1",
            "postgres://u:secret@h/d?nope",
        ] {
            let refused = parts(url).expect_err(url);
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_target_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://u:secret@h/d", "h:5432"),
            (
                "postgres:///d?host=/run&password=secret",
                "/run/.s.PGSQL.5432",
            ),
        ] {
            let target: Target = url.parse().unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(format!("{target:?}"), format!("Target({shown})"));
        }
    }
}
