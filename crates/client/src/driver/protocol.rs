//! The interface of a connection to its protocol and its configuration.
//!
//! A connection owns a socket and is independent of the protocol. A driver implements a protocol
//! and is independent of the socket:
//!
//! ```text
//!   callers ──► submit()     ┌───────┐ output(), written()          ──► socket
//!                            │ Driver │
//!           ◄── next_reply() └───────┘ receive_space(), received()  ◄── socket
//!                                ▲
//!                            advance(now)
//! ```

use std::path::PathBuf;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::{
    ConfigError, Error, Host, Keepalives, LoadBalance, Reply, Request, Result, TargetSession,
    Ticket, Tls, TransactionOptions,
};

/// Seals the traits of this module.
pub trait Sealed {}

/// One side of a protocol, without its socket.
///
/// Only this crate implements it.
pub trait Protocol: Sealed + Send + Unpin + 'static {
    /// The bytes to write to the socket.
    fn output(&mut self) -> &[u8];

    /// Reports that the first `size` bytes of the output were written.
    ///
    /// # Panics
    ///
    /// If the output is shorter.
    fn written(&mut self, size: usize);

    /// The buffer to read at least `size` bytes into; [`received`](Self::received) reports how many
    /// were read. It is empty once the protocol is over.
    fn receive_space(&mut self, size: usize) -> &mut [u8];

    /// Reports that `size` bytes were read into the [`receive_space`](Self::receive_space).
    ///
    /// # Panics
    ///
    /// If the buffer was smaller.
    fn received(&mut self, size: usize);

    /// Reports the end of the input. Bytes received before are still processed.
    fn end_of_input(&mut self);

    /// Whether the input has ended.
    fn is_input_ended(&self) -> bool;

    /// Reports a failure of the socket.
    fn fail(&mut self, error: Error);

    /// Processes received bytes, times out overdue requests, and prepares output.
    fn advance(&mut self, now: Instant);

    /// Whether there is nothing more to send or receive.
    fn is_over(&self) -> bool;
}

/// A protocol that can continue inside of TLS.
///
/// Only this crate implements it.
pub trait Upgrade: Protocol {
    /// Whether TLS has to begin as soon as the output is written. Nothing can be received before
    /// [`tls_started`](Self::tls_started).
    fn wants_tls(&self) -> bool;

    /// Reports that TLS has been established.
    ///
    /// `server_end_point` is the channel binding of that name, if the server's certificate allows
    /// one (RFC 5929, section 4).
    fn tls_started(&mut self, server_end_point: Option<&[u8]>);
}

/// The connection state machine: which query is sent when, which answer arrives, and what an error means.
///
/// Only this crate implements it.
pub trait Driver: Upgrade + Sized {
    /// The address of the server, and the log-in.
    type Config: Target;
    /// The limits of a driver.
    type Options: Clone + Send + 'static;
    /// A second connection to the same server, which cancels a query, or finds out why the server
    /// does not respond.
    type Auxiliary: Upgrade;

    /// Creates a driver, which begins with the log-in to a host.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used for this host.
    fn begin(
        config: &Self::Config,
        host: &Host,
        transport: Transport,
        options: Self::Options,
    ) -> Result<Self>;

    /// Submits a request. Its queries are sent by the next [`advance`](Protocol::advance), or when
    /// there is room in the window.
    ///
    /// # Errors
    ///
    /// When too many requests wait already, or the connection has ended; nothing was sent.
    fn submit(&mut self, request: Request) -> Result<Ticket>;

    /// Abandons a request whose caller is gone. Queries that were not sent yet are dropped, and
    /// answers to the others are discarded; there is no reply.
    fn abandon(&mut self, ticket: Ticket);

    /// Abandons requests that are about to be sent and whose callers are gone, like
    /// [`abandon`](Self::abandon). Must be called before [`advance`](Protocol::advance), which
    /// sends.
    fn withdraw(&mut self, is_unwanted: impl FnMut(Ticket) -> bool);

    /// Cancels a request as if its deadline had passed: its reply is an error, and queries in
    /// flight are cancelled on the server.
    fn cancel(&mut self, ticket: Ticket);

    /// The request whose rows are being received, if they are kept.
    fn collecting(&self) -> Option<Ticket>;

    /// Discards the rows of a request whose caller is gone. It is executed nevertheless, and there
    /// is a reply.
    fn discard(&mut self, ticket: Ticket);

    /// The next reply, in the order of arrival.
    fn next_reply(&mut self) -> Option<Reply>;

    /// Whether [`next_reply`](Self::next_reply) would return one.
    fn has_reply(&self) -> bool;

    /// When [`advance`](Protocol::advance) has to be called even without input.
    fn deadline(&self) -> Option<Instant>;

