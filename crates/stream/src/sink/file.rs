//! Files as sinks: renamed into place when complete, or extended by each batch.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::SinkTarget;
use crate::content::content;
use crate::{Compression, Extent, Progress};

/// Read and write for all, restricted by the umask, as is usual for new files.
const FILE_MODE: u32 = 0o666;

/// The suffix of an incomplete file.
const PART_SUFFIX: &str = ".part";

/// The number of bytes that are read from a file that is appended to, for the columns in its first
/// record.
const FIRST_SIZE_MAX: u64 = 64 << 10;

/// Opens the target for the path and the extent of the stream.
pub(super) fn open(path: &Path, extent: Extent) -> io::Result<Box<dyn SinkTarget>> {
    // A symbolic link is kept, and its target is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let file_type = fs::metadata(path).map(|metadata| metadata.file_type()).ok();
    let device = file_type.is_some_and(|kind| kind.is_char_device() || kind.is_fifo());
    if device {
        let file = OpenOptions::new().write(true).open(path)?;
        return Ok(Box::new(Device(file)));
    }
    Ok(match extent {
        Extent::Finite => Box::new(WholeFile::create(path)?),
        Extent::Endless => Box::new(GrowingFile::open(path)?),
    })
}

/// A file that appears under its name only when it is complete.
///
/// Until then it is a hidden file in the same folder, so that the rename is within one file system;
/// if it is dropped without [`SinkTarget::finish`], it is removed.
struct WholeFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl WholeFile {
    fn create(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mode = fs::metadata(path).map_or(FILE_MODE, |metadata| metadata.permissions().mode());
        let mut prefix = OsString::from(".");
        prefix.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
        prefix.push(".");
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(PART_SUFFIX)
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)?;
        let path = path.to_path_buf();
        Ok(Self { file, path })
    }
}

impl SinkTarget for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_file_mut().write_all(bytes)
    }

    fn appears_whole(&self) -> bool {
        true
    }

    fn keep_part(self: Box<Self>) -> io::Result<Option<PathBuf>> {
        let mut path = self.path.into_os_string();
        path.push(PART_SUFFIX);
        self.file.persist(&path)?;
        Ok(Some(path.into()))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.persist(&self.path)?;
        Ok(())
    }
}

/// A file that grows by complete batches; a partially written batch is truncated away.
struct GrowingFile {
    file: File,
    path: PathBuf,
    /// The size before the run.
    size_before: u64,
    size: u64,
    /// Whether the previous content ends within a line, so that a line end must be written first.
    owes_line_end: bool,
}

impl GrowingFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let size_before = file.seek(SeekFrom::End(0))?;
        let mut owes_line_end = false;
        if size_before > 0 && Compression::of_path(path) == Compression::Plain {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            owes_line_end = last != *b"\n";
        }
        let path = path.to_path_buf();
        Ok(Self {
            file,
            path,
            size_before,
            size: size_before,
            owes_line_end,
        })
    }
}

impl SinkTarget for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.owes_line_end {
            // Not earlier, so that a refused run does not change the file.
            self.file.write_all(b"\n")?;
            self.size += 1;
            self.owes_line_end = false;
        }
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.size += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Only the first error is reported; if the file cannot be truncated either, that
                // error is ignored.
                let _ = self.file.set_len(self.size);
                Err(error)
            }
        }
    }

    fn first_bytes(&self) -> io::Result<Option<Vec<u8>>> {
        if self.size_before == 0 {
            return Ok(None);
        }
        // Opened again, because the current descriptor is at the end and appends.
        let content = content(
            File::open(&self.path)?,
            Compression::of_path(&self.path),
            &Progress::new(),
        )?;
        let mut bytes = Vec::new();
        content.take(FIRST_SIZE_MAX).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe or device with a path, which is not renamed.
struct Device(File);

impl SinkTarget for Device {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
