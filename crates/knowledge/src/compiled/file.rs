//! A file of sections, each with a checksum, that is replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use twox_hash::XxHash3_64;

use super::key::{Key, LAYOUT_VERSION};
use crate::le_bytes::{LeReader, Malformed};

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"LKSDCOMP";

/// Magic, version, number of sections, and key.
const HEAD_SIZE: usize = 8 + 4 + 4 + 16;

/// The size and the checksum of a section in the header.
const ENTRY_SIZE: usize = 8 + 8;

const CHECKSUM_SIZE: usize = 8;

/// The name of a temporary file ends with it.
const TEMPORARY_SUFFIX: &str = ".next";

/// A temporary file of this age is of a process that was killed.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(60 * 60);

/// Numbers the temporary files of this process; the numbers only have to be unique, so `Relaxed` is
/// enough.
static TEMPORARY_COUNTER: AtomicU64 = AtomicU64::new(0);

/// Why a file is not used.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is none.
    Absent,
    /// It is of other data, of other SQL, or of another version.
    Other,
    Malformed(Malformed),
    Io(io::Error),
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Reads the sections of a file.
#[derive(Debug)]
pub(super) struct SectionReader {
    file: File,
    sections: Vec<Section>,
    pub(super) size: u64,
}

#[derive(Clone, Copy, Debug)]
struct Section {
    start: u64,
    size: u64,
    checksum: u64,
}

impl SectionReader {
    /// Opens a file with this key, and checks its header.
    pub(super) fn open(path: &Path, key: Key) -> Result<Self, Refused> {
        // Opening a pipe would wait for a writer.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(Malformed("it is not a file").into());
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(Refused::Absent);
            }
            Err(error) => return Err(Refused::Io(error)),
        };
        let size = file.metadata().map_err(Refused::Io)?.len();
        let head = read(&file, 0, HEAD_SIZE as u64, size)?;
        let mut reader = LeReader::new(&head);
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(Malformed("it is not a compiled table").into());
        }
        if reader.u32()? != LAYOUT_VERSION {
            return Err(Refused::Other);
        }
        let section_count = u64::from(reader.u32()?);
        if reader.u128()? != key.0 {
            return Err(Refused::Other);
        }
        // Below 2^32 * 2^4.
        let entries_size = section_count * ENTRY_SIZE as u64;
        let rest = read(
            &file,
            HEAD_SIZE as u64,
            entries_size + CHECKSUM_SIZE as u64,
            size,
        )?;
        let (entries, checksum) = rest.split_at(entries_size as usize);
        if *checksum != header_checksum(&head, entries).to_le_bytes() {
            return Err(Malformed("the checksum of the header is wrong").into());
        }
        let mut reader = LeReader::new(entries);
        let mut start = (HEAD_SIZE + rest.len()) as u64;
        let mut sections = Vec::with_capacity(section_count as usize);
        for _ in 0..section_count {
            let section = Section {
                start,
                size: reader.u64()?,
                checksum: reader.u64()?,
            };
            let end = start.checked_add(section.size).filter(|end| *end <= size);
            start = end.ok_or(Malformed("the file is too short"))?;
            sections.push(section);
        }
        match start == size {
            true => Ok(Self {
                file,
                sections,
                size,
            }),
            false => Err(Malformed("the file is too long").into()),
        }
    }

    pub(super) fn section_count(&self) -> usize {
        self.sections.len()
    }

    /// Reads a section into a buffer, and checks it.
    pub(super) fn read<'b>(
        &self,
        index: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], Refused> {
        let section = self.sections[index];
        let size =
            usize::try_from(section.size).map_err(|_| Malformed("a section is too large"))?;
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let bytes = &mut buffer[..size];
        let read = self.file.read_exact_at(bytes, section.start);
        read.map_err(Refused::Io)?;
        match XxHash3_64::oneshot(bytes) == section.checksum {
            true => Ok(bytes),
            false => Err(Malformed("the checksum of a section is wrong").into()),
        }
    }
}

