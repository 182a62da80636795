//! What a connection needs of its protocol, and of its configuration.
//!
//! A connection owns a socket and knows no protocol. A driver knows a protocol and no socket:
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

/// Keeps the traits of this module to this crate.
pub trait Sealed {}

/// One side of a protocol, without its socket.
///
/// Only this crate implements it.
pub trait Protocol: Sealed + Send + Unpin + 'static {
    /// What is to be written to the socket.
    fn output(&mut self) -> &[u8];

    /// Says that the first `size` bytes of the output were written.
    ///
    /// # Panics
    ///
    /// When there are not so many.
    fn written(&mut self, size: usize);

    /// Where at least `size` bytes can be read to; [`received`](Self::received) says how many
    /// came. It is empty once the protocol is over.
    fn receive_space(&mut self, size: usize) -> &mut [u8];

    /// Says that `size` bytes came, which are in the [`receive_space`](Self::receive_space).
    ///
    /// # Panics
    ///
    /// When there was no room for so many.
    fn received(&mut self, size: usize);

    /// Says that the socket is at its end. What came before still counts.
    fn end_of_input(&mut self);

    /// Whether the socket is at its end.
    fn is_input_ended(&self) -> bool;

    /// Says that the socket failed.
    fn fail(&mut self, error: Error);

    /// Takes in what came, gives up what is too late, and prepares what can go out.
    fn advance(&mut self, now: Instant);

    /// Whether nothing more is to be sent or received.
    fn is_over(&self) -> bool;
}

/// A protocol that can continue inside of TLS.
///
/// Only this crate implements it.
pub trait Upgrade: Protocol {
    /// Whether TLS is to begin as soon as the output is written. Nothing can be received before
    /// [`tls_started`](Self::tls_started).
    fn wants_tls(&self) -> bool;

    /// Says that what follows is inside of TLS.
    ///
    /// `server_end_point` is the channel binding of that name, where the server's certificate
    /// allows one (RFC 5929, section 4).
    fn tls_started(&mut self, server_end_point: Option<&[u8]>);
}

/// The connection state machine: which query is sent when, which answer arrives, and what an error means.
///
/// Only this crate implements it.
pub trait Driver: Upgrade + Sized {
    /// Where the server is, and how to log in.
    type Config: Target;
    /// What a driver may keep.
    type Options: Clone + Send + 'static;
    /// A second connection to the same server, which cancels a query there, or finds out why the
    /// server is silent.
    type Auxiliary: Upgrade;

    /// Begins with the log-in to a host.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used there.
    fn begin(
        config: &Self::Config,
        host: &Host,
        transport: Transport,
        options: Self::Options,
    ) -> Result<Self>;

    /// Takes a request. Its queries go out with the next [`advance`](Protocol::advance), or when there
    /// is room in the window.
    ///
    /// # Errors
    ///
    /// When too many wait already, or the connection has ended: then nothing of it was sent.
    fn submit(&mut self, request: Request) -> Result<Ticket>;

    /// Takes back a request whose caller is gone. Queries of it that were not sent are not sent, and
    /// answers to the others are discarded; there is no reply.
    fn abandon(&mut self, ticket: Ticket);

    /// Takes back requests that are about to be sent and whose callers are gone, as
    /// [`abandon`](Self::abandon) does. To be called before [`advance`](Protocol::advance), which sends.
    fn withdraw(&mut self, is_unwanted: impl FnMut(Ticket) -> bool);

    /// Takes a request back as if its deadline had passed: its reply says so, and what the server
    /// does for it is cancelled.
    fn cancel(&mut self, ticket: Ticket);

    /// The request whose answer is coming in, if rows of it are kept.
    fn collecting(&self) -> Option<Ticket>;

    /// Keeps no rows of the answers to a request whose caller is gone. It is done all the same, and
    /// there is a reply.
    fn discard(&mut self, ticket: Ticket);

    /// The next answers, in the order in which they came.
    fn next_reply(&mut self) -> Option<Reply>;

    /// Whether [`next_reply`](Self::next_reply) has something.
    fn has_reply(&self) -> bool;

