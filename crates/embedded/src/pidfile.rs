//! The PID file of a server, and the server process of a data folder.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::Pid;

use crate::process::parent_of;

/// The PID file in the data folder.
const SERVER_FILE: &str = "postmaster.pid";

/// Reads the PID file of the current or last server in `data`: see `pidfile.h` in PostgreSQL's
/// source. One of its lines is the folder's name.
pub(crate) fn server_file(data: &Path) -> Option<String> {
    let bytes = fs::read(data.join(SERVER_FILE)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The server process of `data`. Its number is in a file, and since numbers are reused, the process
/// must also have that working folder.
pub(crate) fn server_pid(data: &Path) -> Option<Pid> {
    let file = server_file(data)?;
    let pid: i32 = file.lines().next()?.trim().parse().ok()?;
    Pid::from_raw(pid).filter(|pid| works_in(*pid, data))
}

/// Searches all processes for the server of `data`, for a folder whose files do not name it. Its
/// backends have the same working folder: they are its children, and their titles begin with
/// `postgres: `.
pub(crate) fn find_server(data: &Path) -> Option<Pid> {
    let data = &data.canonicalize().ok()?;
    let is_server = |pid: &Pid| {
        works_in(*pid, data)
            && is_postgres(*pid)
            && !parent_of(*pid).is_some_and(|parent| works_in(parent, data))
    };
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).find(is_server)
}

/// Whether a process was started as the program `postgres`, by any path.
fn is_postgres(pid: Pid) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = Path::new(OsStr::from_bytes(program)).file_name();
    !program.starts_with(b"postgres: ") && name == Some("postgres".as_ref())
}

/// Whether `data` is the working folder of a process, as it is of its server.
pub(crate) fn works_in(pid: Pid, data: &Path) -> bool {
    let cwd = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
    cwd.is_ok_and(|cwd| data.canonicalize().is_ok_and(|data| cwd == data))
}

/// Removes the PID and socket lock files of a killed server if their number belongs to another
/// process by now, or to a zombie: PostgreSQL takes either for a running server. It still checks
/// whether the shared memory is in use. The caller holds the folder's lock.
pub(crate) fn remove_stale_pid_files(data: &Path, socket_folder: &Path) {
    let sockets = fs::read_dir(socket_folder).into_iter().flatten().flatten();
    let locks = sockets.map(|entry| entry.path());
    let locks = locks.filter(|path| path.extension().is_some_and(|end| end == "lock"));
    for file in locks.chain([data.join(SERVER_FILE)]) {
        if is_of_other_process(&file, data) {
            let _ = fs::remove_file(file);
        }
    }
}

/// Whether the process that a file of a server names has another working folder than `data`.
fn is_of_other_process(file: &Path, data: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let pid = text
        .lines()
        .next()
        .and_then(|line| line.trim().parse().ok());
    let Some(pid) = pid.and_then(Pid::from_raw) else {
        return false;
    };
    let cwd = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
    match (cwd, data.canonicalize()) {
        (Ok(cwd), Ok(data)) => cwd != data,
        // An ended process has no folder. A process that cannot be inspected may be the server.
        (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
        (_, Err(_)) => false,
    }
}
