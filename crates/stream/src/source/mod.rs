//! Sources: the inputs of a run.
//!
//! A source is a list of inputs that are read one after the other. It is read in blocks: complete
//! records of one input, which a worker can decode independently.

mod block;
mod checkpoint;
mod follow;
mod octet_counting;
mod pipe;
mod readable;
mod reader;
mod rotation;
mod tcp;
mod udp;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use block::{Block, BlockRead, Skip, Skipped};
pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::OutputPositions;
pub(crate) use reader::Reader;

use self::rotation::Search;
use crate::compression::Compression;
use crate::file_identity::FileIdentity;
use crate::mark::Mark;
use crate::message::MessageSource;
use crate::wake::Wait;
use crate::{Error, Extent, Result, unsupported};

/// How long a block that has complete records waits for more when its input pauses. Short enough
/// for interactive use; long enough that a fast writer of short lines fills blocks with thousands
/// of them.
const LINGER: Duration = Duration::from_millis(1);

/// The inputs of a run: files, standard input, TCP listeners, UDP sockets.
///
/// ```no_run
/// use lookaside_stream::{Extent, Source};
///
/// let source = Source::open(["access.log.1.gz", "access.log"])?;
/// assert_eq!(source.extent(), Extent::Finite);
/// # Ok::<(), lookaside_stream::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Source {
    inputs: Vec<Opened>,
}

/// One input, checked and ready to be read.
enum Opened {
    File(PathBuf),
    /// A pipe or device with a path. It stays open after the check: closing a pipe in between would
    /// signal to its writer that the reader is gone.
    Pipe(PathBuf, File),
    Follow(PathBuf, File, Option<Mark>),
    Stdin(File, Extent),
    Listener(TcpListener, TcpFraming, String),
    Udp(UdpSocket, String),
    Reader(String, Box<dyn Read + Send>),
    Live(String, Box<dyn LiveRead>),
    Messages(String, Box<dyn MessageSource>),
}

/// A source of bytes that are received with pauses.
///
/// A run processes complete events during a pause, without waiting for more.
pub trait LiveRead: Send {
    /// Reads some bytes; returns 0 at the end, and `None` if none were received within `timeout`.
    /// Without `timeout`, it waits indefinitely.
    ///
    /// # Errors
    /// When reading cannot continue.
    fn read_within(
        &mut self,
        room: &mut [u8],
        timeout: Option<Duration>,
    ) -> io::Result<Option<usize>>;
}

