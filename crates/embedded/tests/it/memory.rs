//! Shared memory of servers that are killed with all that belongs to them, as by the kernel when memory
//! runs out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use lookaside_testing::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::child::Child;
use crate::damage::with_our_programs;
use crate::death::{kill, server_pid};
use crate::prepared::Stage;
use crate::site::{Site, processes, tempdir};
use crate::upkeep::{has_segment, segment, signal};
use crate::{ask, builder, has_server};

/// Kills an owner, its watch and its server. All stand still first, so that none acts on the death of
/// another.
pub(crate) fn kill_all(child: &mut Child, folder: &Path) {
    let ours: Vec<i32> = processes(folder).into_iter().map(|(pid, _)| pid).collect();
    let owner = child.process.id().cast_signed();
    signal(owner, Signal::STOP);
    for pid in &ours {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_raw(*pid).unwrap(), Signal::STOP);
    }
    for pid in ours {
        kill(pid);
    }
    child.kill();
    wait_until("all are gone", || processes(folder).is_empty());
}

/// Files in `/dev/shm` that a server has made.
fn shared_files(folder: &Path) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", server_pid(folder))).unwrap();
    let paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let mut paths: Vec<_> = paths
        .filter(|path| path.starts_with("/dev/shm/PostgreSQL."))
        .map(PathBuf::from)
        .collect();
    paths.dedup();
    paths
}

#[test]
fn the_next_start_frees_the_memory_of_a_temporary_server_that_was_killed_with_its_owner() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    for role in ["temporary", "fresh"] {
        let mut child = Child::start(&site, role);
        let folder = PathBuf::from(child.hear("folder "));
        child.hear("ready");
        let segment = segment(&folder);
        assert_eq!(shared_files(&folder), [""; 0].map(PathBuf::from));
        kill_all(&mut child, &folder);
        assert!(has_segment(&segment));
        let mut next = Child::start(&site, "fresh");
        next.hear("ready");
        wait_until("the memory is free", || !has_segment(&segment));
        wait_until("the folder is gone", || !folder.exists());
        assert!(next.end().success());
        site.wait_until_clean();
    }
}

/// By a file in the folder the memory is found.
#[test]
fn a_watch_leaves_the_folder_of_a_killed_server_to_the_next_start() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut child = Child::start(&site, "fresh");
    let folder = PathBuf::from(child.hear("folder "));
    child.hear("ready");
    let segment = segment(&folder);
    // As if the owner had ended a moment before.
    fs::write(folder.join("ending"), "").unwrap();
    kill(server_pid(&folder));
    wait_until("the watch has ended", || processes(&folder).is_empty());
    assert!(has_segment(&segment));
    child.kill();
    let mut next = Child::start(&site, "fresh");
    next.hear("ready");
    wait_until("the memory is free", || !has_segment(&segment));
    wait_until("the folder is gone", || !folder.exists());
    assert!(next.end().success());
    site.wait_until_clean();
}

#[test]
fn the_memory_of_a_server_that_was_killed_while_it_made_a_template_is_freed() {
    if !has_server() {
        return;
    }
    let stage = Stage::new();
    let mut child = stage.start("prepared waiting", "a");
    child.hear("making");
    let half_made = |path: &PathBuf| path.to_str().unwrap().contains(".partial-");
    let folder = stage.templates().into_iter().find(half_made).unwrap();
    let segment = segment(&folder);
    assert_eq!(shared_files(&folder), [""; 0].map(PathBuf::from));
    kill_all(&mut child, &folder);
    assert!(has_segment(&segment) && folder.exists());
    let mut next = stage.start("prepared", "a");
    next.hear("ready");
    assert!(!folder.exists() && !has_segment(&segment));
    assert!(next.end().success());
    stage.site.wait_until_clean();
}

/// PostgreSQL does so by itself, as long as the segment is not removed by others: by it the files are
/// found.
#[test]
fn the_next_start_of_a_folder_frees_what_its_killed_server_left() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let parent = tempdir();
    let folder = parent.path().join("data of a user");
    let mut child = Child::start_with(&site, "path", |command| {
        with_our_programs(command);
        Child::folder(&folder)(command);
    });
    child.hear("ready");
    let (segment, files) = (segment(&folder), shared_files(&folder));
    assert!(!files.is_empty());
    kill_all(&mut child, &folder);
    assert!(has_segment(&segment) && files.iter().all(|file| file.exists()));
    // A start in another place leaves both unchanged.
    let mut other = Child::start(&site, "fresh");
    other.hear("ready");
    assert!(other.end().success());
    assert!(has_segment(&segment) && files.iter().all(|file| file.exists()));
    let db = builder().path(&folder).start().unwrap();
    assert!(!has_segment(&segment), "{segment}");
    assert_eq!(files.iter().filter(|file| file.exists()).count(), 0);
    db.close().unwrap();
}

/// A number that another process has by now, and that of a zombie, as in a container
/// without an init process.
#[test]
fn the_number_of_a_killed_server_does_not_keep_a_start_from_working() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let parent = tempdir();
    let folder = parent.path().join("data");
    let mut ended = Command::new("true").spawn().unwrap();
    for number in [process::id(), ended.id()] {
        let mut child = Child::start_in(&site, &folder);
        child.hear("ready");
        child.tell("sql CREATE TABLE IF NOT EXISTS kept AS SELECT 7 AS n");
        child.hear("done");
        kill_all(&mut child, &folder);
        let file = folder.join("data/postmaster.pid");
        let text = fs::read_to_string(&file).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        fs::write(&file, format!("{number}\n{rest}")).unwrap();
        let db = builder().path(&folder).start().unwrap();
        assert_eq!(ask(&db.url(), "SELECT n FROM kept"), ["7"]);
        db.close().unwrap();
    }
    ended.wait().unwrap();
}
