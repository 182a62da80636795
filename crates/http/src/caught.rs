//! Panics that are contained to one connection or one request.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::peer::Peer;

/// A panic that was contained: it has ended one connection or one request. Every one of them is a
/// defect of this library, of rustls or of the service.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CaughtPanic<'a> {
    /// What panicked.
    pub stage: PanicStage,
    /// The peer of the connection, if the client was still connected.
    pub peer: Option<Peer>,
    /// The panic message, which may quote data of the client.
    pub message: &'a str,
}

/// Which part of a connection panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicStage {
    /// TLS: the connection is closed without a response.
    Tls,
    /// The parser of heads and chunks: the request gets 500, and the connection is closed.
    Parser,
    /// The service: the request gets 500, or a reply that had begun is cut off, and the connection
    /// is closed.
    Service,
}

/// The message of a caught panic.
#[derive(Debug)]
pub(crate) struct Caught {
    pub(crate) message: String,
}

impl Caught {
    pub(crate) fn new(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self {
            message: text.unwrap_or("a panic without a message").to_owned(),
        }
    }
}

/// Panics on demand, so that tests can check the containment of parser panics.
#[cfg(test)]
pub(crate) fn inject(bytes: &[u8]) {
    const WANTED: &[u8] = b"panic in the parser";
    let is_wanted = bytes.windows(WANTED.len()).any(|found| found == WANTED);
    assert!(!is_wanted, "a test wants it");
}

/// Runs code that may panic. Data that it borrows must not be used after a panic, or must stay
/// consistent in any case.
pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, Caught> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| Caught::new(&*panic))
}