impl Source {
    /// A source without inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the inputs that the texts name: `-` is standard input, `tcp://ADDRESS:PORT` a
    /// listener, also with `?framing=octet-counting`, `udp://ADDRESS:PORT` a socket, anything else a
    /// file, decompressed if it is gzip or zstd.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn open<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut source = Self::new();
        for text in texts {
            let text = text.as_ref();
            source = match text.split_once("://") {
                _ if text == "-" => source.with_stdin()?,
                Some(("tcp", address)) => {
                    let (address, framing) = TcpFraming::split(text, address)?;
                    source.with_listener(address, framing)?
                }
                Some(("udp", address)) => source.with_udp(address)?,
                _ => source.with_file(text)?,
            };
        }
        Ok(source)
    }

    /// Adds a regular file, a named pipe or a device, decompressed if it is gzip or zstd.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn with_file(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let name = path.display().to_string();
        let file = open_file(&path).map_err(|error| Error::open_input(&name, error))?;
        refuse_unsupported(path.as_ref(), &file)?;
        self.inputs.push(match is_regular(&file) {
            // It is opened again later, as there may be more files than descriptors.
            true => Opened::File(path),
            false => Opened::Pipe(path, file),
        });
        Ok(self)
    }

    /// Adds a file that is read to its end and then followed as it grows and is rotated; inputs
    /// after it are never read.
    ///
    /// # Errors
    /// When it cannot be read, is not a regular file, or is compressed by its name.
    pub fn with_followed(self, path: impl AsRef<Path>) -> Result<Self> {
        self.with_followed_from(path, None)
    }

    /// [`Self::with_followed`], from the position of an earlier run: in the file that it read, even
    /// if that was renamed within its folder since. Until there is a new file with its name, `path`
    /// need not exist.
    ///
    /// # Errors
    /// As [`Self::with_followed`].
    pub fn with_followed_from(
        mut self,
        path: impl AsRef<Path>,
        mark: Option<Mark>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file = match (open_file(path), mark) {
            // Renamed, and its successor does not exist yet.
            (Err(error), Some(mark)) if error.kind() == io::ErrorKind::NotFound => {
                match rotation::find(path, mark.identity, None) {
                    Ok(Search::Found(file)) => Ok(file),
                    Ok(Search::Absent | Search::Stopped) => Err(error),
                    Err(error) => Err(error),
                }
            }
            (opened, _) => opened,
        };
        let file = file.map_err(|error| Error::open_input(&name, error))?;
        if !is_regular(&file) {
            return Err(Error::not_followable(&name));
        }
        if Compression::of_path(path) != Compression::Plain {
            return Err(Error::not_followable_compressed(&name));
        }
        refuse_unsupported(path, &file)?;
        self.inputs
            .push(Opened::Follow(path.to_path_buf(), file, mark));
        Ok(self)
    }

    /// Adds standard input, decompressed if it is gzip or zstd.
    ///
    /// # Errors
    /// When it is closed, or a file of an unsupported format.
    pub fn with_stdin(mut self) -> Result<Self> {
        let (file, extent) = stdin().map_err(|error| Error::open_input("standard input", error))?;
        refuse_unsupported(Path::new("standard input"), &file)?;
        self.inputs.push(Opened::Stdin(file, extent));
        Ok(self)
    }

    /// Adds a TCP listener on `ADDRESS:PORT`; it never ends by itself.
    ///
    /// # Errors
    /// When listening on the address fails.
    pub fn with_listener(mut self, address: &str, framing: TcpFraming) -> Result<Self> {
        let name = format!("tcp://{address}");
        let listener =
            TcpListener::bind(address).map_err(|error| Error::open_input(&name, error))?;
        self.inputs.push(Opened::Listener(listener, framing, name));
        Ok(self)
    }

    /// Adds a UDP socket on `ADDRESS:PORT`, each of whose datagrams is an event; it never ends by
    /// itself. Datagrams that the system discards because they are not read in time are counted in
    /// [`Figures::datagrams_lost`](crate::Figures::datagrams_lost).
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn with_udp(mut self, address: &str) -> Result<Self> {
        let name = format!("udp://{address}");
        let socket = UdpSocket::bind(address).map_err(|error| Error::open_input(&name, error))?;
        self.inputs.push(Opened::Udp(socket, name));
        Ok(self)
    }

    /// Adds any reader; a blocking read is not interrupted by a stop.
    #[must_use]
    pub fn with_reader(mut self, name: &str, reader: impl Read + Send + 'static) -> Self {
        let reader = Box::new(reader);
        self.inputs.push(Opened::Reader(name.to_string(), reader));
        self
    }

    /// Adds a reader whose bytes are received with pauses; a blocking read is not interrupted by a
    /// stop.
    #[must_use]
    pub fn with_live(mut self, name: &str, reader: impl LiveRead + 'static) -> Self {
        let reader = Box::new(reader);
        self.inputs.push(Opened::Live(name.to_string(), reader));
        self
    }

    /// Adds a source of messages; inputs after one that never ends are never read.
    #[must_use]
    pub fn with_messages(mut self, name: &str, source: Box<dyn MessageSource>) -> Self {
        self.inputs.push(Opened::Messages(name.to_string(), source));
        self
    }

    /// The address of the first listener, for example if its port was given as 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inputs.iter().find_map(|input| match input {
            Opened::Listener(listener, ..) => listener.local_addr().ok(),
            Opened::Udp(socket, _) => socket.local_addr().ok(),
            _ => None,
        })
    }

    /// Whether some of its inputs deliver messages.
    pub(crate) fn has_messages(&self) -> bool {
        let mut inputs = self.inputs.iter();
        inputs.any(|input| matches!(input, Opened::Messages(..)))
    }

    /// The total size of its files in bytes, before decompression; `None` if there are other
    /// inputs, or a file whose metadata cannot be read.
    pub fn size(&self) -> Option<u64> {
        let sizes = self.inputs.iter().map(|input| match input {
            Opened::File(path) => Some(fs::metadata(path).ok()?.len()),
            Opened::Stdin(file, Extent::Finite) => {
                // Another process may have read its beginning.
                let position = (&mut &*file).stream_position().ok()?;
                Some(file.metadata().ok()?.len().saturating_sub(position))
            }
            _ => None,
        });
        sizes.sum()
    }

    /// The initial mark of a followed file that no run has followed yet.
    pub(crate) fn first_mark(&self) -> Option<Mark> {
        let [Opened::Follow(_, file, None)] = &self.inputs[..] else {
            return None;
        };
        Mark::at_start(&file.metadata().ok()?)
    }

    /// The name of the first input that is the file at this place.
    pub(crate) fn input_at(&self, identity: &FileIdentity) -> Option<String> {
        let is_there = |input: &&Opened| input.identity().as_ref() == Some(identity);
        self.inputs.iter().find(is_there).map(Opened::name)
    }

    /// The paths of the inputs that are files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let inputs = self.inputs.iter();
        let paths = inputs.filter_map(|input| match input {
            Opened::File(path) | Opened::Follow(path, ..) => Some(path.clone()),
            _ => None,
        });
        paths.collect()
    }

    /// Whether the source ends by itself: listeners and followed files do not, and pipes may not.
    pub fn extent(&self) -> Extent {
        let endless = self.inputs.iter().any(|input| match input {
            Opened::File(_)
            | Opened::Reader(..)
            | Opened::Live(..)
            | Opened::Stdin(_, Extent::Finite) => false,
            Opened::Pipe(..)
            | Opened::Stdin(_, Extent::Endless)
            | Opened::Follow(..)
            | Opened::Messages(..)
            | Opened::Udp(..)
            | Opened::Listener(..) => true,
        });
        match endless {
            true => Extent::Endless,
            false => Extent::Finite,
        }
    }
}

