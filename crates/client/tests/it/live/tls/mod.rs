//! TLS to a real server, with all kinds of connections.

mod certificates;
mod modes;
pub(crate) mod server;
mod traffic;

use lookaside_client::{Answer, Error, Result};

use super::api::Api;
use super::{config, shown};

/// Whether a connection is inside of TLS, or why there is none.
const IS_ENCRYPTED: &str = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

fn query(api: Api, url: &str) -> Result<Answer> {
    api.query(&config(url), IS_ENCRYPTED)
}

/// `tls`, `plain`, or the kind or state of the error.
fn outcome(api: Api, url: &str) -> String {
    let answer = query(api, url);
    match shown(&answer).as_str() {
        "true" => "tls".to_owned(),
        "false" => "plain".to_owned(),
        other => other.to_owned(),
    }
}

fn error(api: Api, url: &str) -> Error {
    query(api, url).expect_err("there is no connection")
}

/// What an error says, with its causes.
fn said(error: &Error) -> String {
    let mut said = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        said.push_str(": ");
        said.push_str(&error.to_string());
        source = error.source();
    }
    said
}
