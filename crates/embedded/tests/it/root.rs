//! Root, as which the server refuses to run: in a separate namespace, or as another user.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child::Child;
use crate::death::server_pid;
use crate::site::{Site, entries, tempdir};
use crate::{ask, binaries, builder, has_server};

/// Whether these tests run as root; the others run as any user.
pub(crate) fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        crate::skip("only root can become another user");
    }
    is_root
}

/// The user that a server runs as, seen from outside.
fn user_of(folder: &Path) -> u32 {
    fs::metadata(format!("/proc/{}", server_pid(folder)))
        .unwrap()
        .uid()
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A search path with what the watch needs but not `unshare`.
fn path_without_unshare(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["rm", "sleep"] {
        let found = env::split_paths(&env::var_os("PATH").unwrap())
            .map(|folder| folder.join(program))
            .find(|path| path.exists());
        symlink(found.unwrap(), bin.join(program)).unwrap();
    }
    bin
}

#[test]
fn in_a_namespace_the_server_stays_root_outside_and_no_file_changes_its_owner() {
    if !has_server() || !is_root() {
        return;
    }
    let allowed = Command::new("unshare")
        .args(["--user", "--map-user=1", "--map-group=1", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        crate::skip("no user namespaces here");
        return;
    }
    // No other user can enter here.
    let parent = tempdir();
    let db = builder().path(parent.path().join("data")).start().unwrap();
    assert_eq!(user_of(db.folder()), 0);
    let map = fs::read_to_string(format!("/proc/{}/uid_map", server_pid(db.folder()))).unwrap();
    let map: Vec<&str> = map.split_whitespace().collect();
    assert_ne!(map[0], "0", "the user inside");
    assert_eq!(&map[1..], ["0", "1"], "the user outside");
    db.execute("CREATE TABLE items (id int); COPY items TO '/dev/null'")
        .unwrap();
    for file in ["data/PG_VERSION", "data/base", "lock", "log"] {
        assert_eq!(
            db.folder().join(file).metadata().unwrap().uid(),
            0,
            "{file}"
        );
    }
}

#[test]
fn without_namespaces_the_server_is_another_user() {
    if !has_server() || !is_root() {
        return;
    }
    let Some(stocked) = binaries::stocked_cache() else {
        return;
    };
    // Reachable for every user, and unpacked by a process that knows that it has to be.
    let home = tempdir();
    open_to_all(home.path());
    let cache = home.path().join("cache");
    let archives = cache.join("pg/archives");
    fs::create_dir_all(&archives).unwrap();
    for entry in fs::read_dir(stocked.join("pg/archives")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), archives.join(entry.file_name())).unwrap();
    }
    let site = Site::with_cache(&cache);
    open_to_all(site.path());
    let bin = path_without_unshare(home.path());
    let start = |role: &str, folder: &Path| {
        Child::start_with(&site, role, |command| {
            Child::folder(folder)(command);
            command
                .env("PATH", &bin)
                .env("LOOKASIDE_PG_OFFLINE", "1")
                .env_remove("LOOKASIDE_PG_BIN");
        })
    };
    for role in ["temporary", "fresh", "path"] {
        let mut child = start(role, &home.path().join("my data"));
        let folder = PathBuf::from(child.hear("folder "));
        child.hear("ready");
        assert_ne!(user_of(&folder), 0, "{role}");
        assert_eq!(
            folder.join("data").metadata().unwrap().uid(),
            user_of(&folder)
        );
        child.tell("sql CREATE TABLE IF NOT EXISTS items (id int); INSERT INTO items VALUES (1)");
        child.hear("done");
        match role {
            "temporary" => child.kill(),
            _ => assert!(child.end().success()),
        }
        site.wait_until_deserted();
        assert_eq!(folder.exists(), role == "path", "{role}");
    }
    // Its owner may look on, and a second start finds everything.
    let mut child = start("path", &home.path().join("my data"));
    let url = child.hear("url ");
    child.hear("ready");
    assert_eq!(ask(&url, "SELECT count(*) FROM items"), ["1"]);
    assert!(child.end().success());

    // What that user cannot reach is named.
    let closed = home.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let mut child = start("path", &closed.join("data"));
    let error = child.hear("error ");
    assert!(error.starts_with("Environment"), "{error}");
    for part in [closed.to_str().unwrap(), "chmod o+x"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Makes a folder and all that is in it a user's.
pub(crate) fn give(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
    if path.is_dir() {
        for entry in entries(path) {
            give(&entry, uid);
        }
    }
}

/// `docker run -u 54321`, and OpenShift's users.
#[test]
fn a_user_without_an_entry_in_the_list_of_users_starts() {
    const UID: u32 = 54321;
    if !has_server() || !is_root() {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        crate::skip("no setpriv");
        return;
    }
    let Some(stocked) = binaries::stocked_cache() else {
        return;
    };
    let site = Site::new();
    let home = site.path().join("home");
    let cache = home.join(".cache/lookaside");
    let archives = cache.join("pg/archives");
    fs::create_dir_all(&archives).unwrap();
    for archive in entries(&stocked.join("pg/archives")) {
        fs::copy(&archive, archives.join(archive.file_name().unwrap())).unwrap();
    }
    // Out of a folder that only root can enter.
    let program = site.path().join("it");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    give(site.path(), UID);
    for has_home in [true, false] {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &UID.to_string(), "--regid", &UID.to_string()])
            .args(["--clear-groups", "--inh-caps=-all"])
            .arg(&program);
        let mut child = Child::start_through(command, &site, "temporary", |command| {
            for name in [
                "HOME",
                "LOOKASIDE_CACHE",
                "LOOKASIDE_PG_BIN",
                "XDG_CACHE_HOME",
            ] {
                command.env_remove(name);
            }
            match has_home {
                true => command.env("HOME", &home),
                false => command.env("LOOKASIDE_CACHE", &cache),
            };
            command.env("LOOKASIDE_PG_OFFLINE", "1");
        });
        let folder = PathBuf::from(child.hear("folder "));
        child.hear("ready");
        let is_first = child.said().contains("step preparing PostgreSQL");
        assert_eq!(is_first, has_home, "{}", child.said());
        assert_eq!(user_of(&folder), UID);
        child.tell("sql CREATE TABLE items (id int)");
        child.hear("done");
        assert!(child.end().success());
        site.wait_until_deserted();
    }
    let template = entries(&cache.join("template")).remove(0);
    let names: Vec<_> = entries(&template).into_iter().collect();
    assert!(
        !names.iter().any(|name| name.ends_with("passwd_entry.so")),
        "{names:?}"
    );
}

