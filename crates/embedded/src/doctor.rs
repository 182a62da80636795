//! Diagnoses the installation on this machine, with advice. Nothing is downloaded, repaired or
//! removed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::added;
use crate::binaries::{
    CachedServer, Condition, Installed, Network, ProbeCache, SearchConfig, download_of,
};
use crate::cache::Cache;
use crate::cluster_folder;
use crate::extension::{self, DamagedExtension};
use crate::identity::Identity;
use crate::runtime_dir::RuntimeDir;
use crate::template::Template;
use crate::verify::Verify;
use crate::{Result, Version, VersionRequirement};

/// The findings of [`doctor`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order in which a start checks them.
    pub findings: Vec<Finding>,
}

/// The state of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its severity.
    pub grade: Grade,
    /// The item, such as `installed PostgreSQL 17.11`.
    pub what: String,
    /// Its state.
    pub state: String,
    /// Advice; `None` if nothing is wrong.
    pub advice: Option<String>,
}

/// The severity of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Nothing is wrong.
    Good,
    /// Something could be improved, but servers start.
    Notice,
    /// No server starts, or not as requested.
    Bad,
}

/// Checks everything that the start of a server depends on.
pub fn doctor() -> Report {
    let mut report = Report::default();
    let cache = Cache::open();
    report.binaries(cache.as_ref().ok());
    report.cache(&cache);
    match Identity::current() {
        Ok(identity) => {
            report.good("user", identity.describe());
            report.runtime_dir(identity);
        }
        Err(error) => {
            report.advise(
                Grade::Bad,
                "user",
                error.to_string(),
                "no server can start until then",
            );
        }
    }
    report
}

impl Report {
    /// The worst grade of all findings.
    pub fn grade(&self) -> Grade {
        let grades = self.findings.iter().map(|finding| finding.grade);
        grades.max().unwrap_or(Grade::Good)
    }

    pub(crate) fn good(&mut self, what: impl Into<String>, state: impl Into<String>) {
        self.findings.push(Finding {
            grade: Grade::Good,
            what: what.into(),
            state: state.into(),
            advice: None,
        });
    }

    pub(crate) fn advise(
        &mut self,
        grade: Grade,
        what: impl Into<String>,
        state: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.findings.push(Finding {
            grade,
            what: what.into(),
            state: state.into(),
            advice: Some(advice.into()),
        });
    }

    /// Where servers are, and which one is used.
    fn binaries(&mut self, cache: Option<&Cache>) {
        let search_config = match SearchConfig::of_process() {
            Ok(search_config) => search_config,
            Err(error) => {
                let advice = "set or unset the variable as it says";
                return self.advise(Grade::Bad, "environment", error.to_string(), advice);
            }
        };
        let mut probe_cache = ProbeCache::read(cache);
        // A start without a version uses the first of these.
        let mut usable: Vec<(Version, PathBuf)> = Vec::new();
        let mut starts = true;

        match search_config.named(&mut probe_cache) {
            Ok(None) => self.good("LOOKASIDE_PG_BIN", "not set"),
            Ok(Some((folder, version))) => {
                let state = format!("PostgreSQL {version} in `{}`", folder.display());
                self.server(
                    "LOOKASIDE_PG_BIN".to_owned(),
                    state,
                    version,
                    folder,
                    &mut usable,
                );
            }
            Err(error) => {
                let advice = "correct LOOKASIDE_PG_BIN or unset it: no server can start until then";
                self.advise(Grade::Bad, "LOOKASIDE_PG_BIN", error.to_string(), advice);
                starts = false;
            }
        }
        for cached in cache.map(CachedServer::all).unwrap_or_default() {
            let what = format!("cached PostgreSQL {}", cached.version);
            let folder = cached.folder.display();
            match cached.condition(Verify::Full) {
                Condition::Absent => {}
                Condition::Sound => {
                    let state = format!("intact, in `{folder}`");
                    self.server(what, state, cached.version, cached.bin(), &mut usable);
                    self.extensions(&cached);
                }
                Condition::Damaged(damage) => {
                    let state = format!("damaged, in `{folder}`: {damage}");
                    let advice = match cached.condition(search_config.verify) {
                        Condition::Sound => {
                            "a start with LOOKASIDE_PG_VERIFY=full repairs it, if the download is \
                             allowed; or remove the folder"
                        }
                        _ => "the next start repairs it, if it may download; or remove the folder",
                    };
                    self.advise(Grade::Notice, what, state, advice);
                }
            }
        }
        for Installed { folder, version } in search_config.installed(&mut probe_cache) {
            match version {
                Ok(version) => {
                    let what = format!("installed PostgreSQL {version}");
                    let state = format!("in `{}`", folder.display());
                    self.server(what, state, version, folder, &mut usable);
                }
                Err(error) => {
                    let advice = "it is ignored; repair or remove that installation";
                    self.advise(
                        Grade::Notice,
                        "installed PostgreSQL",
                        error.to_string(),
                        advice,
                    );
                }
            }
        }
        let fetchable = self.download(&search_config);
        if starts {
            self.choice(&search_config, usable.first(), fetchable);
        }
    }

