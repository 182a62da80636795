//! Sinks of messages.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Message, Messages, Receipt};
use crate::StopFlag;
use crate::mark::Mark;

/// A sink of messages, such as a topic of a broker.
pub trait MessageSink: Send {
    /// Takes messages, and reports each on `receipt` once it is delivered: once losing this process
    /// or the connection cannot lose it any more. Waits while too many messages are under way.
    ///
    /// # Errors
    /// When messages cannot be delivered, or with [`io::ErrorKind::Interrupted`] when the flag of
    /// [`Self::attach`] ended the wait.
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()>;

    /// Waits until there is room for a write, at most `timeout`; returns whether there is. While there
    /// is none, the run writes what other sinks have refused to the rejects, which a sink that stores
    /// positions waits for. Also called while nothing is written, to learn of failures.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn wait_ready(&mut self, _timeout: Duration) -> io::Result<bool> {
        Ok(true)
    }

    /// Called after the results of a block of a followed file, also if none of them was written to
    /// this sink: `mark` is the position after the block, for a sink that stores it together with the
    /// results.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn end_block(&mut self, _mark: &Mark, _receipt: &Arc<Receipt>) -> io::Result<()> {
        Ok(())
    }

    /// Moves out the messages that the broker will never accept, such as too large ones. They are
    /// not reported on their receipts: the run does so when it has written them to the rejects.
    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        Vec::new()
    }

    /// Waits until everything that was written is delivered or refused, at most about `timeout`;
    /// returns whether it is.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn flush(&mut self, timeout: Duration) -> io::Result<bool>;

    /// Sets the flag that ends waits, raised when the run gives up what is not delivered.
    fn attach(&mut self, _give_up: &StopFlag) {}
}

/// A message that a broker does not accept.
#[derive(Debug)]
pub struct RefusedMessage {
    /// The payload as it was written.
    pub payload: Option<Vec<u8>>,
    /// The key as it was written.
    pub key: Option<Vec<u8>>,
    /// Why it was refused, as one lower-case phrase.
    pub reason: String,
    /// The receipt of the message.
    pub receipt: Arc<Receipt>,
    /// Its segment there.
    pub segment: usize,
}

impl RefusedMessage {
    /// A message that was passed to a sink with this receipt.
    pub fn of(message: &Message<'_>, receipt: &Arc<Receipt>, reason: String) -> Self {
        Self {
            payload: message.payload().map(<[u8]>::to_vec),
            key: message.key().map(<[u8]>::to_vec),
            reason,
            receipt: Arc::clone(receipt),
            segment: message.segment(),
        }
    }
}
