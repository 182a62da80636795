//! The programs of the servers, and the creation of data folders.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    /// Debian's package `mariadb-server`. In CI it must be installed.
    MariaDb,
    /// A folder that `scripts/fetch-mysql` made, which is not available everywhere.
    MySql,
}

/// Where `scripts/fetch-mysql` puts a server by default.
const MYSQL_FOLDER: &str = "/var/cache/lookaside/mysql";

/// The folder with a MySQL: `LOOKASIDE_MYSQL_SERVER`, or the script's default.
pub fn mysql_folder() -> PathBuf {
    env::var_os("LOOKASIDE_MYSQL_SERVER").map_or_else(|| MYSQL_FOLDER.into(), PathBuf::from)
}

/// The programs of one server.
pub(crate) enum Programs {
    MariaDb { install: PathBuf, server: PathBuf },
    MySql { folder: PathBuf },
}

impl Programs {
    /// Finds the programs; the error states what is missing.
    pub(crate) fn find(brand: Brand) -> Result<Self, String> {
        match brand {
            Brand::MariaDb => Ok(Self::MariaDb {
                install: find_program("mariadb-install-db")?,
                server: find_program("mariadbd")?,
            }),
            Brand::MySql => {
                let folder = mysql_folder();
                let server = folder.join("usr/sbin/mysqld");
                if server.is_file() {
                    Ok(Self::MySql { folder })
                } else {
                    Err(format!(
                        "no {}: run `scripts/fetch-mysql`, or name a folder made by it in \
                         LOOKASIDE_MYSQL_SERVER",
                        server.display()
                    ))
                }
            }
        }
    }

    /// The program that initializes a new data folder, and its arguments.
    pub(crate) fn install(&self, data: &Path) -> Vec<String> {
        let data = format!("--datadir={}", data.display());
        match self {
            Self::MariaDb { install, .. } => {
                let mut command = vec![install.display().to_string()];
                command.extend(
                    [
                        "--no-defaults",
                        &data,
                        "--auth-root-authentication-method=normal",
                        "--skip-test-db",
                        "--skip-name-resolve",
                    ]
                    .map(str::to_owned),
                );
                command
            }
            Self::MySql { folder } => {
                let server = folder.join("usr/sbin/mysqld");
                let mut command = vec![server.display().to_string()];
                // Half of its output is the redo log for crash recovery.
                command.extend(
                    [
                        "--no-defaults",
                        "--initialize-insecure",
                        &data,
                        "--innodb-redo-log-capacity=8M",
                        "--skip-log-bin",
                    ]
                    .map(str::to_owned),
                );
                command.extend(mysql_folders(folder));
                command
            }
        }
    }

    /// The program of the server and its arguments, except folders and port.
    pub(crate) fn server(&self) -> (PathBuf, Vec<String>) {
        let mut arguments = vec!["--no-defaults".to_owned()];
        arguments.extend(
            [
                "--bind-address=127.0.0.1",
                "--skip-name-resolve",
                "--skip-log-bin",
                // The data is not needed after a crash.
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-buffer-pool-size=64M",
                "--max-allowed-packet=128M",
                "--max-connections=500",
                // The default of distributions.
                "--character-set-server=utf8mb4",
            ]
            .map(str::to_owned),
        );
        match self {
            Self::MariaDb { server, .. } => (server.clone(), arguments),
            Self::MySql { folder } => {
                arguments.extend(mysql_folders(folder));
                arguments.extend(
                    [
                        "--mysqlx=OFF",
                        "--secure-file-priv=NULL",
                        "--performance-schema=OFF",
                    ]
                    .map(str::to_owned),
                );
                (folder.join("usr/sbin/mysqld"), arguments)
            }
        }
    }
}

/// An unpacked server needs its base folder.
fn mysql_folders(folder: &Path) -> [String; 3] {
    let folder = folder.display();
    [
        format!("--basedir={folder}/usr"),
        format!("--lc-messages-dir={folder}/usr/share/mysql"),
        format!("--plugin-dir={folder}/usr/lib/mysql/plugin"),
    ]
}

/// Servers are often in a folder that is only in root's `PATH`.
fn find_program(name: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            format!("no `{name}`: install Debian's `mariadb-server`, or as it is called")
        })
}

/// The servers refuse to run as root; in that case they run as `nobody`.
pub(crate) fn ordinary_user() -> Option<(u32, u32)> {
    const NOBODY: u32 = 65_534;
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    is_root.then_some((NOBODY, NOBODY))
}

/// A command with an empty environment, since variables could change a server's settings.
pub(crate) fn as_ordinary_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = ordinary_user() {
        command.uid(user).gid(group);
    }
    command
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("TZ", "UTC")
        .current_dir("/")
        .stdin(Stdio::null());
    command
}
