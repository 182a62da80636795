//! Sources: where the bytes of a run come from.
//!
//! A source is a list of inputs that are read one after the other. Whoever reads gets blocks: whole
//! records of one input, cut so that a worker can decode them on its own.

mod block;
mod checkpoint;
mod fingerprint;
mod follow;
mod pipe;
mod readable;
mod reader;
mod rotation;
mod tcp;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use block::{Block, BlockRead, Skip, Skipped};
pub use checkpoint::{Checkpoint, Mark};
pub(crate) use reader::Reader;

use self::rotation::Search;
use crate::compression::Compression;
use crate::place::Place;
use crate::wake::Wait;
use crate::{Error, Extent, Result, unsupported};

/// How long a block that has whole records waits for more when its input falls silent. Short enough
/// for a person at a terminal; long enough that a fast writer of short lines fills blocks with
/// thousands of them.
const LINGER: Duration = Duration::from_millis(1);

/// Where the bytes of a run come from: files, standard input, a TCP listener.
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
    /// A pipe or device under a path. It stays open from the check on: closing a pipe in between
    /// would tell its writer that nobody reads.
    Pipe(PathBuf, File),
    Follow(PathBuf, File, Option<Mark>),
    Stdin(File, Extent),
    Listener(TcpListener, String),
    Reader(String, Box<dyn Read + Send>),
    Live(String, Box<dyn LiveRead>),
}

/// Bytes that come as somebody sends them, with pauses.
///
/// A run does not let the events that are whole wait through a pause.
pub trait LiveRead: Send {
    /// Reads some bytes, or 0 at the end. `None` if none came within `patience`; without one it waits
    /// as long as it takes.
    ///
    /// # Errors
    /// When there is no way on.
    fn read_within(
        &mut self,
        room: &mut [u8],
        patience: Option<Duration>,
    ) -> io::Result<Option<usize>>;
}

