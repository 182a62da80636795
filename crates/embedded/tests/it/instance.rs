//! Servers that outlive the command that started them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lookaside_embedded::{ErrorKind, Instance, Status};
use lookaside_testing::wait_until;

use crate::child::Child;
use crate::death::crash;
use crate::site::{Site, processes, tempdir};
use crate::{ask, builder, has_server, rng, try_ask, version_with_pg_dump};

/// Stops the server however a test ends.
struct Stop<'a>(&'a Instance);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let _ = self.0.stop();
    }
}

#[test]
fn an_instance_runs_until_it_is_stopped() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("my data");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    assert_eq!(instance.status().unwrap(), Status::Absent);
    assert!(!instance.stop().unwrap());
    assert!(!folder.exists());

    let running = instance
        .start(
            builder()
                .tcp()
                .database("shop")
                .sql("CREATE TABLE items (id int)"),
        )
        .unwrap();
    assert_eq!(ask(&running.url, "SELECT current_database()"), ["shop"]);
    let url = running.tcp_url.clone().unwrap();
    assert_eq!(ask(&url, "SELECT 1"), ["1"]);
    assert_eq!((running.version.major, &*running.database), (18, "shop"));
    assert_eq!(
        crate::death::server_pid(&folder),
        i32::try_from(running.pid).unwrap()
    );
    assert!(!format!("{running:?}").contains(running.password.as_deref().unwrap()));
    // Others see it, and leave it alone.
    assert_eq!(instance.status().unwrap(), Status::Running(running.clone()));
    assert_eq!(
        Instance::at(&folder).unwrap().start(builder()).unwrap(),
        running
    );
    assert!(Instance::list().unwrap().contains(&instance));
    let error = builder().path(&folder).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let named = format!("process {}", running.pid);
    assert!(error.to_string().contains(&named), "{error}");
    assert_eq!(
        ask(&url, "INSERT INTO items VALUES (7) RETURNING id"),
        ["7"]
    );

    assert!(instance.stop().unwrap());
    assert!(!instance.stop().unwrap());
    assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
    assert_eq!(processes(&folder), []);
    assert!(try_ask(&running.url, "SELECT 1").is_err());
    // The password stays, and so does the data.
    let again = instance.start(builder().tcp()).unwrap();
    assert_eq!(again.password, running.password);
    assert_eq!(ask(&again.tcp_url.unwrap(), "SELECT id FROM items"), ["7"]);
    assert!(instance.stop().unwrap());
    let plain = instance.start(builder()).unwrap();
    assert_eq!((plain.tcp_url, plain.password), (None, None));
    assert!(instance.stop().unwrap());

    fs::remove_dir_all(&folder).unwrap();
    assert!(!Instance::list().unwrap().contains(&instance));
}

#[test]
fn an_instance_outlives_a_crash_and_is_not_taken_from_a_program() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let folder = site.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    let mut owner = Child::start_in(&site, &folder);
    owner.hear("ready");
    let pid = owner.process.id();
    assert_eq!(instance.status().unwrap(), Status::Owned { pid: Some(pid) });
    for error in [
        instance.stop().unwrap_err(),
        instance.start(builder()).unwrap_err(),
        instance.dump(&site.path().join("x.tar.zst")).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains(&pid.to_string()), "{error}");
    }
    assert!(owner.end().success());
    let running = instance.start(builder()).unwrap();
    crash(&folder);
    assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
    let again = instance.start(builder()).unwrap();
    assert_ne!(again.pid, running.pid);
    assert_eq!(ask(&again.url, "SELECT 1"), ["1"]);
    assert!(instance.stop().unwrap());
    site.wait_until_clean();
}

#[test]
fn an_instance_is_dumped_running_or_not() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let instance = Instance::at(parent.path().join("data")).unwrap();
    let _stop = Stop(&instance);
    let error = instance
        .dump(&parent.path().join("none.tar.zst"))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    instance
        .start(builder().sql("CREATE TABLE items AS SELECT 42 AS id"))
        .unwrap();
    let (hot, cold) = (
        parent.path().join("hot.tar.zst"),
        parent.path().join("cold.tar.zst"),
    );
    instance.dump(&hot).unwrap();
    assert!(matches!(instance.status().unwrap(), Status::Running(_)));
    assert!(instance.stop().unwrap());
    instance.dump(&cold).unwrap();
    assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
    for archive in [hot, cold] {
        let db = builder().restore(&archive).start().unwrap();
        assert_eq!(ask(&db.url(), "SELECT id FROM items"), ["42"]);
    }
}

