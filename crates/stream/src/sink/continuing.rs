//! How a run continues a file that an earlier one has appended to, maybe until it was killed.
//!
//! With the checkpoint of a run that did not end, the file is cut back to the size that belongs to the
//! position of the input, so that what is read again is not in it twice. Otherwise, only an incomplete
//! record at its end is cut off, and only if a run that was killed has left it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::Begin;
use super::growing::GrowingFile;
use super::last_write::unfinished_from;
use super::torn::complete_size;
use crate::file_identity::{FilePosition, Identity, folder_of, identity};
use crate::{Compression, Error, Result};

/// How often, and after which pauses, a file is tried to be shared with a run that is beginning.
const SHARE_COUNT_MAX: u32 = 1000;
const SHARE_PAUSE: Duration = Duration::from_millis(10);

impl GrowingFile {
    /// Cuts off what does not belong to the complete results before this run.
    pub(super) fn continue_previous(&mut self, begin: &Begin<'_>) -> Result<()> {
        let failed = |error| Error::open_output(begin.name, error);
        let is_exclusive = begin.checkpoint.is_some() || self.rotation.is_some();
        if !self.try_lock() {
            if is_exclusive {
                return Err(Error::output_in_use(begin.name));
            }
            self.share(begin)?;
        }
        let size = self.file.metadata().map_err(failed)?.len();
        self.size = size;
        let recorded = begin.checkpoint.as_ref();
        let complete = match recorded.and_then(|recorded| recorded.position) {
            Some(position) => self.recorded_size(position, begin)?,
            None if self.is_locked => self.complete_size(begin).map_err(failed)?,
            None => size,
        };
        if complete < size {
            self.file.set_len(complete).map_err(failed)?;
        }
        self.continue_from(complete).map_err(failed)?;
        self.owes_line_end = self.is_within_line(complete).map_err(failed)?;
        if self.owes_line_end {
            (begin.warn)(&format!(
                "output `{}` does not end with a line end; one is added",
                begin.name
            ));
        }
        if self.is_locked && !is_exclusive {
            self.is_locked = false;
            self.share(begin)?;
        }
        Ok(())
    }

    /// Appends together with other runs. One that begins has the file for itself for a moment.
    fn share(&self, begin: &Begin<'_>) -> Result<()> {
        for _ in 0..SHARE_COUNT_MAX {
            match self.file.try_lock_shared() {
                Err(fs::TryLockError::WouldBlock) => thread::sleep(SHARE_PAUSE),
                // As in `try_lock`.
                Ok(()) | Err(fs::TryLockError::Error(_)) => return Ok(()),
            }
        }
        Err(Error::output_in_use(begin.name))
    }

    /// The size that a checkpoint records, after checking that this is the file.
    fn recorded_size(&self, recorded: FilePosition, begin: &Begin<'_>) -> Result<u64> {
        let checkpoint = begin.checkpoint.as_ref().map_or("", |it| it.name);
        let is_ended = begin.checkpoint.as_ref().is_some_and(|it| it.is_ended);
        let failed = |error| Error::open_output(begin.name, error);
        if recorded.identity == self.identity {
            if self.size < recorded.size {
                return Err(Error::output_shrank(
                    begin.name,
                    self.size,
                    recorded.size,
                    checkpoint,
                ));
            }
            if is_ended {
                // What follows was appended by others.
                return self.complete_size(begin).map_err(failed);
            }
            warn_of_cut(begin, begin.name, self.size - recorded.size);
            return Ok(recorded.size);
        }
        if self.size > 0 {
            return Err(Error::output_is_another(begin.name, checkpoint));
        }
        // It was rotated, or moved, before anything was written to this one.
        match self.find(recorded.identity).map_err(failed)? {
            // As the error of the other case has advised.
            Some((path, size)) if size < recorded.size => (begin.warn)(&format!(
                "output `{}` begins anew; `{}` has {size} bytes, and {} had been written when \
                 checkpoint `{checkpoint}` was stored, so that results are missing",
                begin.name,
                path.display(),
                recorded.size
            )),
            Some((path, size)) if size > recorded.size && !is_ended => {
                let name = path.display().to_string();
                let file = OpenOptions::new().write(true).open(&path);
                file.and_then(|file| file.set_len(recorded.size))
                    .map_err(|error| Error::open_output(&name, error))?;
                warn_of_cut(begin, &name, size - recorded.size);
            }
            Some(_) => {}
            None if recorded.size > 0 => (begin.warn)(&format!(
                "output `{}` begins anew, because the file that checkpoint `{checkpoint}` refers to \
                 is not there any more; results that were written after the checkpoint are written \
                 again",
                begin.name
            )),
            None => {}
        }
        Ok(0)
    }

    /// The file with this identity in the folder, and its size.
    fn find(&self, wanted: Identity) -> io::Result<Option<(PathBuf, u64)>> {
        for entry in fs::read_dir(folder_of(&self.path))? {
            let entry = entry?;
            // Not that of the target of a symbolic link. It may have been removed since.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
                && identity(&metadata) == wanted
            {
                return Ok(Some((entry.path(), metadata.len())));
            }
        }
        Ok(None)
    }

    /// The size without an incomplete record or member that a killed run has left.
    fn complete_size(&self, begin: &Begin<'_>) -> io::Result<u64> {
        // Another descriptor, since the search moves the position.
        let file = File::open(&self.path)?;
        let Some(start) = unfinished_from(&file)? else {
            return Ok(self.size);
        };
        let compression = Compression::of_path(&self.path);
        let complete = complete_size(&file, start, compression, begin.ends)?;
        let size = self.size - complete;
        if size > 0 {
            let what = match compression {
                Compression::Plain => "an incomplete record",
                Compression::Gzip | Compression::Zstd => "an incomplete compressed block",
            };
            (begin.warn)(&format!(
                "{what} of {size} bytes is cut off the end of output `{}`, which a run has left that \
                 was killed",
                begin.name
            ));
        }
        Ok(complete)
    }

    fn is_within_line(&self, size: u64) -> io::Result<bool> {
        if size == 0 || Compression::of_path(&self.path) != Compression::Plain {
            return Ok(false);
        }
        let mut last = [0];
        self.file.read_exact_at(&mut last, size - 1)?;
        Ok(last != *b"\n")
    }
}

fn warn_of_cut(begin: &Begin<'_>, name: &str, size: u64) {
    if size > 0 {
        (begin.warn)(&format!(
            "{size} bytes are cut off the end of output `{name}`, behind the size that the checkpoint \
             records: results that a run has left that did not end, which are written again, and \
             what other programs have appended"
        ));
    }
}
