//! The compiled form of packed tables: rows and indexes as files, from which the next start reads them in
//! a fraction of the time of a load.
//!
//! The files are only a cache. They are used if their key is that of the data, the SQL and the
//! configuration as they are now, which is why all data is read and hashed first ([`Key`]). A file that is
//! damaged or inconsistent leads to a load, never to a failure or a panic. `docs/COMPILED.md` has the layout.

mod file;
mod form;
mod fuzz;
mod indexes;
mod key;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use twox_hash::XxHash3_64;

use self::file::{Refused, SectionReader};
pub(crate) use self::form::{CompiledForm, DerivedColumn, StoredReport};
pub use self::fuzz::compiled_fuzz;
pub(crate) use self::indexes::CompiledIndexes;
pub(crate) use self::key::Key;
use crate::index::{HashIndex, RowKeys};
use crate::le_bytes::{LeReader, Malformed, put_list};

/// The folder of the compiled forms, within that of `knowdb.toml`.
pub(crate) const FOLDER: &str = ".lookaside";

/// The least size of the data of a table that is compiled, in bytes: a smaller one is loaded in a few
/// hundredths of a second.
const DATA_SIZE_MIN: u64 = 4 << 20;

/// The size limit of a table's name in the name of a file in bytes; file systems allow 255.
const NAME_SIZE_MAX: usize = 100;

/// The most indexes of a table that are written: queries that are only made once need others.
const INDEX_COUNT_MAX: usize = 16;

/// The tables that are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Those with much data, and those that are compiled already.
    Large,
    /// All that can be.
    All,
}

/// The compiled forms of the tables of a project, for one load.
#[derive(Debug)]
pub(crate) struct CompiledTables {
    /// `None` if they are switched off.
    folder: Option<PathBuf>,
    selection: Selection,
    /// Whether the log tells already that a file cannot be written.
    has_warned: Arc<AtomicBool>,
}

/// Where the compiled form of a table is, and the key that it must have.
#[derive(Clone, Debug)]
pub(crate) struct CompiledFile {
    table: String,
    path: PathBuf,
    key: Key,
    has_warned: Arc<AtomicBool>,
}

impl CompiledTables {
    pub(crate) fn new(folder: Option<&Path>, selection: Selection) -> Self {
        Self {
            folder: folder.map(Path::to_owned),
            selection,
            has_warned: Arc::default(),
        }
    }

    /// The place of a table whose data has this size in bytes, if it is to be compiled. `key` is called
    /// only then, and reads all data.
    pub(crate) fn file(
        &self,
        table: &str,
        data_size: u64,
        key: impl FnOnce() -> io::Result<Key>,
    ) -> Option<CompiledFile> {
        let path = self.folder.as_ref()?.join(file_name(table));
        if self.selection == Selection::Large && data_size < DATA_SIZE_MIN && !path.exists() {
            return None;
        }
        Some(CompiledFile {
            table: table.to_owned(),
            path,
            // The load itself reports a file that cannot be read.
            key: key().ok()?,
            has_warned: Arc::clone(&self.has_warned),
        })
    }
}

impl CompiledFile {
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// The compiled form and its size in bytes, if there is one with this key.
    pub(crate) fn read(&self) -> Option<(CompiledForm, u64)> {
        let read = || -> Result<_, Refused> {
            let sections = SectionReader::open(&self.path, self.key)?;
            Ok((CompiledForm::read(&sections)?, sections.size))
        };
        self.logged(&self.path, read())
    }

    /// Replaces the compiled form, and removes the indexes of the one before; returns its size in bytes.
    pub(crate) fn write(&self, form: &CompiledForm) -> io::Result<u64> {
        let section_count = form.section_count();
        let written = file::write(&self.path, self.key, section_count, |index, out| {
            form.serialize(index, out)
        });
        match &written {
            Ok(_) => self.remove_indexes(),
            Err(error) => self.warn(&self.path, error),
        }
        written
    }

