//! Damaged templates and full disks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lookaside_embedded::Binaries;
use lookaside_testing::wait_until;

use crate::child::Child;
use crate::site::{Site, entries, tempdir};
use crate::{VERSION, binaries, has_server};

/// Has children use the programs that this process has found, whatever their cache.
pub(crate) fn with_our_programs(command: &mut Command) {
    let binaries = Binaries::find(VERSION.parse().unwrap(), &()).unwrap();
    command
        .env("LOOKASIDE_PG_BIN", binaries.folder())
        .env("LOOKASIDE_PG_OFFLINE", "1");
}

fn template(cache: &Path) -> PathBuf {
    let found = entries(&cache.join("template"));
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// Starts in a place without a spare copy, and ends. Returns the child's output.
fn start_once(cache: &Path, role: &str) -> String {
    let site = Site::with_cache(cache);
    let folder = site.path().join("data");
    let mut child = Child::start_with(&site, role, |command| {
        with_our_programs(command);
        Child::folder(&folder)(command);
    });
    child.hear("ready");
    child.tell("sql CREATE TABLE items AS SELECT 1 AS id");
    child.hear("done");
    assert!(child.end().success());
    site.wait_until_clean();
    child.said()
}

/// Changes a byte in the middle of a file.
fn flip_byte(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// Leaves no trace of what `work` writes to a file in its time of change.
fn keep_modified(file: &Path, work: impl FnOnce()) {
    let modified = file.metadata().unwrap().modified().unwrap();
    work();
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_modified(modified).unwrap();
}

#[test]
fn damage_without_a_trace_is_found_on_demand_and_by_the_doctor() {
    if !has_server() {
        return;
    }
    let cache = tempdir();
    start_once(cache.path(), "temporary");
    let template = template(cache.path());
    let folders = entries(&template.join("data/base"));
    // An index, which is not among the basic catalogs.
    let index = folders.last().unwrap().join("2690");
    let start = |verify: &str| {
        let site = Site::with_cache(cache.path());
        let mut child = Child::start_with(&site, "fresh", |command| {
            with_our_programs(command);
            command.env("LOOKASIDE_PG_VERIFY", verify);
        });
        child.hear("ready");
        assert!(child.end().success());
        site.wait_until_clean();
        child.said()
    };
    let report = || {
        let site = Site::with_cache(cache.path());
        let mut child = Child::start_with(&site, "doctor", with_our_programs);
        child.hear("finding template of new clusters")
    };
    assert!(report().starts_with("intact"), "{}", report());
    keep_modified(&index, || flip_byte(&index));
    let found = report();
    assert!(
        found.starts_with("damaged")
            && found.contains("2690`")
            && found.contains("a start with LOOKASIDE_PG_VERIFY=full"),
        "{found}"
    );
    assert!(!start("").contains("step "));
    // Damage that every start notices.
    let control = template.join("data/global/pg_control");
    keep_modified(&control, || flip_byte(&control));
    let found = report();
    assert!(found.contains("; the next start makes it again"), "{found}");
    keep_modified(&control, || flip_byte(&control));
    // What the server says of a setting is not the template's fault, which is not read for it.
    let site = Site::with_cache(cache.path());
    let mut child = Child::start_with(&site, "bad setting", with_our_programs);
    let refused = child.hear("error ");
    assert!(refused.contains("work_mem"), "{refused}");
    assert!(child.end().success());
    assert!(!child.said().contains("step "), "{}", child.said());
    assert!(report().starts_with("damaged"));
    assert!(start("full").contains("step preparing PostgreSQL"));
    assert!(report().starts_with("intact"));
    // A copy of the cache, with other inodes and times of change, is not damage.
    let copy = template.with_extension("copy");
    let copied = Command::new("cp")
        .arg("-r")
        .args([&template, &copy])
        .status();
    assert!(copied.unwrap().success());
    fs::remove_dir_all(&template).unwrap();
    fs::rename(&copy, &template).unwrap();
    let before = fs::read_to_string(template.join("manifest")).unwrap();
    assert!(!start("").contains("step "));
    let after = fs::read_to_string(template.join("manifest")).unwrap();
    assert_ne!(before, after, "the next start need not read all files");
}

#[test]
fn the_doctor_reads_all_files_of_a_fetched_server() {
    let Some(stocked) = binaries::stocked_cache() else {
        return;
    };
    let cache = binaries::cache_with_archive(stocked);
    let site = Site::with_cache(cache.path());
    let begin = |role: &str| {
        Child::start_with(&site, role, |command| {
            command
                .env("LOOKASIDE_PG_OFFLINE", "1")
                .env_remove("LOOKASIDE_PG_BIN");
        })
    };
    let mut child = begin("fresh");
    child.hear("ready");
    assert!(child.end().success());
    let report = || begin("doctor").hear("finding cached PostgreSQL 18.6");
    assert!(report().starts_with("intact"), "{}", report());
    let library = cache.path().join("pg/18.6/lib/dict_snowball.so");
    let library = match library.exists() {
        true => library,
        false => cache.path().join("pg/18.6/lib/postgresql/dict_snowball.so"),
    };
    keep_modified(&library, || flip_byte(&library));
    let found = report();
    assert!(
        found.starts_with("damaged")
            && found.contains("dict_snowball.so")
            && found.contains("LOOKASIDE_PG_VERIFY=full"),
        "{found}"
    );
}

#[test]
fn a_damaged_template_is_repaired() {
    if !has_server() {
        return;
    }
    let cache = tempdir();
    start_once(cache.path(), "temporary");
    let template = template(cache.path());
    let data = template.join("data");
    let largest = |folder: &Path| {
        let files = entries(folder).into_iter().filter(|path| path.is_file());
        files
            .max_by_key(|path| path.metadata().unwrap().len())
            .unwrap()
    };
    type Damage<'a> = (&'a str, &'a dyn Fn());
    let damages: [Damage<'_>; 9] = [
        ("a file is cut", &|| {
            let file = largest(&data.join("base/1"));
            fs::write(&file, vec![0; 8192]).unwrap();
        }),
        ("a file is gone", &|| {
            fs::remove_file(data.join("PG_VERSION")).unwrap()
        }),
        ("a file is more", &|| {
            fs::write(data.join("base/1/12345"), "x").unwrap()
        }),
        ("equal in size", &|| {
            let file = data.join("global/pg_control");
            let size = fs::read(&file).unwrap().len();
            fs::write(&file, vec![0xa5; size]).unwrap();
        }),
        // The server starts, and what is damaged is copied to every database.
        ("a catalog is equal in size", &|| {
            let folders = entries(&data.join("base"));
            let blank = folders.last().unwrap();
            flip_byte(&blank.join("1255"));
        }),
        ("a file of no basic catalog is equal in size", &|| {
            let folders = entries(&data.join("base"));
            flip_byte(&largest(folders.last().unwrap()));
        }),
        ("the data is gone", &|| fs::remove_dir_all(&data).unwrap()),
        ("the manifest is cut", &|| {
            fs::write(template.join("manifest"), "file_c").unwrap()
        }),
        ("the manifest is gone", &|| {
            fs::remove_file(template.join("manifest")).unwrap()
        }),
    ];
    for (number, (what, damage)) in damages.iter().enumerate() {
        damage();
        let role = ["temporary", "fresh", "path"][number % 3];
        let said = start_once(cache.path(), role);
        assert!(
            said.contains("step preparing PostgreSQL"),
            "{what}, {role}: {said}"
        );
        assert_eq!(
            entries(&cache.path().join("template")),
            [&*template],
            "{what}"
        );
        let said = start_once(cache.path(), role);
        assert!(!said.contains("step "), "{what}: {said}");
    }
}

#[test]
fn a_damaged_spare_copy_is_replaced() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let spare = || {
        entries(&site.clusters())
            .into_iter()
            .find(|path| path.to_str().unwrap().contains("/spare-") && path.is_dir())
    };
    let mut child = Child::start_with(&site, "fresh", with_our_programs);
    child.hear("ready");
    wait_until("there is a spare copy", || spare().is_some());
    assert!(child.end().success());
    let control = spare().unwrap().join("data/global/pg_control");
    fs::write(&control, vec![0xa5; 8192]).unwrap();
    let mut child = Child::start_with(&site, "fresh", with_our_programs);
    child.hear("ready");
    // Not after the server has failed to start with it.
    assert!(!child.said().contains("step "), "{}", child.said());
    assert!(child.end().success());
    site.wait_until_clean();
}

#[test]
fn many_who_find_the_template_damaged_repair_it_together() {
    if !has_server() {
        return;
    }
    let cache = tempdir();
    start_once(cache.path(), "temporary");
    let template = template(cache.path());
    for file in ["data/PG_VERSION", "data/global/pg_control"] {
        let file = template.join(file);
        let size = fs::read(&file).unwrap().len();
        // Cut, or equal in size.
        fs::write(&file, vec![0; size.max(100)]).unwrap();
        let site = Site::with_cache(cache.path());
        let mut children: Vec<_> = (0..6)
            .map(|_| Child::start_with(&site, "fresh", with_our_programs))
            .collect();
        for child in &mut children {
            child.hear("ready");
        }
        for child in &mut children {
            assert!(child.end().success());
        }
        site.wait_until_clean();
        assert_eq!(entries(&cache.path().join("template")), [&*template]);
    }
}

/// A child whose `disk` is a small file system of its own; `None` where that is not allowed.
fn start_on_small_disk(
    site: &Site,
    role: &str,
    size: &str,
    disk: &Path,
    also: impl FnOnce(&mut Command),
) -> Option<Child> {
    // The shell sees what is left there.
    let script = r#"
        mount -t tmpfs -o size="$SIZE" tmpfs "$DISK" || { echo "no mount" >&2; exit 9; }
        "$0" "$@"
        echo "left $(find "$DISK" -type f ! -name '*.lock' ! -name answers.toml | wc -l)" >&2
    "#;
    let mut command = Command::new("unshare");
    command
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "--",
            "sh",
            "-c",
            script,
        ])
        .arg(env::current_exe().unwrap());
    let allowed = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--", "sh", "-c"])
        .arg("mount -t tmpfs tmpfs \"$0\" && exec unshare --user --map-user=1 --map-group=1 true")
        .arg(disk)
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        crate::skip("no file system of our own can be mounted here");
        return None;
    }
    let data = disk.join("data");
    Some(Child::start_through(command, site, role, |command| {
        with_our_programs(command);
        Child::folder(&data)(command);
        command.env("SIZE", size).env("DISK", disk);
        also(command);
    }))
}

