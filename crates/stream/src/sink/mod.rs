//! Sinks: the outputs of a run.

mod append;
mod continuing;
mod file;
mod growing;
mod last_write;
mod replay;
mod rotating;
mod rotation;
mod tcp;
mod torn;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

pub use rotation::Rotation;
pub use tcp::TcpOptions;
pub(crate) use torn::RecordEnds;

use crate::file_identity::{FileIdentity, FilePosition};
use crate::message::{MessageSink, Messages, Receipt, RefusedMessage, ResultMeta};
use crate::wake::Wake;
use crate::{Compression, Error, Extent, Mark, Reconnects, Result, StopFlag, unsupported};

/// An open output.
///
/// ```
/// use lookaside_stream::{Extent, Sink};
///
/// let sink = Sink::open("null", Extent::Finite)?;
/// assert_eq!(sink.name(), "null");
/// # Ok::<(), lookaside_stream::Error>(())
/// ```
pub struct Sink {
    name: String,
    compression: Compression,
    target: Target,
    /// The number of bytes that the target has accepted.
    size: u64,
    /// Whether the reader is gone and this counts as a normal end.
    closed: bool,
    broken_pipe: BrokenPipe,
    /// The file that is written, if it is one.
    identity: Option<FileIdentity>,
    /// Whether it is rotated.
    rotates: bool,
    reconnects: Arc<Mutex<Reconnects>>,
}

/// How long a sink of messages is waited for before what others have refused is written.
const WAIT: Duration = Duration::from_millis(100);

/// What a sink writes to.
enum Target {
    /// Bytes: files, pipes, connections.
    Bytes(Box<dyn SinkTarget>),
    /// Messages of a broker.
    Messages {
        sink: Box<dyn MessageSink>,
        /// The field whose value is the key of a message.
        meta: ResultMeta,
    },
}

/// The meaning of a reader that is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BrokenPipe {
    /// It has read enough: `lookaside … | head`.
    End,
    /// Events are lost, so it is an error.
    Fail,
}

/// How a run begins with a sink.
pub(crate) struct Begin<'a> {
    /// The sink's name in messages.
    pub(crate) name: &'a str,
    /// The checkpoint of the run, if it has one.
    pub(crate) checkpoint: Option<Recorded<'a>>,
    pub(crate) ends: RecordEnds,
    /// Reports what was cut off.
    pub(crate) warn: &'a dyn Fn(&str),
}

/// What a checkpoint records of a sink.
pub(crate) struct Recorded<'a> {
    /// The checkpoint's name in messages.
    pub(crate) name: &'a str,
    /// `None` if it has no mark yet, or the sink was not a file that is appended to.
    pub(crate) position: Option<FilePosition>,
    /// Whether the run that stored it has ended: what is behind the position is not of that run.
    pub(crate) is_ended: bool,
}

/// The target that a sink writes to.
pub(crate) trait SinkTarget: Send {
    /// Prepares what the target contains for being appended to; called once, before the other
    /// methods.
    fn begin(&mut self, _: &Begin<'_>) -> Result<()> {
        Ok(())
    }

    /// Writes all bytes, which are complete lines, or complete members for a compressed sink.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Sets the line of column names, compressed as the sink requires, with which each output begins.
    /// In a new output, the first write begins with it.
    fn set_header(&mut self, _: &[u8]) {}

    /// Sets what interrupts the target's own waits.
    fn attach(&mut self, _: &Wake) {}

    /// Whether the output appears only with [`Self::finish`].
    fn appears_whole(&self) -> bool {
        false
    }

    /// Keeps the output so far under another name, if it only appears with [`Self::finish`].
    fn keep_part(self: Box<Self>) -> io::Result<Option<PathBuf>> {
        Ok(None)
    }

    /// Records that the existing content is only a header.
    fn set_without_events(&mut self) {}

