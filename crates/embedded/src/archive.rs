//! Archives: a whole cluster as one file.
//!
//! ```text
//! <file>.tar.zst    lookaside.toml    major version, user, database
//!                   data/…            the server's data as a base backup: the files, copied while
//!                                     the server runs, the log that makes them agree, and the
//!                                     label from which a start replays it
//! ```
//!
//! See "Continuous Archiving", section "Making a Base Backup", in PostgreSQL's manual.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use tar::{EntryType, Header};

use crate::cluster::Cluster;
use crate::cluster_manifest::ClusterManifest;
use crate::identity::Identity;
use crate::{Error, Result, Version, VersionRequirement, digest};

/// The default level of zstd.
const LEVEL: i32 = 3;

/// A manifest has a few lines.
const MANIFEST_SIZE_MAX: u64 = 64 << 10;

/// Folders that the server fills at each start; they are empty in the archive. From the manual's
/// section on base backups.
const EMPTIED: [&str; 7] = [
    "pg_dynshmem",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat_tmp",
    "pg_subtrans",
];

/// Files of a running server.
const LEFT_OUT: [&str; 4] = [
    "postmaster.pid",
    "postmaster.opts",
    "backup_label",
    "tablespace_map",
];

/// Folder of the write-ahead log, which is added last.
const LOG_FOLDER: &str = "pg_wal";

/// Writes a running cluster into a file, which is renamed into place when complete.
pub(crate) fn write(cluster: &Cluster, manifest: &ClusterManifest, file: &Path) -> Result<()> {
    let partial = file.with_extension(format!("partial-{}", digest::random(4)));
    let written = write_partial(cluster, manifest, &partial).and_then(|()| {
        fs::rename(&partial, file).map_err(|error| Error::file("write", file, error))
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write_partial(cluster: &Cluster, manifest: &ClusterManifest, partial: &Path) -> Result<()> {
    let failed = |error| Error::file("write", partial, error);
    let data = cluster.data();
    refuse_tablespaces(&data)?;
    let output = BufWriter::new(create_private(partial).map_err(failed)?);
    let mut encoder = zstd::Encoder::new(output, LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    let mut tar = tar::Builder::new(encoder);
    let text = manifest.text();
    add_bytes(&mut tar, Path::new("lookaside.toml"), text.as_bytes()).map_err(failed)?;

    let mut session = cluster.open("postgres", "beginning the archive")?;
    let label = {
        let mut ask = |sql: &str| {
            session
                .query(sql)
                .map_err(|failure| cluster.explain(failure, "archiving the cluster"))
        };
        let (begin, end) = match cluster.binaries.version().major {
            14 => (
                "pg_start_backup('lookaside', true, false)",
                "labelfile FROM pg_stop_backup(false, false)",
            ),
            _ => (
                "pg_backup_start('lookaside', true)",
                "labelfile FROM pg_backup_stop(false)",
            ),
        };
        // Keeps the log from being recycled; ends with the session.
        let slot = format!("lookaside_{}", digest::random(4));
        ask(&format!(
            "SELECT pg_create_physical_replication_slot('{slot}', true, true)"
        ))?;
        ask(&format!("SELECT {begin}"))?;
        add_folder(&mut tar, &data, Path::new("data"))?;
        let rows = ask(&format!("SELECT {end}"))?;
        rows.into_iter()
            .flatten()
            .flatten()
            .next()
            .ok_or_else(Error::no_backup_label)?
    };
    add_bytes(&mut tar, Path::new("data/backup_label"), label.as_bytes()).map_err(failed)?;
    add_log(&mut tar, &data.join(LOG_FOLDER))?;
    // The slot is dropped with the session, which must stay open until here.
    drop(session);
    let encoder = tar.into_inner().map_err(failed)?;
    let output = encoder.finish().map_err(failed)?;
    let file = output
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)
}

/// A new file that only we can read, as the data it is made from.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Data outside the folder would be missing from the archive.
fn refuse_tablespaces(data: &Path) -> Result<()> {
    let folder = data.join("pg_tblspc");
    let mut entries = fs::read_dir(&folder).map_err(|error| Error::file("read", &folder, error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::has_tablespaces()),
    }
}

fn add_folder<W: Write>(tar: &mut tar::Builder<W>, folder: &Path, name: &Path) -> Result<()> {
    add_folder_entry(tar, name).map_err(|error| Error::file("archive", folder, error))?;
    let folder_name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if EMPTIED.contains(&folder_name) {
        return Ok(());
    }
    if folder_name == LOG_FOLDER {
        for inner in ["archive_status", "summaries"] {
            if folder.join(inner).is_dir() {
                add_folder_entry(tar, &name.join(inner))
                    .map_err(|error| Error::file("archive", folder, error))?;
            }
        }
        return Ok(());
    }
    for path in entries(folder)? {
        let file_name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if LEFT_OUT.contains(&&*file_name) || file_name.starts_with("pgsql_tmp") {
            continue;
        }
        let inner = name.join(&file_name);
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => add_folder(tar, &path, &inner)?,
            Ok(metadata) if metadata.is_file() => add_file(tar, &path, &inner)?,
            // Neither a file nor a folder, so not one of the server; or removed meanwhile, which
            // the log contains.
            _ => {}
        }
    }
    Ok(())
}

/// Adds the segments of the log that exist when everything else has been copied.
fn add_log<W: Write>(tar: &mut tar::Builder<W>, folder: &Path) -> Result<()> {
    for path in entries(folder)? {
        if path.is_file() {
            let name = Path::new("data")
                .join(LOG_FOLDER)
                .join(path.file_name().unwrap_or_default());
            add_file(tar, &path, &name)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || {
        fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()
    };
    let mut paths = read().map_err(|error| Error::file("read", folder, error))?;
    paths.sort();
    Ok(paths)
}

/// Adds a file at the size it has now: while the server runs, it may grow or shrink, and the log
/// has what changed since the backup began.
fn add_file<W: Write>(tar: &mut tar::Builder<W>, path: &Path, name: &Path) -> Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("read", path, error)),
    };
    let size = file
        .metadata()
        .map_err(|error| Error::file("read", path, error))?
        .len();
    let mut header = header(EntryType::Regular, size, 0o600);
    let content = BufReader::new(file).chain(io::repeat(0)).take(size);
    tar.append_data(&mut header, name, content)
        .map_err(|error| Error::file("archive", path, error))
}

fn add_bytes<W: Write>(tar: &mut tar::Builder<W>, name: &Path, bytes: &[u8]) -> io::Result<()> {
    tar.append_data(
        &mut header(EntryType::Regular, bytes.len() as u64, 0o600),
        name,
        bytes,
    )
}

fn add_folder_entry<W: Write>(tar: &mut tar::Builder<W>, name: &Path) -> io::Result<()> {
    tar.append_data(
        &mut header(EntryType::Directory, 0, 0o700),
        name,
        io::empty(),
    )
}

fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header
}

