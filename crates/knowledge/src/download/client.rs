//! Requests for files.
//!
//! The proxy is taken from `ALL_PROXY`, `HTTPS_PROXY` or `HTTP_PROXY`, except for the hosts in
//! `NO_PROXY`; trusted are the root certificates of the system, or of `SSL_CERT_FILE` and
//! `SSL_CERT_DIR`.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use ureq::http::{Response, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};
use url::Url;

use super::copy::Validators;
use super::{Reply, UrlFile};

/// The timeout for a connection, so that a start without the network does not take longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The most redirects that are followed.
const REDIRECT_COUNT_MAX: usize = 5;

/// Requests a file unless it is that of the validators, and writes it to `out`. The error is the
/// reason, without secrets.
pub(super) fn request(
    file: &UrlFile,
    known: Option<&Validators>,
    out: Option<&mut File>,
) -> Result<Reply, String> {
    let mut url = Url::parse(&file.url).map_err(|error| format!("it is not a URL: {error}"))?;
    let agent = agent(file.timeout);
    let origin = url.origin();
    for _ in 0..=REDIRECT_COUNT_MAX {
        let mut request = agent
            .get(url.as_str())
            .header(header::ACCEPT_ENCODING, accepted(file));
        // Another server must not get the secrets of this one.
        if url.origin() == origin {
            for (name, value) in &file.headers {
                request = request.header(name, value);
            }
        }
        if let Some(known) = known {
            if let Some(etag) = &known.etag {
                request = request.header(header::IF_NONE_MATCH, etag);
            }
            if let Some(time) = &known.last_modified {
                request = request.header(header::IF_MODIFIED_SINCE, time);
            }
        }
        let response = request.call().map_err(|error| reason(&error))?;
        let status = response.status().as_u16();
        match status {
            200 => return save(file, response, out),
            304 if known.is_some() => return Ok(Reply::Unchanged),
            301 | 302 | 303 | 307 | 308 => url = redirected(&url, &response)?,
            401 | 403 => {
                return Err(format!(
                    "the server answers with status {status}; correct tables.http.headers"
                ));
            }
            _ => return Err(format!("the server answers with status {status}")),
        }
    }
    Err(format!("more than {REDIRECT_COUNT_MAX} redirects"))
}

fn agent(timeout: Duration) -> Agent {
    let roots = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<_> = roots
        .iter()
        .map(|root| Certificate::from_der(root).to_owned())
        .collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_resolve(Some(CONNECT_TIMEOUT))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(timeout))
        .user_agent(concat!("lookaside/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

/// The encodings of the transfer: a compressed file is not compressed again.
fn accepted(file: &UrlFile) -> &'static str {
    match is_compressed(file) {
        true => "identity",
        false => "gzip, zstd",
    }
}

fn is_compressed(file: &UrlFile) -> bool {
    let suffix = file.shown().extension().and_then(|suffix| suffix.to_str());
    suffix.is_some_and(|it| {
        ["gz", "zst"]
            .iter()
            .any(|known| it.eq_ignore_ascii_case(known))
    })
}

fn redirected(url: &Url, response: &Response<Body>) -> Result<Url, String> {
    let location = response.headers().get(header::LOCATION);
    let location = location.and_then(|location| location.to_str().ok());
    let next = location.and_then(|location| url.join(location).ok());
    let next = next.ok_or("the server redirects to nowhere")?;
    match (url.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        _ => Err("the server redirects to an address that is not https".to_owned()),
    }
}

/// Writes a response, decoded, and returns its validators.
fn save(file: &UrlFile, response: Response<Body>, out: Option<&mut File>) -> Result<Reply, String> {
    let (parts, body) = response.into_parts();
    let text = |name| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let validators = Validators::new(file, text(header::ETAG), text(header::LAST_MODIFIED));
    let Some(out) = out else {
        return Ok(Reply::Changed(validators));
    };
    let encoding = text(header::CONTENT_ENCODING).unwrap_or_default();
    let received = body.into_with_config().limit(u64::MAX).reader();
    let received = BufReader::new(received);
    let decoded: Box<dyn Read> = match &*encoding.to_ascii_lowercase() {
        "" | "identity" => Box::new(received),
        // What such servers encode is the file itself.
        "gzip" | "x-gzip" | "zstd" if is_compressed(file) => Box::new(received),
        "gzip" | "x-gzip" => Box::new(flate2::bufread::MultiGzDecoder::new(received)),
        "zstd" => Box::new(
            zstd::stream::read::Decoder::with_buffer(received).map_err(|it| incomplete(&it))?,
        ),
        other => return Err(format!("the server sends the unknown encoding {other:?}")),
    };
    let mut decoded = decoded.take(file.size_max.saturating_add(1));
    let size = io::copy(&mut decoded, out);
    match size {
        Ok(size) if size > file.size_max => Err(format!(
            "the file has more than {} bytes, the limit that http.size_max sets",
            file.size_max
        )),
        Ok(_) => Ok(Reply::Changed(validators)),
        Err(error) => Err(incomplete(&error)),
    }
}

fn incomplete(error: &io::Error) -> String {
    format!("the download is not complete: {error}")
}

/// The reason without the address, which may contain secrets.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) => "the address is not one of HTTP".to_owned(),
        ureq::Error::Timeout(_) => format!("no answer in time: {error}"),
        error => format!("no answer: {error}"),
    }
}
