//! However an owner ends, its server ends too, and nothing of it stays.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lookaside_embedded::{ErrorKind, Instance, Status};
use lookaside_testing::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::child::Child;
use crate::damage::with_our_programs;
use crate::site::{Site, entries, processes, tempdir};
use crate::{ask, builder, has_server, rng};

/// Longest time after which an owner is killed: some twice as long as a start takes here.
const LIFE_MAX: Duration = Duration::from_millis(300);

pub(crate) fn kill(pid: i32) {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

pub(crate) fn server_pid(folder: &Path) -> i32 {
    let mut pid = None;
    // The server makes the file before it writes into it.
    wait_until("the server's number is written", || {
        let file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
        pid = file.lines().next().and_then(|line| line.parse().ok());
        pid.is_some()
    });
    pid.expect("it was waited for")
}

/// Kills the server of a cluster, and waits until it and its sessions are gone.
pub(crate) fn crash(folder: &Path) {
    kill(server_pid(folder));
    wait_until("the server is gone", || processes(folder).is_empty());
}

/// Kills one of a server's processes and waits until it begins to recover from that, which its log tells of
/// `earlier_count` times before.
fn hurt(folder: &Path, earlier_count: usize) {
    let server = server_pid(folder);
    let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
    kill(children.split_whitespace().next().unwrap().parse().unwrap());
    wait_until("the server begins anew", || {
        let log = fs::read_to_string(folder.join("log")).unwrap();
        log.matches("reinitializing").count() > earlier_count
    });
}

/// PostgreSQL 18 that is told to end in that moment does not.
#[test]
fn a_server_that_recovers_is_ended_and_loses_nothing() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let (closed, stopped) = (folder.path().join("closed"), folder.path().join("stopped"));
    let fill = "CREATE TABLE kept AS SELECT 7 AS n";
    thread::scope(|scope| {
        scope.spawn(|| {
            // A recovery is short, and is not met by each end.
            for round in 0..6 {
                let db = builder().path(&closed).start().unwrap();
                if round == 0 {
                    db.execute(fill).unwrap();
                }
                hurt(&closed, round);
                db.close().unwrap();
            }
        });
        scope.spawn(|| {
            let instance = Instance::at(&stopped).unwrap();
            let running = instance.start(builder()).unwrap();
            ask(&running.url, &format!("{fill}; SELECT 1"));
            hurt(&stopped, 0);
            assert!(instance.stop().unwrap());
        });
    });
    for folder in [closed, stopped] {
        assert_eq!(processes(&folder), []);
        let log = fs::read_to_string(folder.join("log")).unwrap();
        assert!(log.contains("received fast shutdown request"), "{log}");
        // By the last resort, half a minute later.
        assert!(
            !log.contains("received immediate shutdown request"),
            "{log}"
        );
        let db = builder().path(&folder).start().unwrap();
        assert_eq!(ask(&db.url(), "SELECT n FROM kept"), ["7"]);
        db.close().unwrap();
    }
}

/// Kills the shells that watch over a cluster.
fn kill_watch(folder: &Path) {
    let mut count = 0;
    for (pid, command) in processes(folder) {
        if command.contains("lookaside-watch") {
            kill(pid);
            count += 1;
        }
    }
    assert_eq!(count, 2, "a shell that waits and one that reads");
}

#[test]
fn an_owner_that_is_killed_leaves_no_process_no_folder_and_no_lock() {
    if !has_server() {
        return;
    }
    let mut rng = rng("an_owner_that_is_killed");
    let site = Site::new();
    for round in 0..24 {
        let role = if rng.bool() { "temporary" } else { "fresh" };
        let mut child = Child::start(&site, role);
        let mut life = LIFE_MAX.mul_f64(rng.f64());
        if rng.bool() {
            // As its server begins: the time when signals to it are most easily lost.
            life /= 50;
            wait_until("a server begins", || !processes(site.path()).is_empty());
        }
        // sleep: a random life time before the kill
        thread::sleep(life);
        child.kill();
        eprintln!("round {round}: {role} killed after {life:?}");
        // By itself.
        site.wait_until_deserted();
    }
    // A folder can only be left by one that was killed before its server was watched; the next
    // start takes it away.
    let mut next = Child::start(&site, "temporary");
    let folder = next.hear("folder ");
    wait_until("the folders are swept", || {
        site.cluster_folders() == [Path::new(&folder)]
    });
    next.kill();
    site.wait_until_clean();
}

#[test]
fn an_owner_that_is_killed_while_it_makes_the_template_leaves_the_next_one_to_make_it() {
    if !has_server() {
        return;
    }
    let mut rng = rng("an_owner_that_is_killed_while_it_makes_the_template");
    let cache = tempdir();
    let site = Site::with_cache(cache.path());
    for round in 0..5 {
        let mut child = Child::start_with(&site, "fresh", with_our_programs);
        let life = Duration::from_millis(rng.u64(0..1000));
        // sleep: a random life time before the kill
        thread::sleep(life);
        child.kill();
        eprintln!("round {round}: killed after {life:?}");
        // What initdb does alone ends by itself.
        wait_until("no process works in the cache", || {
            processes(cache.path()).is_empty()
        });
        site.wait_until_deserted();
    }
    let mut child = Child::start_with(&site, "fresh", with_our_programs);
    let folder = child.hear("folder ");
    child.hear("ready");
    // One that was killed between the template and its server's watch has left a folder, which this
    // start takes away, unless it ends before.
    wait_until("the folders are swept", || {
        site.cluster_folders() == [Path::new(&folder)]
    });
    assert!(child.end().success());
    wait_until("no process works in the cache", || {
        processes(cache.path()).is_empty()
    });
    site.wait_until_clean();
    assert_eq!(entries(&cache.path().join("template")).len(), 1);
}

