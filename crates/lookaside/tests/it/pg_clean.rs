//! `lookaside pg clean`.

use std::fs;

use crate::pg::pg;
use crate::program::{Project, Said};

/// Uses its own cache and temporary folder, so that nothing else is removed.
#[test]
fn clean_lists_what_it_would_remove_and_then_removes_it() {
    let folder = Project::with(&[
        ("cache/pg/server.partial-1-0/file", "half"),
        ("cache/pg/file", "whole"),
        ("temp/file", "of somebody else"),
    ]);
    let clean = |arguments: &[&str]| {
        let mut command = pg();
        command
            .arg("clean")
            .args(arguments)
            .env("LOOKASIDE_CACHE", folder.file("cache"))
            .env("LOOKASIDE_PG_TEMP", folder.file("temp"));
        Said::from(command.output().unwrap())
    };
    // Creates our folder there, which is named after the user that servers run as.
    let mut command = pg();
    command.args(["run", "--", "true"]);
    command.env("LOOKASIDE_PG_TEMP", folder.file("temp"));
    Said::from(command.output().unwrap()).ended(0);
    let entries = fs::read_dir(folder.file("temp")).unwrap().flatten();
    let mut clusters = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    let dead = clusters.next().unwrap().join("c-0123456789");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("log"), vec![b'x'; 1 << 16]).unwrap();
    let half_made = folder.file("cache/pg/server.partial-1-0");

    let listed = clean(&["--dry-run"]).ended(0).out;
    assert!(dead.exists() && half_made.exists());
    let removed = clean(&[]).ended(0).out;
    assert!(!dead.exists() && !half_made.exists());
    assert!(folder.file("cache/pg/file").exists() && folder.file("temp/file").exists());
    assert_eq!(clean(&["--dry-run"]).ended(0).out, "nothing to remove\n");
    assert_eq!(clean(&[]).ended(0).out, "nothing to remove\n");

    let (listed, removed) = (told(&listed, "would remove"), told(&removed, "removed"));
    assert_eq!(listed, removed);
    for (what, path) in [
        ("cluster of a process that has ended", &dead),
        ("incomplete file or folder in the cache", &half_made),
    ] {
        let expected = format!("{what}: {}", path.display());
        assert!(listed.contains(&&*expected), "{listed:#?}");
    }

    let mut command = pg();
    command
        .arg("clean")
        .env("LOOKASIDE_PG_TEMP", folder.file("nowhere"));
    Said::from(command.output().unwrap())
        .ended(1)
        .err_has(&["LOOKASIDE_PG_TEMP", "nowhere"]);
    clean(&["--all"]).ended(2);
}

/// The lines of an output without the sizes, which change when the file system flushes the files.
/// The last line has the number of leftovers and the sum of their sizes.
fn told<'a>(out: &'a str, done: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    let (mut lines, mut total) = (out.lines(), 0);
    let last = lines.next_back().expect("something was left");
    for line in lines {
        let line = line
            .strip_prefix(done)
            .and_then(|line| line.strip_prefix(' '));
        let line = line.and_then(|line| line.strip_suffix(" bytes"));
        let (name, size) = line.and_then(|line| line.rsplit_once(", ")).expect(out);
        let size: u64 = size.parse().expect(out);
        assert!(size > 0, "{out}");
        total += size;
        names.push(name);
    }
    let count = names.len();
    assert_eq!(last, format!("{done} {count} leftovers, {total} bytes"));
    names
}