    /// When [`advance`](Protocol::advance) has to be called even if nothing comes.
    fn deadline(&self) -> Option<Instant>;

    /// Whether the log-in is done.
    fn is_ready(&self) -> bool;

    /// Whether the session is what is wanted, once the log-in is done.
    fn fitness(&self, wanted: TargetSession) -> Fitness;

    /// Whether nothing waits for an answer.
    fn is_idle(&self) -> bool;

    /// How many queries wait for their answers.
    fn query_count(&self) -> usize;

    /// Why the connection has ended, if it has.
    fn end(&self) -> Option<&Error>;

    /// Whether the last query left a transaction open, be it one that has failed.
    fn is_in_transaction(&self) -> bool;

    /// The statement that restores the session for the next holder: it ends an open transaction, or
    /// turns autocommit on again. To be called again after that statement, until there is none.
    fn restoring_statement(&self) -> Option<&'static str>;

    /// What makes the session as it was after the log-in.
    fn reset_request() -> Request;

    /// Whether more may be read: not while the buffer of a COPY is full. Emptying it wakes the task of
    /// `cx`.
    fn poll_receive(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// What begins a transaction, one statement after the other.
    fn begin_statements(options: &TransactionOptions) -> Vec<String>;

    /// A second connection, if one is wanted. The owner opens a socket to the same server, drives the
    /// connection until it [is over](Protocol::is_over), and calls
    /// [`auxiliary_done`](Self::auxiliary_done); until then nothing more is sent here.
    ///
    /// A server cancels whatever it is doing, so it is asked only while the query is the first in
    /// the line. Should it be done in that very moment and the next one be hit, then that is sent
    /// again.
    fn take_auxiliary(&mut self) -> Option<Self::Auxiliary>;

    /// Says that the server has dealt with a request to cancel, or that it could not be reached.
    fn auxiliary_done(&mut self);

    /// Ends the connection. What has no answer gets an error; what was sent may be done all the
    /// same. The output holds the farewell.
    fn close(&mut self);
}

/// The requests of a backlog that are to be withdrawn: those that `is_unwanted`, as far as the first
/// `room` of the others, after which nothing is sent yet.
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

/// What of a configuration concerns sockets.
///
/// Only this crate implements it.
pub trait Target: Sealed + FromStr<Err = ConfigError> + Clone + Send + Sync + 'static {
    /// The servers, in the order in which they are tried; at least one.
    fn hosts(&self) -> &[Host];

    /// The socket of a host that is on this machine.
    fn socket_path(host: &Host) -> Option<PathBuf>;

    /// How long to try one host.
    fn connect_timeout(&self) -> Option<Duration>;

    /// How a dead peer is noticed.
    fn keepalives(&self) -> Keepalives;

    /// The same with what files say, such as a password file. That may block.
    ///
    /// # Errors
    ///
    /// When one cannot be used.
    fn resolved(&self) -> Result<Self>;

    /// In which order the hosts are tried.
    fn load_balance(&self) -> LoadBalance;

    /// Which of them will do.
    fn target_session(&self) -> TargetSession;

    /// What to try with a host: first this, and then that, on a new connection, if the server does
    /// not let us in or TLS fails.
    fn transports(&self, host: &Host) -> (Transport, Option<Transport>);

    /// What TLS trusts.
    fn trust(&self) -> Trust<'_>;
}

/// Whether a session is what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// It is.
    Fit,
    /// It is not.
    Unfit,
    /// This query says it, by its only value.
    Ask(&'static str),
}

/// What a connection runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The socket itself.
    Plain,
    /// TLS if the server has it, else the socket itself.
    TlsIfOffered,
    /// TLS.
    Tls,
}

/// What TLS trusts, and what it shows.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// The certificates.
    pub tls: &'a Tls,
    /// What of the server's certificate is checked.
    pub check: Check,
    /// The protocol inside, as ALPN names it.
    pub protocol: Option<&'static [u8]>,
    /// Whether a server that does not confirm the protocol is refused.
    pub confirms_protocol: bool,
    /// Whether a key that others can read is refused.
    pub keeps_key_private: bool,
}

/// What of a server's certificate is checked.
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
