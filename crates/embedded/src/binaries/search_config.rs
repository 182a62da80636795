//! The search for installed servers on this machine.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{self, Path, PathBuf};

use super::ProbeCache;
use super::program::is_program;
use crate::verify::Verify;
use crate::{Error, Result, Version};

/// Folders in which installers put one folder per version: the parent, the prefix of its name, and
/// the subfolder of the programs.
const FAMILIES: [(&str, &str, &str); 7] = [
    ("/usr/lib/postgresql", "", "bin"),         // Debian, Ubuntu
    ("/usr", "pgsql-", "bin"),                  // Red Hat, from postgresql.org
    ("/usr/lib", "postgresql", "bin"),          // SUSE
    ("/usr/libexec", "postgresql", ""),         // Alpine
    ("/opt/homebrew/opt", "postgresql", "bin"), // Homebrew on Apple's processors
    ("/usr/local/opt", "postgresql", "bin"),    // Homebrew on Intel's
    ("/usr/local", "pgsql", "bin"),             // built from source
];

/// Whether a server may be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Allowed,
    Forbidden,
}

/// The places to search, and what is allowed.
#[derive(Clone, Debug)]
pub(crate) struct SearchConfig {
    /// `LOOKASIDE_PG_BIN`.
    pub(crate) named: Option<PathBuf>,
    /// The folders of `PATH`.
    pub(crate) path: Vec<PathBuf>,
    /// As [`FAMILIES`].
    pub(crate) families: Vec<(PathBuf, &'static str, &'static str)>,
    /// Without `LOOKASIDE_PG_OFFLINE`.
    pub(crate) network: Network,
    /// `LOOKASIDE_PG_VERIFY`.
    pub(crate) verify: Verify,
}

/// An installed server on this machine.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) folder: PathBuf,
    pub(crate) version: Result<Version>,
}

impl SearchConfig {
    /// Reads the environment of this process.
    pub(crate) fn of_process() -> Result<Self> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let verify = Verify::of_process()?;
        let network = match set("LOOKASIDE_PG_OFFLINE") {
            Some(value) if value != "0" => Network::Forbidden,
            _ => Network::Allowed,
        };
        Ok(Self {
            named: set("LOOKASIDE_PG_BIN").map(PathBuf::from),
            // With a relative folder, files of the working folder could be started as programs.
            path: env::split_paths(&set("PATH").unwrap_or_default())
                .filter(|folder| folder.is_absolute())
                .collect(),
            families: FAMILIES
                .map(|(parent, prefix, below)| (parent.into(), prefix, below))
                .into(),
            network,
            verify,
        })
    }

    /// The server that `LOOKASIDE_PG_BIN` names: the folder of its programs, or the one above.
    pub(crate) fn named(&self, probe_cache: &mut ProbeCache) -> Result<Option<(PathBuf, Version)>> {
        let Some(named) = &self.named else {
            return Ok(None);
        };
        let named = path::absolute(named).map_err(|e| Error::file("find", named, e))?;
        let folder = match named.join("bin") {
            below if !is_program(&named.join("postgres")) && below.exists() => below,
            _ => named.clone(),
        };
        for program in ["postgres", "initdb"] {
            if !is_program(&folder.join(program)) {
                return Err(Error::named_without(&named, program));
            }
        }
        let version = probe_cache.version(&folder.join("postgres"))?;
        Ok(Some((folder, version)))
    }

    /// Each installed server, the newest first; those that do not run come last.
    pub(crate) fn installed(&self, probe_cache: &mut ProbeCache) -> Vec<Installed> {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for folder in self.folders(probe_cache) {
            if let Some(folder) = server_folder(&folder)
                && seen.insert(folder.clone())
            {
                let version = probe_cache.version(&folder.join("postgres"));
                all.push(Installed { folder, version });
            }
        }
        all.sort_by_key(|installed| std::cmp::Reverse(installed.version.as_ref().ok().copied()));
        all
    }

    /// A client program of the major version: from the server's folder, else an installed one.
    pub(crate) fn tool(&self, beside: &Path, major: u32, name: &str) -> Option<PathBuf> {
        let own = beside.join(name);
        if is_program(&own) {
            return Some(own);
        }
        let programs = self.clients(name).into_iter();
        let mut fitting = programs.filter(|(version, _)| version.major == major);
        fitting.next().map(|(_, program)| program)
    }

    /// A client program of at least a major version, the oldest one.
    pub(crate) fn client(&self, name: &str, major_min: u32) -> Option<PathBuf> {
        let programs = self.clients(name).into_iter();
        let fitting = programs.filter(|(version, _)| version.major >= major_min);
        let oldest = fitting.min_by_key(|(version, _)| version.major)?;
        Some(oldest.1)
    }

    /// All client programs of that name.
    fn clients(&self, name: &str) -> Vec<(Version, PathBuf)> {
        let mut probe_cache = ProbeCache::read(None);
        let mut folders = self.folders(&mut probe_cache);
        if let Ok(Some((folder, _))) = self.named(&mut probe_cache) {
            folders.insert(0, folder);
        }
        let programs = folders.iter().map(|folder| folder.join(name));
        programs
            .filter(|program| is_program(program))
            .filter_map(|program| Some((probe_cache.version(&program).ok()?, program)))
            .collect()
    }

    /// Every folder in which programs of PostgreSQL may be.
    fn folders(&self, probe_cache: &mut ProbeCache) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let config = self.path.iter().map(|folder| folder.join("pg_config"));
        if let Some(config) = config.into_iter().find(|config| is_program(config))
            && let Ok(folder) = probe_cache.probe(&config, "--bindir")
        {
            folders.push(folder.into());
        }
        for (parent, prefix, below) in &self.families {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                if entry
                    .file_name()
                    .as_encoded_bytes()
                    .starts_with(prefix.as_bytes())
                {
                    folders.push(entry.path().join(below));
                }
            }
        }
        folders.extend(self.path.iter().cloned());
        folders
    }
}

/// The folder of a complete server at `folder`, with links resolved if that leads to its other
/// programs.
fn server_folder(folder: &Path) -> Option<PathBuf> {
    let is_server = |folder: &Path| {
        ["postgres", "initdb"]
            .iter()
            .all(|name| is_program(&folder.join(name)))
    };
    let real = fs::canonicalize(folder.join("postgres")).ok()?;
    let real = real.parent()?;
    if is_server(real) {
        return Some(real.to_owned());
    }
    is_server(folder).then(|| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_client_is_as_old_as_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let program = |major: u32| folder.path().join(major.to_string()).join("bin/psql");
        for major in [18, 15, 17] {
            let path = program(major);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = format!("#!/bin/sh\necho 'psql (PostgreSQL) {major}.1 (Debian)'\n");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let search_config = SearchConfig {
            named: None,
            path: Vec::new(),
            families: vec![(folder.path().to_owned(), "", "bin")],
            network: Network::Forbidden,
            verify: Verify::Quick,
        };
        for (major_min, expected) in [(14, Some(15)), (16, Some(17)), (18, Some(18)), (19, None)] {
            let found = search_config.client("psql", major_min);
            assert_eq!(found, expected.map(program), "{major_min}");
        }
        assert_eq!(search_config.client("pg_dump", 14), None);
    }
}