/// Where events of TCP connections end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpFraming {
    /// At a newline.
    #[default]
    Lines,
    /// After as many bytes as a number before the event states, as in syslog (RFC 6587). What does
    /// not begin with a number ends at a newline.
    OctetCounting,
}

impl TcpFraming {
    /// The address and the framing of the URL `name`, which is `tcp://` and `rest`.
    fn split<'a>(name: &str, rest: &'a str) -> Result<(&'a str, Self)> {
        match rest.split_once('?') {
            None | Some((_, "framing=lines")) => Ok((
                rest.split_once('?').map_or(rest, |(address, _)| address),
                Self::Lines,
            )),
            Some((address, "framing=octet-counting")) => Ok((address, Self::OctetCounting)),
            Some((_, option)) => Err(Error::unknown_listener_option(name, option)),
        }
    }
}

impl Opened {
    fn name(&self) -> String {
        match self {
            Self::File(path) | Self::Pipe(path, _) | Self::Follow(path, ..) => {
                path.display().to_string()
            }
            Self::Stdin(..) => "standard input".to_string(),
            Self::Listener(_, _, name)
            | Self::Udp(_, name)
            | Self::Reader(name, _)
            | Self::Live(name, _)
            | Self::Messages(name, _) => name.clone(),
        }
    }

    /// The regular file that is read, if it is one.
    fn identity(&self) -> Option<FileIdentity> {
        match self {
            Self::File(path) => FileIdentity::of_path(path),
            Self::Follow(_, file, _) | Self::Stdin(file, _) => {
                FileIdentity::of_metadata(&file.metadata().ok()?)
            }
            Self::Pipe(..)
            | Self::Listener(..)
            | Self::Udp(..)
            | Self::Reader(..)
            | Self::Live(..)
            | Self::Messages(..) => None,
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.name()).finish()
    }
}

/// One input: one or several consecutive streams of bytes.
trait Input: Send {
    /// Reads some bytes; waits for the first of them as long as `wait` allows.
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<ReadOutcome>;

    /// The file and offset of the next byte, if a later run can find it; the input does not track
    /// the line.
    fn mark(&self) -> Option<Mark> {
        None
    }

    /// As [`Self::mark`], for the end of the previous stream, after [`ReadOutcome::Next`].
    fn left(&self) -> Option<Mark> {
        None
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadOutcome {
    /// This many bytes, at least one.
    Bytes(usize),
    /// No bytes within the given time.
    Idle,
    /// The end of this stream; another one follows, whose lines are counted from 1.
    Next,
    /// The end of the input.
    End,
    /// No bytes, because the run was stopped.
    Stopped,
}

/// Opens a file for reading without waiting for the other end of a named pipe.
fn open_file(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    if kind.is_fifo() {
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// Refuses a file of an unsupported format; a pipe is checked when it is read.
fn refuse_unsupported(path: &Path, file: &File) -> Result<()> {
    let unsupported = match is_regular(file) {
        true => unsupported::of_file(path, file),
        false => None,
    };
    match unsupported {
        Some(unsupported) => {
            let name = path.display().to_string();
            Err(Error::unsupported_input(&name, unsupported))
        }
        None => Ok(()),
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Standard input, bypassing the standard library's buffer.
fn stdin() -> io::Result<(File, Extent)> {
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let extent = match is_regular(&file) {
        true => Extent::Finite,
        false => Extent::Endless,
    };
    Ok((file, extent))
}