impl Source {
    /// A source without inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens what each text names: `-` is standard input, `tcp://ADDRESS:PORT` a listener, all else
    /// a file, decompressed if it is gzip or zstd.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn open<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut source = Self::new();
        for text in texts {
            let text = text.as_ref();
            source = match (text, text.strip_prefix("tcp://")) {
                ("-", _) => source.with_stdin()?,
                (_, Some(address)) => source.with_listener(address)?,
                (path, None) => source.with_file(path)?,
            };
        }
        Ok(source)
    }

    /// Adds a file, decompressed if it is gzip or zstd: regular, a named pipe or a device.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn with_file(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let name = path.display().to_string();
        let file = open_file(&path).map_err(|error| Error::open_input(&name, error))?;
        refuse_unsupported(path.as_ref(), &file)?;
        self.inputs.push(match is_regular(&file) {
            // Its turn comes later, and there may be more files than descriptors.
            true => Opened::File(path),
            false => Opened::Pipe(path, file),
        });
        Ok(self)
    }

    /// Adds a file that is read to its end and then followed as it grows and is rotated; inputs
    /// after it are never reached.
    ///
    /// # Errors
    /// When it cannot be read, is not a regular file, or is compressed by its name.
    pub fn with_followed(self, path: impl AsRef<Path>) -> Result<Self> {
        self.with_followed_from(path, None)
    }

    /// [`Self::with_followed`], from where an earlier run left off: in the file that it read, also if
    /// that was renamed within its folder since. Until another file has its name, `path` need not
    /// exist.
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
            // Renamed, and its successor is not there yet.
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
    /// When it is closed, or a file that is not read.
    pub fn with_stdin(mut self) -> Result<Self> {
        let (file, extent) = stdin().map_err(|error| Error::open_input("standard input", error))?;
        refuse_unsupported(Path::new("standard input"), &file)?;
        self.inputs.push(Opened::Stdin(file, extent));
        Ok(self)
    }

    /// Adds a TCP listener on `ADDRESS:PORT`; it never ends by itself.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn with_listener(mut self, address: &str) -> Result<Self> {
        let name = format!("tcp://{address}");
        let listener =
            TcpListener::bind(address).map_err(|error| Error::open_input(&name, error))?;
        self.inputs.push(Opened::Listener(listener, name));
        Ok(self)
    }

    /// Adds anything that can be read; a read that waits does not hear a stop.
    #[must_use]
    pub fn with_reader(mut self, name: &str, reader: impl Read + Send + 'static) -> Self {
        let reader = Box::new(reader);
        self.inputs.push(Opened::Reader(name.to_string(), reader));
        self
    }

    /// Adds what comes with pauses; a read that waits does not hear a stop.
    #[must_use]
    pub fn with_live(mut self, name: &str, reader: impl LiveRead + 'static) -> Self {
        let reader = Box::new(reader);
        self.inputs.push(Opened::Live(name.to_string(), reader));
        self
    }

    /// The address of the first listener, for those who asked for port 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inputs.iter().find_map(|input| match input {
            Opened::Listener(listener, _) => listener.local_addr().ok(),
            _ => None,
        })
    }

    /// How many bytes its files have, before decompression; `None` when something else is among
    /// them, or a file that cannot be looked at.
    pub fn size(&self) -> Option<u64> {
        let sizes = self.inputs.iter().map(|input| match input {
            Opened::File(path) => Some(fs::metadata(path).ok()?.len()),
            Opened::Stdin(file, Extent::Finite) => {
                // Whoever gave it may have read its beginning.
                let position = (&mut &*file).stream_position().ok()?;
                Some(file.metadata().ok()?.len().saturating_sub(position))
            }
            _ => None,
        });
        sizes.sum()
    }

    /// Where a followed file begins that no run has followed yet.
    pub(crate) fn first_mark(&self) -> Option<Mark> {
        let [Opened::Follow(_, file, None)] = &self.inputs[..] else {
            return None;
        };
        Mark::at_start(&file.metadata().ok()?)
    }

    /// The name of the first input that is the file of that place.
    pub(crate) fn input_at(&self, place: &Place) -> Option<String> {
        let is_there = |input: &&Opened| input.place().as_ref() == Some(place);
        self.inputs.iter().find(is_there).map(Opened::name)
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
            | Opened::Listener(..) => true,
        });
        match endless {
            true => Extent::Endless,
            false => Extent::Finite,
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
            Self::Listener(_, name) | Self::Reader(name, _) | Self::Live(name, _) => name.clone(),
        }
    }

    /// The regular file that is read, if it is one.
    fn place(&self) -> Option<Place> {
        match self {
            Self::File(path) => Place::of_path(path),
            Self::Follow(_, file, _) | Self::Stdin(file, _) => {
                Place::of_metadata(&file.metadata().ok()?)
            }
            Self::Pipe(..) | Self::Listener(..) | Self::Reader(..) | Self::Live(..) => None,
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.name()).finish()
    }
}

/// Bytes of one input, one stream of them after the other.
trait Input: Send {
    /// Reads some bytes; waits for the first of them no longer than asked to.
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<Got>;

    /// Where in which file the next byte stands, if that can be found again; which line that is, the
    /// input does not know.
    fn mark(&self) -> Option<Mark> {
        None
    }

    /// The same for the end of the stream before, after [`Got::Next`].
    fn left(&self) -> Option<Mark> {
        None
    }
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing in the time given.
    Idle,
    /// The end of this stream; another follows, with lines of its own.
    Next,
    /// The end.
    End,
    /// Nothing, because the run was asked to end.
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

/// Refuses a file that is nothing that is read here; a pipe shows its content when it is read.
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

/// Standard input past the standard library's buffer.
fn stdin() -> io::Result<(File, Extent)> {
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let extent = match is_regular(&file) {
        true => Extent::Finite,
        false => Extent::Endless,
    };
    Ok((file, extent))
}
