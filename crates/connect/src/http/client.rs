//! Requests, and responses that are read completely.

use std::fs;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use ureq::Agent;
use ureq::http::{HeaderMap, Request, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::options::SinkOptions;
use crate::{Error, Result};

/// How much of a response is read. That of Elasticsearch has a few dozen bytes for each message of a
/// batch, and more for each that it refuses.
const RESPONSE_SIZE_MAX: u64 = 64 << 20;

/// What a header of ClickHouse says about an exception.
const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";

/// The longest time that a server may require until the next attempt.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// What replaces a secret.
const REDACTED: &str = "***";

/// Shorter texts are not secrets, and occur everywhere.
const SECRET_SIZE_MIN: usize = 4;

/// A client of one server.
pub(super) struct Client {
    name: String,
    agent: Agent,
    /// The scheme, the host and the port.
    origin: String,
    headers: Vec<(String, String)>,
    /// What is not shown in messages, even if the server repeats it.
    secrets: Vec<String>,
    has_gzip: bool,
}

/// A response of the server.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) location: Option<String>,
    pub(super) exception_code: Option<u32>,
    pub(super) body: Vec<u8>,
}

impl Client {
    pub(super) fn new(options: &SinkOptions) -> Result<Self> {
        let mut config = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("lookaside/", env!("CARGO_PKG_VERSION")));
        if options.has_tls {
            config = config.https_only(true).tls_config(tls(options)?);
        }
        let mut headers = options.headers.clone();
        let mut secrets: Vec<_> = headers.iter().map(|(_, value)| value.clone()).collect();
        secrets.extend(options.query.values().cloned());
        if let Some((user, password)) = &options.user {
            secrets.push(password.clone());
            if options.scheme == "clickhouse" {
                headers.push(("X-ClickHouse-User".to_owned(), user.clone()));
                headers.push(("X-ClickHouse-Key".to_owned(), password.clone()));
            } else {
                let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
                headers.push(("Authorization".to_owned(), format!("Basic {pair}")));
                secrets.push(pair);
            }
        }
        secrets.retain(|secret| secret.len() >= SECRET_SIZE_MIN);
        Ok(Self {
            name: options.name.clone(),
            agent: config.build().new_agent(),
            origin: options.origin.clone(),
            headers,
            secrets,
            has_gzip: options.has_gzip,
        })
    }

    /// The name of the sink, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Sends a request without a body, when the sink is opened.
    pub(super) fn request(&self, method: &str, path: &str) -> Result<Response> {
        let request = Request::builder().method(method);
        self.send(request, path, &[]).map_err(|reason| {
            let hint = "start the server, or correct the host and the port of the URL; for a server \
                        with TLS, write https:// or the option tls=true";
            Error::unavailable(&self.name, &format!("no server answers: {reason}"), hint)
        })
    }

    /// Sends a body. The error is the reason why no complete response was received.
    pub(super) fn post(&self, path: &str, kind: &str, body: &[u8]) -> Result<Response, String> {
        let mut request = Request::builder().method("POST");
        let is_content_type =
            |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
        if !self.headers.iter().any(is_content_type) {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        if !self.has_gzip {
            return self.send(request, path, body);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let compressed = encoder.write_all(body).and_then(|()| encoder.finish());
        let compressed = compressed.expect("memory takes all bytes");
        let request = request.header(header::CONTENT_ENCODING, "gzip");
        self.send(request, path, &compressed)
    }

    fn send(
        &self,
        request: ureq::http::request::Builder,
        path: &str,
        body: &[u8],
    ) -> Result<Response, String> {
        let mut request = request.uri(format!("{}{path}", self.origin));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        // The parts were checked with the options of the URL.
        let request = request.body(body).map_err(|error| error.to_string())?;
        let response = self
            .agent
            .run(request)
            .map_err(|error| self.reason(&error))?;
        let (parts, mut body) = response.into_parts();
        let text = |name: &str| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
        let mut bytes = Vec::new();
        let read = body
            .with_config()
            .limit(RESPONSE_SIZE_MAX)
            .reader()
            .read_to_end(&mut bytes);
        if let Err(error) = read {
            let status = parts.status.as_u16();
            return Err(format!(
                "the response with status {status} is not complete: {error}"
            ));
        }
        Ok(Response {
            status: parts.status.as_u16(),
            retry_after: retry_after(&parts.headers),
            location: text("location").map(|to| self.redact(without_secrets(&to))),
            exception_code: text(EXCEPTION_CODE).and_then(|code| code.parse().ok()),
            body: self.redact_bytes(bytes),
        })
    }

    /// The reason of an error, without the URL, whose query may contain secrets.
    fn reason(&self, error: &ureq::Error) -> String {
        match error {
            ureq::Error::BadUri(_) => "the URL is not one of HTTP".to_owned(),
            error => self.redact(error.to_string()),
        }
    }

    fn redact(&self, text: String) -> String {
        let secrets = self.secrets.iter();
        secrets.fold(text, |text, secret| text.replace(&**secret, REDACTED))
    }

    /// Only texts are shown; a response that contains no secret is not copied.
    fn redact_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let contains = |text: &str| self.secrets.iter().any(|secret| text.contains(&**secret));
        match str::from_utf8(&bytes) {
            Ok(text) if contains(text) => self.redact(text.to_owned()).into_bytes(),
            _ => bytes,
        }
    }
}

/// A URL without user, password and query.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
            format!("{scheme}://{rest}")
        }
        None => url.to_owned(),
    }
}

/// The seconds of the header `Retry-After`. Its other form, a date, is ignored, as the clocks may
/// differ: the time grows then as it does without the header.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

fn tls(options: &SinkOptions) -> Result<TlsConfig> {
    let roots = match &options.ca {
        Some(path) => certificates(path).map_err(|reason| {
            let message = format!("certificates of `{path}`: {reason}");
            Error::refused(&options.name, &message, None)
        })?,
        None => {
            let found = rustls_native_certs::load_native_certs().certs.into_iter();
            found
                .map(|root| Certificate::from_der(&root).to_owned())
                .collect()
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

fn certificates(path: &str) -> Result<Vec<Certificate<'static>>, String> {
    let pem = fs::read(path).map_err(|error| error.to_string())?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err("it contains no certificate in PEM form".to_owned()),
        false => Ok(certificates),
    }
}
