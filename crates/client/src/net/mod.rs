//! Sockets: where all faces meet the operating system.

mod stream;

use std::time::Duration;

pub(crate) use stream::{Address, Stream, tune_tcp};

/// The least that is read at once: hundreds of short answers.
pub(crate) const READ_SIZE: usize = 16 * 1024;

/// How long a server may take for a request to cancel. As long nothing else is sent.
pub(crate) const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
