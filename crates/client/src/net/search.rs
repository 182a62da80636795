//! Chooses the server to try next, and how a failure affects the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::tls::{Context, Peer};
use super::{Address, shuffle};
use crate::driver::{Target, Transport};
use crate::{Error, ErrorKind, Host, LoadBalance, Result, TargetSession};

/// The search for a suitable session.
pub(crate) struct Search<C> {
    config: Arc<C>,
    attempts: VecDeque<Attempt>,
    /// The errors of failed attempts.
    errors: Vec<Error>,
}

/// One connection attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) host: Host,
    pub(crate) transport: Transport,
    /// The required session attributes.
    pub(crate) target: TargetSession,
    /// Its deadline.
    pub(crate) deadline: Option<Instant>,
    /// The transport to try next with the same host.
    fallback: Option<Transport>,
    /// The error of the first attempt, if this is such a second one.
    first_error: Option<Error>,
}

/// How an attempt begins.
pub(crate) struct ResolvedHost {
    pub(crate) addresses: Vec<Address>,
    pub(crate) peer: Option<Peer>,
}

impl<C: Target> Search<C> {
    /// Reads the files of the configuration that concern all hosts, which may block.
    pub(crate) fn new(config: &C) -> Result<Self> {
        let config = config.resolved()?;
        let mut hosts = config.hosts().to_vec();
        if config.load_balance() == LoadBalance::Random {
            shuffle(&mut hosts)?;
        }
        let wanted = config.target_session();
        let rounds: &[_] = match wanted {
            TargetSession::PreferStandby => &[TargetSession::Standby, TargetSession::Any],
            _ => &[wanted],
        };
        let attempts = rounds.iter().flat_map(|&target| {
            let config = &config;
            hosts
                .iter()
                .map(move |host| Attempt::new(config, host.clone(), target))
        });
        Ok(Self {
            attempts: attempts.collect(),
            config: Arc::new(config),
            errors: Vec::new(),
        })
    }

    pub(crate) fn config(&self) -> &Arc<C> {
        &self.config
    }

    /// The next attempt.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Attempt> {
        let mut attempt = self.attempts.pop_front()?;
        let timeout = self.config.connect_timeout();
        attempt.deadline = attempt
            .deadline
            .or_else(|| timeout.map(|timeout| now + timeout));
        Some(attempt)
    }

    /// Reports a failed attempt. Returns the error if other attempts are pointless.
    pub(crate) fn failed(&mut self, attempt: Attempt, error: Error) -> Result<()> {
        let error = Error::no_session(&attempt.host, error);
        // No query was sent yet, so nothing can be executed twice.
        let concerns_host = error.is_retryable() || error.kind() == ErrorKind::Connection;
        if let Some(transport) = attempt.fallback
            && !concerns_host
            && error.kind() != ErrorKind::Misuse
        {
            self.attempts.push_front(Attempt {
                transport,
                fallback: None,
                first_error: Some(error),
                ..attempt
            });
            return Ok(());
        }
        // A server sends the same error to all clients that it refuses on such a transport. Then
        // the first error is more specific.
        let error = match attempt.first_error {
            Some(first) if error.is_log_in_unwanted() => first,
            _ => error,
        };
        if !concerns_host {
            return Err(error);
        }
        self.errors.push(error);
        Ok(())
    }

    /// Why there is no session.
    pub(crate) fn into_error(self) -> Error {
        Error::no_server(self.errors)
    }
}

impl Attempt {
    fn new<C: Target>(config: &C, host: Host, target: TargetSession) -> Self {
        let (transport, fallback) = config.transports(&host);
        Self {
            host,
            transport,
            target,
            deadline: None,
            fallback,
            first_error: None,
        }
    }

    /// The only attempt with a host, for callers that choose hosts themselves.
    pub(crate) fn only<C: Target>(config: &C, host: &Host, now: Instant) -> Self {
        let timeout = config.connect_timeout();
        Self {
            deadline: timeout.map(|timeout| now + timeout),
            ..Self::new(config, host.clone(), config.target_session())
        }
    }

    /// Resolves names and reads certificates, which may block.
    pub(crate) fn prepare<C: Target>(&self, config: &C) -> Result<ResolvedHost> {
        let peer = match self.transport {
            Transport::Plain => None,
            Transport::TlsIfOffered | Transport::Tls => Some(Peer {
                context: Arc::new(Context::load(&config.trust())?),
                host: Arc::new(self.host.clone()),
            }),
        };
        let mut addresses = Address::of::<C>(&self.host)?;
        if config.load_balance() == LoadBalance::Random {
            shuffle(&mut addresses)?;
        }
        Ok(ResolvedHost { addresses, peer })
    }
}
