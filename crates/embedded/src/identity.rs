//! The user that the server runs as. It refuses to run as root, so a start by root uses another
//! user.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{Error, Result, descriptor_limit, process_limit};

/// How the server's programs are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// This process is not root, and the server runs as the same user.
    Own,
    /// Root in a separate user namespace, where it has the id `uid`. Outside it stays root, so file
    /// owners do not change, and every folder that root can access can be used.
    Namespace {
        unshare: PathBuf,
        uid: u32,
        gid: u32,
    },
    /// Root drops its privileges and becomes another user of the machine.
    User { uid: u32, gid: u32, name: String },
}

/// The preferred users for the server: ones that own no system files.
const USERS_PREFERRED: [&str; 2] = ["postgres", "nobody"];

impl Identity {
    /// The identity for this process; determined once.
    pub(crate) fn current() -> Result<&'static Self> {
        static IDENTITY: OnceLock<Option<Identity>> = OnceLock::new();
        let chosen = match IDENTITY.get() {
            Some(chosen) => chosen,
            None => {
                let is_root = rustix::process::geteuid().is_root();
                let path = env::var_os("PATH").unwrap_or_default();
                let users = match fs::read_to_string("/etc/passwd") {
                    Err(error) if descriptor_limit::is_cause(&error) => {
                        return Err(Error::file("read", Path::new("/etc/passwd"), error));
                    }
                    users => users.unwrap_or_default(),
                };
                let chosen = Self::choose(is_root, &path, &users)?;
                IDENTITY.get_or_init(|| chosen)
            }
        };
        chosen.as_ref().ok_or_else(Error::no_user)
    }

    /// `None` if there is none. An error may be temporary.
    fn choose(is_root: bool, path: &OsStr, passwd: &str) -> Result<Option<Self>> {
        if !is_root {
            return Ok(Some(Self::Own));
        }
        let users: Vec<(&str, u32, u32)> = passwd.lines().filter_map(user_of).collect();
        // In a namespace, any user works, but it needs an entry, because initdb looks up its name,
        // and 65534 also represents unmapped users there.
        let inside = (users.iter()).find(|(_, uid, _)| *uid != 0 && *uid != 65534);
        if let (Some((_, uid, gid)), Some(unshare)) = (inside, find_in(path, "unshare")) {
            let identity = Self::Namespace {
                unshare,
                uid: *uid,
                gid: *gid,
            };
            if identity.works()? {
                return Ok(Some(identity));
            }
        }
        let user = (USERS_PREFERRED.iter()).find_map(|wanted| {
            users
                .iter()
                .find(|(name, uid, _)| name == wanted && *uid != 0)
        });
        Ok(user.map(|(name, uid, gid)| Self::User {
            uid: *uid,
            gid: *gid,
            name: (*name).to_owned(),
        }))
    }

    /// Whether a program can be started this way; kernels and containers may forbid namespaces. An
    /// error if no process can be started to try it.
    fn works(&self) -> Result<bool> {
        let mut command = self.command(Path::new("/bin/sh"));
        command
            .args(["-c", "exit 0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match command.status() {
            Ok(status) => Ok(status.success()),
            Err(error) if process_limit::is_cause(&error) || descriptor_limit::is_cause(&error) => {
                Err(Error::cannot_spawn(error))
            }
            Err(_) => Ok(false),
        }
    }

    /// A command that starts `program` with this identity and without environment variables that
    /// could lead PostgreSQL to another server.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = match self {
            Self::Own => Command::new(program),
            Self::Namespace { unshare, uid, gid } => {
                let mut command = Command::new(unshare);
                command
                    .arg("--user")
                    .arg(format!("--map-user={uid}"))
                    .arg(format!("--map-group={gid}"))
                    .arg("--")
                    .arg(program);
                command
            }
            Self::User { uid, gid, .. } => {
                let mut command = Command::new(program);
                command.uid(*uid).gid(*gid);
                command
            }
        };
        clear_postgres_variables(&mut command);
        // Messages are read by us, and a cluster must not depend on the user that made it.
        command.env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
        command
    }

    /// Changes the owner of a file or a whole folder to the server's user. The contents of a folder
    /// are changed first: as long as it belongs to root, no other user can create a link in it.
    pub(crate) fn chown(&self, path: &Path) -> Result<()> {
        if !matches!(self, Self::User { .. }) {
            return Ok(());
        }
        let failed = |error| Error::file("read", path, error);
        if path.symlink_metadata().map_err(failed)?.is_dir() {
            for entry in fs::read_dir(path).map_err(failed)? {
                self.chown(&entry.map_err(failed)?.path())?;
            }
        }
        self.chown_folder(path)
    }

    /// As [`chown`](Self::chown), for a folder without what is in it. Never what a link points to.
    pub(crate) fn chown_folder(&self, folder: &Path) -> Result<()> {
        match self {
            Self::User { uid, gid, .. } => lchown(folder, Some(*uid), Some(*gid))
                .map_err(|error| Error::file("change the owner of", folder, error)),
            _ => Ok(()),
        }
    }

    /// As [`chown`](Self::chown), for a file that is open, whatever its name leads to by now.
    pub(crate) fn chown_file(&self, file: &fs::File) -> io::Result<()> {
        match self {
            Self::User { uid, gid, .. } => fchown(file, Some(*uid), Some(*gid)),
            _ => Ok(()),
        }
    }

    /// Checks that the server can access `path`; an error names the folder that prevents it.
    pub(crate) fn check_reach(&self, path: &Path) -> Result<()> {
        let Self::User { uid, gid, name } = self else {
            return Ok(());
        };
        for folder in path.ancestors().skip(1) {
            let Ok(metadata) = folder.metadata() else {
                continue;
            };
            let mode = metadata.permissions().mode();
            let search_bit = match (metadata.uid() == *uid, metadata.gid() == *gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            if mode & search_bit == 0 {
                return Err(Error::out_of_reach(path, folder, name));
            }
        }
        Ok(())
    }

    /// A description for reports.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Own => "the server runs as you".to_owned(),
            Self::Namespace { uid, .. } => {
                format!("you are root; the server runs in a user namespace, as user {uid} there")
            }
            Self::User { name, uid, .. } => {
                format!(
                    "you are root and user namespaces are not allowed; the server runs as `{name}` ({uid})"
                )
            }
        }
    }
}

