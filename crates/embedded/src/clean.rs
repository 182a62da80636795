//! Removes leftovers of ended processes, and files that can be recreated: everything that starts
//! remove incrementally, at once, with a list of it.
//!
//! Whether something is in use is determined as everywhere: by a lock that the kernel releases when
//! its holder dies. Folders of users are never touched.

use std::fs;
use std::path::{Path, PathBuf};

use crate::admin::Connection;
use crate::binaries::{CachedServer, ProbeCache, SearchConfig};
use crate::cache::Cache;
use crate::cluster::{Sweep, sweep_databases};
use crate::cluster_folder;
use crate::doctor::size_of;
use crate::endpoint::PORT_DEFAULT;
use crate::file_lock::is_free;
use crate::files::{OWNERS, PORT};
use crate::identity::Identity;
use crate::names::USER;
use crate::runtime_dir::RuntimeDir;
use crate::template::Template;
use crate::{Result, Version, digest};

/// What [`clean`] does with leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanMode {
    /// Only lists them.
    DryRun,
    /// Removes them.
    Remove,
}

/// A leftover that [`clean`] removed, or would remove.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// What it is, such as `cluster of a process that has ended`.
    pub what: &'static str,
    /// Its path; for a database, its name after the folder of its server.
    pub place: String,
    /// Its size in bytes, on disk or in memory.
    pub size: u64,
}

/// Removes clusters and databases of processes that have ended, copies of templates for the next
/// cluster, incomplete files in the cache, templates that no server found here uses, and templates
/// with contents other than the eight most recently used. Files that a running process uses, and
/// persistent folders, are kept.
///
/// # Errors
///
/// If the cache or the folder of temporary clusters is unusable or cannot be read. Leftovers that
/// cannot be removed are not in the list.
pub fn clean(mode: CleanMode) -> Result<Vec<Leftover>> {
    let identity = Identity::current()?;
    let runtime_dir = RuntimeDir::inspect(identity)?;
    let cache = Cache::open()?;
    let mut found = Vec::new();
    if runtime_dir.folder.exists() {
        clean_runtime_dir(&runtime_dir, mode, &mut found)?;
        clean_databases(&runtime_dir, mode, &mut found);
    }
    if cache.root().exists() {
        cache.check()?;
        clean_cache(&cache, mode, &mut found);
        clean_templates(&cache, mode, &mut found)?;
    }
    Ok(found)
}

fn clean_runtime_dir(
    runtime_dir: &RuntimeDir,
    mode: CleanMode,
    found: &mut Vec<Leftover>,
) -> Result<()> {
    let leftover = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let what = match () {
            () if name.starts_with("spare-") => "copy of a template for the next cluster",
            () if name.starts_with("s-") => "socket folder without a server",
            () => "cluster of a process that has ended",
        };
        Leftover {
            what,
            place: path.display().to_string(),
            size: size_of(path),
        }
    };
    if mode == CleanMode::DryRun {
        found.extend(
            cluster_folder::unused(runtime_dir)
                .iter()
                .map(|path| leftover(path)),
        );
        return Ok(());
    }
    let sockets = cluster_folder::unused_sockets(runtime_dir);
    let sockets: Vec<_> = sockets.iter().map(|path| leftover(path)).collect();
    for stale in cluster_folder::rename_all_stale(runtime_dir)? {
        let leftover = Leftover {
            size: size_of(&stale.renamed),
            ..leftover(&stale.path)
        };
        cluster_folder::remove(&stale.renamed);
        if !stale.renamed.exists() {
            found.push(leftover);
        }
    }
    found.extend(
        sockets
            .into_iter()
            .filter(|left| !Path::new(&left.place).exists()),
    );
    Ok(())
}

/// Databases in servers that run for others.
fn clean_databases(runtime_dir: &RuntimeDir, mode: CleanMode, found: &mut Vec<Leftover>) {
    for cluster in cluster_folder::clusters(runtime_dir) {
        let is_shared = cluster.join(OWNERS).exists() && matches!(is_free(&cluster), Ok(false));
        if !is_shared {
            continue;
        }
        let port = fs::read_to_string(cluster.join(PORT)).ok();
        let port = port
            .and_then(|port| port.parse().ok())
            .unwrap_or(PORT_DEFAULT);
        // If the server ends meanwhile, its databases are gone, too.
        let Ok(mut session) = Connection::open(&cluster.join("s"), port, USER, "postgres") else {
            continue;
        };
        let swept = sweep_databases(
            &mut session,
            &Sweep {
                own: None,
                kept: &[],
                count_max: usize::MAX,
                is_dry_run: mode == CleanMode::DryRun,
                is_measured: true,
            },
        );
        for database in swept.unwrap_or_default() {
            found.push(Leftover {
                what: "database of a process that has ended",
                place: format!("{}: {}", cluster.display(), database.name),
                size: database.size,
            });
        }
    }
}

fn clean_cache(cache: &Cache, mode: CleanMode, found: &mut Vec<Leftover>) {
    for partial in cache.abandoned() {
        let leftover = Leftover {
            what: "incomplete file or folder in the cache",
            place: partial.display().to_string(),
            size: size_of(&partial),
        };
        if mode == CleanMode::DryRun || cache.remove_abandoned(&partial) {
            found.push(leftover);
        }
    }
}

fn clean_templates(cache: &Cache, mode: CleanMode, found: &mut Vec<Leftover>) -> Result<()> {
    let servers = servers(cache)?;
    let names = |(folder, version): &(PathBuf, Version)| {
        let programs = digest::of(folder.as_os_str().as_encoded_bytes());
        format!("{version}-{programs}")
    };
    let servers: Vec<_> = servers.iter().map(names).collect();
    for (template, what) in Template::unused(cache, &servers) {
        let leftover = Leftover {
            what,
            place: template.display().to_string(),
            size: size_of(&template),
        };
        if mode == CleanMode::DryRun || Template::remove(cache, &template) {
            found.push(leftover);
        }
    }
    Ok(())
}

/// The servers that templates may be made of, with the folders of their programs.
fn servers(cache: &Cache) -> Result<Vec<(PathBuf, Version)>> {
    let search_config = SearchConfig::of_process()?;
    let mut probe_cache = ProbeCache::read(Some(cache));
    let named = search_config.named(&mut probe_cache)?;
    let cached = CachedServer::all(cache).into_iter();
    let installed = search_config.installed(&mut probe_cache).into_iter();
    let installed = installed.filter_map(|server| Some((server.folder, server.version.ok()?)));
    let cached = cached.map(|cached| (cached.bin(), cached.version));
    Ok(named.into_iter().chain(cached).chain(installed).collect())
}
