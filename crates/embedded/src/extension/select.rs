//! Selects the files of one extension in a package, for one major version.

use std::collections::BTreeSet;
use std::path::Path;

use crate::added::{ExtensionFile, ExtensionFileKind, parameter};
use crate::{Error, Result};

use super::entries::{Entries, Package, Wanted};

/// The files of one extension.
#[derive(Clone, Debug)]
pub(super) struct Selection<'a> {
    pub(super) name: String,
    pub(super) version: String,
    /// Other extensions that it requires.
    pub(super) requires: Vec<String>,
    pub(super) files: Vec<ExtensionFile<'a>>,
}

impl<'a> Selection<'a> {
    /// Finds the control file of `name`, the SQL scripts next to it, and the libraries that both
    /// name.
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
        let mut files = vec![ExtensionFile {
            kind: ExtensionFileKind::Control,
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
            files.push(ExtensionFile {
                kind: ExtensionFileKind::Sql,
                name: file.to_owned(),
                bytes,
            });
        }
        for library in libraries {
            let found = package
                .entries
                .iter()
                .filter(|(path, _)| fits(path) && library_name(path) == Some(&library));
            // A library that is not in the package may come with the server.
            if let Some((path, bytes)) = found.min_by_key(|(path, _)| path.len()) {
                files.push(ExtensionFile {
                    kind: ExtensionFileKind::Library,
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
        let files = self
            .files
            .iter()
            .filter(|file| file.kind == ExtensionFileKind::Library);
        files.filter_map(|file| Path::new(&file.name).file_stem()?.to_str())
    }
}

/// Reads the files of an extension and of those that it requires. Control files name required
/// extensions, and scripts name libraries.
pub(super) fn gather(
    name: &str,
    read: &mut dyn FnMut(&Wanted<'_>) -> Result<Entries>,
) -> Result<Entries> {
    let mut entries = read(&|path| path.ends_with(".control"))?;
    let names = family(name, &entries);
    entries.extend(read(&|path| is_script(path, &names))?);
    let libraries = libraries(&entries, &names);
    entries.extend(read(&|path| is_library(path, &libraries))?);
    Ok(entries)
}

/// An extension and its transitive requirements, by control files.
fn family(name: &str, controls: &Entries) -> BTreeSet<String> {
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
fn is_script(path: &str, names: &BTreeSet<String>) -> bool {
    let mut parts = file_name(path).splitn(2, "--");
    path.ends_with(".sql")
        && parts.next().is_some_and(|name| names.contains(name))
        && parts.next().is_some()
}

/// The libraries that extensions may have: of their names, and those that their files name.
fn libraries(entries: &Entries, names: &BTreeSet<String>) -> BTreeSet<String> {
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
fn is_library(path: &str, names: &BTreeSet<String>) -> bool {
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
}
