//! The errors of this crate.

mod environment;
mod extension;
mod template;

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::server_error::ServerError;
use crate::{descriptor_limit, process_limit, unnamed_user};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about a server, a database, or their files.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    sqlstate: Option<String>,
    /// The server ended before it answered.
    at_start: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's arguments are invalid or do not fit together.
    Misuse,
    /// No PostgreSQL was found, and none could be downloaded.
    Missing,
    /// A file, process or other part of the environment failed.
    Environment,
    /// The server refused a statement; [`Error::sqlstate`] has the reason.
    Refused,
    /// The server ended unexpectedly; the message quotes the end of its log.
    Crashed,
    /// The folder is in use by another owner.
    Busy,
}

impl Error {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The SQLSTATE, if the server refused.
    pub fn sqlstate(&self) -> Option<&str> {
        self.0.sqlstate.as_deref()
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            sqlstate: None,
            at_start: false,
            source: None,
        }))
    }

    pub(crate) fn because(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// A failed operation on a file or folder; `verb` is the operation, such as `write`.
    pub(crate) fn file(verb: &str, path: &Path, source: io::Error) -> Self {
        let hint = match descriptor_limit::is_cause(&source) {
            true => format!(": {}", descriptor_limit::hint()),
            false => String::new(),
        };
        Self::new(
            ErrorKind::Environment,
            format!("cannot {verb} `{}`{hint}", path.display()),
        )
        .because(source)
    }

    pub(crate) fn bad_version(text: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{text}` is not a version of PostgreSQL; write a major version such as 17, or 17.11"
            ),
        )
    }

    /// `accepted` describes the supported versions.
    pub(crate) fn version_too_old(text: &str, accepted: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("PostgreSQL {text} is too old; {accepted} is required"),
        )
    }

    pub(crate) fn cache_nowhere() -> Self {
        Self::new(
            ErrorKind::Environment,
            "this user has no home folder for the cache; set LOOKASIDE_CACHE to a folder",
        )
    }

    pub(crate) fn cache_not_made(
        path: &Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "cannot create the cache `{}`; set LOOKASIDE_CACHE to a folder that you can write \
                 to",
                path.display()
            ),
        )
        .because(source)
    }

    pub(crate) fn cache_no_folder(path: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the cache `{}` is not a folder; set LOOKASIDE_CACHE to another place",
                path.display()
            ),
        )
    }

    pub(crate) fn cache_of_other(path: &Path, owner: u32, me: u32) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the cache folder `{}` belongs to user {owner}, but the current user is {me}; \
                 set LOOKASIDE_CACHE to a folder of your own",
                path.display()
            ),
        )
    }

    pub(crate) fn cache_open_to_all(path: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the cache `{}`, from which programs are started, is writable for all users; run \
                 `chmod o-w` on it, or set LOOKASIDE_CACHE to a folder of your own",
                path.display()
            ),
        )
    }

    /// The same error; where it comes from a full file system, with the hint for the cache.
    pub(crate) fn when_full(self, target: &Path) -> Self {
        let hint = "set LOOKASIDE_CACHE to a folder on another file system";
        self.when_no_room(target.parent().unwrap_or(target), hint)
    }

    /// As [`when_full`](Self::when_full), for any folder.
    pub(crate) fn when_no_room(self, folder: &Path, hint: &str) -> Self {
        if !self.is_full() {
            return self;
        }
        Self::new(
            ErrorKind::Environment,
            format!(
                "no space is left for `{}`; free some, or {hint}",
                folder.display()
            ),
        )
        .because(self)
    }

    /// Whether a full file system or a used-up quota is among the causes.
    pub(crate) fn is_full(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            let full = matches!(
                kind,
                Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            );
            // Third-party programs and libraries only provide the text.
            if full || error.to_string().contains("No space left on device") {
                return true;
            }
            cause = error.source();
        }
        false
    }

    pub(crate) fn named_without(folder: &Path, program: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "LOOKASIDE_PG_BIN is `{}`, which has no program `{program}`; name the folder with \
                 `postgres` and `initdb`, or unset the variable",
                folder.display()
            ),
        )
    }

    pub(crate) fn program_fails(program: &Path, outcome: &str) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("`{}` does not run here: {outcome}", program.display()),
        )
    }

    pub(crate) fn bad_variable(name: &str, value: &str, known: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("{name} is `{value}`; {known}, or leave it unset"),
        )
    }

    /// No server anywhere; `why` is the reason why none could be downloaded, and `or` an
    /// alternative.
    pub(crate) fn missing(requirement: impl fmt::Display, why: &str, or: &str) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!(
                "no PostgreSQL {requirement} was found, and {why}; set LOOKASIDE_PG_BIN to a \
                 folder with `postgres` and `initdb`, or install your distribution's package \
                 (`apt install postgresql`){or}; `lookaside pg doctor` shows \
                 where it was searched for"
            ),
        )
    }

    #[cfg(not(feature = "download"))]
    pub(crate) fn no_download(version: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!("this program was built without the download of PostgreSQL {version}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn offline(version: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!("LOOKASIDE_PG_OFFLINE forbids the download of PostgreSQL {version}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn download_failed(version: impl fmt::Display, outcome: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!("PostgreSQL {version} cannot be downloaded from Maven Central: {outcome}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn archive_unusable(version: impl fmt::Display, outcome: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("the archive of PostgreSQL {version} cannot be unpacked: {outcome}"),
        )
    }

    #[cfg(feature = "download")]
    pub(crate) fn archive_foreign(version: impl fmt::Display, outcome: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the downloaded PostgreSQL {version} is not for this machine: {outcome}; install \
                 your distribution's package instead (`apt install postgresql`)"
            ),
        )
    }

    pub(crate) fn no_user() -> Self {
        Self::new(
            ErrorKind::Environment,
            "PostgreSQL does not run as root, and neither a user namespace (`unshare --user`) can \
             be created nor is there a user `postgres` or `nobody`; run as another user, or add \
             one of these",
        )
    }

    pub(crate) fn out_of_reach(path: &Path, folder: &Path, user: &str) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "the server runs as `{user}`, which cannot enter `{}`, a parent of `{}`; run \
                 `chmod o+x` on it, or choose another folder",
                folder.display(),
                path.display()
            ),
        )
    }

    pub(crate) fn folder_of_other(folder: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "`{}` belongs to another user; choose another folder (for temporary clusters by \
                 LOOKASIDE_PG_TEMP)",
                folder.display()
            ),
        )
    }

    pub(crate) fn runtime_dir_unfit(folder: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "sockets cannot be created in `{}`, because its path is too long or not UTF-8; set \
                 LOOKASIDE_PG_TEMP to another folder",
                folder.display()
            ),
        )
    }

    pub(crate) fn no_pipe(source: io::Error) -> Self {
        let message = match descriptor_limit::is_cause(&source) {
            true => format!("cannot create a pipe: {}", descriptor_limit::hint()),
            false => "cannot create a pipe".to_owned(),
        };
        Self::new(ErrorKind::Environment, message).because(source)
    }

    pub(crate) fn no_port(source: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            "cannot find a free port of 127.0.0.1",
        )
        .because(source)
    }

    pub(crate) fn cannot_spawn(source: io::Error) -> Self {
        let message = match process_limit::is_cause(&source) {
            true => Self::no_process("a program", &source.to_string()),
            false if descriptor_limit::is_cause(&source) => {
                format!("cannot start a program: {}", descriptor_limit::hint())
            }
            false => "cannot start a program".to_owned(),
        };
        Self::new(ErrorKind::Environment, message).because(source)
    }

    /// No process could be started for `what`.
    fn no_process(what: &str, output: &str) -> String {
        let hint = process_limit::hint(output);
        format!("no process can be created for {what}: {hint}")
    }

    /// Whether the lack of a process is among the causes.
    pub(crate) fn lacks_process(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let is_cause = error.downcast_ref().is_some_and(process_limit::is_cause);
            if is_cause || process_limit::is_reported(&error.to_string()) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    pub(crate) fn cannot_wait(source: io::Error) -> Self {
        Self::new(ErrorKind::Environment, "cannot stop the server").because(source)
    }

    pub(crate) fn connection_lost(doing: &str, source: io::Error) -> Self {
        let output = source.to_string();
        let message = match process_limit::is_reported(&output) {
            true => Self::no_process(&format!("a connection while {doing}"), &output),
            false => format!("the connection to the server was lost while {doing}"),
        };
        Self::new(ErrorKind::Environment, message).because(source)
    }

    pub(crate) fn refused(doing: &str, refusal: &ServerError) -> Self {
        let mut error = Self::new(
            ErrorKind::Refused,
            format!("the server refused while {doing}: {refusal}"),
        );
        error.0.sqlstate = Some(refusal.sqlstate.clone());
        error
    }

    pub(crate) fn schema_refused(label: &str, line: Option<usize>, refusal: &ServerError) -> Self {
        let line = line.map_or(String::new(), |line| format!(", line {line}"));
        // feature_not_supported, the server's code for an unavailable extension.
        let hint = match refusal.sqlstate.as_str() {
            "0A000" if label.starts_with("extension") => {
                "; `lookaside pg extension list` lists those it has, and `lookaside pg extension add` \
                 adds vector and others"
            }
            // undefined_object
            "42704" if refusal.to_string().contains("role \"") => {
                "; dumps hold no roles: create it at the begin of the file"
            }
            _ => "",
        };
        let mut error = Self::new(
            ErrorKind::Refused,
            format!("the server refused {label}{line}: {refusal}{hint}"),
        );
        error.0.sqlstate = Some(refusal.sqlstate.clone());
        error
    }

    pub(crate) fn initdb_failed(data: &Path, output: &str) -> Self {
        let hint = match process_limit::is_reported(output) {
            true => Some(Self::no_process("it", output)),
            false => unnamed_user::hint(output),
        };
        let hint = hint.map(|hint| format!("; {hint}"));
        Self::new(
            ErrorKind::Environment,
            format!(
                "initdb cannot create `{}`: {output}{}",
                data.display(),
                hint.unwrap_or_default()
            ),
        )
    }

    pub(crate) fn start_failed(folder: &Path, log: &str) -> Self {
        if process_limit::is_reported(log) {
            let what = format!("the server in `{}`", folder.display());
            let message = Self::no_process(&what, log);
            return Self::new(
                ErrorKind::Environment,
                format!("{message}; its log ends:\n{log}"),
            );
        }
        let mut error = Self::new(
            ErrorKind::Crashed,
            format!(
                "the server in `{}` did not start; its log ends:\n{log}",
                folder.display()
            ),
        );
        error.0.at_start = true;
        error
    }

    pub(crate) fn start_too_slow(folder: &Path, timeout: Duration, log: &str) -> Self {
        Self::new(
            ErrorKind::Crashed,
            format!(
                "the server in `{}` did not answer within {} s; its log ends:\n{log}",
                folder.display(),
                timeout.as_secs()
            ),
        )
    }

    pub(crate) fn crashed(folder: &Path, log: &str) -> Self {
        Self::new(
            ErrorKind::Crashed,
            format!(
                "the server in `{}` has ended; its log ends:\n{log}",
                folder.display()
            ),
        )
    }

    /// Whether a server ended before it answered.
    pub(crate) fn is_start_failure(&self) -> bool {
        self.0.at_start
    }

    pub(crate) fn template_damaged(data: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "a new copy of the template in `{}` is incomplete; is another program writing to the cache?",
                data.display()
            ),
        )
    }

    pub(crate) fn setting_is_reserved(name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the setting `{name}` determines the location or the address of the server and \
                 cannot be set; omit it (`tcp` listens on 127.0.0.1, `path` names the folder)"
            ),
        )
    }

    pub(crate) fn zero_byte(doing: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("the text for {doing} contains a zero byte, which the server does not accept"),
        )
    }

    pub(crate) fn no_migrations(folder: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "there is no `.sql` file in the migrations folder `{}`",
                folder.display()
            ),
        )
    }

    pub(crate) fn never_alone(database: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the database `{database}` is used to administer the server and cannot be copied; \
                 choose another name with `database`"
            ),
        )
    }

    pub(crate) fn snapshot_exists(name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("the snapshot `{name}` already exists; drop it first, or choose another name"),
        )
    }

    pub(crate) fn no_snapshot(name: &str, known: &[String]) -> Self {
        let known = match known {
            [] => "there are no snapshots".to_owned(),
            known => format!("the snapshots are: {}", known.join(", ")),
        };
        Self::new(
            ErrorKind::Misuse,
            format!("there is no snapshot `{name}`; {known}"),
        )
    }

    pub(crate) fn bad_app_name(name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{name}` cannot name an application's folder; use a plain name such as `notes`"
            ),
        )
    }

    pub(crate) fn no_home() -> Self {
        Self::new(
            ErrorKind::Environment,
            "there is no home folder; set HOME or XDG_DATA_HOME",
        )
    }

    pub(crate) fn folder_not_empty(folder: &Path, name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{}` contains `{name}` and was not created by Lookaside; name a new or an empty \
                 folder",
                folder.display()
            ),
        )
    }

    pub(crate) fn folder_in_use(folder: &Path, pid: Option<u32>) -> Self {
        let folder = folder.display();
        let message = match pid {
            Some(pid) => format!(
                "`{folder}` is in use by process {pid}; end it first (`lookaside pg stop` if it was \
                 started by `lookaside pg start`), or connect to its URL"
            ),
            None => format!(
                "`{folder}` is in use by a process that `{folder}/lock` does not name, and no \
                 server is running there; find that process with `fuser {folder}/lock`, and end \
                 it"
            ),
        };
        Self::new(ErrorKind::Busy, message)
    }

    pub(crate) fn does_not_stop(folder: &Path, pid: Option<u32>, timeout: Duration) -> Self {
        let pid = pid.map_or(String::new(), |pid| format!(" {pid}"));
        Self::new(
            ErrorKind::Environment,
            format!(
                "the server{pid} in `{}` did not stop within {} s; see its log there",
                folder.display(),
                timeout.as_secs()
            ),
        )
    }

    pub(crate) fn not_a_folder(path: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{}` is not a folder, or is below a file; name a folder for the data",
                path.display()
            ),
        )
    }

    pub(crate) fn runtime_dir_missing(folder: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the folder `{}` of LOOKASIDE_PG_TEMP does not exist; create it, or unset the \
                 variable",
                folder.display()
            ),
        )
    }

    pub(crate) fn runs_still(folder: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the server of `{}` runs; stop it first (`lookaside pg stop`)",
                folder.display()
            ),
        )
    }

    pub(crate) fn runs_with_other_options(folder: &Path, what: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the server of `{}` is already running without {what}; stop it first (`lookaside \
                 pg stop`), or omit that option",
                folder.display()
            ),
        )
    }

    pub(crate) fn no_cluster(folder: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "there is no cluster in `{}`; create one with `lookaside pg start`",
                folder.display()
            ),
        )
    }

    pub(crate) fn bad_cluster_manifest(path: &Path, example: &str) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "`{}` is damaged; write it again, with one line each: {example} (`data/PG_VERSION` \
                 contains the major version)",
                path.display()
            ),
        )
    }

    pub(crate) fn cluster_manifest_lost(path: &Path, example: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "there is `data` without `{}`; name a new or an empty folder, or, if the file was \
                 lost, write it anew, a line each: {example} (`data/PG_VERSION` tells the major \
                 version)",
                path.display()
            ),
        )
    }

    pub(crate) fn bad_server_record(path: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!(
                "`{}` is damaged; remove it, and stop the server with `lookaside pg stop`",
                path.display()
            ),
        )
    }

    pub(crate) fn restore_into_data(folder: &Path, archive: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{}` already contains a cluster; restore `{}` into a new folder",
                folder.display(),
                archive.display()
            ),
        )
    }

    pub(crate) fn other_major(folder: &Path, found: u32, wanted: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{}` was made by PostgreSQL {found}, and {wanted} cannot read it; open it with \
                 {found}, dump it as SQL and load that into a new folder",
                folder.display()
            ),
        )
    }

    pub(crate) fn bad_pattern(pattern: &str, why: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("not a pattern of file names: \"{pattern}\" ({why})"),
        )
    }

    pub(crate) fn no_files(pattern: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "no file matches \"{pattern}\", so changes would not be detected; patterns are \
                 relative to the working folder, such as \"migrations/**\""
            ),
        )
    }

    pub(crate) fn owner_role_of_own_server() -> Self {
        Self::new(
            ErrorKind::Misuse,
            "`owner_role()` applies to databases of the shared server; for a separate server, omit \
             it, or choose the superuser with `user(…)`",
        )
    }

    /// `refused` is the server's error with the dependencies.
    pub(crate) fn role_stays(name: &str, refused: Self) -> Self {
        let mut error = Self::new(
            ErrorKind::Refused,
            format!(
                "the database was dropped, but its role `{name}` was not, because it owns \
                 something in another database or has a privilege there; remove these (`DROP OWNED \
                 BY \"{name}\"` in the other database), then drop the role"
            ),
        );
        error.0.sqlstate.clone_from(&refused.0.sqlstate);
        error.because(refused)
    }

    pub(crate) fn archive_of_shared() -> Self {
        Self::new(
            ErrorKind::Misuse,
            "an archive contains a whole server, and this one is shared; create the database with \
             `fresh_cluster()`",
        )
    }

    pub(crate) fn archive_of_other_major(
        file: &Path,
        found: u32,
        version: impl fmt::Display,
    ) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{}` is an archive of PostgreSQL {found}, which {version} cannot read; request version {found}",
                file.display()
            ),
        )
    }

    pub(crate) fn archive_damaged(file: &Path) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("the archive `{}` is damaged or truncated", file.display()),
        )
    }

    pub(crate) fn not_an_archive(file: &Path) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{}` is not an archive that `lookaside pg dump` wrote",
                file.display()
            ),
        )
    }

    pub(crate) fn has_tablespaces() -> Self {
        Self::new(
            ErrorKind::Misuse,
            "the cluster has tablespaces, whose data is outside of its folder; dump it as SQL instead",
        )
    }

    pub(crate) fn no_backup_label() -> Self {
        Self::new(
            ErrorKind::Environment,
            "the server ended the backup without a label",
        )
    }

    pub(crate) fn no_pg_dump(major: u32) -> Self {
        Self::new(
            ErrorKind::Missing,
            format!(
                "no pg_dump of PostgreSQL {major} was found; install `postgresql-client-{major}` (for \
                 Debian and Ubuntu, from apt.postgresql.org if the distribution has none), or \
                 write an archive (`.tar.zst`), which does not need pg_dump"
            ),
        )
    }

    pub(crate) fn pg_dump_failed(output: &str) -> Self {
        Self::new(ErrorKind::Environment, format!("pg_dump failed: {output}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("sqlstate", &self.0.sqlstate)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
