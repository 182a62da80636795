//! Folders that keep a cluster: one owner at a time, any path, whole or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lookaside_embedded::{ErrorKind, Instance};
use lookaside_testing::wait_until;

use crate::child::Child;
use crate::site::{Site, processes, tempdir};
use crate::{ask, builder, has_server, rng};

/// Opens a folder that may be new, adds a row and returns the number of rows.
fn add_row(folder: &Path) -> String {
    let db = builder().path(folder).start().unwrap();
    db.execute("CREATE TABLE IF NOT EXISTS kept (id serial); INSERT INTO kept DEFAULT VALUES")
        .unwrap();
    let count = ask(&db.url(), "SELECT count(*) FROM kept").remove(0);
    db.close().unwrap();
    assert_eq!(processes(folder), [], "`close` waits");
    count
}

#[test]
fn a_folder_keeps_its_data_whatever_it_is_called() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    // The last one is longer than a socket's name may be.
    let long = format!("{}/{}", "x".repeat(150), "y".repeat(150));
    for name in [
        "plain",
        "with spaces",
        r#"it's "quoted", \ and $HOME; ünï*"#,
        "%41&b?c=d#e",
        &long,
    ] {
        let folder = parent.path().join(name);
        assert_eq!(add_row(&folder), "1", "{name}");
        assert_eq!(add_row(&folder), "2", "{name}");
        let mode = folder.join("data").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

#[test]
fn a_second_owner_is_refused_and_told_who_the_first_is() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let folder = site.path().join("data");
    let mut first = Child::start_in(&site, &folder);
    first.hear("ready");
    let error = builder().path(&folder).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let pid = first.process.id();
    assert!(
        error.to_string().contains(&format!("process {pid}")),
        "{error}"
    );
    first.tell("sql SELECT 1");
    first.hear("done");
    assert!(first.end().success());
    // At once, although the first one's server may still write down.
    assert_eq!(add_row(&folder), "1");

    // Within one process too.
    let one = builder().path(&folder).start().unwrap();
    assert_eq!(
        builder().path(&folder).start().unwrap_err().kind(),
        ErrorKind::Busy
    );
    drop(one);
    assert_eq!(add_row(&folder), "2");
}

/// The state in a folder's manifest before the folder is complete.
const HALF_MADE: &str =
    "major = 18\nuser = \"postgres\"\ndatabase = \"main\"\nis_complete = false\n";

#[test]
fn what_an_interrupted_first_start_left_is_made_anew() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    for left in ["data.partial", "data"] {
        let folder = parent.path().join(left);
        fs::create_dir_all(folder.join(left).join("base")).unwrap();
        fs::write(folder.join(left).join("PG_VERSION"), "18\n").unwrap();
        fs::write(folder.join("lock"), "1").unwrap();
        fs::write(folder.join("lookaside.toml"), HALF_MADE).unwrap();
        assert_eq!(add_row(&folder), "1");
        assert!(!folder.join("data.partial").exists());
    }
}

#[test]
fn a_first_start_that_is_killed_in_the_middle_of_migrations_begins_again() {
    if !has_server() {
        return;
    }
    let mut rng = rng("a_first_start_that_is_killed");
    let site = Site::new();
    let sql = site.path().join("sql");
    fs::create_dir(&sql).unwrap();
    for number in 10..40 {
        let text = format!("CREATE TABLE t{number} (id int); SELECT pg_sleep(0.005)");
        fs::write(sql.join(format!("{number}.sql")), text).unwrap();
    }
    for round in 0..6 {
        let folder = site.path().join(format!("data {round}"));
        let mut child = Child::start_with(&site, "migrated path", Child::folder(&folder));
        // The folder is there and its database begins, for some 200 ms.
        wait_until("the folder is there", || {
            folder.join("lookaside.toml").exists()
        });
        // sleep: a random life time before the kill
        thread::sleep(Duration::from_millis(rng.u64(0..250)));
        child.kill();
        let db = builder().path(&folder).migrations(&sql).start().unwrap();
        let tables = "SELECT count(*) FROM pg_class WHERE relname ~ '^t[0-9]+$'";
        assert_eq!(ask(&db.url(), tables), ["30"]);
    }
}

#[test]
fn a_folder_of_other_things_is_refused_and_left_alone() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    fs::write(folder.path().join("thesis.txt"), "ten years").unwrap();
    let error = builder().path(folder.path()).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert!(error.to_string().contains("thesis.txt"), "{error}");
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["thesis.txt"]);

    let file = folder.path().join("thesis.txt");
    let error = builder().path(&file).start().unwrap_err();
    assert!(error.to_string().contains("thesis.txt"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "ten years");
}

#[test]
fn data_without_a_manifest_is_never_removed() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    for name in ["data", "data.partial", "s", "log", "owners", "joined"] {
        let folder = parent.path().join(format!("a stranger's {name}"));
        let thesis = folder.join(name).join("thesis.txt");
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(&thesis, "ten years").unwrap();
        let error = builder().path(&folder).start().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "ten years");
    }
    // Ours, but it may be incomplete.
    let folder = parent.path().join("ours");
    assert_eq!(add_row(&folder), "1");
    fs::remove_file(folder.join("lookaside.toml")).unwrap();
    let error = builder().path(&folder).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    let error = error.to_string();
    let (_, told) = error.split_once("a line each: ").unwrap();
    let (told, _) = told.split_once(" (").unwrap();
    fs::write(folder.join("lookaside.toml"), told.replace(", ", "\n")).unwrap();
    assert_eq!(add_row(&folder), "2");
}

