//! Which files of a package are those of one extension, for one major version.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{Error, Result};

use super::source::{Entries, Package};

/// What a file of an extension is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Control,
    Sql,
    Library,
}

/// One file, as the package has it.
#[derive(Clone, Debug)]
pub(super) struct SelectedFile<'a> {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) bytes: &'a [u8],
}

/// The files of one extension.
#[derive(Clone, Debug)]
pub(super) struct Selection<'a> {
    pub(super) name: String,
    pub(super) version: String,
    /// Other extensions that must be there.
    pub(super) requires: Vec<String>,
    pub(super) files: Vec<SelectedFile<'a>>,
}

impl<'a> Selection<'a> {
    /// Finds the control file of `name`, the SQL beside it, and the libraries that both name.
    pub(super) fn of(package: &'a Package, name: &str, major: u32) -> Result<Self> {
        let control_name = format!("{name}.control");
        let fits = |path: &str| major_of(path).is_none_or(|of| of == major);
        let controls: Vec<_> = package
            .entries
            .iter()
            .filter(|(path, _)| file_name(path) == control_name)
            .collect();
        // The nearest to the top, where there are several.
        let Some((control_path, control)) = controls
            .iter()
            .filter(|(path, _)| fits(path))
            .min_by_key(|(path, _)| path.len())
        else {
            let majors: BTreeSet<u32> = controls
                .iter()
                .filter_map(|(path, _)| major_of(path))
                .collect();
            return Err(Error::extension_not_in_package(
                name,
                &package.label,
                major,
                &majors,
            ));
        };
        let text = String::from_utf8_lossy(control);
        let Some(version) = parameter(&text, "default_version") else {
            return Err(Error::bad_control_file(name, &package.label));
        };
        let folder = parent(control_path);
        let beside = [folder.to_owned(), join(folder, "sql")];
        let mut files = vec![SelectedFile {
            kind: Kind::Control,
            name: control_name,
            bytes: control,
        }];
        let mut libraries = BTreeSet::from([name.to_owned()]);
        libraries.extend(libraries_named_in(control_path, control));
        let script = format!("{name}--");
        for (path, bytes) in &package.entries {
            let file = file_name(path);
            let is_script =
                file.starts_with(&script) && (file.ends_with(".sql") || file.ends_with(".control"));
            if !is_script || !beside.iter().any(|folder| folder == parent(path)) {
                continue;
            }
            libraries.extend(libraries_named_in(path, bytes));
            files.push(SelectedFile {
                kind: Kind::Sql,
                name: file.to_owned(),
                bytes,
            });
        }
        for library in libraries {
            let found = package
                .entries
                .iter()
                .filter(|(path, _)| fits(path) && library_name(path) == Some(&library));
            // A library that is in none of the package's folders may be one that the server has.
            if let Some((path, bytes)) = found.min_by_key(|(path, _)| path.len()) {
                files.push(SelectedFile {
                    kind: Kind::Library,
                    name: file_name(path).to_owned(),
                    bytes,
                });
            }
        }
        Ok(Self {
            name: name.to_owned(),
            version,
            requires: requirements(&text),
            files,
        })
    }

    /// The libraries, as `LOAD` names them.
    pub(super) fn libraries(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().filter(|file| file.kind == Kind::Library);
        files.filter_map(|file| Path::new(&file.name).file_stem()?.to_str())
    }
}

/// An extension and those that it requires, as control files tell, and those that these require.
pub(super) fn family(name: &str, controls: &Entries) -> BTreeSet<String> {
    let mut family = BTreeSet::new();
    let mut rest = vec![name.to_owned()];
    while let Some(name) = rest.pop() {
        let control = format!("{name}.control");
        if family.insert(name) {
            let own = controls
                .iter()
                .filter(|(path, _)| file_name(path) == control);
            rest.extend(own.flat_map(|(_, bytes)| requirements(&String::from_utf8_lossy(bytes))));
        }
    }
    family
}

/// Whether a file is a script of one of these extensions.
pub(super) fn is_script(path: &str, names: &BTreeSet<String>) -> bool {
    let mut parts = file_name(path).splitn(2, "--");
    path.ends_with(".sql")
        && parts.next().is_some_and(|name| names.contains(name))
        && parts.next().is_some()
}

/// The libraries that extensions may have: of their names, and those that their files name.
pub(super) fn libraries(entries: &Entries, names: &BTreeSet<String>) -> BTreeSet<String> {
    let is_theirs = |path: &str| {
        let file = file_name(path);
        let name = file.split("--").next().unwrap_or(file);
        names.contains(name.strip_suffix(".control").unwrap_or(name))
    };
    let entries = entries.iter().filter(|(path, _)| is_theirs(path));
    let named = entries.flat_map(|(path, bytes)| libraries_named_in(path, bytes));
    named.chain(names.iter().cloned()).collect()
}

/// Whether a file is one of these libraries.
pub(super) fn is_library(path: &str, names: &BTreeSet<String>) -> bool {
    library_name(path).is_some_and(|name| names.contains(name))
}

/// The name of a library without its end.
fn library_name(path: &str) -> Option<&str> {
    let file = file_name(path);
    file.strip_suffix(".so").or(file.strip_suffix(".dylib"))
}

