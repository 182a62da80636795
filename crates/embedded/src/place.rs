//! Where temporary clusters and sockets live: memory, where it has room, in a folder of ours alone.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use crate::identity::Identity;
use crate::{Error, Result};

/// Room that a temporary place must have: a cluster begins with 40 MB, and tests fill a few.
const ROOM_MIN: u64 = 512 << 20;

/// `f_type` of tmpfs, see statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Size of `sun_path` in Linux's `sockaddr_un` without the final zero, see unix(7); other systems
/// have 103.
const SOCKET_PATH_SIZE_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The folder for what need not outlive its process.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) is_memory: bool,
    /// Bytes free when it was looked at.
    pub(crate) room: u64,
}

impl Place {
    /// The first place with room: what `LOOKASIDE_PG_TEMP` names, memory, then the disk.
    pub(crate) fn find(identity: &Identity) -> Result<Self> {
        if let Some(chosen) = env::var_os("LOOKASIDE_PG_TEMP") {
            return Self::below(Path::new(&chosen), identity);
        }
        let memory = [
            Some(PathBuf::from("/dev/shm")),
            env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        ];
        for parent in memory.into_iter().flatten() {
            if is_memory(&parent) && room(&parent) >= ROOM_MIN {
                // Somebody else's folder of our name, or one we may not enter: the next will do.
                if let Ok(place) = Self::below(&parent, identity) {
                    return Ok(place);
                }
            }
        }
        Self::below(&env::temp_dir(), identity)
    }

    /// Our private folder in a place that all users may write to.
    fn below(parent: &Path, identity: &Identity) -> Result<Self> {
        let uid = match identity {
            Identity::User { uid, .. } => *uid,
            _ => rustix::process::geteuid().as_raw(),
        };
        let folder = parent.join(format!("lookaside-{uid}"));
        make_private(&folder, identity)?;
        identity.check_reach(&folder.join("any"))?;
        Ok(Self {
            is_memory: is_memory(&folder),
            room: room(&folder),
            folder,
        })
    }

    /// A socket folder for a cluster: its own, if the name is not too long for the system.
    pub(crate) fn socket_folder(&self, cluster: &Path) -> PathBuf {
        let own = cluster.join("s");
        let size = own.as_os_str().len() + "/.s.PGSQL.65535".len();
        if size <= SOCKET_PATH_SIZE_MAX {
            return own;
        }
        let name = crate::digest::of(cluster.as_os_str().as_encoded_bytes());
        self.folder.join(format!("s-{name}"))
    }
}

/// Makes a folder that nobody else can enter, or finds that it is one.
pub(crate) fn make_private(folder: &Path, identity: &Identity) -> Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => identity.give(folder),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check_private(folder, identity)
        }
        Err(error) => Err(Error::file("create the folder", folder, error)),
    }
}

/// A folder in a place open to all may have been laid there by somebody else.
fn check_private(folder: &Path, identity: &Identity) -> Result<()> {
    let owner = match identity {
        Identity::User { uid, .. } => *uid,
        _ => rustix::process::geteuid().as_raw(),
    };
    let metadata = folder
        .symlink_metadata()
        .map_err(|error| Error::file("read", folder, error))?;
    if !metadata.is_dir() || metadata.uid() != owner {
        return Err(Error::not_ours(folder));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .map_err(|error| Error::file("close to others", folder, error))?;
    }
    Ok(())
}

/// Writes a file that only we can read.
pub(crate) fn write_private(path: &Path, text: &str, identity: &Identity) -> Result<()> {
    let write = || {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|error| Error::file("write", path, error))?;
    identity.give(path)
}

/// Free bytes for us; 0 where that cannot be told.
pub(crate) fn room(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
}

#[cfg(target_os = "linux")]
pub(crate) fn is_memory(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_memory(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_folder_is_private_and_a_strangers_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::below(parent.path(), &Identity::Own).unwrap();
        let mode = place.folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(place.room > 0);
        // Opened by somebody: closed again.
        fs::set_permissions(&place.folder, fs::Permissions::from_mode(0o755)).unwrap();
        Place::below(parent.path(), &Identity::Own).unwrap();
        assert_eq!(
            place.folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        // A symbolic link leads elsewhere: refused.
        fs::remove_dir(&place.folder).unwrap();
        std::os::unix::fs::symlink("/tmp", &place.folder).unwrap();
        let error = Place::below(parent.path(), &Identity::Own).unwrap_err();
        assert!(error.to_string().contains("lookaside-"), "{error}");
    }

    #[test]
    fn a_long_path_gets_a_short_socket_folder() {
        let place = Place {
            folder: "/dev/shm/lookaside-0".into(),
            is_memory: true,
            room: 0,
        };
        assert_eq!(place.socket_folder(Path::new("/a/b")), Path::new("/a/b/s"));
        let long = PathBuf::from(format!("/{}", "x".repeat(120)));
        let folder = place.socket_folder(&long);
        assert!(folder.starts_with(&place.folder), "{}", folder.display());
        assert!(folder.as_os_str().len() < 60);
        assert_ne!(
            folder,
            place.socket_folder(Path::new(&format!("/{}", "y".repeat(120))))
        );
    }
}