#[test]
fn a_server_started_by_hand_is_left_alone() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    assert_eq!(add_row(folder.path()), "1");
    let data = folder.path().join("data").canonicalize().unwrap();
    // All that is known of a server: it stands in its folder, and says where its socket is.
    let mut server = Command::new("sleep")
        .arg("600")
        .current_dir(&data)
        .spawn()
        .unwrap();
    let pid = server.id();
    let text = format!("{pid}\n{}\n0\n5432\n/tmp\n", data.display());
    fs::write(data.join("postmaster.pid"), text).unwrap();
    let error = builder().path(folder.path()).start().unwrap_err();
    let is_alive = server.try_wait().unwrap().is_none();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(is_alive, "{error}");
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(
        error.to_string().contains(&format!("process {pid}")),
        "{error}"
    );
    assert_eq!(add_row(folder.path()), "2");
}

#[test]
fn a_further_database_of_a_folder_is_there_whole_or_not_at_all() {
    if !has_server() {
        return;
    }
    let mut rng = rng("a_further_database_of_a_folder");
    let site = Site::new();
    let (folder, sql) = (site.path().join("data"), site.path().join("sql"));
    assert_eq!(add_row(&folder), "1");
    let second = || builder().path(&folder).database("second");
    let error = second()
        .sql("CREATE TABLE t10 (id int)")
        .sql("no")
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    fs::create_dir(&sql).unwrap();
    for number in 10..40 {
        let text = format!("CREATE TABLE t{number} (id int); SELECT pg_sleep(0.005)");
        fs::write(sql.join(format!("{number}.sql")), text).unwrap();
    }
    for _ in 0..4 {
        let mut child = Child::start_with(&site, "second database", Child::folder(&folder));
        // sleep: a random life time before the kill
        thread::sleep(Duration::from_millis(rng.u64(100..400)));
        child.kill();
        let db = second().migrations(&sql).start().unwrap();
        let tables = "SELECT count(*) FROM pg_class WHERE relname ~ '^t[0-9]+$'";
        assert_eq!(ask(&db.url(), tables), ["30"]);
        // Incomplete databases are dropped in the background.
        let made = "SELECT datname FROM pg_database WHERE datname ~ '^(t_|making)'";
        wait_until("the incomplete ones are gone", || {
            ask(&db.url(), made).is_empty()
        });
        let url = db.url().replace("second", "main");
        drop(ask(&url, "DROP DATABASE second WITH (FORCE)"));
    }
    assert_eq!(add_row(&folder), "2");
}

#[test]
fn a_database_that_a_killed_copy_left_closed_is_opened() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let db = builder().path(folder.path()).start().unwrap();
    let url = db.url();
    let url = url.replace("/main", "/postgres");
    ask(&url, "ALTER DATABASE main ALLOW_CONNECTIONS false");
    assert!(db.execute("SELECT 1").is_err());
    db.close().unwrap();
    assert_eq!(add_row(folder.path()), "1");
}

#[test]
fn a_folder_can_be_opened_beside_a_status() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let instance = Instance::at(folder.path()).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                instance.status().unwrap();
            }
        });
        let opened = (1..10).try_for_each(|_| builder().path(folder.path()).start()?.close());
        is_over.store(true, Ordering::Relaxed);
        opened.unwrap();
    });
}

#[test]
fn a_long_look_at_a_folder_does_not_keep_it_from_being_opened() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    assert_eq!(add_row(folder.path()), "1");
    let lock = fs::File::open(folder.path().join("lock")).unwrap();
    lock.lock_shared().unwrap();
    thread::scope(|scope| {
        let opened = scope.spawn(|| builder().path(folder.path()).start()?.close());
        // sleep: many times as long as an owner without a name is waited for
        thread::sleep(Duration::from_millis(500));
        drop(lock);
        opened.join().unwrap().unwrap();
    });
}

#[test]
fn a_folder_of_another_major_version_is_refused() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    assert_eq!(add_row(folder.path()), "1");
    let manifest = folder.path().join("lookaside.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("major = 18", "major = 17")).unwrap();
    let error = builder().path(folder.path()).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    for part in ["PostgreSQL 17", "18", "dump"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    fs::write(&manifest, "major = ").unwrap();
    let error = builder().path(folder.path()).start().unwrap_err();
    for part in ["lookaside.toml` is damaged", "data/PG_VERSION"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    fs::write(&manifest, text).unwrap();
    assert_eq!(add_row(folder.path()), "2");
}

#[test]
fn user_and_database_of_a_folder_are_remembered() {
    if !has_server() {
        return;
    }
    // On a disk, if there is one.
    let folder = tempfile::tempdir().unwrap();
    let first = builder()
        .path(folder.path())
        .user("chef")
        .database("küche")
        .sql("CREATE TABLE pots (id int)");
    let db = first.start().unwrap();
    db.execute("INSERT INTO pots VALUES (1)").unwrap();
    db.close().unwrap();
    let db = builder().path(folder.path()).start().unwrap();
    assert_eq!((db.user(), db.database()), ("chef", "küche"));
    assert_eq!(ask(&db.url(), "SELECT count(*) FROM pots"), ["1"]);
    assert_eq!(ask(&db.url(), "SELECT current_user"), ["chef"]);
    // Folders hold data that matters.
    assert_eq!(ask(&db.url(), "SHOW fsync"), ["on"]);
    db.close().unwrap();
    let relaxed = builder()
        .path(folder.path())
        .relaxed_durability()
        .start()
        .unwrap();
    assert_eq!(ask(&relaxed.url(), "SHOW fsync"), ["off"]);
}
