//! Access control: API keys and their rates, or without keys only local clients, and no scripts of
//! foreign pages.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::limit::Bucket;
use super::problem::Problem;
use crate::config::{KeyConfig, ServerConfig};
use crate::keys::{KeyHash, presented};

/// What a request reveals about its client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller<'a> {
    pub(crate) authorization: Option<&'a [u8]>,
    pub(crate) api_key: Option<&'a [u8]>,
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a [u8]>,
    pub(crate) is_tls: bool,
    /// The request came through a Unix socket, which browsers do not use.
    pub(crate) is_unix: bool,
}

/// The permission that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Read,
    /// Reloads and ad-hoc queries, which need an admin key.
    Admin,
}

/// How a request sends its key.
const HOW: &str = "send it as `Authorization: Bearer KEY` or as `X-API-Key: KEY`";

/// The same for requests whose key is unknown.
const HOW_KNOWN: &str = "send a key that [[server.keys]] lists, exactly as `lookaside key new` \
                         printed it, as `Authorization: Bearer KEY` or as `X-API-Key: KEY`";

/// The rules of one catalog.
pub(crate) struct Access {
    keys: Vec<Key>,
    /// Origins whose pages may read answers.
    cors: Vec<String>,
    hosts: Vec<String>,
}

struct Key {
    name: Arc<str>,
    config: KeyConfig,
    bucket: Option<Arc<Bucket>>,
}

impl Access {
    /// Creates the rules of a configuration. The buckets of unchanged keys keep their fill level.
    pub(crate) fn new(server: &ServerConfig, before: Option<&Self>) -> Self {
        let keys = server.keys.iter().map(|config| {
            let known = before.and_then(|before| before.key_named(&config.name));
            let bucket = config.rate.map(|rate| {
                let known = known.and_then(|known| known.bucket.clone());
                known
                    .filter(|bucket| bucket.rate() == rate)
                    .unwrap_or_else(|| Arc::new(Bucket::new(rate)))
            });
            Key {
                name: config.name.as_str().into(),
                config: config.clone(),
                bucket,
            }
        });
        Self {
            keys: keys.collect(),
            cors: server.cors.clone(),
            hosts: server.hosts.clone(),
        }
    }

    fn key_named(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.config.name == name)
    }

    /// Whether keys are needed.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Returns the origin of the request's page if it may read the answer.
    pub(crate) fn allowed_origin<'a>(&self, origin: Option<&'a [u8]>) -> Option<&'a [u8]> {
        let origin = origin?;
        self.cors
            .iter()
            .any(|known| known.as_bytes() == origin)
            .then_some(origin)
    }

    /// Whether answers depend on the request's origin.
    pub(crate) fn has_cors(&self) -> bool {
        !self.cors.is_empty()
    }

    /// Admits a request and returns the name of its key, or returns why it is refused. `now` counts
    /// from the start.
    pub(crate) fn admit(
        &self,
        caller: &Caller<'_>,
        want: Want,
        now: Duration,
    ) -> Result<Option<Arc<str>>, Problem> {
        if self.keys.is_empty() {
            return self.admit_neighbour(caller).map(|()| None);
        }
        let key = presented(caller.authorization, caller.api_key)
            .ok_or_else(|| Problem::new(401, "a key is required").detail(HOW))?;
        let known = self.keys.iter().map(|key| key.config.hash);
        let index = KeyHash::of(key).find(known);
        let index = index.ok_or_else(|| Problem::new(401, "unknown key").detail(HOW_KNOWN))?;
        let key = &self.keys[index];
        if let Some(bucket) = &key.bucket {
            bucket.take(now).map_err(|wait| {
                // Rounded up to whole seconds, so that the next try is not too early.
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                let rate = bucket.rate();
                let detail = format!("the limit is {rate}; try again in {seconds} s");
                let problem = Problem::new(429, "rate limit of this key exceeded");
                problem.detail(detail).retry_after(seconds)
            })?;
        }
        if want == Want::Admin && !key.config.admin {
            return Err(
                Problem::new(403, "this key does not have the required permission")
                    .detail("its entry in [[server.keys]] needs admin = true"),
            );
        }
        Ok(Some(key.name.clone()))
    }

    /// Without keys, every client that reaches the socket is admitted. Pages of other sites reach
    /// it, too, through a browser on this machine: under their own name that resolves to this
    /// address (DNS rebinding), which `Host` reveals, or by a plain cross-site request, which
    /// `Origin` reveals.
    fn admit_neighbour(&self, caller: &Caller<'_>) -> Result<(), Problem> {
        if caller.is_unix {
            return Ok(());
        }
        if let Some(host) = caller.host
            && !self.is_own_name(host)
        {
            return Err(Problem::new(403, "unknown host name").detail(
                "without keys, the server accepts only localhost and addresses of this machine; \
                 add the name to hosts in [server], or generate keys with `lookaside key new`",
            ));
        }
        if let Some(origin) = caller.origin
            && !self.cors.iter().any(|known| known.as_bytes() == origin)
            && !is_same_origin(origin, caller)
        {
            return Err(
                Problem::new(403, "requests from pages of other origins are not allowed")
                    .detail("add the page's origin to cors in [server]"),
            );
        }
        Ok(())
    }

    fn is_own_name(&self, host: &str) -> bool {
        let name = without_port(host);
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let literal = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        let ip: Option<IpAddr> = literal.unwrap_or(name).parse().ok();
        // Only names can be rebound: an address is not looked up.
        ip.is_some_and(|ip| ip.to_canonical().is_loopback())
            || self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(host))
    }
}

