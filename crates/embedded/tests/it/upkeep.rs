//! The place of temporary clusters: where it may be, what is left there, and how it is cleaned up.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use lookaside_embedded::{Binaries, Instance, Postgres, doctor};
use lookaside_testing::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::child::Child;
use crate::damage::with_our_programs;
use crate::death::server_pid;
use crate::site::{Site, entries, processes};
use crate::{VERSION, ask, builder, has_server, version_with_pg_dump};

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Kills a child and the shells that watch over its server, which goes on alone.
fn kill_all_but_the_server(child: &mut Child, folder: &Path) {
    for (pid, command) in processes(folder) {
        if command.contains("lookaside-watch") {
            signal(pid, Signal::KILL);
        }
    }
    child.kill();
}

/// The number of a server's segment of shared memory.
pub(crate) fn segment(folder: &Path) -> String {
    let file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    let line = file.lines().nth(6).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

pub(crate) fn has_segment(id: &str) -> bool {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    table
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some(id))
}

pub(crate) fn make_old(folder: &Path) {
    let age = Duration::from_secs(90 * 24 * 3600);
    let made = SystemTime::now() - age;
    File::open(folder).unwrap().set_modified(made).unwrap();
}

#[test]
fn a_server_whose_folder_was_moved_away_ends_with_its_owner() {
    if !has_server() {
        return;
    }
    for role in ["fresh", "temporary"] {
        let site = Site::new();
        let mut child = Child::start(&site, role);
        let folder = child.hear("folder ");
        child.hear("ready");
        // Nothing can be written in it any more.
        fs::rename(&folder, site.path().join("moved")).unwrap();
        child.kill();
        site.wait_until_deserted();
    }
}

#[test]
fn a_server_that_does_not_end_is_not_waited_for_and_leaves_no_memory() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut child = Child::start(&site, "fresh");
    let folder = PathBuf::from(child.hear("folder "));
    child.hear("ready");
    let (pid, segment) = (server_pid(&folder), segment(&folder));
    assert!(has_segment(&segment));
    kill_all_but_the_server(&mut child, &folder);
    signal(pid, Signal::STOP);

    // Sweeps, and has to wait until it may kill; stopped, it waits as long as we like.
    let mut second = Child::start(&site, "fresh");
    second.hear("ready");
    wait_until("it is being swept", || !folder.exists());
    let sweeper = i32::try_from(second.process.id()).unwrap();
    signal(sweeper, Signal::STOP);
    let mut third = Child::start(&site, "fresh");
    third.hear("ready");
    signal(sweeper, Signal::CONT);
    wait_until("its memory is free", || !has_segment(&segment));
    wait_until("its folder is gone", || {
        !entries(&site.clusters())
            .iter()
            .any(|path| path.to_str().unwrap().contains("dead-"))
    });
    assert!(second.end().success() && third.end().success());
    site.wait_until_clean();
}

#[test]
fn leavings_of_every_kind_are_swept() {
    if !has_server() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let site = Site::with_cache(cache.path());
    let start_once = || {
        let mut child = Child::start_with(&site, "fresh", with_our_programs);
        child.hear("ready");
        child
    };
    let spare = |path: &PathBuf| path.to_str().unwrap().contains("/spare-") && path.is_dir();
    let mut child = start_once();
    wait_until("there is a spare copy", || {
        entries(&site.clusters()).iter().any(spare)
    });
    assert!(child.end().success());

    let ours = site.clusters();
    let templates = cache.path().join("template");
    let gone = [
        ours.join("spare-14.0-0123-1"),
        ours.join("s-0123456789abcdef"),
        ours.join("dead-c-0123456789"),
        // Its owner was killed before it had a lock.
        ours.join("c-0123456789"),
        ours.join("n-0123456789"),
        templates.join("16.0-0123-1"),
    ];
    // Made just now, or with a process that lives.
    let kept = [
        ours.join("s-aaaaaaaaaaaaaaaa"),
        ours.join("s-bbbbbbbbbbbbbbbb"),
        templates.join("15.0-0123-1"),
    ];
    for folder in gone.iter().chain(&kept) {
        fs::create_dir(folder).unwrap();
    }
    let our_pid = std::process::id().to_string();
    fs::write(kept[1].join(".s.PGSQL.5432.lock"), our_pid).unwrap();
    fs::write(gone[1].join(".s.PGSQL.5432.lock"), "999999999\n").unwrap();
    for folder in gone.iter().chain([&kept[1]]) {
        make_old(folder);
    }
    // The template in use is not forgotten for its age.
    let in_use = entries(&templates);
    let in_use = in_use
        .iter()
        .find(|path| path.join("manifest").exists())
        .unwrap();
    make_old(in_use);

    let mut child = start_once();
    for folder in &gone {
        wait_until(&format!("{} is swept", folder.display()), || {
            !folder.exists()
        });
    }
    assert!(child.end().success());
    assert!(!child.said().contains("step "), "{}", child.said());
    for folder in kept.iter().chain([in_use]) {
        assert!(folder.exists(), "{}", folder.display());
        if folder.starts_with(&ours) {
            fs::remove_dir_all(folder).unwrap();
        }
    }
    site.wait_until_clean();
}

