//! `clean`: what is removed, what is told of it, and what stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lookaside_testing::wait_until;

use crate::child::Child;
use crate::damage::with_our_programs;
use crate::has_server;
use crate::memory::kill_all;
use crate::site::{Site, entries, processes, tempdir};
use crate::upkeep::{has_segment, make_old, segment};

/// What a `clean` tells: a size, and what it was.
fn clean(site: &Site, role: &str) -> Vec<(u64, String)> {
    let mut child = Child::start_with(site, role, with_our_programs);
    assert_eq!(child.error_or_end(), None);
    let said = child.said();
    let lines = said.lines().filter_map(|line| line.strip_prefix("left "));
    let told = lines.map(|line| line.split_once(' ').unwrap());
    told.map(|(size, what)| (size.parse().unwrap(), what.to_owned()))
        .collect()
}

fn start(site: &Site, role: &str) -> (Child, PathBuf) {
    let mut child = Child::start_with(site, role, with_our_programs);
    let folder = PathBuf::from(child.hear("folder "));
    child.hear("ready");
    (child, folder)
}

/// All names below a folder; a living server changes its files, but none of its folders.
fn folders(root: &Path) -> Vec<PathBuf> {
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_dir());
    let mut all: Vec<PathBuf> = entries(root).into_iter().filter(is_folder).collect();
    let below: Vec<PathBuf> = all.iter().flat_map(|folder| entries(folder)).collect();
    all.extend(below.into_iter().filter(is_folder));
    all
}

#[test]
fn leftovers_of_ended_processes_are_removed_and_listed_and_the_rest_stays() {
    if !has_server() {
        return;
    }
    let cache = tempdir();
    let site = Site::with_cache(cache.path());
    let (mut living, living_folder) = start(&site, "fresh");
    let is_spare = |path: &PathBuf| path.to_str().unwrap().contains("/spare-") && path.is_dir();
    // The last step of what a start tidies: it sweeps nothing any more.
    let wait_for_spare = || {
        wait_until("there is a spare copy", || {
            entries(&site.clusters()).iter().any(is_spare)
        });
    };
    wait_for_spare();
    let data = cache.path().join("data of a user");
    let mut user = Child::start_with(&site, "path", |command| {
        with_our_programs(command);
        Child::folder(&data)(command);
    });
    user.hear("ready");
    assert!(user.end().success());

    let (mut dead, dead_folder) = start(&site, "fresh");
    let segment = segment(&dead_folder);
    wait_for_spare();
    kill_all(&mut dead, &dead_folder);
    let spare = entries(&site.clusters())
        .into_iter()
        .find(is_spare)
        .unwrap();
    let templates = cache.path().join("template");
    let half_made = templates.join("x.partial-1-0");
    let download = cache.path().join("pg/archives/y.jar.partial-1-0");
    let other_format = templates.join("18.6-0123-1");
    let gone = templates.join("17.0-0123456789abcdef-4");
    let recent = templates.join("17.1-0123456789abcdef-4");
    let in_work = templates.join("z.partial-1-0");
    let sockets = site.clusters().join("s-0123456789abcdef");
    for folder in [
        &half_made,
        &other_format,
        &gone,
        &recent,
        &in_work,
        &sockets,
    ] {
        fs::create_dir(folder).unwrap();
    }
    // Nine with contents, one of which is one too many.
    let prepared: Vec<_> = (0..9)
        .map(|number| templates.join(format!("17.1-0123456789abcdef-4-{number:016}")))
        .collect();
    for folder in &prepared {
        fs::create_dir(folder).unwrap();
    }
    let used = SystemTime::now() - Duration::from_secs(3600);
    let oldest = fs::File::open(&prepared[4]).unwrap();
    oldest.set_modified(used).unwrap();
    fs::create_dir_all(download.parent().unwrap()).unwrap();
    fs::write(&download, vec![1; 1 << 20]).unwrap();
    make_old(&gone);
    make_old(&sockets);
    let working = fs::File::open(&in_work).unwrap();
    working.try_lock().unwrap();

    let removed = [
        (&dead_folder, "cluster of a process that has ended"),
        (&spare, "copy of a template"),
        (&sockets, "socket folder"),
        (&half_made, "incomplete"),
        (&download, "incomplete"),
        (&other_format, "template of a server"),
        (&gone, "template of a server"),
        (&prepared[4], "template with contents that was not among"),
    ];
    let before = (folders(&site.clusters()), folders(cache.path()));
    let would_be = clean(&site, "clean dry run");
    assert_eq!((folders(&site.clusters()), folders(cache.path())), before);
    assert!(download.exists() && has_segment(&segment));
    let mut told = clean(&site, "clean");
    for told in [&would_be, &told] {
        assert_eq!(told.len(), removed.len(), "{told:#?}");
        for (path, what) in removed {
            let is_it = |(_, text): &&(u64, String)| {
                text.contains(what) && text.ends_with(path.to_str().unwrap())
            };
            let (size, _) = told
                .iter()
                .find(is_it)
                .unwrap_or_else(|| panic!("{told:#?}"));
            let size_min = match path == &dead_folder || path == &spare || path == &download {
                true => 1 << 20,
                false => 0,
            };
            assert!(*size >= size_min, "{}: {size}", path.display());
        }
    }
    for (path, _) in removed {
        assert!(!path.exists(), "{}", path.display());
    }
    assert!(!has_segment(&segment));
    for path in [&living_folder, &data, &recent, &in_work] {
        assert!(path.exists(), "{}", path.display());
    }
    told = clean(&site, "clean");
    assert_eq!(told, []);
    living.tell("sql SELECT 1");
    living.hear("done");
    assert!(living.end().success());
    let mut user = Child::start_with(&site, "path", |command| {
        with_our_programs(command);
        Child::folder(&data)(command);
    });
    user.hear("ready");
    assert!(!user.said().contains("step "), "the template stays");
    assert!(user.end().success());
}

#[test]
fn only_databases_of_ended_processes_in_a_shared_server_are_dropped() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let (mut living, folder) = start(&site, "temporary");
    let mut dead = Child::start_with(&site, "temporary", with_our_programs);
    let database = dead.hear("database ");
    dead.hear("ready");
    let owned = |told: &[(u64, String)]| {
        let is_it = |(size, text): &&(u64, String)| {
            *size > 1 << 20
                && text.starts_with("database of a process")
                && text.ends_with(&database)
        };
        told.iter().filter(is_it).count()
    };
    for role in ["clean dry run", "clean"] {
        assert_eq!(owned(&clean(&site, role)), 0, "{role}");
    }
    dead.tell("sql SELECT 1");
    dead.hear("done");
    dead.kill();
    // The server learns of the death in its own time.
    wait_until("the database is without an owner", || {
        owned(&clean(&site, "clean dry run")) == 1
    });
    assert_eq!(owned(&clean(&site, "clean")), 1);
    assert_eq!(owned(&clean(&site, "clean dry run")), 0);
    assert!(!processes(&folder).is_empty());
    living.tell("sql SELECT 1");
    living.hear("done");
    assert!(living.end().success());
    site.wait_until_clean();
}
