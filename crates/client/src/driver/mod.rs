//! Code that the drivers of both protocols share.
//!
//! A driver keeps the requests that wait for their answers ([`Requests`]), the queries that wait to
//! be sent ([`QueryRange`]), the statements that its server has prepared ([`StatementCache`]), and
//! the state of cancel requests ([`Cancellation`]). All of that is independent of the protocol.

mod cancellation;
mod deadlines;
mod protocol;
mod query_range;
mod requests;
mod session_effect;
mod statement_cache;
mod tickets;

pub(crate) use cancellation::Cancellation;
pub use protocol::{Check, Driver, Fitness, Protocol, Target, Transport, Trust, Upgrade};
pub(crate) use protocol::{Sealed, unwanted};
pub(crate) use query_range::{QueryRange, QueryRef, requeue};
pub(crate) use requests::{PendingRequest, Requests};
pub(crate) use session_effect::SessionEffect;
pub(crate) use statement_cache::{CachedStatement, Found, StatementCache};
pub(crate) use tickets::Tickets;
