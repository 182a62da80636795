//! Sources of messages.

use std::io;
use std::time::Duration;

use super::Messages;

/// A source of messages, such as the topics of a broker.
///
/// The run reads it from one thread at a time. Waits of the source for its broker, heartbeats and
/// the storing of positions are its own affair and happen on its own threads, since a run whose
/// sinks are blocked does not read.
pub trait MessageSource: Send {
    /// Appends messages to `messages`, which is empty; waits for the first one no longer than
    /// `timeout`, and does not wait for further ones.
    ///
    /// # Errors
    /// When no more messages can be read.
    fn read(&mut self, messages: &mut Messages, timeout: Duration) -> io::Result<MessageRead>;

    /// Called when the run was stopped, perhaps several times: whether messages that the source has
    /// received are read before the run ends.
    fn stop(&mut self) -> OnStop {
        OnStop::Leave
    }

    /// Stores the acknowledged positions and leaves the broker; called once, after everything that
    /// is going to be delivered is delivered.
    ///
    /// # Errors
    /// When the positions could not be stored: messages may be read again later.
    fn close(&mut self) -> io::Result<()>;
}

/// What is done with messages that a source has received and the run has not read when it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// They are left: the next run reads them.
    Leave,
    /// They are read until there are none, since no other run can read them. The source receives no
    /// further ones.
    Drain,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageRead {
    /// At least one message was appended.
    Messages,
    /// There were none within the time.
    Idle,
    /// There will be no more.
    End,
}