/// Unpacks an archive's data into `data`, which must not exist, for a server of `version`.
pub(crate) fn unpack(
    file: &Path,
    data: &Path,
    identity: &Identity,
    version: Version,
) -> Result<ClusterManifest> {
    let unpacked = unpack_unchecked(file, data, version);
    let manifest = unpacked.inspect_err(|_| {
        let _ = fs::remove_dir_all(data);
    })?;
    identity.chown(data)?;
    Ok(manifest)
}

/// The versions that can read an archive, if there is one and the caller requests no other.
pub(crate) fn requirement_of(
    file: Option<&Path>,
    wanted: VersionRequirement,
) -> Result<VersionRequirement> {
    match file {
        Some(file) if wanted == VersionRequirement::ANY => {
            let mut tar = open(file)?;
            let mut entries = tar
                .entries()
                .map_err(|error| Error::archive_damaged(file).because(error))?;
            Ok(VersionRequirement::of_major(
                read_manifest(&mut entries, file)?.major,
            ))
        }
        _ => Ok(wanted),
    }
}

type Input = zstd::Decoder<'static, BufReader<File>>;

fn open(file: &Path) -> Result<tar::Archive<Input>> {
    let input = File::open(file).map_err(|error| Error::file("open", file, error))?;
    let decoder = zstd::Decoder::new(input).map_err(|error| Error::file("read", file, error))?;
    Ok(tar::Archive::new(decoder))
}

/// The first member.
fn read_manifest(entries: &mut tar::Entries<'_, Input>, file: &Path) -> Result<ClusterManifest> {
    let Some(Ok(mut entry)) = entries.next() else {
        return Err(Error::not_an_archive(file));
    };
    if entry.path().ok().as_deref() != Some(Path::new("lookaside.toml")) {
        return Err(Error::not_an_archive(file));
    }
    let damaged = |error| Error::archive_damaged(file).because(error);
    let mut text = String::new();
    (&mut entry)
        .take(MANIFEST_SIZE_MAX)
        .read_to_string(&mut text)
        .map_err(damaged)?;
    toml::from_str(&text).map_err(|error| Error::archive_damaged(file).because(error))
}

fn unpack_unchecked(file: &Path, data: &Path, version: Version) -> Result<ClusterManifest> {
    let damaged = |error: io::Error| Error::archive_damaged(file).because(error);
    let mut tar = open(file)?;
    let mut entries = tar.entries().map_err(damaged)?;
    let manifest = read_manifest(&mut entries, file)?;
    if manifest.major != version.major {
        return Err(Error::archive_of_other_major(file, manifest.major, version));
    }
    for entry in entries {
        let mut entry = entry.map_err(damaged)?;
        let name = entry.path().map_err(damaged)?.into_owned();
        let target = target_of(&name, data).ok_or_else(|| Error::archive_damaged(file))?;
        match entry.header().entry_type() {
            EntryType::Directory => fs::DirBuilder::new().mode(0o700).create(&target),
            EntryType::Regular => File::create_new(&target)
                .and_then(|mut output| io::copy(&mut entry, &mut output))
                .map(drop),
            _ => return Err(Error::archive_damaged(file)),
        }
        .map_err(|error| match error.raw_os_error() {
            Some(_) => Error::file("unpack to", &target, error),
            // The cause is the contents, not the system.
            None => damaged(error),
        })?;
    }
    // The checksum follows the last member.
    io::copy(&mut tar.into_inner(), &mut io::sink()).map_err(damaged)?;
    // The label is the last file before the log: without it, the archive is truncated.
    match data.join("backup_label").exists() {
        true => Ok(manifest),
        false => Err(Error::archive_damaged(file)),
    }
}

/// The path of a member; `None` if its name leads out of the folder.
fn target_of(name: &Path, data: &Path) -> Option<PathBuf> {
    let inner = name.strip_prefix("data").ok()?;
    let is_plain = inner
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    is_plain.then(|| {
        if inner.as_os_str().is_empty() {
            data.to_owned()
        } else {
            data.join(inner)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_in_the_folder() {
        let data = Path::new("/d");
        for (name, target) in [
            ("data", Some("/d")),
            ("data/base/1/2", Some("/d/base/1/2")),
            ("data/../x", None),
            ("/etc/passwd", None),
            ("other", None),
        ] {
            assert_eq!(
                target_of(Path::new(name), data).as_deref(),
                target.map(Path::new),
                "{name}"
            );
        }
    }
}