#[test]
fn sql_needs_the_pg_dump_of_the_same_major_version() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let file = folder.path().join("out.sql");
    let db = builder()
        .sql("CREATE TABLE items AS SELECT 42 AS id")
        .start()
        .unwrap();
    if db.binaries().tool("pg_dump").is_some() {
        db.dump_sql(&file).unwrap();
        assert!(
            fs::read_to_string(&file)
                .unwrap()
                .contains("CREATE TABLE public.items")
        );
    } else {
        let error = db.dump_sql(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
        assert!(
            error.to_string().contains("postgresql-client-18"),
            "{error}"
        );
        assert!(!file.exists());
    }
    let Some(version) = version_with_pg_dump() else {
        return;
    };
    let db = builder()
        .version(version)
        .sql(
            "CREATE TABLE items AS SELECT id, E'a\\\\b\\n;''' || id AS name FROM generate_series(1, 2500) AS id;
             CREATE TABLE bytes AS SELECT '\\x00ff'::bytea AS bytes, 'NaN'::float8 AS number;
             CREATE FUNCTION seven() RETURNS int LANGUAGE sql AS 'SELECT 7';
             CREATE VIEW few AS SELECT id FROM items WHERE id < seven()",
        )
        .start()
        .unwrap();
    db.dump_sql(&file).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("CREATE TABLE public.items"), "{text}");
    // It is SQL for every client, this one included, and what follows has the usual settings.
    let copy = builder()
        .version(version)
        .sql(&text)
        .sql("CREATE TABLE later AS SELECT count(*) AS n FROM few")
        .start()
        .unwrap();
    let sum = "SELECT md5(string_agg(items::text, ' ' ORDER BY id)) FROM items \
               UNION ALL SELECT bytes::text || number FROM bytes";
    assert_eq!(ask(&copy.url(), sum), ask(&db.url(), sum));
    assert_eq!(ask(&copy.url(), "SELECT n::text FROM later"), ["6"]);
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_instance_whose_start_fails_or_is_killed_can_be_stopped() {
    if !has_server() {
        return;
    }
    let mut rng = rng("an_instance_whose_start_fails");
    let site = Site::new();
    let folder = site.path().join("failed");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    let error = instance.start(builder().sql("no")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(processes(&folder), []);
    assert_eq!(instance.status().unwrap(), Status::Absent);

    let folder = site.path().join("killed");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    for round in 0..12 {
        let mut child = Child::start_with(&site, "instance", Child::folder(&folder));
        let life = Duration::from_millis(rng.u64(0..250));
        // sleep: a random life time before the kill
        thread::sleep(life);
        child.kill();
        eprintln!("round {round}: killed after {life:?}");
        // It runs and can be stopped, or ends by itself; before it is stopped or after.
        if rng.bool() {
            instance.stop().unwrap();
        }
        wait_until("it ends or runs", || match instance.status().unwrap() {
            Status::Running(running) => {
                assert_eq!(ask(&running.url, "SELECT 1"), ["1"]);
                assert!(instance.stop().unwrap());
                true
            }
            status => !matches!(status, Status::Owned { .. }),
        });
        site.wait_until_deserted();
    }
}

#[test]
fn a_server_that_its_owner_left_behind_can_be_stopped() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let folder = site.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    let mut owner = Child::start_in(&site, &folder);
    owner.hear("ready");
    // The shell that would tell the server to end; the other one waits for the server.
    let shells: Vec<i32> = processes(&folder)
        .into_iter()
        .filter(|(_, command)| command.contains("lookaside-watch"))
        .map(|(pid, _)| pid)
        .collect();
    let parent = |pid: &i32| -> i32 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // After the name, which is in parentheses, come the state and the parent.
        let (_, rest) = stat.rsplit_once(')').unwrap();
        rest.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let reader = shells.iter().find(|pid| shells.contains(&parent(pid)));
    crate::death::kill(*reader.unwrap());
    owner.kill();
    let server = u32::try_from(crate::death::server_pid(&folder)).unwrap();
    assert_eq!(
        instance.status().unwrap(),
        Status::Owned { pid: Some(server) }
    );
    assert!(instance.stop().unwrap());
    assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
    site.wait_until_clean();
}

#[test]
fn an_instance_leaves_no_zombie() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let instance = Instance::at(folder.path()).unwrap();
    let _stop = Stop(&instance);
    instance.start(builder()).unwrap();
    let ours: Vec<String> = processes(folder.path())
        .into_iter()
        .map(|(pid, _)| format!("/proc/{pid}"))
        .collect();
    assert!(instance.stop().unwrap());
    wait_until("all are collected", || {
        !ours.iter().any(|process| Path::new(process).exists())
    });
}

#[test]
fn starts_at_the_same_moment_find_one_server() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let instance = Instance::at(parent.path().join("data")).unwrap();
    let _stop = Stop(&instance);
    let pids = thread::scope(|scope| {
        let starts: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| instance.start(builder()).unwrap().pid))
            .collect();
        let pids = starts.into_iter().map(|start| start.join().unwrap());
        pids.collect::<Vec<_>>()
    });
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