#[test]
fn a_start_that_fails_for_another_reason_leaves_the_template_alone() {
    if !has_server() {
        return;
    }
    // Programs with a server that can be told to fail.
    let bin = tempfile::tempdir().unwrap();
    let binaries = Binaries::find(VERSION.parse().unwrap(), &()).unwrap();
    let real = binaries.folder().canonicalize().unwrap();
    let fail = bin.path().join("fail");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in */c-*) [ -e '{}' ] && exit 1;; esac\nexec '{}' \"$@\"\n",
        fail.display(),
        real.join("postgres").display()
    );
    fs::write(bin.path().join("postgres"), script).unwrap();
    fs::set_permissions(
        bin.path().join("postgres"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    symlink(real.join("initdb"), bin.path().join("initdb")).unwrap();

    let cache = tempfile::tempdir().unwrap();
    let site = Site::with_cache(cache.path());
    let start = || {
        Child::start_with(&site, "fresh", |command| {
            command.env("LOOKASIDE_PG_BIN", bin.path());
        })
    };
    let mut child = start();
    child.hear("ready");
    assert!(child.end().success());
    let template = entries(&cache.path().join("template"));
    let made = || template[0].join("manifest").metadata().unwrap().modified();
    let before = made().unwrap();
    fs::write(&fail, "").unwrap();
    let mut child = start();
    let error = child.hear("error ");
    assert!(error.starts_with("Crashed"), "{error}");
    assert!(!child.said().contains("step "), "{}", child.said());
    child.end();
    assert_eq!(made().unwrap(), before);
    fs::remove_file(&fail).unwrap();
    let mut child = start();
    child.hear("ready");
    assert!(child.end().success());
    site.wait_until_clean();
}

#[test]
fn what_a_process_has_found_is_looked_for_again_when_it_is_gone() {
    if !has_server() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let site = Site::with_cache(cache.path());
    let mut child = Child::start_with(&site, "fresh", with_our_programs);
    child.hear("step preparing");
    child.hear("ready");
    child.tell("another");
    child.hear("ready");
    let steps = |child: &Child| child.said().matches("step preparing").count();
    assert_eq!(steps(&child), 1);
    fs::remove_dir_all(cache.path().join("template")).unwrap();
    child.tell("another");
    child.hear("ready");
    assert_eq!(steps(&child), 2);
    assert!(child.end().success());
    site.wait_until_clean();
}

#[test]
fn the_place_may_be_relative_or_unset_but_not_too_long() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let start = |value: &OsStr| {
        Child::start_with(&site, "fresh", |command| {
            command
                .current_dir(site.path())
                .env("LOOKASIDE_PG_TEMP", value)
                .env("TMPDIR", value);
        })
    };
    let mut child = start(OsStr::new("."));
    let folder = PathBuf::from(child.hear("folder "));
    child.hear("ready");
    assert!(folder.starts_with(site.path()), "{}", folder.display());
    assert!(child.end().success());

    let mut child = start(OsStr::new(""));
    let folder = PathBuf::from(child.hear("folder "));
    child.hear("ready");
    assert!(folder.is_absolute(), "{}", folder.display());
    assert!(!folder.starts_with(site.path()), "{}", folder.display());
    assert!(child.end().success());

    let long = site.path().join("x".repeat(80));
    let odd = site.path().join(OsStr::from_bytes(b"\xff"));
    for unfit in [long, odd] {
        fs::create_dir(&unfit).unwrap();
        let mut child = start(unfit.as_os_str());
        let error = child.hear("error ");
        assert!(error.starts_with("Misuse"), "{error}");
        assert!(error.contains("LOOKASIDE_PG_TEMP"), "{error}");
        child.end();
        assert_eq!(entries(&unfit), [""; 0].map(PathBuf::from));
    }
    site.wait_until_clean();
}

#[test]
fn a_folder_need_not_be_called_in_utf_8() {
    if !has_server() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join(OsStr::from_bytes(b"d\xffta"));
    for _ in 0..2 {
        let db = builder().path(&folder).start().unwrap();
        assert_eq!(ask(&db.url(), "SELECT 1"), ["1"]);
        db.close().unwrap();
    }
    let instance = Instance::at(&folder).unwrap();
    let running = instance.start(builder()).unwrap();
    assert_eq!(ask(&running.url, "SELECT 1"), ["1"]);
    assert!(instance.stop().unwrap());
}

#[test]
fn the_watch_finds_its_programs_whatever_the_search_path() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let bin = tempfile::tempdir().unwrap();
    // For root's namespace.
    if let Some(unshare) = find_program("unshare") {
        symlink(unshare, bin.path().join("unshare")).unwrap();
    }
    for role in ["fresh", "temporary"] {
        let mut child = Child::start_with(&site, role, |command| {
            with_our_programs(command);
            command.env("PATH", bin.path());
        });
        child.hear("ready");
        child.kill();
        site.wait_until_clean();
    }
}

fn find_program(name: &str) -> Option<OsString> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name).into_os_string())
        .find(|program| Path::new(program).exists())
}

#[test]
fn a_report_does_not_disturb_starts() {
    if !has_server() {
        return;
    }
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                doctor();
            }
        });
        let results: Vec<_> = (0..10)
            .map(|_| builder().fresh_cluster().start())
            .map(|started| started.and_then(Postgres::close))
            .collect();
        is_done.store(true, Ordering::Relaxed);
        for result in results {
            result.unwrap();
        }
    });
}

#[test]
fn a_dump_names_its_database_and_no_other_parameter() {
    let Some(version) = version_with_pg_dump() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.sql");
    let named = builder().database(r"it's host=/nowhere \");
    let db = named.version(version).start().unwrap();
    db.execute("CREATE TABLE items (id int)").unwrap();
    db.dump_sql(&file).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("CREATE TABLE public.items"), "{text}");
    assert_eq!(entries(folder.path()), [file]);
}