    /// The extensions that were added to a server of ours: each was created by a scratch server,
    /// and is undamaged.
    fn extensions(&mut self, cached: &CachedServer) {
        for extension in added::usable(&cached.folder) {
            let what = format!("extension `{}` of {}", extension.name, cached.version);
            let source = extension.source.unwrap_or_default();
            let preload = extension
                .preload
                .map(|library| format!(", with shared_preload_libraries = {library}"));
            let preload = preload.unwrap_or_default();
            self.good(
                what,
                format!("{}{preload}, from `{source}`", extension.version),
            );
        }
        for DamagedExtension { name, why, from } in extension::damaged(cached) {
            let version = cached.version;
            let what = format!("files of an extension for {version}");
            // In quotes of the shell, as it may be a path with spaces.
            let from = from.map(|from| format!(" --from '{}'", from.replace('\'', r"'\''")));
            let from = from.unwrap_or_default();
            let advice = format!(
                "add them again with `lookaside pg extension add {name}{from} --pg-version {version}`"
            );
            self.advise(Grade::Notice, what, format!("`{name}`: {why}"), advice);
        }
    }

    /// A server that can be run, which may still be too old.
    fn server(
        &mut self,
        what: String,
        state: String,
        version: Version,
        folder: PathBuf,
        usable: &mut Vec<(Version, PathBuf)>,
    ) {
        if VersionRequirement::ANY.accepts(version) {
            self.good(what, state);
            usable.push((version, folder));
        } else {
            let advice = format!("it is passed by: {} work", VersionRequirement::ANY);
            self.advise(Grade::Notice, what, state, advice);
        }
    }

    /// Whether a server can be downloaded; returns its version.
    fn download(&mut self, search_config: &SearchConfig) -> Option<Version> {
        let version = download_of(VersionRequirement::ANY)?;
        if !cfg!(feature = "download") {
            self.good("download", "not built into this program");
            return None;
        }
        match search_config.network {
            Network::Allowed => {
                let state = format!("allowed; PostgreSQL {version}, if no other is found");
                self.good("download", state);
                Some(version)
            }
            Network::Forbidden => {
                self.good("download", "forbidden by LOOKASIDE_PG_OFFLINE");
                None
            }
        }
    }

    /// The server that a start without a version uses, and its client programs.
    fn choice(
        &mut self,
        search_config: &SearchConfig,
        usable: Option<&(Version, PathBuf)>,
        fetchable: Option<Version>,
    ) {
        let what = "a start uses";
        let Some((version, folder)) = usable else {
            return match fetchable {
                Some(version) => self.good(what, format!("PostgreSQL {version}, downloaded once")),
                None => self.advise(
                    Grade::Bad,
                    what,
                    "nothing: no server was found",
                    "set LOOKASIDE_PG_BIN to a folder with `postgres` and `initdb`, or install \
                     your distribution's package (`apt install postgresql`), or allow the download",
                ),
            };
        };
        self.good(
            what,
            format!("PostgreSQL {version} in `{}`", folder.display()),
        );
        for (name, purpose) in [("psql", "a shell"), ("pg_dump", "SQL dumps")] {
            let major = version.major;
            let what = format!("`{name}` for {purpose}");
            match search_config.tool(folder, major, name) {
                Some(program) => self.good(what, format!("`{}`", program.display())),
                None => self.advise(
                    Grade::Notice,
                    what,
                    format!("no version {major} is installed"),
                    format!("install it if you need it (`apt install postgresql-client-{major}`)"),
                ),
            }
        }
    }

    /// The cache folder, and the size of its parts.
    fn cache(&mut self, cache: &Result<Cache>) {
        let cache = match cache {
            Ok(cache) => cache,
            Err(error) => {
                let advice = "set LOOKASIDE_CACHE to a folder of your own";
                return self.advise(Grade::Bad, "cache", error.to_string(), advice);
            }
        };
        let root = cache.root();
        let state = format!("`{}`", root.display());
        if !root.exists() {
            return self.good("cache", format!("{state}, created when it is needed"));
        }
        if let Err(error) = cache.check() {
            let advice = "no server can start until then";
            return self.advise(Grade::Bad, "cache", error.to_string(), advice);
        }
        self.good("cache", format!("{state}, {}", Size(size_of(root))));
        let mut parts: Vec<PathBuf> = fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        parts.sort();
        // A bad value of its variable is a finding of its own.
        let verify = Verify::of_process().unwrap_or(Verify::Full);
        for examined in Template::examine(cache, verify) {
            let what = "template of new clusters";
            let folder = examined.folder.display();
            let Some(damage) = examined.damage else {
                self.good(what, format!("intact, in `{folder}`"));
                continue;
            };
            let advice = match examined.is_seen_by_start {
                true => "the next start makes it again; or remove the folder",
                false => {
                    "a start with LOOKASIDE_PG_VERIFY=full makes it again; or remove the folder"
                }
            };
            let state = format!("damaged, in `{folder}`: {}", damage.describe());
            self.advise(Grade::Notice, what, state, advice);
        }
        for part in parts.into_iter().filter(|part| part.is_dir()) {
            let name = part
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            self.good(
                format!("cache, part `{name}`"),
                Size(size_of(&part)).to_string(),
            );
        }
    }