    /// The index of these columns, if there is one with this key.
    pub(crate) fn read_index(
        &self,
        columns: &[usize],
        keys: Arc<dyn RowKeys>,
    ) -> Option<HashIndex> {
        let path = self.index_path(columns);
        let read = || -> Result<HashIndex, Refused> {
            let sections = SectionReader::open(&path, self.key)?;
            let mut buffer = Vec::new();
            let mut reader = LeReader::new(sections.read(0, &mut buffer)?);
            let stored = reader.list(LeReader::size)?;
            if stored != columns || sections.section_count() != 1 {
                return Err(Malformed("it is another index").into());
            }
            let index = HashIndex::deserialize(&mut reader, keys)?;
            reader.end()?;
            Ok(index)
        };
        self.logged(&path, read())
    }

    /// Replaces the index of these columns.
    pub(crate) fn write_index(&self, columns: &[usize], index: &HashIndex) {
        let path = self.index_path(columns);
        if !path.exists() && self.index_files().len() >= INDEX_COUNT_MAX {
            return;
        }
        let written = file::write(&path, self.key, 1, |_, out| {
            put_list(out, columns, put_column);
            index.serialize(out);
            Ok(())
        });
        if let Err(error) = written {
            self.warn(&path, &error);
        }
    }

    fn index_path(&self, columns: &[usize]) -> PathBuf {
        let columns: Vec<String> = columns.iter().map(usize::to_string).collect();
        let suffix = format!("{}.index", columns.join("-"));
        self.path.with_added_extension(suffix)
    }

    /// The files of the indexes of the table.
    fn index_files(&self) -> Vec<PathBuf> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!("{name}.");
        let folder = self.path.parent().and_then(|it| it.read_dir().ok());
        let entries = folder.into_iter().flatten().flatten();
        let is_index = |name: &str| name.starts_with(&prefix) && name.ends_with(".index");
        let files = entries.filter(|entry| is_index(&entry.file_name().to_string_lossy()));
        files.map(|entry| entry.path()).collect()
    }

    fn remove_indexes(&self) {
        for file in self.index_files() {
            // It has another key and would not be used.
            drop(std::fs::remove_file(file));
        }
    }

    fn logged<T>(&self, path: &Path, read: Result<T, Refused>) -> Option<T> {
        let problem = match read {
            Ok(read) => return Some(read),
            Err(Refused::Absent) => return None,
            Err(Refused::Other) => {
                tracing::debug!(
                    table = self.table,
                    "the data, the SQL or the version is not that of the compiled form"
                );
                return None;
            }
            Err(Refused::Malformed(problem)) => problem.0,
            Err(Refused::Io(error)) => {
                tracing::warn!(
                    table = self.table,
                    file = %path.display(),
                    %error,
                    "the compiled form cannot be read and is not used; only the user who has compiled the \
                     table may read it",
                );
                return None;
            }
        };
        tracing::warn!(
            table = self.table,
            file = %path.display(),
            problem,
            "the compiled form is damaged and not used",
        );
        None
    }

    fn warn(&self, path: &Path, error: &io::Error) {
        // Relaxed: two threads at once may both log.
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                table = self.table,
                file = %path.display(),
                %error,
                "a compiled form cannot be written; set [default] compiled = \"FOLDER\" to another \
                 folder, or compiled = false",
            );
        }
    }
}

/// The name of the file of a table: what is readable of its name, and a hash of it, as names of files have
/// fewer characters and may ignore case.
fn file_name(table: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    // SQLite's names ignore the case of ASCII letters.
    let lower = table.to_ascii_lowercase();
    let readable = lower.chars().take(NAME_SIZE_MAX);
    let readable: String = readable.map(|c| if is_safe(c) { c } else { '_' }).collect();
    let hash = XxHash3_64::oneshot(lower.as_bytes());
    format!("{readable}-{hash:016x}.table")
}

/// Appends a position of a column.
fn put_column(out: &mut Vec<u8>, column: &usize) {
    out.extend_from_slice(&(*column as u64).to_le_bytes());
}
