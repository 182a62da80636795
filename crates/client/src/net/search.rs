//! Which server to try next, and what a failure means for the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::tls::{Context, Peer};
use super::{Address, shuffle};
use crate::driver::{Target, Transport};
use crate::{Error, ErrorKind, Host, LoadBalance, Result, TargetSession};

/// The way to a session that will do.
pub(crate) struct Search<C> {
    config: Arc<C>,
    attempts: VecDeque<Attempt>,
    /// Why others would not do.
    errors: Vec<Error>,
}

/// One thing to try.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) host: Host,
    pub(crate) transport: Transport,
    /// What the session must be.
    pub(crate) target: TargetSession,
    /// When it has taken too long.
    pub(crate) deadline: Option<Instant>,
    /// What to try with the same host if that is of no use.
    fallback: Option<Transport>,
    /// Why this is such a second try.
    first_error: Option<Error>,
}

/// How an attempt begins.
pub(crate) struct Way {
    pub(crate) addresses: Vec<Address>,
    pub(crate) peer: Option<Peer>,
}

impl<C: Target> Search<C> {
    /// Reads what the configuration names for all of its hosts, which may block.
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

    /// What to try now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Attempt> {
        let mut attempt = self.attempts.pop_front()?;
        let timeout = self.config.connect_timeout();
        attempt.deadline = attempt
            .deadline
            .or_else(|| timeout.map(|timeout| now + timeout));
        Some(attempt)
    }

    /// Says that an attempt failed. The error comes back if there is nothing left to hope for.
    pub(crate) fn failed(&mut self, attempt: Attempt, error: Error) -> Result<()> {
        let error = Error::no_session(&attempt.host, error);
        // Nothing was asked yet, so nothing can be done twice.
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
        // A server says the same to all clients that it refuses on such a transport. Then
        // the first error says more.
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

    /// The only one with a host, for those who choose hosts themselves.
    pub(crate) fn only<C: Target>(config: &C, host: &Host, now: Instant) -> Self {
        let timeout = config.connect_timeout();
        Self {
            deadline: timeout.map(|timeout| now + timeout),
            ..Self::new(config, host.clone(), config.target_session())
        }
    }

    /// Looks up names and reads certificates, which may block.
    pub(crate) fn prepare<C: Target>(&self, config: &C) -> Result<Way> {
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
        Ok(Way { addresses, peer })
    }
}
