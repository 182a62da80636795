//! The files of a package that were read.

/// Files by their path in a package.
pub(super) type Entries = Vec<(String, Vec<u8>)>;

/// Selects the files of a package to read, by their path in it.
pub(super) type Wanted<'a> = dyn Fn(&str) -> bool + 'a;

/// The part of a package that belongs to an extension.
pub(super) struct Package {
    /// Its name in errors and manifests.
    pub(super) label: String,
    /// The hash of the file, or of a folder's files.
    pub(super) sha256: String,
    /// All control files; scripts and libraries of the extension and of those that it requires.
    pub(super) entries: Entries,
}
