//! Poor environments: read-only folders, a umask that denies all, too few file descriptors. Each works,
//! or fails with the name of the place and of what to change.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use lookaside_testing::wait_until;

use crate::child::Child;
use crate::damage::with_our_programs;
use crate::has_server;
use crate::prepared::{KEY, LOG};
use crate::root::is_root;
use crate::site::{Site, entries, processes, tempdir};

/// A command that runs another one for which `folder` is read-only. `None`, which is said, where that
/// cannot be had.
fn with_read_only(folder: &Path) -> Option<Command> {
    const SCRIPT: &str = r#"mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@""#;
    if !is_root() {
        return None;
    }
    let through = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT]).arg(folder);
        command.arg(program);
        command
    };
    let works = through(Path::new("true")).output();
    if !works.is_ok_and(|output| output.status.success()) {
        crate::skip("nothing can be mounted here");
        return None;
    }
    Some(through(&env::current_exe().unwrap()))
}

#[track_caller]
fn has_parts(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "no `{part}` in: {error}");
    }
}

#[test]
fn a_read_only_cache_serves_and_what_must_be_written_names_it() {
    if !has_server() {
        return;
    }
    let cache = tempdir();
    let Some(_) = with_read_only(cache.path()) else {
        return;
    };
    let site = Site::with_cache(cache.path());
    let mut first = Child::start_with(&site, "fresh", with_our_programs);
    first.hear("ready");
    assert!(first.end().success());
    let start = |role: &str| {
        let command = with_read_only(cache.path()).unwrap();
        let folder = site.path().join("data");
        Child::start_through(command, &site, role, |command| {
            with_our_programs(command);
            Child::folder(&folder)(command);
            command.env(LOG, site.path().join("log")).env(KEY, "key");
        })
    };
    for role in ["fresh", "temporary", "path"] {
        let mut child = start(role);
        child.hear("ready");
        assert!(child.end().success(), "{role}");
    }
    let cache = cache.path().to_str().unwrap();
    for role in ["instance", "prepared"] {
        let error = start(role).error_or_end().expect("it cannot be written");
        has_parts(&error, &["Environment", cache, "LOOKASIDE_CACHE"]);
    }
    site.wait_until_deserted();
}

#[test]
fn a_read_only_place_is_passed_over_unless_it_was_named() {
    if !has_server() {
        return;
    }
    let Some(command) = with_read_only(Path::new("/dev/shm")) else {
        return;
    };
    // Another start may have made our folder there; here nothing can be written into it.
    let disk = tempfile::tempdir_in("/tmp").unwrap();
    let site = Site::new();
    let mut child = Child::start_through(command, &site, "fresh", |command| {
        command
            .env_remove("LOOKASIDE_PG_TEMP")
            .env_remove("XDG_RUNTIME_DIR")
            .env("TMPDIR", disk.path());
    });
    let folder = PathBuf::from(child.hear("folder "));
    child.hear("ready");
    assert!(folder.starts_with(disk.path()), "{}", folder.display());
    assert!(child.end().success());
    wait_until("no process works there", || {
        processes(disk.path()).is_empty()
    });

    // With and without our folder in it.
    for is_made in [false, true] {
        if is_made {
            let mut child = Child::start(&site, "fresh");
            child.hear("ready");
            assert!(child.end().success());
            site.wait_until_deserted();
        }
        let command = with_read_only(site.path()).unwrap();
        let error = Child::start_through(command, &site, "fresh", |_| {}).error_or_end();
        let error = error.expect("nothing can be made there");
        let place = site.path().to_str().unwrap();
        has_parts(&error, &["Environment", place, "LOOKASIDE_PG_TEMP"]);
    }
}

#[test]
fn a_umask_that_denies_all_is_named_and_nothing_is_made() {
    if !has_server() {
        return;
    }
    for role in ["temporary", "fresh", "path", "instance"] {
        let site = Site::new();
        let mut command = Command::new("sh");
        command.args(["-c", r#"umask 777; exec "$0" "$@""#]);
        command.arg(env::current_exe().unwrap());
        let folder = site.path().join("data");
        let mut child = Child::start_through(command, &site, role, Child::folder(&folder));
        let error = child.error_or_end().expect("its files cannot be used");
        has_parts(&error, &["Environment", "umask 0777", "`umask 022`"]);
        assert_eq!(entries(site.path()), [""; 0].map(PathBuf::from), "{role}");
    }
}

#[test]
fn a_limit_on_open_files_is_named_and_nothing_is_made() {
    if !has_server() {
        return;
    }
    if Command::new("prlimit").arg("--version").output().is_err() {
        crate::skip("no prlimit");
        return;
    }
    let cache = tempdir();
    let start = |site: &Site, role: &str, limit: &str| {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}"));
        command.arg(env::current_exe().unwrap());
        let folder = site.path().join("data");
        Child::start_through(command, site, role, |command| {
            with_our_programs(command);
            Child::folder(&folder)(command);
        })
    };
    for role in ["temporary", "fresh", "path", "instance"] {
        for limit in ["8", "64"] {
            let site = Site::with_cache(cache.path());
            let error = start(&site, role, limit).error_or_end();
            let error = error.expect("no server starts so");
            let limit = format!("may open {limit} files");
            has_parts(
                &error,
                &["Environment", "RLIMIT_NOFILE", &limit, "ulimit -n"],
            );
            assert_eq!(entries(site.path()), [""; 0].map(PathBuf::from), "{role}");
        }
    }
    assert_eq!(entries(cache.path()), [""; 0].map(PathBuf::from));
    let site = Site::with_cache(cache.path());
    let mut child = start(&site, "fresh", "80");
    child.hear("ready");
    assert!(child.end().success());
    site.wait_until_clean();
}

/// A process that keeps all of its descriptors for itself.
#[test]
fn a_process_without_a_free_descriptor_is_told_so_and_spares_the_template() {
    if !has_server() {
        return;
    }
    let cache = tempdir();
    let site = Site::with_cache(cache.path());
    let mut first = Child::start_with(&site, "fresh", with_our_programs);
    first.hear("ready");
    assert!(first.end().success());
    let template = entries(&cache.path().join("template"));
    assert_eq!(template.len(), 1, "{template:?}");
    let manifest = template[0].join("manifest").metadata().unwrap();
    let mut child = Child::start_with(&site, "descriptors used up", with_our_programs);
    for _ in 0..2 {
        let error = child.hear("refused ");
        has_parts(&error, &["Environment", "RLIMIT_NOFILE", "ulimit -n"]);
    }
    child.hear("ready");
    assert!(child.end().success());
    let after = template[0].join("manifest").metadata().unwrap();
    assert_eq!(manifest.modified().unwrap(), after.modified().unwrap());
    site.wait_until_deserted();
}

/// A cluster in a place that became read-only.
#[test]
fn a_read_only_folder_is_named_with_what_to_do() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let parent = tempdir();
    let folder = parent.path().join("data");
    let Some(_) = with_read_only(parent.path()) else {
        return;
    };
    let mut first = Child::start_in(&site, &folder);
    first.hear("ready");
    assert!(first.end().success());
    for (role, folder) in [
        ("path", folder.clone()),
        ("instance", folder),
        ("path", parent.path().join("new")),
    ] {
        let command = with_read_only(parent.path()).unwrap();
        let mut child = Child::start_through(command, &site, role, Child::folder(&folder));
        let error = child.error_or_end().expect("it cannot be written");
        let folder = folder.to_str().unwrap();
        has_parts(&error, &["Environment", folder, "name another folder"]);
    }
}