/// The lock of the folder is released when the server ends, also if a watching shell was killed before.
#[test]
fn issue_13_a_server_without_its_first_shell_is_stopped_and_started_again() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    for is_stopped in [true, false] {
        let running = instance.start(builder()).unwrap();
        let server = i32::try_from(running.pid).unwrap();
        let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        kill(parent.unwrap().trim().parse().unwrap());
        match is_stopped {
            true => assert!(instance.stop().unwrap()),
            false => kill(server),
        }
        wait_until("no process is left", || processes(&folder).is_empty());
    }
    let running = instance.start(builder()).unwrap();
    assert_eq!(ask(&running.url, "SELECT 1"), ["1"]);
    assert!(instance.stop().unwrap());
}

/// No process holds the lock then; the server is found by its PID file.
#[test]
fn issue_13_a_server_without_its_watch_is_seen_and_stopped() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    let running = instance.start(builder()).unwrap();
    kill_watch(&folder);
    let pid = Some(running.pid);
    wait_until("the lock is free", || {
        instance.status().unwrap() == Status::Owned { pid }
    });
    assert!(instance.stop().unwrap());
    assert_eq!(processes(&folder), []);
    assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
}

#[test]
fn an_owner_that_aborts_takes_its_server_along() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    for role in ["temporary", "fresh"] {
        let mut child = Child::start(&site, role);
        child.hear("ready");
        child.tell("abort");
        assert!(!child.end().success());
        site.wait_until_clean();
    }
}

#[test]
fn a_server_without_owner_and_watch_is_swept_by_the_next_start() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    for role in ["temporary", "fresh"] {
        let mut child = Child::start(&site, role);
        let folder = child.hear("folder ");
        let folder = Path::new(&folder);
        child.hear("ready");
        kill_watch(folder);
        child.kill();
        // No process is left to end it.
        let pid = server_pid(folder);
        assert!(processes(folder).iter().any(|(other, _)| *other == pid));
        let mut next = Child::start(&site, "fresh");
        next.hear("ready");
        // It gets another name first.
        wait_until("the folder is swept", || {
            !folder.exists() && processes(folder).is_empty()
        });
        assert!(next.end().success());
        site.wait_until_clean();
    }
}

#[test]
fn a_folder_outlives_every_owner_with_what_was_committed() {
    if !has_server() {
        return;
    }
    let mut rng = rng("a_folder_outlives_every_owner");
    let site = Site::new();
    let folder = site.path().join("data of an app");
    let mut committed = 0;
    for round in 0..8 {
        let mut child = Child::start_in(&site, &folder);
        if rng.u8(0..3) == 0 {
            // Perhaps before it is even there.
            // sleep: a random life time before the kill
            thread::sleep(LIFE_MAX.mul_f64(rng.f64()));
        } else {
            let url = child.hear("url ");
            child.hear("ready");
            child.tell("sql CREATE TABLE IF NOT EXISTS counted (number int); TRUNCATE counted");
            child.hear("done");
            child.tell("count");
            for _ in 0..rng.usize(1..100) {
                committed = child.hear("counted ").parse().unwrap();
            }
            assert!(
                ask(&url, "SELECT max(number) FROM counted")[0]
                    .parse::<i32>()
                    .unwrap()
                    >= committed
            );
        }
        match rng.u8(0..3) {
            // The server crashes first: it has to replay its log.
            0 if folder.join("data/postmaster.pid").exists() => crash(&folder),
            // No shell tells the server to end: the next start does.
            1 if processes(&folder).len() > 5 => kill_watch(&folder),
            _ => {}
        }
        child.kill();
        eprintln!("round {round}: {committed} committed");
        let db = builder().path(&folder).start().unwrap();
        if committed > 0 {
            let max = ask(&db.url(), "SELECT max(number) FROM counted");
            let count = ask(&db.url(), "SELECT count(*) FROM counted");
            assert_eq!(max, count);
            assert!(max[0].parse::<i32>().unwrap() >= committed, "{max:?}");
        }
        db.close().unwrap();
        assert_eq!(processes(&folder), []);
    }
    site.wait_until_clean();
}

#[test]
fn a_crash_is_an_error_that_quotes_the_log() {
    if !has_server() {
        return;
    }
    let db = builder().fresh_cluster().start().unwrap();
    db.execute("DO $$ BEGIN RAISE WARNING 'the last words'; END $$")
        .unwrap();
    let folder = db.folder().to_owned();
    crash(&folder);
    let error = db.execute("SELECT 1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Crashed, "{error}");
    for part in ["has ended", "the last words", folder.to_str().unwrap()] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(db.snapshot("x").unwrap_err().kind(), ErrorKind::Crashed);
    drop(db);
    fs::remove_dir_all(&folder).unwrap_or_default();
}

#[test]
fn a_setting_that_the_server_refuses_is_quoted_and_leaves_nothing() {
    if !has_server() {
        return;
    }
    let error = builder()
        .fresh_cluster()
        .setting("no_such_setting", "1")
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Crashed, "{error}");
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}
