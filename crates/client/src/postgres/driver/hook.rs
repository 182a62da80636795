//! Hooks for unsolicited messages of a server.

use std::fmt;
use std::sync::Arc;

use lookaside_value::Text;
use lookaside_wire::postgres::NotificationResponse;

/// A function that is called with unsolicited messages of a server.
///
/// It runs where the connection is driven, for a `Client` in the task that owns the socket: while
/// it runs, the connection makes no progress.
///
/// ```
/// use lookaside_client::postgres::{Hook, Options};
///
/// let options = Options {
///     on_notice: Some(Hook::new(|notice| eprintln!("{notice}"))),
///     ..Options::default()
/// };
/// ```
pub struct Hook<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> Hook<T> {
    /// Creates a hook for [`Options`](super::Options).
    pub fn new(call: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(super) fn call(&self, said: T) {
        (self.0)(said);
    }
}

impl<T> Clone for Hook<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Hook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A notification that was sent with `NOTIFY` on a channel that a session listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification {
    /// The channel's name.
    pub channel: Text,
    /// The payload; empty if there is none.
    pub payload: Text,
    /// The process id of the server session that sent it.
    pub process_id: u32,
}

impl Notification {
    pub(super) fn of(response: NotificationResponse<'_>) -> Self {
        Self {
            channel: Text::from(&*response.channel.to_string_lossy()),
            payload: Text::from(&*response.payload.to_string_lossy()),
            process_id: response.process_id,
        }
    }
}