    /// Whether the log-in is done.
    fn is_ready(&self) -> bool;

    /// Whether the session matches `wanted`, once the log-in is done.
    fn fitness(&self, wanted: TargetSession) -> Fitness;

    /// Whether nothing waits for an answer.
    fn is_idle(&self) -> bool;

    /// How many queries wait for their answers.
    fn query_count(&self) -> usize;

    /// Why the connection has ended, if it has.
    fn end(&self) -> Option<&Error>;

    /// Whether the last query left a transaction open, including a failed one.
    fn is_in_transaction(&self) -> bool;

    /// The statement that restores the session for the next holder: it ends an open transaction, or
    /// turns autocommit on again. To be called again after that statement, until there is none.
    fn restoring_statement(&self) -> Option<&'static str>;

    /// The request that resets the session to its state after the log-in.
    fn reset_request() -> Request;

    /// Whether more may be read: not while the buffer of a COPY is full. Emptying it wakes the task of
    /// `cx`.
    fn poll_receive(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// The statements that begin a transaction, in order.
    fn begin_statements(options: &TransactionOptions) -> Vec<String>;

    /// Returns a second connection, if one is needed. The owner opens a socket to the same server,
    /// drives the connection until it [is over](Protocol::is_over), and calls
    /// [`auxiliary_done`](Self::auxiliary_done); until then nothing more is sent here.
    ///
    /// A cancel request hits whatever the server is executing, so it is only sent while the query
    /// is the first in the queue. If that completes at the same moment and the next one is hit,
    /// then that one is sent again.
    fn take_auxiliary(&mut self) -> Option<Self::Auxiliary>;

    /// Reports that the server has processed a cancel request, or that it could not be reached.
    fn auxiliary_done(&mut self);

    /// Closes the connection. Unanswered requests get an error; those that were sent may be
    /// executed nevertheless. The output contains the terminate message.
    fn close(&mut self);
}

/// The requests of a backlog to withdraw: those that are unwanted, up to the first `room` of the
/// others, after which nothing is sent yet.
pub(crate) fn unwanted(
    tickets: impl Iterator<Item = Ticket>,
    mut room: usize,
    mut is_unwanted: impl FnMut(Ticket) -> bool,
) -> Vec<Ticket> {
    let mut unwanted = Vec::new();
    for ticket in tickets {
        if room == 0 {
            break;
        }
        if is_unwanted(ticket) {
            unwanted.push(ticket);
        } else {
            room -= 1;
        }
    }
    unwanted
}

/// The part of a configuration that concerns sockets.
///
/// Only this crate implements it.
pub trait Target: Sealed + FromStr<Err = ConfigError> + Clone + Send + Sync + 'static {
    /// The servers, in the order in which they are tried; at least one.
    fn hosts(&self) -> &[Host];

    /// The socket of a host that is on this machine.
    fn socket_path(host: &Host) -> Option<PathBuf>;

    /// How long to try one host.
    fn connect_timeout(&self) -> Option<Duration>;

    /// How a dead peer is detected.
    fn keepalives(&self) -> Keepalives;

    /// Resolves the configuration by reading files, such as a password file. This may block.
    ///
    /// # Errors
    ///
    /// When a file cannot be used.
    fn resolved(&self) -> Result<Self>;

    /// In which order the hosts are tried.
    fn load_balance(&self) -> LoadBalance;

    /// The required session attributes.
    fn target_session(&self) -> TargetSession;

    /// The transport to try with a host, and the one to try next on a new connection if the server
    /// refuses the log-in or TLS fails.
    fn transports(&self, host: &Host) -> (Transport, Option<Transport>);

    /// The TLS verification settings.
    fn trust(&self) -> Trust<'_>;
}

/// Whether a session is suitable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// It is suitable.
    Fit,
    /// It is not suitable.
    Unfit,
    /// To be determined by this query, which returns one boolean.
    Ask(&'static str),
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The socket itself.
    Plain,
    /// TLS if the server supports it, otherwise the socket itself.
    TlsIfOffered,
    /// TLS.
    Tls,
}

/// The TLS verification settings and the client certificate.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// The certificates.
    pub tls: &'a Tls,
    /// The checks of the server's certificate.
    pub check: Check,
    /// The ALPN protocol.
    pub protocol: Option<&'static [u8]>,
    /// Whether a server that does not confirm the protocol is refused.
    pub confirms_protocol: bool,
    /// Whether a key file that others can read is refused.
    pub keeps_key_private: bool,
}

/// The checks of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Nothing.
    Nothing,
    /// The issuer, if root certificates are known.
    IssuerIfKnown,
    /// The issuer.
    Issuer,
    /// The issuer and the name.
    Name,
}
