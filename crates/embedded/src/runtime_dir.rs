//! The runtime directory of temporary clusters and sockets: a private folder, in memory if there is
//! room.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{self, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use crate::identity::Identity;
use crate::{Error, Result};

/// Free bytes that the file system of temporary clusters must have: a cluster begins with 40 MB, and
/// tests fill a few.
const FREE_SIZE_MIN: u64 = 512 << 20;

/// `f_type` of tmpfs, see statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Size of `sun_path` in Linux's `sockaddr_un` without the final zero, see unix(7); other systems
/// have 103.
const SOCKET_PATH_SIZE_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The folder for files that need not outlive their process.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeDir {
    pub(crate) folder: PathBuf,
    pub(crate) is_memory: bool,
    /// Free bytes when it was checked.
    pub(crate) free_size: u64,
}

impl RuntimeDir {
    /// Finds the first location with enough free space: `LOOKASIDE_PG_TEMP`, memory, then the disk.
    /// Our folder is created there if necessary.
    pub(crate) fn find(identity: &Identity) -> Result<Self> {
        Self::choose(|parent| {
            let runtime_dir = Self::below(parent, identity)?;
            check_writable(&runtime_dir.folder)?;
            make_private(&runtime_dir.folder, identity)?;
            identity.check_reach(&runtime_dir.folder.join("any"))?;
            Ok(runtime_dir)
        })
    }

    /// As [`find`](Self::find), but creates or changes nothing.
    pub(crate) fn inspect(identity: &Identity) -> Result<Self> {
        Self::choose(|parent| Self::inspect_below(parent, identity))
    }

    fn inspect_below(parent: &Path, identity: &Identity) -> Result<Self> {
        let runtime_dir = Self::below(parent, identity)?;
        if runtime_dir.folder.symlink_metadata().is_ok() {
            check_owner(&runtime_dir.folder, identity)?;
        }
        check_writable(&runtime_dir.folder)?;
        identity.check_reach(&runtime_dir.folder.join("any"))?;
        Ok(runtime_dir)
    }

    fn choose(enter: impl Fn(&Path) -> Result<Self>) -> Result<Self> {
        // As in system programs, an empty variable counts as unset.
        let named = |name| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(chosen) = named("LOOKASIDE_PG_TEMP") {
            let chosen = Path::new(&chosen);
            if !chosen.is_dir() {
                return Err(Error::runtime_dir_missing(chosen));
            }
            return enter(chosen);
        }
        let runtime = named("XDG_RUNTIME_DIR").unwrap_or_default();
        for parent in [Path::new("/dev/shm"), Path::new(&runtime)] {
            if is_memory(parent) && free_size(parent) >= FREE_SIZE_MIN {
                // A folder of another user, or an inaccessible one: the next location is tried.
                if let Ok(runtime_dir) = enter(parent) {
                    return Ok(runtime_dir);
                }
            }
        }
        enter(Path::new(&named("TMPDIR").unwrap_or("/tmp".into())))
    }

    /// Our private folder in a directory that all users may write to.
    fn below(parent: &Path, identity: &Identity) -> Result<Self> {
        let parent = &path::absolute(parent).map_err(|error| Error::file("find", parent, error))?;
        let folder = parent.join(format!("lookaside-{}", server_uid(identity)));
        // Every cluster's name has this size.
        if !is_socket_folder(&folder.join("c-0123456789/s")) {
            return Err(Error::runtime_dir_unfit(&folder));
        }
        Ok(Self {
            is_memory: is_memory(parent),
            free_size: free_size(parent),
            folder,
        })
    }

    /// The socket folder of a cluster: its own folder, if its name is suitable for the system, URLs
    /// and the server.
    pub(crate) fn socket_folder(&self, cluster: &Path) -> PathBuf {
        let own = cluster.join("s");
        if is_socket_folder(&own) {
            return own;
        }
        let name = crate::digest::of(cluster.as_os_str().as_encoded_bytes());
        self.folder.join(format!("s-{name}"))
    }
}

/// Whether sockets can be made in a folder and named in text.
fn is_socket_folder(folder: &Path) -> bool {
    let size = folder.as_os_str().len() + "/.s.PGSQL.65535".len();
    size <= SOCKET_PATH_SIZE_MAX && folder.to_str().is_some()
}

/// The owner of the server's files.
pub(crate) fn server_uid(identity: &Identity) -> u32 {
    match identity {
        Identity::User { uid, .. } => *uid,
        _ => rustix::process::geteuid().as_raw(),
    }
}

/// Creates a folder that no other user can enter, or checks an existing one.
pub(crate) fn make_private(folder: &Path, identity: &Identity) -> Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => identity.chown(folder),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check_private(folder, identity)
        }
        Err(error) => Err(Error::file("create the folder", folder, error)),
    }
}

