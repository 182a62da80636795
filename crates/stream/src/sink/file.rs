//! Files as sinks: renamed into place when complete, or extended by each batch.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::SinkTarget;
use super::growing::GrowingFile;
use crate::Extent;
use crate::file_identity::folder_of;

/// Read and write for all, restricted by the umask, as is usual for new files.
const FILE_MODE: u32 = 0o666;

/// The suffix of an incomplete file.
const PART_SUFFIX: &str = ".part";

/// Checks that a file can be at this path, without creating it.
pub(super) fn check_place(path: &Path) -> io::Result<()> {
    // `Path` ignores a trailing slash, which means a folder.
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::metadata(folder_of(path)).map(drop)
        }
        Err(error) => Err(error),
    }
}

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
        let mode = fs::metadata(path).map_or(FILE_MODE, |metadata| metadata.permissions().mode());
        let mut prefix = OsString::from(".");
        prefix.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
        prefix.push(".");
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(PART_SUFFIX)
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder_of(path))?;
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
        let Self { mut file, path } = *self;
        for number in 0.. {
            let mut part = path.clone().into_os_string();
            part.push(PART_SUFFIX);
            if number > 0 {
                part.push(format!("-{number}"));
            }
            // Whatever has the name already, such as the part of an earlier run, stays.
            match file.persist_noclobber(&part) {
                Ok(_) => return Ok(Some(part.into())),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    file = error.file;
                }
                Err(error) => return Err(error.error),
            }
        }
        unreachable!("a folder has fewer files than there are numbers")
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.persist(&self.path)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_a_name_that_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        fs::write(folder.path().join("out.json.part"), "of another program").unwrap();
        for (text, name) in [("a\n", "out.json.part-1"), ("b\n", "out.json.part-2")] {
            let mut file = Box::new(WholeFile::create(&path).unwrap());
            file.write(text.as_bytes()).unwrap();
            let kept = file.keep_part().unwrap().unwrap();
            assert_eq!(kept, folder.path().join(name));
            assert_eq!(fs::read_to_string(kept).unwrap(), text);
        }
        let foreign = fs::read_to_string(folder.path().join("out.json.part")).unwrap();
        assert_eq!(foreign, "of another program");
    }
}
