//! URLs of connectors.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::Error;

/// The URL of a connector: `SCHEME://[USER:PASSWORD@]HOST[:PORT][,HOST…]/PATH[,PATH…][?NAME=VALUE&…]`.
///
/// User, password, paths and options are percent-decoded. `Debug` and [`Self::name`] show neither
/// the user nor the options, which may contain secrets.
///
/// ```
/// use lookaside_connect::ConnectUrl;
///
/// let url: ConnectUrl = "kafka://app:secret@a:9092,b:9092/clicks,views?group=g".parse()?;
/// assert_eq!(url.hosts(), "a:9092,b:9092");
/// assert_eq!(url.paths(), ["clicks", "views"]);
/// assert_eq!(url.options(), [("group".to_owned(), "g".to_owned())]);
/// assert_eq!(url.name(), "kafka://a:9092,b:9092/clicks,views");
/// # Ok::<(), lookaside_connect::Error>(())
/// ```
#[derive(Clone)]
pub struct ConnectUrl {
    scheme: String,
    user: Option<(String, Option<String>)>,
    hosts: String,
    paths: Vec<String>,
    options: Vec<(String, String)>,
}

impl ConnectUrl {
    /// Whether a text begins with the scheme of a connector, whether it is built in or not.
    pub fn is_one(text: &str) -> bool {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let mut kinds = crate::KINDS.iter();
        kinds.any(|kind| kind.scheme.eq_ignore_ascii_case(scheme))
    }

    /// Whether it names a table, whose rows are results in JSON, and not a topic or a stream, which
    /// takes any bytes.
    pub fn is_table(&self) -> bool {
        matches!(&*self.scheme, "postgres" | "postgresql")
    }

    /// The scheme, which is the kind of connector.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The user and the password, if they are given.
    pub fn user(&self) -> Option<(&str, Option<&str>)> {
        let (user, password) = self.user.as_ref()?;
        Some((user, password.as_deref()))
    }

    /// The hosts with their ports, separated by commas.
    pub fn hosts(&self) -> &str {
        &self.hosts
    }

    /// The parts of the path, such as topics.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The options in their order.
    pub fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// The URL without user, password and options, for messages.
    pub fn name(&self) -> String {
        let paths = self.paths.join(",");
        let slash = if paths.is_empty() { "" } else { "/" };
        format!("{}://{}{slash}{paths}", self.scheme, self.hosts)
    }
}

impl FromStr for ConnectUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| Error::bad_url("it has no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Such a path would be shown in messages, and is probably not one.
        if path.contains('@') && !authority.contains('@') {
            return Err(Error::bad_url(
                "a `/` in the user or the password is written %2F, an `@` in a path %40",
            ));
        }
        if path.contains('&') {
            return Err(Error::bad_url(
                "options begin with `?`, and an `&` in a path is written %26",
            ));
        }
        // A password may contain an at sign.
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        if hosts.split(',').any(str::is_empty) {
            return Err(Error::bad_url("it names no host"));
        }
        let user = user.map(|user| match user.split_once(':') {
            Some((user, password)) => Ok((decode(user)?, Some(decode(password)?))),
            None => Ok((decode(user)?, None)),
        });
        let paths = path.split(',').filter(|path| !path.is_empty());
        let options = query.split('&').filter(|option| !option.is_empty());
        let options = options.map(|option| match option.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok((decode(name)?, decode(&value.replace('+', "%20"))?))
            }
            _ => Err(Error::bad_url("an option is not written NAME=VALUE")),
        });
        let options: Vec<(String, String)> = options.collect::<Result<_, _>>()?;
        for (index, (name, _)) in options.iter().enumerate() {
            if options[..index].iter().any(|(known, _)| known == name) {
                let message = format!("the option `{name}` is given twice");
                return Err(Error::bad_url(&message));
            }
        }
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user: user.transpose()?,
            hosts: hosts.to_owned(),
            paths: paths.map(decode).collect::<Result<_, _>>()?,
            options,
        })
    }
}

fn decode(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| Error::bad_url("a percent-encoded part is not UTF-8"))?;
    match decoded.contains('\0') {
        true => Err(Error::bad_url("it contains a zero byte")),
        false => Ok(decoded.into_owned()),
    }
}

impl fmt::Debug for ConnectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectUrl").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_decoded_and_secrets_are_not_shown() {
        let text = "KAFKA://a%3Ab:p%40s@s@h:1/t%2C1,t2?x=1+2&sasl.password=p%26w";
        let url: ConnectUrl = text.parse().unwrap();
        assert_eq!(url.scheme(), "kafka");
        assert_eq!(url.user(), Some(("a:b", Some("p@s@s"))));
        assert_eq!(url.paths(), ["t,1", "t2"]);
        assert_eq!(url.options()[0], ("x".to_owned(), "1 2".to_owned()));
        assert_eq!(url.options()[1].1, "p&w");
        for shown in [url.name(), format!("{url:?}")] {
            assert!(!shown.contains("p&w") && !shown.contains("p@s"), "{shown}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_without_secrets() {
        for (text, expected) in [
            ("clicks", "no scheme"),
            ("kafka://", "no host"),
            ("kafka://u:secret@/t", "no host"),
            ("kafka://a,,b/t", "no host"),
            ("kafka://a/t?secret", "NAME=VALUE"),
            ("kafka://a/t?=secret", "NAME=VALUE"),
            (
                "kafka://a/t?x=secret&y=1&x=2",
                "the option `x` is given twice",
            ),
            ("kafka://u:p/secret@a/t", "%2F"),
            ("kafka://a/t&x=secret", "%26"),
            ("kafka://a/%ff", "not UTF-8"),
            ("kafka://a/%00", "zero byte"),
        ] {
            let error = text.parse::<ConnectUrl>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
