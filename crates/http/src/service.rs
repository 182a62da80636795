//! What answers requests.

use crate::{Io, Readiness, Reply, Request, Route, Ticket};

/// What answers the requests of one I/O thread.
///
/// Each thread has a value of its own, so that nothing has to be locked; what threads share is
/// shared by reference. A method that waits makes all connections of its thread wait.
///
/// A panic in [`route`](Self::route) or [`call`](Self::call) is answered with 500 and closes that
/// connection. The value is used further, so it should be one that a panic does not break. A panic
/// in another method belongs to no request: it ends the thread, and that [ends the
/// server](crate::Server::join).
pub trait Service: 'static {
    /// Says how the body of a request is to be received. Only the head is here yet.
    fn route(&mut self, head: &Request<'_>) -> Route {
        let _ = head;
        Route::buffered()
    }

    /// Answers a request, now or later. Its body is here as a whole, or begins to come when the
    /// route is a [streamed](Route::streamed) one.
    fn call(&mut self, request: &Request<'_>, reply: Reply<'_>);

    /// Ends a batch of events. What the requests of the batch asked of a database goes out here,
    /// in one piece.
    fn batch_end(&mut self, io: &mut Io) {
        let _ = io;
    }

    /// A descriptor of [`Io::watch`] is ready.
    fn ready(&mut self, io: &mut Io, token: u64, readiness: Readiness) {
        let _ = (io, token, readiness);
    }

    /// A timer of [`Io::timer`] is due.
    fn timer(&mut self, io: &mut Io, token: u64) {
        let _ = (io, token);
    }

    /// A [`Waker`](crate::Waker) was used.
    fn woken(&mut self, io: &mut Io, token: u64) {
        let _ = (io, token);
    }

    /// A streamed reply that was full has room again.
    fn writable(&mut self, io: &mut Io, ticket: Ticket) {
        let _ = (io, ticket);
    }
}