    /// The beginning of the existing content that is appended to.
    fn first_bytes(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// The file, and how much of it is written, if it is appended to.
    fn position(&self) -> Option<FilePosition> {
        None
    }

    /// Sets when the file is rotated, if it is appended to.
    fn set_rotation(&mut self, _: Rotation) {}

    /// Whether the file is to be rotated at this time, or before `size` more bytes are written.
    fn is_rotation_due(&self, _size: usize, _now: SystemTime) -> bool {
        false
    }

    /// When the file is to be rotated even if nothing is written.
    fn next_rotation(&self) -> Option<SystemTime> {
        None
    }

    /// Renames the file, and begins the next one.
    fn rotate(&mut self, _now: SystemTime) -> io::Result<()> {
        Ok(())
    }

    /// Removes rotated files that are not to be kept, and not in use by the run; returns a warning if
    /// that fails.
    fn remove_old(&self, _is_in_use: &dyn Fn(&FileIdentity) -> bool) -> Option<String> {
        None
    }

    /// Makes the output final after a successful run. Without it, dropping the target removes what
    /// can be removed.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl Sink {
    /// Opens the output that `text` names: `-` is standard output, `null` discards everything,
    /// `tcp://HOST:PORT` is a connection, anything else a file, compressed if its name ends in
    /// `.gz` or `.zst`. A suffix of an unsupported format, such as `.parquet` or `.bz2`, is
    /// refused.
    ///
    /// The file of an [`Extent::Finite`] stream replaces an existing one when the run has
    /// succeeded; the file of an [`Extent::Endless`] stream is appended to.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn open(text: &str, extent: Extent) -> Result<Self> {
        Self::open_with(text, extent, TcpOptions::default())
    }