#[test]
fn options_that_a_running_server_does_not_have_are_refused() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let instance = Instance::at(parent.path().join("data")).unwrap();
    let _stop = Stop(&instance);
    let with_setting = || builder().setting("work_mem", "8MB");
    let running = instance.start(with_setting()).unwrap();
    assert_eq!(instance.start(with_setting()).unwrap(), running);
    assert_eq!(instance.start(builder()).unwrap(), running);
    for (options, named) in [
        (builder().version("17".parse().unwrap()), "PostgreSQL 17"),
        (builder().relaxed_durability(), "`fsync = off`"),
        (builder().setting("work_mem", "9MB"), "`work_mem = 9MB`"),
    ] {
        let error = instance.start(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn a_file_is_no_folder() {
    let parent = tempdir();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let instance = Instance::at(&file).unwrap();
    for error in [
        instance.status().unwrap_err(),
        instance.start(builder()).unwrap_err(),
        builder().path(&file).start().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains("is not a folder"), "{error}");
    }
}

/// Each stop ends the server that runs when it is called, also if another start follows at once.
#[test]
fn issue_13_starts_and_stops_at_once_all_succeed() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    instance.start(builder()).unwrap();
    for _ in 0..6 {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| match instance.start(builder()) {
                    Ok(_) => {}
                    // Stopped before its start has returned.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Crashed, "{error}"),
                });
                scope.spawn(|| instance.stop().unwrap());
            }
        });
    }
    instance.stop().unwrap();
    assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
    assert_eq!(processes(&folder), []);
}

/// A start has signed the folder, and its server is not there yet.
#[test]
fn issue_13_a_stop_waits_for_a_start() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    // A start of a new folder takes longer than that of one with data.
    let start = thread::spawn({
        let instance = instance.clone();
        move || instance.start(builder().sql("SELECT pg_sleep(0.5)"))
    });
    wait_until("the start signs the folder", || {
        fs::read_to_string(folder.join("lock")).is_ok_and(|text| text.contains("starting"))
    });
    assert!(instance.stop().unwrap());
    // The server was there, if not for long.
    if let Err(error) = start.join().unwrap() {
        assert_eq!(error.kind(), ErrorKind::Crashed, "{error}");
    }
    assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
}

/// A file that a killed start left incomplete does not keep the server from being stopped.
#[test]
fn issue_13_a_server_whose_notes_are_damaged_can_be_stopped() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    instance.start(builder()).unwrap();
    for damage in [&b""[..], b"\xff\xfe"] {
        fs::write(folder.join("running.toml"), damage).unwrap();
        let error = instance.status().unwrap_err();
        assert!(error.to_string().contains("pg stop"), "{error}");
    }
    assert!(instance.stop().unwrap());
    assert_eq!(processes(&folder), []);
    assert!(instance.start(builder()).is_ok());
    // The server looks for this file now and then, and ends if it is gone.
    fs::write(folder.join("data/postmaster.pid"), "").unwrap();
    assert!(matches!(instance.status().unwrap(), Status::Running(_)));
    assert!(instance.stop().unwrap());
    assert_eq!(processes(&folder), []);
}

/// Neither file names the server, which is found among all processes.
#[test]
fn a_server_whose_lock_and_pid_file_are_damaged_is_found() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    let _stop = Stop(&instance);
    for lock in ["", "no number", "2147483647 server"] {
        let running = instance.start(builder()).unwrap();
        fs::write(folder.join("lock"), lock).unwrap();
        fs::write(folder.join("data/postmaster.pid"), "").unwrap();
        let pid = Some(running.pid);
        match lock {
            // Of a process that has ended: a server that its owner did not stop.
            "2147483647 server" => {
                assert_eq!(instance.status().unwrap(), Status::Owned { pid });
            }
            _ => {
                assert_eq!(instance.start(builder()).unwrap(), running, "{lock}");
                let error = builder().path(&folder).start().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                let named = format!("process {}", running.pid);
                assert!(error.to_string().contains(&named), "{error}");
            }
        }
        assert!(instance.stop().unwrap(), "{lock}");
        assert_eq!(processes(&folder), []);
        assert_eq!(instance.status().unwrap(), Status::Stopped { major: 18 });
    }
    assert!(instance.start(builder()).is_ok());
}

/// Such as a program that inherited the lock; there is no server to find.
#[test]
fn a_lock_without_a_name_is_an_error_that_says_how_to_find_its_process() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    let instance = Instance::at(&folder).unwrap();
    instance.start(builder()).unwrap();
    assert!(instance.stop().unwrap());
    let lock = fs::File::options()
        .write(true)
        .open(folder.join("lock"))
        .unwrap();
    lock.lock().unwrap();
    lock.set_len(0).unwrap();
    for error in [
        instance.stop().unwrap_err(),
        instance.start(builder()).unwrap_err(),
        builder().path(&folder).start().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        let hint = format!("fuser {}", folder.join("lock").display());
        assert!(error.to_string().contains(&hint), "{error}");
    }
}