/// The host of `host:port`; an IPv6 address is in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

fn is_same_origin(origin: &[u8], caller: &Caller<'_>) -> bool {
    let scheme: &[u8] = if caller.is_tls {
        b"https://"
    } else {
        b"http://"
    };
    let host = origin.strip_prefix(scheme);
    let own = caller.host.map(str::as_bytes);
    host.is_some() && host.map(<[u8]>::to_ascii_lowercase) == own.map(<[u8]>::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rate;
    use crate::keys::new_key;

    fn access(server: ServerConfig) -> Access {
        Access::new(&server, None)
    }

    fn status(access: &Access, caller: Caller<'_>, want: Want) -> u16 {
        match access.admit(&caller, want, Duration::ZERO) {
            Ok(_) => 200,
            Err(problem) => problem.status,
        }
    }

    #[test]
    fn without_keys_names_and_origins_are_looked_at() {
        let access = access(ServerConfig {
            hosts: vec!["lookups.internal".to_owned(), "other:81".to_owned()],
            cors: vec!["https://app.example".to_owned()],
            ..ServerConfig::default()
        });
        for (host, origin, expected) in [
            (Some("localhost:8300"), None, 200),
            (Some("LocalHost"), None, 200),
            (Some("127.0.0.1:8300"), None, 200),
            (Some("[::1]:8300"), None, 200),
            (Some("[::1]"), None, 200),
            (Some("lookups.internal:8300"), None, 200),
            (Some("other:81"), None, 200),
            (Some("other:82"), None, 403),
            (None, None, 200),
            (Some("evil.example"), None, 403),
            (Some("localhost.evil.example:8300"), None, 403),
            (Some("192.0.2.1"), None, 403),
            (Some("localhost:8300"), Some("http://localhost:8300"), 200),
            (Some("localhost:8300"), Some("https://localhost:8300"), 403),
            (Some("localhost:8300"), Some("http://localhost:3000"), 403),
            (Some("localhost:8300"), Some("https://app.example"), 200),
            (Some("localhost:8300"), Some("https://evil.example"), 403),
            (Some("localhost:8300"), Some("null"), 403),
        ] {
            let caller = Caller {
                host,
                origin: origin.map(str::as_bytes),
                ..Caller::default()
            };
            let found = status(&access, caller, Want::Admin);
            assert_eq!(found, expected, "{host:?} {origin:?}");
            let caller = Caller {
                is_unix: true,
                ..caller
            };
            assert_eq!(status(&access, caller, Want::Admin), 200);
        }
    }

    #[test]
    fn keys_let_in_as_far_and_as_often_as_they_may() {
        let ((plain, plain_hash), (admin, admin_hash)) = (new_key().unwrap(), new_key().unwrap());
        let key = |name: &str, hash, rate, admin| KeyConfig {
            name: name.to_owned(),
            hash,
            rate,
            admin,
        };
        let server = ServerConfig {
            keys: vec![
                key("plain", plain_hash, Some(Rate::new(1, 2)), false),
                key("admin", admin_hash, None, true),
            ],
            ..ServerConfig::default()
        };
        let access = access(server.clone());
        let with = |key: &str, want| {
            let caller = Caller {
                api_key: Some(key.as_bytes()),
                host: Some("anything.example"),
                ..Caller::default()
            };
            status(&access, caller, want)
        };
        assert_eq!(status(&access, Caller::default(), Want::Read), 401);
        assert_eq!(with("lsk_0", Want::Read), 401);
        assert_eq!(with(&admin, Want::Admin), 200);
        assert_eq!(with(&plain, Want::Read), 200);
        assert_eq!(with(&plain, Want::Admin), 403);
        assert_eq!(with(&plain, Want::Read), 429);
        // A reload does not refill buckets.
        let next = Access::new(&server, Some(&access));
        let caller = Caller {
            api_key: Some(plain.as_bytes()),
            ..Caller::default()
        };
        assert_eq!(status(&next, caller, Want::Read), 429);
    }
}
