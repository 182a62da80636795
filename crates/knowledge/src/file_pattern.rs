//! Patterns of file names: `parts/*.csv`.

use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern, glob_with};

/// How many files a pattern may match; more of them are most likely not those of a table.
pub(crate) const FILE_COUNT_MAX: usize = 10_000;

/// As in a shell: `*` does not cross folders and does not match hidden files.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// A pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePattern {
    /// The pattern of each folder and of the files, from the root.
    parts: Vec<String>,
}

/// Why a text is not a pattern of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternProblem {
    /// It has `**`: folders of any depth could not be watched.
    AnyDepth,
    /// Its brackets are not closed, or the like.
    Syntax,
    /// The path of the folder is not UTF-8.
    FolderName,
}

impl PatternProblem {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::AnyDepth => "must not contain **; write a level of folders as */",
            Self::Syntax => "is not a pattern; write [[] for a bracket, [*] and [?] for the others",
            Self::FolderName => {
                "is a pattern in a folder whose path is not UTF-8; rename the folder"
            }
        }
    }
}

impl FilePattern {
    /// The pattern that a text in a configuration is, relative to a folder; `None` if it is a name.
    pub(crate) fn of(folder: &Path, text: &str) -> Option<Result<Self, PatternProblem>> {
        text.contains(['*', '?', '['])
            .then(|| Self::parse(folder, text))
    }

    fn parse(folder: &Path, text: &str) -> Result<Self, PatternProblem> {
        if text.contains("**") {
            return Err(PatternProblem::AnyDepth);
        }
        let mut parts = Vec::new();
        if Path::new(text).is_relative() {
            for part in folder.components() {
                let part = part.as_os_str().to_str();
                let part = part.ok_or(PatternProblem::FolderName)?;
                parts.push(Pattern::escape(part));
            }
        }
        for part in Path::new(text).components() {
            // The text is UTF-8, and so are its parts.
            parts.push(part.as_os_str().to_string_lossy().into_owned());
        }
        for part in &parts {
            Pattern::new(part).map_err(|_| PatternProblem::Syntax)?;
        }
        Ok(Self { parts })
    }

    /// The files that match now, in the order of their names.
    ///
    /// # Errors
    /// When a folder cannot be read. More than [`FILE_COUNT_MAX`] files are not listed.
    pub(crate) fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for path in matches(&self.parts) {
            let path = path?;
            if path.is_file() {
                files.push(path);
            }
            if files.len() > FILE_COUNT_MAX {
                break;
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Whether a path matches.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        let mut parts = self.parts.iter();
        let all_match = path.components().all(|component| {
            let (part, component) = (parts.next(), component.as_os_str().to_str());
            part.zip(component).is_some_and(|(part, component)| {
                let pattern = Pattern::new(part);
                pattern.is_ok_and(|pattern| pattern.matches_with(component, OPTIONS))
            })
        });
        all_match && parts.next().is_none()
    }

    /// Paths in each folder whose content determines the files.
    pub(crate) fn paths_in_folders(&self) -> Vec<PathBuf> {
        let is_literal = |part: &String| !part.contains(['*', '?', '[']);
        let first = self.parts.iter().position(|part| !is_literal(part));
        let mut paths = Vec::new();
        for size in first.unwrap_or(0)..self.parts.len() {
            let folder = &self.parts[..size];
            if size == 0 {
                paths.push(PathBuf::from(&self.parts[0]));
            } else if folder.iter().all(is_literal) {
                // It may not exist yet.
                paths.push(folder.iter().collect::<PathBuf>().join(&self.parts[size]));
            } else {
                let folders = matches(folder).filter_map(Result::ok);
                let folders = folders.filter(|folder| folder.is_dir());
                paths.extend(folders.map(|folder| folder.join(&self.parts[size])));
            }
        }
        paths
    }
}

/// The paths that match the parts of a pattern.
fn matches(parts: &[String]) -> impl Iterator<Item = io::Result<PathBuf>> {
    let pattern: PathBuf = parts.iter().collect();
    // All parts are UTF-8 and patterns.
    let found = pattern.to_str().and_then(|it| glob_with(it, OPTIONS).ok());
    found
        .into_iter()
        .flatten()
        .map(|path| path.map_err(io::Error::from))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_matched_as_in_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        // A folder whose own name would be a pattern.
        let base = folder.path().join("a[1]");
        for file in ["b.csv", "a.csv", ".c.csv", "x/d.csv", "y/e.csv", "y/f.txt"] {
            let file = base.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        fs::create_dir(base.join("z.csv")).unwrap();
        for (text, expected) in [
            ("*.csv", &["a.csv", "b.csv"][..]),
            ("?.csv", &["a.csv", "b.csv"]),
            ("[!a].csv", &["b.csv"]),
            ("*/*.csv", &["x/d.csv", "y/e.csv"]),
            ("y/*", &["y/e.csv", "y/f.txt"]),
            ("../a[[]1]/a*", &["../a[1]/a.csv"]),
            ("none/*", &[]),
        ] {
            let pattern = FilePattern::of(&base, text).unwrap().unwrap();
            let expected: Vec<PathBuf> = expected.iter().map(|file| base.join(file)).collect();
            assert_eq!(pattern.files().unwrap(), expected, "{text}");
            for file in [
                "b.csv", "a.csv", ".c.csv", "x/d.csv", "y/e.csv", "y/f.txt", "x", "a",
            ] {
                let path = base.join(file);
                let is_expected = expected.contains(&path);
                // A path with `..` is that of a file in another form.
                assert!(
                    pattern.matches(&path) == is_expected || text.starts_with(".."),
                    "{text}"
                );
            }
            let absolute = format!("{}/{text}", Pattern::escape(base.to_str().unwrap()));
            let pattern = FilePattern::of(Path::new("/none"), &absolute).unwrap();
            assert_eq!(pattern.unwrap().files().unwrap(), expected, "{absolute}");
        }
        for (text, expected) in [
            ("data.csv", None),
            ("a/**/b", Some(PatternProblem::AnyDepth)),
            ("a[", Some(PatternProblem::Syntax)),
        ] {
            let found = FilePattern::of(&base, text);
            assert_eq!(found.map(Result::unwrap_err), expected, "{text}");
        }
    }

    #[test]
    fn folders_are_those_whose_content_matters() {
        let folder = tempfile::tempdir().unwrap();
        for child in ["x/1", "y/1", "y/2"] {
            fs::create_dir_all(folder.path().join(child)).unwrap();
        }
        for (text, expected) in [
            ("*.csv", &["*.csv"][..]),
            ("none/*.csv", &["none/*.csv"]),
            ("*/1/*.csv", &["*", "x/1", "y/1", "x/1/*.csv", "y/1/*.csv"]),
        ] {
            let pattern = FilePattern::of(folder.path(), text).unwrap().unwrap();
            let expected: Vec<PathBuf> = expected
                .iter()
                .map(|path| folder.path().join(path))
                .collect();
            assert_eq!(pattern.paths_in_folders(), expected, "{text}");
        }
    }
}