    /// The location of temporary clusters, and leftovers there.
    fn runtime_dir(&mut self, identity: &Identity) {
        let what = "temporary clusters";
        let runtime_dir = match RuntimeDir::inspect(identity) {
            Ok(runtime_dir) => runtime_dir,
            Err(error) => {
                let advice = "set LOOKASIDE_PG_TEMP to a folder of your own";
                return self.advise(Grade::Bad, what, error.to_string(), advice);
            }
        };
        let (folder, free_size) = (runtime_dir.folder.display(), Size(runtime_dir.free_size));
        if runtime_dir.is_memory {
            self.good(what, format!("in memory, `{folder}`, {free_size} free"));
        } else {
            let state = format!("on a disk, `{folder}`, {free_size} free");
            let advice = "they start faster in memory: give /dev/shm 512 MiB or more \
                          (`docker run --shm-size`), or set LOOKASIDE_PG_TEMP to a tmpfs";
            self.advise(Grade::Notice, what, state, advice);
        }
        let stale = cluster_folder::stale(&runtime_dir);
        if stale.is_empty() {
            return self.good("leftover files of ended processes", "none");
        }
        let size = Size(stale.iter().map(|folder| size_of(folder)).sum());
        let state = format!("{} in `{folder}`, {size}", stale.len());
        let advice = "nothing to do: the next start removes them";
        self.advise(
            Grade::Notice,
            "leftover files of ended processes",
            state,
            advice,
        );
    }
}

/// Bytes on the disk below a path; unreadable entries count as zero.
pub(crate) fn size_of(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else {
        return 0;
    };
    let below = if metadata.is_dir() {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| size_of(&entry.path()))
            .sum()
    } else {
        0
    };
    // Of 512 bytes each, see stat(2).
    metadata.blocks() * 512 + below
}

/// A size in KiB or MiB.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            size if size < 1 << 20 => write!(f, "{} KiB", size.div_ceil(1 << 10)),
            size => write!(f, "{} MiB", size.div_ceil(1 << 20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_looks_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path().join("cache"));
        let mut report = Report::default();
        report.binaries(Some(&cache));
        let open = Ok(cache);
        report.cache(&open);
        assert!(!folder.path().join("cache").exists());
        let find = |what: &str| report.findings.iter().find(|finding| finding.what == what);
        assert!(find("cache").unwrap().state.contains("when it is needed"));
        assert!(find("a start uses").is_some(), "{report:#?}");
    }

    #[test]
    fn each_part_of_the_cache_has_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path().join("cache"));
        fs::write(
            cache.folder("pg/18.6").unwrap().join("file"),
            vec![1; 3 << 20],
        )
        .unwrap();
        cache.folder("template").unwrap();
        let mut report = Report::default();
        report.binaries(Some(&cache));
        report.cache(&Ok(cache));
        let find = |what: &str| {
            report
                .findings
                .iter()
                .find(|finding| finding.what == what)
                .unwrap()
        };
        assert!(
            find("cache, part `pg`").state.ends_with("MiB"),
            "{report:#?}"
        );
        assert!(find("cache, part `template`").state.ends_with("KiB"));
        let damaged = find("cached PostgreSQL 18.6");
        assert_eq!(damaged.grade, Grade::Notice);
        assert!(
            damaged.state.contains("damaged") && damaged.advice.is_some(),
            "{damaged:?}"
        );
    }

    #[test]
    fn a_cache_that_cannot_be_used_is_bad() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path().join("cache"));
        cache.folder("pg").unwrap();
        fs::set_permissions(cache.root(), fs::Permissions::from_mode(0o777)).unwrap();
        let mut report = Report::default();
        report.cache(&Ok(cache));
        assert_eq!(report.grade(), Grade::Bad);
    }

    #[test]
    fn sizes_are_rounded_up() {
        for (size, expected) in [
            (0, "0 KiB"),
            (1, "1 KiB"),
            (1 << 20, "1 MiB"),
            ((1 << 20) + 1, "2 MiB"),
        ] {
            assert_eq!(Size(size).to_string(), expected);
        }
    }
}
