//! A request whose reply has not been sent, and the progress of the reply.

use std::fs::File;
use std::sync::Arc;

use crate::channel::Source;
use crate::render::{Pieces, ResponseFraming};

/// A request whose reply has not been sent.
pub(crate) struct Pending {
    /// The sequence number of its [`Ticket`](crate::Ticket).
    pub(crate) sequence: u64,
    pub(crate) framing: ResponseFraming,
    pub(crate) progress: Answer,
    /// The part of the reply that is not in the connection's output.
    pub(crate) bytes: Vec<u8>,
}

pub(crate) enum Answer {
    /// Submitted to the serial stage.
    Departed,
    /// Deferred.
    Waiting,
    Streaming {
        pieces: Pieces,
        /// The writer was told that there is no room.
        is_full: bool,
        /// The pipe, if another thread writes the body.
        source: Option<Source>,
    },
    /// The head is written, and a part of a file follows.
    File {
        file: Arc<File>,
        at: u64,
        end: u64,
    },
    Done,
    /// The written bytes are sent, and then the connection is aborted.
    Cut,
}