#[test]
fn a_full_disk_in_the_cache_leaves_nothing_and_says_so() {
    if !has_server() {
        return;
    }
    let disk = tempdir();
    // Too small for a cluster of 40 MB, in the making or when it is begun.
    for size in ["1m", "20m"] {
        let site = Site::with_cache(&disk.path().join("cache"));
        let Some(mut child) = start_on_small_disk(&site, "temporary", size, disk.path(), |_| {})
        else {
            return;
        };
        let error = child.hear("error ");
        assert!(error.starts_with("Environment"), "{error}");
        for part in [
            "no space is left",
            disk.path().to_str().unwrap(),
            "LOOKASIDE_CACHE",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(child.hear("left "), "0");
        child.end();
        site.wait_until_clean();
    }
}

#[test]
fn a_full_disk_for_clusters_is_not_taken_for_a_damaged_template() {
    if !has_server() {
        return;
    }
    let disk = tempdir();
    let cache = tempdir();
    start_once(cache.path(), "temporary");
    for (role, hint) in [
        ("path", "another folder"),
        ("temporary", "LOOKASIDE_PG_TEMP"),
    ] {
        let site = Site::with_cache(cache.path());
        let Some(mut child) = start_on_small_disk(&site, role, "20m", disk.path(), |command| {
            if role == "temporary" {
                command.env("LOOKASIDE_PG_TEMP", disk.path());
            }
        }) else {
            return;
        };
        let error = child.hear("error ");
        assert!(error.starts_with("Environment"), "{error}");
        for part in ["no space is left", disk.path().to_str().unwrap(), hint] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!child.said().contains("step "), "{}", child.said());
        child.end();
        site.wait_until_clean();
    }
}
