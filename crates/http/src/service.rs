//! The trait of services, which answer requests.

use crate::{Io, Readiness, Reply, Request, Route, Ticket};

/// Answers the requests of one I/O thread.
///
/// Each thread has its own value, so no locks are needed; shared data is shared by reference. A
/// method that blocks delays all connections of its thread.
///
/// A panic in [`route`](Self::route) or [`call`](Self::call) is answered with 500 and closes that
/// connection. The value continues to be used, so it must stay consistent on a panic. A panic in
/// another method belongs to no request: it ends the thread, which [ends the
/// server](crate::Server::join).
pub trait Service: 'static {
    /// Decides how the body of a request is received. Only the head has been received yet.
    fn route(&mut self, head: &Request<'_>) -> Route {
        let _ = head;
        Route::buffered()
    }

    /// Answers a request, now or later. Its body has been received completely, or is about to be
    /// received if the route is [streamed](Route::streamed).
    fn call(&mut self, request: &Request<'_>, reply: Reply<'_>);

    /// Called at the end of a batch of events, for example to send the database queries of all its
    /// requests at once.
    fn batch_end(&mut self, io: &mut Io) {
        let _ = io;
    }

    /// Called when a descriptor of [`Io::watch`] is ready.
    fn ready(&mut self, io: &mut Io, token: u64, readiness: Readiness) {
        let _ = (io, token, readiness);
    }

    /// Called when a timer of [`Io::timer`] is due.
    fn timer(&mut self, io: &mut Io, token: u64) {
        let _ = (io, token);
    }

    /// Called when a [`Waker`](crate::Waker) was used.
    fn woken(&mut self, io: &mut Io, token: u64) {
        let _ = (io, token);
    }

    /// Called when a streamed reply that was full has room again.
    fn writable(&mut self, io: &mut Io, ticket: Ticket) {
        let _ = (io, ticket);
    }
}
