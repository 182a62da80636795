//! The parts of a connection URL.
//!
//! General URL parsers do not support several hosts as in `a:1,b:2`, so this is a separate parser;
//! only the percent-decoding is from a crate.

use percent_encoding::percent_decode_str;

use super::{ConfigError, Secret};

/// The setting whose value must not appear in errors.
pub(super) const PASSWORD: &str = "password";

/// The decoded parts of a URL.
pub(super) struct Url {
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) hosts: Vec<UrlHost>,
    pub(super) database: Option<String>,
    /// Keys and values in their order.
    pub(super) query: Vec<(String, String)>,
}

pub(super) struct UrlHost {
    /// May be empty.
    pub(super) name: String,
    pub(super) port: Option<u16>,
}

impl Url {
    /// Parses the part after `scheme://`.
    pub(super) fn parse(rest: &str) -> Result<Self, ConfigError> {
        if rest.contains('#') {
            return Err(ConfigError::stray('#'));
        }
        let authority_size = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(authority_size);
        let (userinfo, hosts) = match authority.rsplit_once('@') {
            Some((userinfo, hosts)) => (Some(userinfo), hosts),
            None => (None, authority),
        };
        // A literal `@` after the host may be the end of a password that contains `/` or `?`. Then
        // every part here may belong to that password, so no error may contain one.
        if !authority.is_empty() && rest.contains('@') {
            return Err(ConfigError::stray('@'));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, password) = match userinfo.map(|userinfo| userinfo.split_once(':')) {
            Some(Some((user, password))) => (user, password),
            _ => (userinfo.unwrap_or_default(), ""),
        };
        let database = path.strip_prefix('/').unwrap_or_default();
        Ok(Self {
            user: some(decode(user, "user name")?),
            password: some(decode(password, "password")?).map(Secret::from),
            hosts: parse_hosts(hosts)?,
            database: some(decode(database, "database name")?),
            query: parse_query(query)?,
        })
    }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn parse_hosts(hosts: &str) -> Result<Vec<UrlHost>, ConfigError> {
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    let hosts = hosts.split(',').enumerate();
    hosts
        .map(|(index, host)| parse_host(host, index + 1))
        .collect()
}

fn parse_host(host: &str, number: usize) -> Result<UrlHost, ConfigError> {
    let (name, port) = match host.strip_prefix('[') {
        Some(address) => {
            let (address, port) = address
                .split_once(']')
                .ok_or_else(|| ConfigError::bad_host(number, "has a `[` without its `]`"))?;
            match (port, port.strip_prefix(':')) {
                ("", _) => (address, ""),
                (_, Some(port)) => (address, port),
                _ => return Err(ConfigError::bad_port(number)),
            }
        }
        None => host.split_once(':').unwrap_or((host, "")),
    };
    if port.contains(':') {
        let reason = "has more than one `:`; an IPv6 address stands in brackets";
        return Err(ConfigError::bad_host(number, reason));
    }
    Ok(UrlHost {
        name: decode(name, "host")?,
        port: match port {
            "" => None,
            digits => Some(parse_port(digits).ok_or_else(|| ConfigError::bad_port(number))?),
        },
    })
}

pub(super) fn parse_port(digits: &str) -> Option<u16> {
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = all_digits.then(|| digits.parse().ok())?;
    port.filter(|&port| port != 0)
}

fn parse_query(query: &str) -> Result<Vec<(String, String)>, ConfigError> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let key = decode(key, "setting")?;
        if !setting.contains('=') {
            if settings.iter().any(|(earlier, _)| earlier == PASSWORD) {
                // It may be a part of the password.
                return Err(ConfigError::stray('&'));
            }
            return Err(ConfigError::no_value(&key));
        }
        if settings.iter().any(|(earlier, _)| *earlier == key) {
            return Err(ConfigError::twice(&key));
        }
        settings.push((key, decode(value, "setting")?));
    }
    Ok(settings)
}

/// Every `%` must be an encoded byte, and none of them a zero byte; `+` is a plus.
fn decode(text: &str, part: &str) -> Result<String, ConfigError> {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let percents = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'%');
    for (at, _) in percents {
        if !is_hex(bytes.get(at + 1)) || !is_hex(bytes.get(at + 2)) {
            return Err(ConfigError::bad_encoding(part));
        }
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) if !decoded.contains('\0') => Ok(decoded.into_owned()),
        _ => Err(ConfigError::bad_encoding(part)),
    }
}
