//! The log-in to a server from a configuration.

use lookaside_wire::postgres::{ChannelBinding, Credentials, Startup};

use super::statements::NONCE_SIZE;
use super::{Options, PostgresDriver};
use crate::config;
use crate::driver::Transport;
use crate::postgres::prologue::Prologue;
use crate::{Error, Host, PostgresConfig, Result};

/// Creates a driver that logs in to `host` by the configuration.
pub(super) fn begin(
    config: &PostgresConfig,
    host: &Host,
    transport: Transport,
    options: Options,
) -> Result<PostgresDriver> {
    let driver = log_in(config, host, |startup, credentials| {
        PostgresDriver::new(&startup, credentials, options)
    })?;
    let mut nonce = [0; NONCE_SIZE];
    getrandom::fill(&mut nonce).map_err(Error::no_random_bytes)?;
    let prologue = Prologue::new(host, transport, config.tls_negotiation);
    Ok(driver.with_unique_prefix(nonce).with_prologue(prologue))
}

/// Creates what logs in to `host` by the configuration: a driver, or a session of another kind.
pub(in crate::postgres) fn log_in<T>(
    config: &PostgresConfig,
    host: &Host,
    begin: impl FnOnce(Startup<'_>, Credentials) -> Result<T>,
) -> Result<T> {
    let mut nonce = [0; 18];
    getrandom::fill(&mut nonce).map_err(Error::no_random_bytes)?;
    let mut credentials =
        Credentials::new(nonce).channel_binding(channel_binding(config.channel_binding));
    if let Some(password) = config.password_for(host) {
        credentials = credentials.password(password.expose().as_bytes());
    }
    // Text that comes as text is read as UTF-8, and dates in it as ISO 8601 writes them.
    let mut parameters = vec![("client_encoding", "UTF8"), ("DateStyle", "ISO")];
    if let Some(name) = &config.application_name {
        parameters.push(("application_name", name));
    }
    if let Some(settings) = &config.options {
        parameters.push(("options", settings));
    }
    let startup = Startup::new(&config.user)
        .database(&config.database)
        .parameters(&parameters);
    begin(startup, credentials)
}

fn channel_binding(wanted: config::ChannelBinding) -> ChannelBinding {
    match wanted {
        config::ChannelBinding::Disable => ChannelBinding::Disable,
        config::ChannelBinding::Prefer => ChannelBinding::Prefer,
        config::ChannelBinding::Require => ChannelBinding::Require,
    }
}