    /// [`Self::open`], with options for a connection.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn open_with(text: &str, extent: Extent, tcp: TcpOptions) -> Result<Self> {
        match text {
            "-" => Self::stdout(),
            "null" => Ok(Self::null()),
            _ => match text.strip_prefix("tcp://") {
                Some(address) => Self::tcp(address, tcp),
                None => {
                    Self::check_name(text)?;
                    Self::file(Path::new(text), extent)
                }
            },
        }
    }

    /// Checks only the text, as [`Self::open`] does, before anything is opened: refuses the suffix
    /// of an unsupported format, and a name that is similar to `-` or `null`.
    ///
    /// # Errors
    /// An error of kind [`ErrorKind::Misuse`](crate::ErrorKind::Misuse), with a hint what to write
    /// instead.
    pub fn check_name(text: &str) -> Result<()> {
        if matches!(text, "-" | "null") || text.starts_with("tcp://") {
            return Ok(());
        }
        for (word, meant) in [
            ("stdout", "-"),
            ("stdin", "-"),
            ("stderr", "-"),
            ("null", "null"),
        ] {
            if text.eq_ignore_ascii_case(word) {
                return Err(Error::ambiguous_output(text, meant));
            }
        }
        match unsupported::of_name(Path::new(text)) {
            Some(unsupported) => Err(Error::unsupported_output(text, unsupported)),
            None => Ok(()),
        }
    }

    /// Checks an output before it is opened, as [`Self::open`] and a run do: its name, that the folder
    /// of a file exists, and that it is neither one of the `inputs` nor one of the `others`.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn check_place(text: &str, inputs: &[&str], others: &[&str]) -> Result<()> {
        Self::check_name(text)?;
        if matches!(text, "-" | "null") || text.starts_with("tcp://") {
            return Ok(());
        }
        let path = Path::new(text);
        file::check_place(path).map_err(|error| Error::open_output(text, error))?;
        let Some(identity) = FileIdentity::of_path(path) else {
            return Ok(());
        };
        let is_it =
            |other: &&&str| FileIdentity::of_path(Path::new(other)).as_ref() == Some(&identity);
        if let Some(input) = inputs.iter().find(is_it) {
            return Err(Error::output_is_input(text, input));
        }
        match others.iter().find(is_it) {
            Some(other) => Err(Error::outputs_are_one(other, text)),
            None => Ok(()),
        }
    }

    /// Standard output; if its reader is gone, the run ends normally.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn stdout() -> Result<Self> {
        let name = "standard output";
        // Bypasses the standard library's buffer, which would flush at each line of a batch.
        let fd = io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Error::open_output(name, error))?;
        let file = File::from(fd);
        let identity = file
            .metadata()
            .ok()
            .as_ref()
            .and_then(FileIdentity::of_metadata);
        let mut sink = Self::new(name, Box::new(Stdout(file)));
        sink.broken_pipe = BrokenPipe::End;
        sink.identity = identity;
        Ok(sink)
    }

    /// A sink that counts bytes and discards them.
    pub fn null() -> Self {
        Self::new("null", Box::new(Null))
    }

    /// A file, whatever its path looks like (`-` is a file here); see [`Self::open`].
    ///
    /// # Errors
    /// When the file, or the temporary file next to it, cannot be created.
    pub fn file(path: &Path, extent: Extent) -> Result<Self> {
        let name = path.display().to_string();
        let target = file::check_place(path).and_then(|()| file::open(path, extent));
        let target = target.map_err(|error| Error::open_output(&name, error))?;
        let mut sink = Self::new(name, target);
        sink.compression = Compression::of_path(path);
        sink.identity = FileIdentity::of_path(path);
        Ok(sink)
    }

    /// A connection to `HOST:PORT`. If it is lost, it is opened again and the last lines are sent
    /// again, according to the options; [`Summary::reconnects`](crate::Summary) counts this. Each
    /// connection begins with the CSV column names, if there are any.
    ///
    /// # Errors
    /// When the first connection fails.
    pub fn tcp(address: &str, options: TcpOptions) -> Result<Self> {
        let name = format!("tcp://{address}");
        let reconnects = Arc::default();
        let target = tcp::Connection::open(address, options, Arc::clone(&reconnects))
            .map_err(|error| Error::open_output(&name, error))?;
        let mut sink = Self::new(name, Box::new(target));
        sink.reconnects = reconnects;
        Ok(sink)
    }

    /// Any writer; `finish` gets it back after a successful run. Otherwise, for example when a run
    /// fails, it is dropped.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use lookaside_stream::{
    ///     Flow, FormatOptions, Identity, InputFormat, OutputFormat, RunOptions, Sink, Source,
    /// };
    ///
    /// let options = FormatOptions::new();
    /// let flow = Flow::new(InputFormat::new("kv", &options)?, OutputFormat::new("json", &options)?);
    /// let source = Source::new().with_reader("request", &b"a=1\n"[..]);
    /// let (sender, receiver) = mpsc::channel();
    /// let sink = Sink::writer("answer", Vec::new(), move |bytes| {
    ///     sender.send(bytes).map_err(std::io::Error::other)
    /// });
    /// flow.run(source, vec![Identity], sink, RunOptions::default())?;
    /// assert_eq!(receiver.recv()?, b"{\"a\":\"1\"}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn writer<W: Write + Send + 'static>(
        name: &str,
        writer: W,
        finish: impl FnOnce(W) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let finish = Box::new(finish);
        Self::new(name, Box::new(Writer { writer, finish }))
    }

    /// A sink of messages, whose metadata is `meta` unless the model sets it.
    pub fn messages(name: &str, sink: Box<dyn MessageSink>, meta: ResultMeta) -> Self {
        Self::of_target(name, Target::Messages { sink, meta })
    }

    pub(crate) fn new(name: impl Into<String>, target: Box<dyn SinkTarget>) -> Self {
        Self::of_target(name, Target::Bytes(target))
    }

    fn of_target(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            compression: Compression::Plain,
            target,
            size: 0,
            closed: false,
            broken_pipe: BrokenPipe::Fail,
            identity: None,
            rotates: false,
            reconnects: Arc::default(),
        }
    }

    /// The same sink with its target wrapped.
    #[cfg(test)]
    pub(crate) fn wrapped(
        self,
        wrap: impl FnOnce(Box<dyn SinkTarget>) -> Box<dyn SinkTarget>,
    ) -> Self {
        let Target::Bytes(target) = self.target else {
            panic!("a sink of bytes is wrapped");
        };
        Self {
            target: Target::Bytes(wrap(target)),
            ..self
        }
    }

    /// The sink's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the bytes given to `write` must be compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Sets when the file of this sink is rotated: it is renamed to a name with the UTC time of its
    /// end, `out-20261128T103000Z.json` for `out.json`, and another file begins. This happens between
    /// batches, so that each file has complete lines, and, at its times, also while there are no
    /// events. A file without events is not rotated.
    ///
    /// # Errors
    /// An error of kind [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if this is not the file of an
    /// [`Extent::Endless`] stream, or the rotation has no size and no time, or a time of less than a
    /// second.
    pub fn rotating(mut self, rotation: Rotation) -> Result<Self> {
        match (rotation.size, rotation.every) {
            (None, None) => return Err(Error::rotation_without_condition()),
            (_, Some(every)) if every < Duration::from_secs(1) => {
                return Err(Error::rotation_too_often());
            }
            _ => {}
        }
        if !self.is_appended_to() {
            return Err(Error::not_rotatable(&self.name, self.appears_whole()));
        }
        if let Target::Bytes(target) = &mut self.target {
            target.set_rotation(rotation);
        }
        self.rotates = true;
        Ok(self)
    }

    /// Whether it is a file that is appended to: that of an [`Extent::Endless`] stream.
    pub fn is_appended_to(&self) -> bool {
        self.position().is_some()
    }

    /// Whether it is rotated.
    pub(crate) fn rotates(&self) -> bool {
        self.rotates
    }

    /// Prepares what the output contains for being appended to, before anything is written.
    pub(crate) fn begin(
        &mut self,
        checkpoint: Option<Recorded<'_>>,
        ends: RecordEnds,
        warn: &dyn Fn(&str),
    ) -> Result<()> {
        let Target::Bytes(target) = &mut self.target else {
            return Ok(());
        };
        let name = &self.name;
        target.begin(&Begin {
            name,
            checkpoint,
            ends,
            warn,
        })
    }

    /// The file, and how much of it is written, if it is appended to.
    pub(crate) fn position(&self) -> Option<FilePosition> {
        match &self.target {
            Target::Bytes(target) => target.position(),
            Target::Messages { .. } => None,
        }
    }

    /// Whether the file is to be rotated at this time, or before `size` more bytes are written.
    pub(crate) fn is_rotation_due(&self, size: usize, now: SystemTime) -> bool {
        match &self.target {
            Target::Bytes(target) => target.is_rotation_due(size, now),
            Target::Messages { .. } => false,
        }
    }

    /// When the file is to be rotated even if nothing is written.
    pub(crate) fn next_rotation(&self) -> Option<SystemTime> {
        match &self.target {
            Target::Bytes(target) => target.next_rotation(),
            Target::Messages { .. } => None,
        }
    }

    /// Renames the file, and begins the next one.
    pub(crate) fn rotate(&mut self, now: SystemTime) -> Result<()> {
        match &mut self.target {
            Target::Bytes(target) => {
                let rotated = target.rotate(now);
                rotated.map_err(|error| Error::rotate_output(&self.name, error))
            }
            Target::Messages { .. } => Ok(()),
        }
    }

    /// Removes rotated files that are not to be kept, and not in use by the run; returns a warning if
    /// that fails.
    pub(crate) fn remove_old(&self, is_in_use: &dyn Fn(&FileIdentity) -> bool) -> Option<String> {
        match &self.target {
            Target::Bytes(target) => target.remove_old(is_in_use),
            Target::Messages { .. } => None,
        }
    }

    /// Sets the line of column names with which each output begins.
    pub(crate) fn set_header(&mut self, header: &str) -> Result<()> {
        let mut bytes = header.as_bytes().to_vec();
        self.compression
            .compressor()
            .and_then(|mut compressor| compressor.compress(&mut bytes))
            .map_err(Error::compress)?;
        if let Target::Bytes(target) = &mut self.target {
            target.set_header(&bytes);
        }
        Ok(())
    }

    /// Sets what interrupts the sink's waits: those of a connection end with the run, those of a
    /// sink of messages when the run gives up what is not delivered.
    pub(crate) fn attach(&mut self, wake: &Wake, give_up: &StopFlag) {
        match &mut self.target {
            Target::Bytes(target) => target.attach(wake),
            Target::Messages { sink, .. } => sink.attach(give_up),
        }
    }

    /// Records that the existing content is only a header, so that it is not rotated.
    pub(crate) fn set_without_events(&mut self) {
        if let Target::Bytes(target) = &mut self.target {
            target.set_without_events();
        }
    }

    /// Whether it takes messages, not bytes.
    pub(crate) fn takes_messages(&self) -> bool {
        matches!(self.target, Target::Messages { .. })
    }

    /// The metadata of messages, if it takes them.
    pub(crate) fn result_meta(&self) -> Option<&ResultMeta> {
        match &self.target {
            Target::Bytes(_) => None,
            Target::Messages { meta, .. } => Some(meta),
        }
    }

    /// A function that returns the sink's reconnects, also after the sink is dropped.
    pub(crate) fn reconnects(&self) -> impl Fn() -> Reconnects + use<> {
        let reconnects = Arc::clone(&self.reconnects);
        move || *reconnects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that is written, if it is one.
    pub(crate) fn identity(&self) -> Option<&FileIdentity> {
        self.identity.as_ref()
    }

    /// Whether it writes to this file now.
    pub(crate) fn writes_to(&self, file: &FileIdentity) -> bool {
        match self.position() {
            Some(FilePosition { identity, .. }) => {
                *file == FileIdentity::Existing(identity.device, identity.inode)
            }
            None => self.identity.as_ref() == Some(file),
        }
    }

    /// Whether both sinks would overwrite each other in one file. Standard output twice does not:
    /// it is one descriptor with one position.
    pub(crate) fn clashes_with(&self, other: &Self) -> bool {
        let are_stdout = [self, other].map(|sink| sink.broken_pipe == BrokenPipe::End);
        self.identity.is_some() && self.identity == other.identity && are_stdout != [true; 2]
    }

    /// Whether the output appears only with [`Self::finish`].
    pub(crate) fn appears_whole(&self) -> bool {
        match &self.target {
            Target::Bytes(target) => target.appears_whole(),
            Target::Messages { .. } => false,
        }
    }

    /// Whether the reader of standard output is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes complete lines, compressed as [`Self::compression`] requires.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() || self.closed {
            return Ok(());
        }
        let Target::Bytes(target) = &mut self.target else {
            panic!("a sink of messages takes messages");
        };
        match target.write(bytes) {
            Ok(()) => {
                self.size += bytes.len() as u64;
                Ok(())
            }
            Err(error)
                if error.kind() == io::ErrorKind::BrokenPipe
                    && self.broken_pipe == BrokenPipe::End =>
            {
                self.closed = true;
                Ok(())
            }
            Err(error) => Err(Error::write_output(&self.name, error)),
        }
    }

    /// Writes messages to a sink of messages.
    pub(crate) fn write_messages(
        &mut self,
        messages: &Messages,
        receipt: &Arc<Receipt>,
    ) -> Result<Written> {
        if messages.is_empty() {
            return Ok(Written::Taken);
        }
        let Target::Messages { sink, .. } = &mut self.target else {
            panic!("a sink of bytes takes bytes");
        };
        Written::of(sink.write(messages, receipt), &self.name)
    }

    /// Passes the position after a block on, for sinks of messages that store it.
    pub(crate) fn end_block(&mut self, mark: &Mark, receipt: &Arc<Receipt>) -> Result<Written> {
        match &mut self.target {
            Target::Bytes(_) => Ok(Written::Taken),
            Target::Messages { sink, .. } => Written::of(sink.end_block(mark, receipt), &self.name),
        }
    }

    /// Moves out the messages that the broker will never accept.
    pub(crate) fn take_refused(&mut self) -> Vec<RefusedMessage> {
        match &mut self.target {
            Target::Bytes(_) => Vec::new(),
            Target::Messages { sink, .. } => sink.take_refused(),
        }
    }

    /// Fails if nothing more can be written.
    pub(crate) fn check(&mut self) -> Result<()> {
        match &mut self.target {
            Target::Bytes(_) => Ok(()),
            Target::Messages { sink, .. } => {
                Settled::of(sink.wait_ready(Duration::ZERO), &self.name).map(drop)
            }
        }
    }

    /// Whether there is room for a write; waits a while for that.
    pub(crate) fn wait_ready(&mut self) -> Result<Settled> {
        match &mut self.target {
            Target::Bytes(_) => Ok(Settled::Yes),
            Target::Messages { sink, .. } => Settled::of(sink.wait_ready(WAIT), &self.name),
        }
    }

    /// Whether all messages that were written are delivered or refused; waits a while for that.
    pub(crate) fn flush(&mut self) -> Result<Settled> {
        match &mut self.target {
            Target::Bytes(_) => Ok(Settled::Yes),
            Target::Messages { sink, .. } => Settled::of(sink.flush(WAIT), &self.name),
        }
    }

    /// The beginning of the existing content that is appended to, decompressed; `None` for a new
    /// output.
    pub(crate) fn first_bytes(&self) -> Result<Option<Vec<u8>>> {
        let Target::Bytes(target) = &self.target else {
            return Ok(None);
        };
        let bytes = target.first_bytes();
        bytes.map_err(|error| Error::open_output(&self.name, error))
    }

    /// Keeps the partial content of an output that does not become final; returns its path, if
    /// there is any.
    pub(crate) fn keep_part(self) -> Result<Option<PathBuf>> {
        if self.size == 0 {
            return Ok(None);
        }
        let Self { name, target, .. } = self;
        let Target::Bytes(target) = target else {
            return Ok(None);
        };
        target
            .keep_part()
            .map_err(|error| Error::write_output(&name, error))
    }

    /// Writes an empty member into a compressed output that is empty, since an empty file is not a
    /// gzip file.
    pub(crate) fn complete(&mut self) -> Result<()> {
        let size = self.position().map_or(self.size, |position| position.size);
        if size == 0 && self.compression != Compression::Plain {
            let mut member = Vec::new();
            self.compression
                .compressor()
                .and_then(|mut compressor| compressor.compress_member(&mut member))
                .map_err(|error| Error::write_output(&self.name, error))?;
            self.write(&member)?;
        }
        Ok(())
    }

    /// Makes the output final, after [`Self::complete`].
    pub(crate) fn finish(self) -> Result<()> {
        let Self { name, target, .. } = self;
        let Target::Bytes(target) = target else {
            return Ok(());
        };
        target
            .finish()
            .map_err(|error| Error::write_output(&name, error))
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink")
            .field("name", &self.name)
            .field("compression", &self.compression)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// Whether a sink of messages took what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Written {
    Taken,
    /// The run gave up while the sink waited.
    GivenUp,
}

impl Written {
    fn of(written: io::Result<()>, name: &str) -> Result<Self> {
        match written {
            Ok(()) => Ok(Self::Taken),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Self::GivenUp),
            Err(error) => Err(Error::write_output(name, error)),
        }
    }
}

/// Whether what a sink of messages waited for has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Settled {
    Yes,
    NotYet,
    /// The run gave up while the sink waited.
    GivenUp,
}

impl Settled {
    fn of(waited: io::Result<bool>, name: &str) -> Result<Self> {
        match waited {
            Ok(true) => Ok(Self::Yes),
            Ok(false) => Ok(Self::NotYet),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Self::GivenUp),
            Err(error) => Err(Error::write_output(name, error)),
        }
    }
}

struct Stdout(File);

impl SinkTarget for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

struct Writer<W> {
    writer: W,
    finish: Box<dyn FnOnce(W) -> io::Result<()> + Send>,
}

impl<W: Write + Send> SinkTarget for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        (self.finish)(self.writer)
    }
}

struct Null;

impl SinkTarget for Null {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