/// What the text of a control file requires.
fn requirements(control: &str) -> Vec<String> {
    let requires = parameter(control, "requires").unwrap_or_default();
    let names = requires.split(',').map(str::trim);
    names
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The libraries that a control file or a script names.
fn libraries_named_in(path: &str, bytes: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(bytes);
    match path.ends_with(".control") {
        true => {
            let own = parameter(&text, "module_pathname");
            own.and_then(|path| library_of(&path)).into_iter().collect()
        }
        false => named_libraries(&text),
    }
}

/// The value of a parameter of a control file, whose lines are `name = 'value'` as in
/// `postgresql.conf`.
pub(super) fn parameter(text: &str, name: &str) -> Option<String> {
    text.lines().rev().find_map(|line| {
        let rest = line.trim().strip_prefix(name)?.trim_start();
        let value = rest.strip_prefix('=').unwrap_or(rest).trim();
        // `default_version` is no prefix of another name, but its value must be one.
        match value.strip_prefix('\'') {
            Some(quoted) => Some(quoted[..quoted.find('\'')?].to_owned()),
            None => {
                let word = value.split(['#', ' ', '\t']).next()?;
                (!word.is_empty() && rest.len() < line.len()).then(|| word.to_owned())
            }
        }
    })
}

/// The library in the server's own folder that a path names.
fn library_of(path: &str) -> Option<String> {
    let name = path.strip_prefix("$libdir/").unwrap_or(path);
    let name = name.strip_suffix(".so").unwrap_or(name);
    (!name.is_empty() && !name.contains('/') && name != "MODULE_PATHNAME").then(|| name.to_owned())
}

/// The libraries that functions of a script are in.
fn named_libraries(sql: &str) -> BTreeSet<String> {
    let rest = sql.split("'$libdir/").skip(1);
    rest.filter_map(|rest| library_of(rest.split('\'').next()?))
        .collect()
}

/// The major version that a path names: Debian and others have a folder for each.
fn major_of(path: &str) -> Option<u32> {
    let mut before = "";
    for part in path.split('/') {
        let digits = part
            .strip_prefix("postgresql-")
            .or_else(|| part.strip_prefix("postgresql"))
            .or_else(|| part.strip_prefix("pgsql-"))
            .or((before == "postgresql").then_some(part));
        if let Some(major) = digits.and_then(|digits| digits.parse().ok()) {
            return Some(major);
        }
        before = part;
    }
    None
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(files: &[(&str, &str)]) -> Package {
        let entries = files.iter();
        Package {
            label: "a package".to_owned(),
            sha256: String::new(),
            entries: entries
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
                .collect(),
        }
    }

    #[test]
    fn the_files_of_one_extension_and_major_are_taken() {
        let package = package(&[
            (
                "usr/share/postgresql/17/extension/a.control",
                "default_version = '1'",
            ),
            (
                "usr/share/postgresql/18/extension/a.control",
                "# default_version = '0'\ndefault_version = '1.1' # now\nmodule_pathname = '$libdir/a-1'\n\
                 requires = 'b, plpgsql'\nrelocatable = true",
            ),
            (
                "usr/share/postgresql/18/extension/a--1.1.sql",
                "AS '$libdir/extra', 'f'",
            ),
            ("usr/share/postgresql/18/extension/a--1--1.1.sql", ""),
            ("usr/share/postgresql/18/extension/ab--1.sql", ""),
            ("usr/share/postgresql/17/extension/a--1.sql", ""),
            ("usr/lib/postgresql/18/lib/a-1.so", "x"),
            ("usr/lib/postgresql/18/lib/extra.so", "x"),
            ("usr/lib/postgresql/18/lib/other.so", "x"),
            ("usr/lib/postgresql/17/lib/a-1.so", "old"),
        ]);
        let selection = Selection::of(&package, "a", 18).unwrap();
        assert_eq!(selection.version, "1.1");
        assert_eq!(selection.requires, ["b", "plpgsql"]);
        let names: Vec<_> = selection.files.iter().map(|file| &*file.name).collect();
        assert_eq!(
            names,
            [
                "a.control",
                "a--1.1.sql",
                "a--1--1.1.sql",
                "a-1.so",
                "extra.so"
            ]
        );
        assert_eq!(selection.files[3].bytes, b"x");
        let error = Selection::of(&package, "a", 16).unwrap_err().to_string();
        assert!(error.contains("17, 18"), "{error}");
        let error = Selection::of(&package, "c", 18).unwrap_err().to_string();
        assert!(error.contains("`c.control`"), "{error}");
    }

    #[test]
    fn parameters_are_read_as_the_server_reads_them() {
        for (text, expected) in [
            ("default_version = '1.0'", Some("1.0")),
            ("default_version='1.0'", Some("1.0")),
            ("  default_version '1.0' # '2'", Some("1.0")),
            ("default_version = 1.0 # x", Some("1.0")),
            ("default_version = '1'\ndefault_version = '2'", Some("2")),
            ("#default_version = '1'", None),
            ("default_version = ", None),
            ("", None),
        ] {
            let found = parameter(text, "default_version");
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
