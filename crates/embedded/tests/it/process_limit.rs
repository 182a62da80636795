//! Limits on the number of processes: of a control group, and of a user.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use lookaside_testing::wait_until;

use crate::child::Child;
use crate::damage::with_our_programs;
use crate::root::{give, is_root};
use crate::site::{Site, entries, tempdir};
use crate::{binaries, has_server};

/// A start that fails because no process can be created reports that long before its timeout
/// (120 s).
const FAILURE_TIMEOUT: Duration = Duration::from_secs(90);

/// A control group that limits the number of its processes.
struct Group(PathBuf);

impl Group {
    /// `None`, with a message, where this user cannot create one.
    fn new(name: &str) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path_of = |start: &str| {
            let mut paths = groups.lines().filter_map(|line| line.split_once(start));
            paths
                .next()
                .map(|(_, path)| path.trim_matches('/').to_owned())
        };
        let parents = [
            path_of(":pids:/").map(|path| Path::new("/sys/fs/cgroup/pids").join(path)),
            path_of("0::/").map(|path| Path::new("/sys/fs/cgroup").join(path)),
        ];
        for parent in parents.into_iter().flatten() {
            let group = parent.join(format!("lookaside-{name}-{}", process::id()));
            if fs::create_dir(&group).is_ok() {
                let group = Self(group);
                if group.0.join("pids.max").exists() {
                    return Some(group);
                }
            }
        }
        crate::skip("no control group with a limit on processes can be made here");
        None
    }

    fn limit(&self, count: usize) {
        fs::write(self.0.join("pids.max"), count.to_string()).unwrap();
    }

    fn process_count(&self) -> usize {
        let count = fs::read_to_string(self.0.join("pids.current")).unwrap();
        count.trim().parse().unwrap()
    }

    /// A child whose processes are in the group.
    fn start(&self, site: &Site, role: &str, also: impl FnOnce(&mut Command)) -> Child {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ >\"$GROUP\" && exec \"$0\" \"$@\""])
            .arg(env::current_exe().unwrap())
            .env("GROUP", self.0.join("cgroup.procs"));
        Child::start_through(command, site, role, also)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is not empty stays, as the test has failed then.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A shell that becomes `rm` has no command line for a moment, so that no process seems to work there.
#[track_caller]
fn wait_until_removed(site: &Site) {
    wait_until("no folder is left", || site.cluster_folders().is_empty());
    site.wait_until_deserted();
}

/// From the least with which the child itself runs to the first with which all processes of a server
/// find room.
#[test]
fn a_start_that_meets_a_limit_on_processes_names_it_and_leaves_nothing() {
    if !has_server() {
        return;
    }
    for role in ["fresh", "path"] {
        let Some(group) = Group::new(role) else {
            return;
        };
        let mut refused_count = 0;
        for limit in 2.. {
            assert!(limit < 60, "no limit is enough");
            let site = Site::new();
            let folder = site.path().join("data");
            group.limit(limit);
            let begin = Instant::now();
            let mut child = group.start(&site, role, Child::folder(&folder));
            let error = child.error_or_end();
            assert!(
                begin.elapsed() < FAILURE_TIMEOUT,
                "{role}, {limit}: {error:?}"
            );
            site.wait_until_deserted();
            wait_until_removed(&site);
            wait_until("the group is empty", || group.process_count() == 0);
            let Some(error) = error else {
                assert!(
                    child.said().contains("ready"),
                    "{role}, {limit}: {}",
                    child.said()
                );
                break;
            };
            refused_count += 1;
            for part in [
                "Environment",
                "pids.max",
                &format!("{limit} processes"),
                "--pids-limit",
            ] {
                assert!(error.contains(part), "{role}, {limit}: {error}");
            }
        }
        assert!(refused_count >= 3, "{role}: {refused_count}");
    }
}

/// The template is made under the limit: `initdb` starts other programs.
#[test]
fn a_template_that_meets_a_limit_on_processes_is_made_by_the_next_start() {
    if !has_server() {
        return;
    }
    let Some(group) = Group::new("template") else {
        return;
    };
    let cache = tempdir();
    let mut refused_count = 0;
    for limit in 2.. {
        assert!(limit < 60, "no limit is enough");
        let site = Site::with_cache(cache.path());
        group.limit(limit);
        let mut child = group.start(&site, "fresh", with_our_programs);
        let error = child.error_or_end();
        site.wait_until_deserted();
        wait_until("the group is empty", || group.process_count() == 0);
        let templates = entries(&cache.path().join("template"));
        let is_made = templates.iter().any(|path| path.join("manifest").exists());
        let Some(error) = error else {
            assert!(is_made, "{templates:?}");
            break;
        };
        refused_count += 1;
        assert!(error.contains("pids.max"), "{limit}: {error}");
        if is_made {
            break;
        }
        assert_eq!(templates, [""; 0].map(PathBuf::from), "{limit}");
    }
    assert!(refused_count >= 2, "{refused_count}");
}

#[test]
fn a_session_that_finds_no_process_is_refused_by_the_name_of_the_limit() {
    if !has_server() {
        return;
    }
    let Some(group) = Group::new("later") else {
        return;
    };
    let site = Site::new();
    group.limit(1000);
    let mut child = group.start(&site, "fresh", |_| {});
    child.hear("ready");
    // Each of these opens a separate session.
    child.tell("sql SELECT 1");
    child.hear("done");
    group.limit(1);
    child.tell("sql SELECT 1");
    let error = child.hear("error ");
    for part in ["Environment", "could not fork", "pids.max"] {
        assert!(error.contains(part), "{error}");
    }
    group.limit(1000);
    child.tell("sql SELECT 1");
    child.hear("done");
    // The watch ends the server and removes its folder without another process.
    group.limit(1);
    child.kill();
    wait_until_removed(&site);
    site.wait_until_clean();
    wait_until("the group is empty", || group.process_count() == 0);
}

#[test]
fn a_limit_on_the_processes_of_a_user_is_named() {
    // Of no other process, so that only these count.
    const UID: u32 = 54322;
    if !has_server() || !is_root() {
        return;
    }
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("setpriv") || !has("prlimit") {
        crate::skip("no setpriv or no prlimit");
        return;
    }
    let Some(stocked) = binaries::stocked_cache() else {
        return;
    };
    let site = Site::new();
    let cache = site.path().join("cache");
    let archives = cache.join("pg/archives");
    fs::create_dir_all(&archives).unwrap();
    for archive in entries(&stocked.join("pg/archives")) {
        fs::copy(&archive, archives.join(archive.file_name().unwrap())).unwrap();
    }
    let program = site.path().join("it");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    give(site.path(), UID);
    let start = |limit: &str| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &UID.to_string(), "--regid", &UID.to_string()])
            .args(["--clear-groups", "--inh-caps=-all"])
            .args(["prlimit", &format!("--nproc={limit}")])
            .arg(&program);
        Child::start_through(command, &site, "fresh", |command| {
            command
                .env("LOOKASIDE_CACHE", &cache)
                .env("LOOKASIDE_PG_OFFLINE", "1")
                .env_remove("LOOKASIDE_PG_BIN");
        })
    };
    let mut child = start("1000");
    child.hear("ready");
    assert!(child.end().success());
    site.wait_until_deserted();
    for limit in ["3", "5", "7"] {
        let error = start(limit)
            .error_or_end()
            .expect("there is no room for a server");
        for part in ["RLIMIT_NPROC", &format!("{limit} processes"), "ulimit -u"] {
            assert!(error.contains(part), "{limit}: {error}");
        }
        site.wait_until_deserted();
        wait_until_removed(&site);
    }
}