/// Run as a user that is not root and has no server's programs: none is searched.
#[test]
fn a_folder_of_another_user_is_an_error_with_both_users() {
    const UID: u32 = 54321;
    if !is_root() {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        crate::skip("no setpriv");
        return;
    }
    let site = Site::new();
    let program = site.path().join("it");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let (closed, foreign, own) = (
        site.path().join("closed"),
        site.path().join("foreign"),
        site.path().join("own"),
    );
    for (folder, mode) in [(&closed, 0o700), (&foreign, 0o755), (&own, 0o555)] {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }
    give(&own, UID);
    open_to_all(site.path());
    for role in ["path", "instance"] {
        for (folder, expected) in [
            (&closed, "belongs to user 0, but the current user is 54321"),
            (&foreign, "belongs to user 0, but the current user is 54321"),
            (&own, "make it writable"),
        ] {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", &UID.to_string(), "--regid", &UID.to_string()])
                .args(["--clear-groups", "--inh-caps=-all"])
                .arg(&program);
            let mut child = Child::start_through(command, &site, role, Child::folder(folder));
            let error = child.error_or_end().expect("it is not this user's");
            for part in ["Environment", folder.to_str().unwrap(), expected] {
                assert!(error.contains(part), "{role}: {error}");
            }
        }
    }
}

/// PostgreSQL reports only that the owner is wrong.
#[test]
fn data_of_another_user_is_an_error_with_the_way_out() {
    if !has_server() || !is_root() {
        return;
    }
    let parent = tempdir();
    let folder = parent.path().join("data");
    builder().path(&folder).start().unwrap().close().unwrap();
    let owner = folder.join("data").metadata().unwrap().uid();
    give(&folder.join("data"), 54321);
    let error = builder().path(&folder).start().unwrap_err();
    let hint = format!("`chown -R {owner} {}`", folder.join("data").display());
    for part in ["belongs to user 54321", &hint] {
        assert!(error.to_string().contains(part), "{error}");
    }
    give(&folder.join("data"), owner);
    assert!(builder().path(&folder).start().is_ok());
}
