//! Messages: events of a broker, with a key, headers and a position, instead of lines of bytes.
//!
//! A [`MessageSource`] delivers messages with the [`Partition`] and the position of each. The run
//! passes the results to its sinks with a [`Receipt`], on which a sink reports what it has
//! delivered. When all results of a message and of all messages before it in its partition are
//! delivered, [`Partition::acknowledged`] moves past it. The source stores these positions where
//! its broker keeps them. So a run that ends in any way continues at the first message that may not
//! have been delivered.

mod batch;
mod framing;
mod meta;
mod partition;
mod receipt;
mod result_meta;
mod sink;
mod source;

pub use batch::{Header as MessageHeader, Message, Messages};
pub use framing::{MessageFraming, OnNull};
pub(crate) use meta::{MetaNames, RecordMeta, timestamp_ms};
pub use partition::Partition;
pub use receipt::Receipt;
pub use result_meta::{MetaValue, ResultMeta};
pub use sink::{MessageSink, RefusedMessage};
pub use source::{MessageRead, MessageSource, OnStop};
