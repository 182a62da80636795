//! Downloads files over HTTP(S). Verification is up to the caller.
//!
//! The proxy is taken from `ALL_PROXY`, `HTTPS_PROXY` or `HTTP_PROXY`, except for the hosts in
//! `NO_PROXY`; trusted are the root certificates of the system, or of `SSL_CERT_FILE` and
//! `SSL_CERT_DIR`.

use std::io::Read as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, ResponseExt as _};
use url::Url;

/// The timeout for a connection, and for the beginning of the answer. A network that drops packets
/// must not delay a test for minutes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout for a whole file: for 20 MB, that is 22 KB per second.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The number of attempts to download a file, if the network or the server fails temporarily.
const ATTEMPT_COUNT: u32 = 3;

/// The pause before the second attempt; twice as long before the third.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The size limit of a file: servers and extensions have a tenth of it.
const SIZE_MAX: u64 = 1 << 30;

/// The number of bytes between reports of progress.
const CHUNK_SIZE: u64 = 64 << 10;

/// A client for downloads.
pub(super) struct Client(Agent);

impl Client {
    pub(super) fn new() -> Self {
        let roots = rustls_native_certs::load_native_certs().certs;
        let roots: Vec<_> = roots
            .iter()
            .map(|root| Certificate::from_der(root).to_owned())
            .collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_resolve(Some(ANSWER_TIMEOUT))
            .timeout_connect(Some(ANSWER_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("lookaside/", env!("CARGO_PKG_VERSION")))
            .build();
        Self(config.new_agent())
    }

    /// The text at `url`, and its final address after redirects.
    pub(super) fn text(&self, url: &Url) -> Result<(String, Url), String> {
        self.attempts(|| {
            let mut answer = self.get(url)?;
            let end = Url::parse(&answer.get_uri().to_string()).unwrap_or_else(|_| url.clone());
            Ok((answer.body_mut().read_to_string()?, end))
        })
    }

    /// The file at `url`. `report` is called after each chunk with the bytes received, and the
    /// total if known.
    pub(super) fn bytes(
        &self,
        url: &Url,
        report: impl Fn(u64, Option<u64>),
    ) -> Result<Vec<u8>, String> {
        self.attempts(|| {
            let mut answer = self.get(url)?;
            let total = answer.body().content_length();
            let mut reader = answer.body_mut().with_config().limit(SIZE_MAX).reader();
            let mut bytes = Vec::new();
            loop {
                let mut chunk = reader.by_ref().take(CHUNK_SIZE);
                if chunk.read_to_end(&mut bytes)? == 0 {
                    return Ok(bytes);
                }
                report(bytes.len() as u64, total);
            }
        })
    }

    /// Sends one request. A name and password in the address are sent as basic credentials.
    fn get(&self, url: &Url) -> Result<ureq::http::Response<Body>, ureq::Error> {
        let mut bare = url.clone();
        // Both succeed for an address with a host.
        let _ = (bare.set_username(""), bare.set_password(None));
        let mut request = self.0.get(bare.as_str());
        if !url.username().is_empty() {
            request = request.header("Authorization", credentials(url));
        }
        request.call()
    }

    /// Repeats the work if the failure may be temporary.
    fn attempts<T>(&self, work: impl Fn() -> Result<T, ureq::Error>) -> Result<T, String> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPT_COUNT {
            match work() {
                Err(error) if is_of_the_moment(&error) => thread::sleep(pause),
                outcome => return outcome.map_err(|error| reason(&error)),
            }
            pause *= 2;
        }
        work().map_err(|error| reason(&error))
    }
}

/// Basic credentials, see RFC 7617.
fn credentials(url: &Url) -> String {
    let decoded = |text| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let mut pair = decoded(url.username());
    pair.push(b':');
    pair.extend(decoded(url.password().unwrap_or_default()));
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

fn is_of_the_moment(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::StatusCode(status) => *status == 429 || *status >= 500,
        ureq::Error::Io(_) | ureq::Error::ConnectionFailed => true,
        _ => false,
    }
}

/// The reason for the user, without the address, which may contain a password.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::StatusCode(status) => format!("the server answers with status {status}"),
        ureq::Error::Timeout(_) => format!("no answer in time: {error}"),
        error => error.to_string(),
    }
}