/// Removes variables from a command that could lead PostgreSQL's programs to another server, such
/// as `PGHOST`.
pub(crate) fn clear_postgres_variables(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.as_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
}

/// Name, user and group number of a line of `/etc/passwd`.
fn user_of(line: &str) -> Option<(&str, u32, u32)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some((name, uid, gid))
}

/// The first file called `name` in the folders of a search path.
fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
        nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n\
        broken line\n\
        daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n";

    #[test]
    fn root_becomes_another_user() {
        let nowhere = OsStr::new("/nonexistent");
        assert_eq!(
            Identity::choose(false, nowhere, PASSWD).unwrap(),
            Some(Identity::Own)
        );
        let nobody = Identity::User {
            uid: 65534,
            gid: 65534,
            name: "nobody".to_owned(),
        };
        assert_eq!(
            Identity::choose(true, nowhere, PASSWD).unwrap(),
            Some(nobody)
        );
        assert_eq!(
            Identity::choose(true, nowhere, "root:x:0:0::/root:/bin/sh").unwrap(),
            None
        );
    }

    #[test]
    fn a_blocking_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        let inner = closed.join("inner");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let nobody = Identity::User {
            uid: 65534,
            gid: 65534,
            name: "nobody".to_owned(),
        };
        let error = nobody.check_reach(&inner).unwrap_err().to_string();
        assert!(
            error.contains(&format!("`{}`", closed.display())),
            "{error}"
        );
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).unwrap();
        nobody.check_reach(&inner).unwrap();
        Identity::Own.check_reach(&inner).unwrap();
    }
}