/// Reads a part of a file that has this size.
fn read(file: &File, start: u64, size: u64, file_size: u64) -> Result<Vec<u8>, Refused> {
    if start + size > file_size {
        return Err(Malformed("the file is too short").into());
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, start).map_err(Refused::Io)?;
    Ok(bytes)
}

fn header_checksum(head: &[u8], entries: &[u8]) -> u64 {
    XxHash3_64::oneshot(&[head, entries].concat())
}

/// Writes a file, which replaces the one at `path` when it is complete; returns its size in bytes.
/// `serialize` appends the section with a number to an empty buffer.
pub(super) fn write(
    path: &Path,
    key: Key,
    section_count: usize,
    mut serialize: impl FnMut(usize, &mut Vec<u8>) -> io::Result<()>,
) -> io::Result<u64> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_folder(folder)?;
    remove_old_temporaries(folder);
    let temporary = Temporary::new(path)?;
    let mut file = &temporary.file;
    let header_size = HEAD_SIZE + section_count * ENTRY_SIZE + CHECKSUM_SIZE;
    file.seek(SeekFrom::Start(header_size as u64))?;
    let (mut entries, mut size, mut buffer) = (Vec::new(), header_size as u64, Vec::new());
    for index in 0..section_count {
        buffer.clear();
        serialize(index, &mut buffer)?;
        file.write_all(&buffer)?;
        size += buffer.len() as u64;
        entries.extend_from_slice(&(buffer.len() as u64).to_le_bytes());
        entries.extend_from_slice(&XxHash3_64::oneshot(&buffer).to_le_bytes());
    }
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&LAYOUT_VERSION.to_le_bytes());
    header.extend_from_slice(&(section_count as u32).to_le_bytes());
    header.extend_from_slice(&key.0.to_le_bytes());
    let checksum = header_checksum(&header, &entries);
    header.extend_from_slice(&entries);
    header.extend_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&header, 0)?;
    // Not synchronized to the disk: after a crash of the system, the checksums are wrong.
    fs::rename(&temporary.path, path)?;
    Ok(size)
}

/// A file beside the final one, with a name that no other process uses, and only for its owner. It is
/// removed when dropped, unless it was renamed.
struct Temporary {
    file: File,
    path: PathBuf,
}

/// Whether a name is one that [`Temporary::new`] makes: other programs may use the same folder.
fn is_temporary(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let parts = || {
        let (path, numbers) = name.strip_suffix(TEMPORARY_SUFFIX)?.rsplit_once('.')?;
        let (process, number) = numbers.split_once('-')?;
        let (table, _) = path.split_once(".table")?;
        let (_, hash) = table.rsplit_once('-')?;
        Some(is_number(process) && is_number(number) && is_hash(hash))
    };
    parts().unwrap_or(false)
}

impl Temporary {
    fn new(path: &Path) -> io::Result<Self> {
        let number = TEMPORARY_COUNTER.fetch_add(1, Ordering::Relaxed);
        let suffix = format!("{}-{number}{TEMPORARY_SUFFIX}", process::id());
        let path = path.with_added_extension(suffix);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = match options.open(&path) {
            // Of an earlier process with this number, as in a container.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&path)?;
                options.open(&path)?
            }
            opened => opened?,
        };
        Ok(Self { file, path })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename there is no such file.
        drop(fs::remove_file(&self.path));
    }
}

/// Creates the folder, with a file that tells Git to ignore it.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join(".gitignore"), "*\n")
}

/// Removes files of processes that were killed while they wrote.
fn remove_old_temporaries(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_temporary = is_temporary(&entry.file_name().to_string_lossy());
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if is_temporary && age.is_some_and(|age| age > TEMPORARY_AGE_MAX) {
            // Another process may have removed it.
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_temporary_files_are_removed() {
        for (name, expected) in [
            ("t-76033e85f0acf92d.table.123-4.next", true),
            ("t-76033e85f0acf92d.table.0-2.index.123-4.next", true),
            ("report.table.next", false),
            ("mydata.next", false),
            ("report-2026.table.1-2.next", false),
            ("t-76033e85f0acf92d.table", false),
            ("t-76033e85f0acf92d.table.next", false),
        ] {
            assert_eq!(is_temporary(name), expected, "{name}");
        }
    }
}
