//! The search for a server's programs.

#[cfg(feature = "download")]
use super::download::provide;
use super::search_config::{Installed, Network, SearchConfig};
use super::{Binaries, CachedServer, Condition, ProbeCache, Progress, Source};
use crate::cache::Cache;
use crate::{Error, ErrorKind, Result, Version, VersionRequirement};

/// Finds the first server of an accepted version, or downloads one if there is none.
pub(super) fn find(
    search_config: &SearchConfig,
    cache: Result<Cache>,
    requirement: VersionRequirement,
    progress: &dyn Progress,
) -> Result<Binaries> {
    // A server may be found without a cache.
    let mut probe_cache = ProbeCache::read(cache.as_ref().ok());
    let found = find_local(
        search_config,
        cache.as_ref().ok(),
        &mut probe_cache,
        requirement,
        progress,
    );
    probe_cache.write(cache.as_ref().ok());
    match found? {
        Some(binaries) => Ok(binaries),
        None => fetch(search_config, cache, requirement, progress),
    }
}

fn find_local(
    search_config: &SearchConfig,
    cache: Option<&Cache>,
    probe_cache: &mut ProbeCache,
    requirement: VersionRequirement,
    progress: &dyn Progress,
) -> Result<Option<Binaries>> {
    if let Some((folder, version)) = search_config.named(probe_cache)? {
        if requirement.accepts(version) {
            let source = Source::Environment;
            return Ok(Some(Binaries {
                folder,
                version,
                source,
            }));
        }
        progress.step(&format!(
            "LOOKASIDE_PG_BIN is PostgreSQL {version}, but {requirement} is required; \
             searching for another one"
        ));
    }
    for cached in cache.map(CachedServer::all).unwrap_or_default() {
        if requirement.accepts(cached.version)
            && let Some(cache) = cache
            && let Some(binaries) = take(cached, search_config, cache, progress)
        {
            return Ok(Some(binaries));
        }
    }
    for Installed { folder, version } in search_config.installed(probe_cache) {
        match version {
            Ok(version) if requirement.accepts(version) => {
                let source = Source::Installed;
                return Ok(Some(Binaries {
                    folder,
                    version,
                    source,
                }));
            }
            // It may be the requested one.
            Err(error) if error.lacks_process() => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

/// Finds the newest cached server of an accepted version, repaired if necessary; downloads one if
/// there is none. Never an installed server.
pub(crate) fn find_cached(
    cache: &Cache,
    requirement: VersionRequirement,
    progress: &dyn Progress,
) -> Result<CachedServer> {
    let search_config = SearchConfig::of_process()?;
    if let Some((folder, version)) = search_config.named(&mut ProbeCache::read(Some(cache)))?
        && requirement.accepts(version)
    {
        return Err(Error::named_is_not_ours(&folder, version, version.major));
    }
    for cached in CachedServer::all(cache) {
        if requirement.accepts(cached.version)
            && take(cached.clone(), &search_config, cache, progress).is_some()
        {
            return Ok(cached);
        }
    }
    let fetched = fetch(&search_config, Ok(cache.clone()), requirement, progress)?;
    Ok(CachedServer::at(cache, fetched.version))
}

/// Takes a server from the cache, repaired if necessary and possible.
fn take(
    cached: CachedServer,
    search_config: &SearchConfig,
    cache: &Cache,
    progress: &dyn Progress,
) -> Option<Binaries> {
    let version = cached.version;
    match cached.condition(search_config.verify) {
        Condition::Absent => None,
        Condition::Sound => Some(Binaries {
            folder: cached.bin(),
            version,
            source: Source::Cache,
        }),
        Condition::Damaged(damage) => {
            let folder = cached.folder.display();
            progress.warning(&format!(
                "PostgreSQL {version} in `{folder}` is damaged: {damage}"
            ));
            match provide(cached.clone(), search_config, cache, progress) {
                Ok(binaries) => {
                    progress.step(&format!("repaired PostgreSQL {version} in `{folder}`"));
                    Some(binaries)
                }
                Err(error) => {
                    progress.warning(&format!(
                        "PostgreSQL {version} cannot be repaired; searching for another server: {error}"
                    ));
                    None
                }
            }
        }
    }
}

/// Downloads a server for a requirement.
fn fetch(
    search_config: &SearchConfig,
    cache: Result<Cache>,
    requirement: VersionRequirement,
    progress: &dyn Progress,
) -> Result<Binaries> {
    let Some(version) = download_of(requirement) else {
        return Err(Error::missing(
            requirement,
            "only 15 to 18 can be downloaded",
            "",
        ));
    };
    let cache = cache?;
    provide(
        CachedServer::at(&cache, version),
        search_config,
        &cache,
        progress,
    )
    .map_err(|error| match error.kind() {
        ErrorKind::Missing => {
            let or = match search_config.network {
                Network::Allowed => "",
                Network::Forbidden => ", or allow the download",
            };
            Error::missing(requirement, &error.to_string(), or)
        }
        _ => error,
    })
}

/// Without the feature, no server can be provided.
#[cfg(not(feature = "download"))]
fn provide(
    cached: CachedServer,
    _: &SearchConfig,
    _: &Cache,
    _: &dyn Progress,
) -> Result<Binaries> {
    Err(Error::no_download(cached.version))
}

/// The versions that are downloaded: the newest of each major one in November 2026.
const PINNED: [Version; 4] = [
    Version {
        major: 18,
        minor: 6,
    },
    Version {
        major: 17,
        minor: 11,
    },
    Version {
        major: 16,
        minor: 15,
    },
    Version {
        major: 15,
        minor: 19,
    },
];

/// The version to download: the requested one, or the pinned one of its major version.
pub(crate) fn download_of(requirement: VersionRequirement) -> Option<Version> {
    let major = requirement.major().unwrap_or(PINNED[0].major);
    let pinned = PINNED.into_iter().find(|version| version.major == major)?;
    let minor = requirement.minor().unwrap_or(pinned.minor);
    Some(Version { major, minor })
}