/// Returns an error for a folder that cannot be created or written to.
fn check_writable(folder: &Path) -> Result<()> {
    let target = match folder.symlink_metadata() {
        Ok(_) => folder,
        Err(_) => folder.parent().unwrap_or(folder),
    };
    find_denial(target, Access::WRITE_OK).map_or(Ok(()), |error| {
        Err(Error::runtime_dir_unwritable(folder, error))
    })
}

/// The reason why this process may not access a folder in a way, if it may not.
pub(crate) fn find_denial(folder: &Path, access: Access) -> Option<io::Error> {
    match accessat(CWD, folder, access, AtFlags::EACCESS) {
        // `access` cannot determine this for a program that runs as another user than the one that
        // started it.
        Ok(()) | Err(Errno::NOSYS) => None,
        Err(errno) => Some(errno.into()),
    }
}

fn check_private(folder: &Path, identity: &Identity) -> Result<()> {
    if check_owner(folder, identity)? & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .map_err(|error| Error::file("close to others", folder, error))?;
    }
    Ok(())
}

/// A folder in a directory open to all may be another user's. Returns its mode.
fn check_owner(folder: &Path, identity: &Identity) -> Result<u32> {
    let metadata = folder
        .symlink_metadata()
        .map_err(|error| Error::file("read", folder, error))?;
    if !metadata.is_dir() || metadata.uid() != server_uid(identity) {
        return Err(Error::folder_of_other(folder));
    }
    Ok(metadata.permissions().mode())
}

/// Writes a file that only we and the server can read, replacing an existing one. The server's user
/// may have created a link there, which is not followed.
pub(crate) fn write_private(path: &Path, text: &str, identity: &Identity) -> Result<()> {
    let _ = fs::remove_file(path);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| {
        identity.chown_file(&file)?;
        file.write_all(text.as_bytes())
    });
    written.map_err(|error| Error::file("write", path, error))
}

/// Free bytes for this user; 0 if unknown.
pub(crate) fn free_size(folder: &Path) -> u64 {
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn our_folder_is_private_and_a_strangers_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let find = || {
            let runtime_dir = RuntimeDir::below(parent.path(), &Identity::Own)?;
            make_private(&runtime_dir.folder, &Identity::Own).map(|()| runtime_dir)
        };
        let runtime_dir = find().unwrap();
        let mode = runtime_dir.folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(runtime_dir.free_size > 0);
        // It was accessible to others: restricted again.
        fs::set_permissions(&runtime_dir.folder, fs::Permissions::from_mode(0o755)).unwrap();
        find().unwrap();
        assert_eq!(
            runtime_dir.folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        // A symbolic link to another folder is refused.
        fs::remove_dir(&runtime_dir.folder).unwrap();
        std::os::unix::fs::symlink("/tmp", &runtime_dir.folder).unwrap();
        let error = find().unwrap_err();
        assert!(error.to_string().contains("lookaside-"), "{error}");
    }

    #[test]
    fn a_private_file_is_not_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_private(&link, "secret", &Identity::Own).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&link).unwrap(), "secret");
        let mode = link.symlink_metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_look_makes_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let inspect = || RuntimeDir::inspect_below(parent.path(), &Identity::Own);
        let runtime_dir = inspect().unwrap();
        assert!(!runtime_dir.folder.exists());
        fs::create_dir(&runtime_dir.folder).unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&runtime_dir.folder, open.clone()).unwrap();
        inspect().unwrap();
        let mode = runtime_dir.folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        fs::remove_dir(&runtime_dir.folder).unwrap();
        fs::write(&runtime_dir.folder, "").unwrap();
        assert!(inspect().is_err());
    }

    #[test]
    fn a_place_is_absolute_and_has_room_for_a_socket() {
        let below = |parent: &OsStr| RuntimeDir::below(Path::new(parent), &Identity::Own);
        assert!(below("a".as_ref()).unwrap().folder.is_absolute());
        let long = "x".repeat(90);
        for unfit in [OsStr::new(&long), OsStr::from_bytes(b"/a\xff")] {
            let error = below(unfit).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse);
            assert!(error.to_string().contains("LOOKASIDE_PG_TEMP"), "{error}");
        }
    }

    #[test]
    fn a_long_path_gets_a_short_socket_folder() {
        let runtime_dir = RuntimeDir {
            folder: "/dev/shm/lookaside-0".into(),
            is_memory: true,
            free_size: 0,
        };
        assert_eq!(
            runtime_dir.socket_folder(Path::new("/a/b")),
            Path::new("/a/b/s")
        );
        let odd = runtime_dir.socket_folder(Path::new(OsStr::from_bytes(b"/a\xff")));
        assert!(odd.starts_with(&runtime_dir.folder), "{}", odd.display());
        let long = PathBuf::from(format!("/{}", "x".repeat(120)));
        let folder = runtime_dir.socket_folder(&long);
        assert!(
            folder.starts_with(&runtime_dir.folder),
            "{}",
            folder.display()
        );
        assert!(folder.as_os_str().len() < 60);
        assert_ne!(
            folder,
            runtime_dir.socket_folder(Path::new(&format!("/{}", "y".repeat(120))))
        );
    }
}
