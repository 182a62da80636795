//! Event streams: sources, formats, and sinks.
//!
//! A [`Framing`] splits bytes into complete records, a [`Decoder`] turns a chunk of them into a
//! batch, an [`Encoder`] turns a batch into text. A line that cannot be decoded is a [`Reject`]: it
//! is counted and shown, and does not end the run.
//!
//! This crate does not depend on databases or a transform language.
//!
//! ```
//! use lookaside_stream::{Chunk, FormatOptions, InputFormat, OutputFormat, Rejects};
//! use lookaside_value::{Batch, NameTable};
//!
//! let input = InputFormat::new("kv", &FormatOptions::new())?;
//! let output = OutputFormat::new("json", &FormatOptions::new())?;
//! let mut names = NameTable::new();
//! input.intern(&mut names);
//! output.intern(&mut names);
//! let (mut decoder, mut encoder) = (input.decoder(&names), output.encoder(&names));
//!
//! let mut batch = Batch::new(names.into());
//! let mut rejects = Rejects::new();
//! decoder.decode(&Chunk::new(b"ip=192.0.2.7 user=amy\n", 1), &mut batch, &mut rejects);
//! let mut text = String::new();
//! encoder.encode(&batch, &mut text, &mut rejects);
//! assert_eq!(text, "{\"ip\":\"192.0.2.7\",\"user\":\"amy\"}\n");
//! # Ok::<(), lookaside_stream::Error>(())
//! ```
#![forbid(unsafe_code)]

mod compression;
mod content;
mod error;
mod extent;
mod file_identity;
mod fingerprint;
mod format;
mod latency;
mod mark;
mod message;
mod progress;
mod reject;
mod rotated_name;
mod run;
mod sink;
mod source;
mod stop;
mod summary;
mod unsupported;
mod wake;

pub use compression::Compression;
pub use error::{Error, ErrorKind, Result};
pub use extent::Extent;
pub use format::{
    Chunk, Decoder, Encoder, FieldKind, FieldType, FormatOptions, Framing, Header, InputFormat,
    OutputFormat,
};
#[doc(hidden)]
pub use format::{fuzz_access, fuzz_csv, fuzz_syslog};
pub use latency::Latencies;
pub use mark::Mark;
pub use message::{
    Message, MessageFraming, MessageHeader, MessageRead, MessageSink, MessageSource, Messages,
    MetaValue, OnNull, OnStop, Partition, Receipt, RefusedMessage, ResultMeta,
};
pub use progress::{Figures, Progress};
pub use reject::{Reject, Rejects};
pub use run::{
    Flow, Identity, Report, RunOptions, SplitPath, Strictness, Transform, WarningCallback,
    worker_count,
};
pub use sink::{Rotation, Sink, TcpOptions};
pub use source::{Checkpoint, LiveRead, Source, TcpFraming};
pub use stop::StopFlag;
pub use summary::{End, Reconnects, Summary};
