//! The files of a package, as far as they were read.

/// Files by their path in a package.
pub(super) type Entries = Vec<(String, Vec<u8>)>;

/// Which files of a package are read, by their path in it.
pub(super) type Wanted<'a> = dyn Fn(&str) -> bool + 'a;

/// A package that was read, as far as it belongs to an extension.
pub(super) struct Package {
    /// What errors and manifests call it.
    pub(super) label: String,
    /// Of the file; of a folder, of its files.
    pub(super) sha256: String,
    /// All control files; scripts and libraries of the extension and of those that it requires.
    pub(super) entries: Entries,
}
