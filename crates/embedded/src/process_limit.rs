//! Detects that no further process can be started, and which limit to raise.
//!
//! `fork` fails with EAGAIN if the process limit of a control group or a user is reached, and with
//! ENOMEM if the kernel has no memory. Third-party programs report it as text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The messages of EAGAIN and ENOMEM in the C locale, in which our programs run.
const AGAIN: &str = "Resource temporarily unavailable";
const NO_MEMORY: &str = "Cannot allocate memory";

/// Whether a program reports that it could not start another one: PostgreSQL's `could not fork …`
/// and `could not execute command …`, `Cannot fork` of dash, `fork: …` of bash.
pub(crate) fn is_reported(output: &str) -> bool {
    output.lines().any(|line| {
        let is_errno = line.contains(AGAIN) || line.contains(NO_MEMORY);
        let names_it = line.contains("fork") || line.contains("could not execute");
        line.contains("Cannot fork") || (is_errno && names_it)
    })
}

/// Whether a program could not be started for lack of a process; no other cause has this code.
pub(crate) fn is_cause(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::NOMEM)
    )
}

/// The limit that was reached, and how to raise it; `output` is a program's message about the
/// failure.
pub(crate) fn hint(output: &str) -> String {
    // `popen` of glibc, with which `initdb` executes commands, reports this for any failure of
    // `fork`.
    let is_memory = |line: &str| line.contains(NO_MEMORY) && !line.contains("could not execute");
    if output.lines().any(is_memory) {
        return "no memory is left for another process; free some, or raise the memory limit of the \
                container (`docker run --memory`) or `vm.overcommit_memory`"
            .to_owned();
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let uid = rustix::process::geteuid();
    // Root is exempt, but a server that root starts as another user counts with that user's other
    // processes.
    let user_max = getrlimit(Resource::Nproc).current;
    let user_max = user_max.filter(|_| !uid.is_root());
    match (smallest(&groups, Path::new("/sys/fs/cgroup")), user_max) {
        (Some((group, max)), user_max) if user_max.is_none_or(|user_max| max <= user_max) => {
            format!(
                "the control group `{}` may have {max} processes (pids.max); increase it: \
             `docker run --pids-limit`, `TasksMax=` of a systemd unit, or `podPidsLimit` of a kubelet",
                group.display()
            )
        }
        (_, Some(max)) => format!(
            "user {} may have {max} processes (RLIMIT_NPROC); increase it: `ulimit -u`, `nproc` in \
             /etc/security/limits.conf, or `docker run --ulimit nproc=…`",
            uid.as_raw()
        ),
        (_, None) => "an unknown limit on processes was reached; see `pids.max` of the \
                      control groups of the host, `kernel.pid_max` and `kernel.threads-max`"
            .to_owned(),
    }
}

/// The smallest `pids.max` of the control groups of this process, and its path. `groups` is the
/// text of `/proc/self/cgroup`; see cgroups(7) for both versions.
fn smallest(groups: &str, mounted: &Path) -> Option<(PathBuf, u64)> {
    let mut found: Option<(PathBuf, u64)> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let roots = match controllers {
            "" => [mounted.to_owned(), mounted.join("unified")],
            other if other.split(',').any(|name| name == "pids") => {
                [mounted.join("pids"), mounted.join(other)]
            }
            _ => continue,
        };
        for root in roots {
            // A container may see its own group as the root.
            for group in Path::new(path.trim_start_matches('/')).ancestors() {
                let group = root.join(group);
                let text = fs::read_to_string(group.join("pids.max")).unwrap_or_default();
                let Ok(max) = text.trim().parse() else {
                    continue;
                };
                if found.as_ref().is_none_or(|(_, smallest)| max < *smallest) {
                    found = Some((group, max));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_of_a_failed_fork_is_recognized() {
        for (output, expected) in [
            ("sh: 0: Cannot fork", true),
            ("sh: fork: retry: Resource temporarily unavailable", true),
            (
                "LOG:  ready\nLOG:  could not fork \"startup\" process: Cannot allocate memory",
                true,
            ),
            (
                "initdb: error: could not execute command \"x\": Resource temporarily unavailable",
                true,
            ),
            (
                "FATAL:  could not map shared memory: Cannot allocate memory",
                false,
            ),
            (
                "LOG:  could not receive data: Resource temporarily unavailable",
                false,
            ),
            ("a fork of the project", false),
            ("", false),
        ] {
            assert_eq!(is_reported(output), expected, "{output}");
        }
    }

    #[test]
    fn the_smallest_limit_of_all_groups_above_is_found() {
        let mounted = tempfile::tempdir().unwrap();
        let write = |group: &str, max: &str| {
            let group = mounted.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("pids.max"), max).unwrap();
        };
        let check = |groups: &str, expected: Option<(&str, u64)>| {
            let expected = expected.map(|(group, max)| (mounted.path().join(group), max));
            assert_eq!(smallest(groups, mounted.path()), expected, "{groups}");
        };
        check("0::/a/b", None);
        write("a/b", "max\n");
        check("0::/a/b", None);
        write("a", "20\n");
        write("pids/c", "10\n");
        check("0::/a/b", Some(("a", 20)));
        check("8:pids:/c\n7:memory:/a\n0::/a/b", Some(("pids/c", 10)));
        check("8:cpu,pids:/docker/x/c", None);
        // As mounted in a container whose root is its own group.
        write("pids", "5\n");
        check("8:pids:/docker/x", Some(("pids", 5)));
        check("odd", None);
    }
}
