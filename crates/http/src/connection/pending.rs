//! A request whose reply is not out, and how far the reply is.

use std::fs::File;
use std::sync::Arc;

use crate::channel::Source;
use crate::render::{Pieces, ResponseFraming};

/// A request whose reply is not out.
pub(crate) struct Pending {
    /// The name of its [`Ticket`](crate::Ticket).
    pub(crate) sequence: u64,
    pub(crate) framing: ResponseFraming,
    pub(crate) progress: Answer,
    /// What is written of the reply and not in the connection's output.
    pub(crate) bytes: Vec<u8>,
}

pub(crate) enum Answer {
    /// The serial stage has it.
    Departed,
    /// It was put off.
    Waiting,
    Streaming {
        pieces: Pieces,
        /// Somebody was told that there is no room.
        is_full: bool,
        /// Where another thread writes the body, if one does.
        source: Option<Source>,
    },
    /// The head is written, and a part of a file follows.
    File {
        file: Arc<File>,
        at: u64,
        end: u64,
    },
    Done,
    /// What is written goes out, and then the connection breaks.
    Cut,
}
