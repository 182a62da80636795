//! The key of a compiled table: a hash of everything that its rows depend on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use twox_hash::XxHash3_128;

use crate::index::hash_probe;
use crate::threads;

/// The version of the layout of all files. It must change with any part of it.
pub(super) const LAYOUT_VERSION: u32 = 2;

/// The bytes that a thread hashes at once.
const CHUNK_SIZE: u64 = if cfg!(test) { 64 } else { 4 << 20 };

/// The key of a compiled table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(super) u128);

impl Key {
    /// The key of a table whose rows are in these files, in this order; of each, the path in messages and
    /// that at which it is read. `settings` describes everything else that the rows depend on.
    ///
    /// # Errors
    /// When a file cannot be read, or becomes shorter meanwhile.
    pub(crate) fn of(files: &[(&Path, &Path)], settings: &str) -> io::Result<Self> {
        let mut chunks: Vec<(usize, u64, usize)> = Vec::new();
        let mut open = Vec::new();
        let mut text = format!(
            "{LAYOUT_VERSION} {} {} {:?} {settings}",
            env!("CARGO_PKG_VERSION"),
            rusqlite::version(),
            hash_probe(),
        );
        for (index, (shown, path)) in files.iter().enumerate() {
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            let starts = (0..size).step_by(CHUNK_SIZE as usize);
            chunks.extend(starts.map(|at| (index, at, CHUNK_SIZE.min(size - at) as usize)));
            text.push_str(&format!(" {:?} {size}", shown.file_name()));
            open.push(file);
        }
        let hashes = threads::map(
            chunks.len(),
            |buffer: &mut Vec<u8>, number| -> io::Result<u128> {
                let (file, start, size) = chunks[number];
                buffer.resize(size, 0);
                open[file].read_exact_at(buffer, start)?;
                Ok(XxHash3_128::oneshot(buffer))
            },
        )?;
        let mut all = text.into_bytes();
        for hash in hashes {
            all.extend_from_slice(&hash.to_le_bytes());
        }
        Ok(Self(XxHash3_128::oneshot(&all)))
    }
}
