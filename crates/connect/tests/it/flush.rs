//! Flushing sinks.

use std::io;
use std::time::Duration;

use lookaside_stream::MessageSink;

/// Waits until everything that was written is delivered or refused.
pub(crate) fn flush(sink: &mut dyn MessageSink) -> io::Result<()> {
    while !sink.flush(Duration::from_millis(100))? {}
    Ok(())
}
