//! The search for the server's programs, as processes of their own see it.
//!
//! Each case is a child process, because the search reads the environment: the child is this test
//! binary with [`child`] as its only test.

use std::env;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use lookaside_embedded::{Binaries, Progress, VersionRequirement};

use crate::site::tempdir;

/// Tells the child what to look for; unset in an ordinary run.
const WANTED: &str = "LOOKASIDE_TEST_WANTED";

/// What a separate child has found: lines "found", "folder", "step …" or "error …".
#[test]
fn child() {
    let Ok(wanted) = env::var(WANTED) else {
        return;
    };
    struct Lines;
    impl Progress for Lines {
        fn download(&self, what: &str, bytes_done: u64, _: Option<u64>) {
            eprintln!("download {what} {bytes_done}");
        }
        fn step(&self, what: &str) {
            eprintln!("step {what}");
        }
    }
    let requirement = match wanted.as_str() {
        "any" => VersionRequirement::ANY,
        version => version.parse().unwrap(),
    };
    match Binaries::find(requirement, &Lines) {
        Ok(found) => {
            eprintln!("found {:?} {}", found.source(), found.version());
            eprintln!("folder {}", found.folder().display());
            for tool in ["psql", "pg_dump"] {
                if let Some(tool) = found.tool(tool) {
                    eprintln!("tool {}", tool.display());
                }
            }
        }
        Err(error) => eprintln!("error {:?} {error}", error.kind()),
    }
}

/// A child that looks for `wanted` with nothing but these variables, and what a command needs.
fn look(wanted: &str, variables: &[(&str, &Path)]) -> Child {
    look_through(Command::new(env::current_exe().unwrap()), wanted, variables)
}

fn look_through(mut command: Command, wanted: &str, variables: &[(&str, &Path)]) -> Child {
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"LOOKASIDE_") {
            command.env_remove(name);
        }
    }
    command
        .args(["binaries::child", "--exact", "--nocapture"])
        .env(WANTED, wanted)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The lines that a child wrote.
fn said(mut child: Child) -> Vec<String> {
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_line(lines: &[String], parts: &[&str]) {
    let fits = |line: &String| parts.iter().all(|part| line.contains(part));
    assert!(
        lines.iter().any(fits),
        "no line with {parts:?} in {lines:#?}"
    );
}

/// A server made of scripts: it prints its version and nothing else.
fn fake_server(folder: &Path, version: &str) {
    fs::create_dir_all(folder).unwrap();
    for program in ["postgres", "initdb"] {
        let path = folder.join(program);
        fs::write(
            &path,
            format!("#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n"),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A cache that holds a real server of version 18, downloaded once for all tests; `None` where there
/// is neither one nor a network.
pub(crate) fn stocked_cache() -> Option<&'static Path> {
    static CACHE: OnceLock<Option<PathBuf>> = OnceLock::new();
    CACHE
        .get_or_init(|| {
            // Kept from run to run: no test needs a network once it is filled.
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pg-cache");
            let lines = said(look("18.6", &[("LOOKASIDE_CACHE", &cache)]));
            let found = lines.iter().any(|line| line.starts_with("found"));
            if !found {
                assert!(
                    env::var_os("CI").is_none(),
                    "CI must fill the cache: {lines:#?}"
                );
                crate::skip(&format!("no PostgreSQL can be downloaded: {lines:#?}"));
            }
            found.then_some(cache)
        })
        .as_deref()
}

/// An empty cache with only the archive of a stocked one, so that it unpacks without a network.
pub(crate) fn cache_with_archive(stocked: &Path) -> tempfile::TempDir {
    let cache = tempdir();
    let archives = cache.path().join("pg/archives");
    fs::create_dir_all(&archives).unwrap();
    for entry in fs::read_dir(stocked.join("pg/archives")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), archives.join(entry.file_name())).unwrap();
    }
    cache
}

/// Paths of the files below a folder that are neither locks nor answers of programs.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if !path
            .extension()
            .is_some_and(|end| end == "lock" || end == "toml")
        {
            all.push(path);
        }
    }
    all
}

#[test]
fn what_the_environment_names_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let bin = folder.path().join("my server/bin");
    fake_server(&bin, "14.9 (Debian 14.9-1)");
    // The folder of the programs, or the one above.
    for named in [&bin, &folder.path().join("my server")] {
        let lines = said(look(
            "any",
            &[("LOOKASIDE_PG_BIN", named), ("LOOKASIDE_CACHE", &cache)],
        ));
        assert_line(&lines, &["found Environment 14.9"]);
        assert_line(&lines, &[&format!("folder {}", bin.display())]);
    }
    // One that does not fit is said and passed by; one that is none is an error.
    let offline: (&str, &Path) = ("LOOKASIDE_PG_OFFLINE", Path::new("1"));
    let named = ("LOOKASIDE_PG_BIN", &*bin);
    let lines = said(look("17.1", &[named, offline, ("LOOKASIDE_CACHE", &cache)]));
    assert_line(&lines, &["step", "LOOKASIDE_PG_BIN", "14.9", "17.1"]);
    fs::remove_file(bin.join("initdb")).unwrap();
    let lines = said(look("any", &[named, ("LOOKASIDE_CACHE", &cache)]));
    assert_line(&lines, &["error Misuse", "`initdb`", "my server/bin"]);
}

#[test]
fn an_installed_server_is_found_by_the_search_path() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    // A version that no machine has, so that it is the newest here; reached through a link.
    fake_server(&folder.path().join("real"), "97.3");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("../real/postgres", bin.join("postgres")).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let variables = [("PATH", Path::new(&path)), ("LOOKASIDE_CACHE", &cache)];
    let real = folder.path().join("real").canonicalize().unwrap();
    for _ in 0..2 {
        let lines = said(look("any", &variables));
        assert_line(&lines, &["found Installed 97.3"]);
        assert_line(&lines, &[&format!("folder {}", real.display())]);
    }
    let answers = fs::read_to_string(cache.join("pg/answers.toml")).unwrap();
    assert!(answers.contains("97.3"), "{answers}");
    // A client program of the same major version is one that says so.
    fs::write(
        bin.join("psql"),
        "#!/bin/sh\necho 'psql (PostgreSQL) 97.1'\n",
    )
    .unwrap();
    fs::write(
        bin.join("pg_dump"),
        "#!/bin/sh\necho 'pg_dump (PostgreSQL) 96.1'\n",
    )
    .unwrap();
    for tool in ["psql", "pg_dump"] {
        fs::set_permissions(bin.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let lines = said(look("any", &variables));
    let tools: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("tool"))
        .collect();
    assert_eq!(tools, [&format!("tool {}", bin.join("psql").display())]);
}

#[test]
fn without_a_server_and_a_network_three_ways_out_are_named() {
    let cache = tempfile::tempdir().unwrap();
    let offline: (&str, &Path) = ("LOOKASIDE_PG_OFFLINE", Path::new("1"));
    let check = |wanted: &str, variables: &[(&str, &Path)], parts: &[&str]| {
        let mut all = vec![("LOOKASIDE_CACHE", cache.path())];
        all.extend(variables);
        let lines = said(look(wanted, &all));
        assert_line(&lines, parts);
        for way in [
            "LOOKASIDE_PG_BIN",
            "apt install postgresql",
            "download",
            "pg doctor",
        ] {
            assert_line(&lines, &["error Missing", way]);
        }
    };
    check(
        "18.1",
        &[offline],
        &["PostgreSQL 18.1", "LOOKASIDE_PG_OFFLINE"],
    );
    check("96", &[], &["PostgreSQL 96", "15 to 18"]);
    // Nothing listens there.
    let proxy = Path::new("http://127.0.0.1:1");
    check(
        "18.1",
        &[("HTTPS_PROXY", proxy)],
        &["18.1 cannot be downloaded from Maven Central"],
    );
    assert_eq!(files(cache.path()), [""; 0].map(PathBuf::from));

    let full = [
        ("LOOKASIDE_PG_VERIFY", Path::new("fully")),
        ("LOOKASIDE_CACHE", cache.path()),
    ];
    assert_line(
        &said(look("any", &full)),
        &["error Misuse", "`fully`", "`full`"],
    );
}

#[test]
fn a_download_is_kept_and_found_again() {
    let Some(stocked) = stocked_cache() else {
        return;
    };
    let offline: (&str, &Path) = ("LOOKASIDE_PG_OFFLINE", Path::new("1"));
    let lines = said(look("18", &[("LOOKASIDE_CACHE", stocked), offline]));
    assert_line(&lines, &["found Cache 18.6"]);
    let bin = stocked.join("pg/18.6/bin");
    for program in ["postgres", "initdb"] {
        let output = Command::new(bin.join(program))
            .arg("--version")
            .output()
            .unwrap();
        let banner = String::from_utf8(output.stdout).unwrap();
        assert!(banner.ends_with("(PostgreSQL) 18.6\n"), "{banner}");
    }
    // The list of files is one that others can check too.
    let checked = Command::new("sha256sum")
        .args(["--check", "--quiet", "files.sha256"])
        .current_dir(stocked.join("pg/18.6"))
        .status();
    assert!(checked.is_ok_and(|status| status.success()));
}

#[test]
fn sixteen_processes_at_once_unpack_one_server() {
    let Some(stocked) = stocked_cache() else {
        return;
    };
    let cache = cache_with_archive(stocked);
    let offline: (&str, &Path) = ("LOOKASIDE_PG_OFFLINE", Path::new("1"));
    let children: Vec<_> = (0..16)
        .map(|_| look("18.6", &[("LOOKASIDE_CACHE", cache.path()), offline]))
        .collect();
    let mut unpacked_count = 0;
    for child in children {
        let lines = said(child);
        assert_line(&lines, &["found Cache 18.6"]);
        unpacked_count += lines
            .iter()
            .filter(|line| line.contains("unpacking"))
            .count();
    }
    assert_eq!(unpacked_count, 1);
    let mut names: Vec<_> = fs::read_dir(cache.path().join("pg"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "answers.toml")
        .collect();
    names.sort();
    assert_eq!(names, ["18.6", "archives"]);
    assert_eq!(
        files(&cache.path().join("pg/18.6")).len(),
        files(&stocked.join("pg/18.6")).len()
    );
}

#[test]
fn a_damaged_server_is_mended_from_its_archive() {
    let Some(stocked) = stocked_cache() else {
        return;
    };
    let cache = cache_with_archive(stocked);
    let server = cache.path().join("pg/18.6");
    let look = |variables: &[(&str, &Path)]| {
        let mut all: Vec<(&str, &Path)> = vec![
            ("LOOKASIDE_CACHE", cache.path()),
            ("LOOKASIDE_PG_OFFLINE", Path::new("1")),
        ];
        all.extend(variables);
        said(look("18.6", &all))
    };
    let full: &[(&str, &Path)] = &[("LOOKASIDE_PG_VERIFY", Path::new("full"))];
    look(&[]);

    // A byte within a file: only the closer look sees it.
    let sample = server.join("share/postgresql.conf.sample");
    let sample = if sample.exists() {
        sample
    } else {
        server.join("share/postgresql/postgresql.conf.sample")
    };
    let whole = fs::read(&sample).unwrap();
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    fs::write(&sample, &damaged).unwrap();
    assert_line(&look(&[]), &["found Cache 18.6"]);
    assert_eq!(fs::read(&sample).unwrap(), damaged);
    let lines = look(full);
    assert_line(&lines, &["step", "damaged", "postgresql.conf.sample"]);
    assert_line(&lines, &["step", "repaired"]);
    assert_line(&lines, &["found Cache 18.6"]);
    assert_eq!(fs::read(&sample).unwrap(), whole);
    assert!(!look(full).iter().any(|line| line.starts_with("step")));

    // A program cut short or a lost manifest is seen by every start.
    for file in ["bin/postgres", "receipt.toml"] {
        let file = server.join(file);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert_line(&look(&[]), &["step", "repaired"]);
        assert_eq!(fs::read(&file).unwrap().len(), whole.len());
    }
}

#[test]
fn a_damaged_archive_is_refused_and_removed() {
    let Some(stocked) = stocked_cache() else {
        return;
    };
    let offline: (&str, &Path) = ("LOOKASIDE_PG_OFFLINE", Path::new("1"));
    let archive = |cache: &Path| {
        let mut archives = files(&cache.join("pg/archives"));
        archives.sort();
        archives[0].clone()
    };
    // Cut short, one bit other, and without the hash that it had when it came.
    type Damage<'a> = &'a dyn Fn(&Path, Vec<u8>);
    let damages: [Damage<'_>; 3] = [
        &|archive, bytes| fs::write(archive, &bytes[..bytes.len() / 2]).unwrap(),
        &|archive, mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(archive, bytes).unwrap();
        },
        &|archive, _| fs::remove_file(archive.with_extension("jar.sha512")).unwrap(),
    ];
    for damage in damages {
        let cache = cache_with_archive(stocked);
        let archive = archive(cache.path());
        damage(&archive, fs::read(&archive).unwrap());
        let lines = said(look("18.6", &[("LOOKASIDE_CACHE", cache.path()), offline]));
        assert_line(&lines, &["step", "removed", "postgresql-18.6"]);
        assert_line(&lines, &["error Missing", "LOOKASIDE_PG_OFFLINE"]);
        assert_eq!(files(cache.path()), [""; 0].map(PathBuf::from));
    }
    // The right hash, but what it is of is not an archive.
    for garbage in [&b"no archive"[..], &[0; 100_000]] {
        let cache = cache_with_archive(stocked);
        let archive = archive(cache.path());
        fs::write(&archive, garbage).unwrap();
        let hash = Command::new("sha512sum")
            .arg(&archive)
            .output()
            .unwrap()
            .stdout;
        fs::write(archive.with_extension("jar.sha512"), hash).unwrap();
        let lines = said(look("18.6", &[("LOOKASIDE_CACHE", cache.path()), offline]));
        assert_line(&lines, &["error Environment", "18.6 cannot be unpacked"]);
        assert_eq!(files(cache.path()), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn a_full_disk_leaves_nothing_and_says_so() {
    let Some(stocked) = stocked_cache() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // A file system of its own in a namespace of its own; the shell sees what is left on it.
    let script = r#"
        mount -t tmpfs -o size="$SIZE" tmpfs "$DISK" || exit 9
        mkdir -p "$DISK/cache/pg/archives" && cp "$ARCHIVES"/* "$DISK/cache/pg/archives" || exit 8
        chmod -R go= "$DISK/cache"
        "$0" "$@"
        echo "left $(find "$DISK/cache" -type f ! -name '*.lock' ! -name answers.toml | wc -l)" >&2
    "#;
    // Room for the archive (15 MB) and a part of what is in it (60 MB).
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
        .arg(env::current_exe().unwrap())
        .env("SIZE", "30m")
        .env("DISK", folder.path())
        .env("ARCHIVES", stocked.join("pg/archives"));
    let cache = folder.path().join("cache");
    let mut child = look_through(
        command,
        "18.6",
        &[
            ("LOOKASIDE_CACHE", &cache),
            ("LOOKASIDE_PG_OFFLINE", Path::new("1")),
        ],
    );
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    if matches!(child.wait().unwrap().code(), Some(1 | 9)) {
        crate::skip(&format!(
            "no file system of our own can be mounted here: {text}"
        ));
        return;
    }
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_line(
        &lines,
        &["error Environment", "no space is left", "LOOKASIDE_CACHE"],
    );
    // The archive, which was there before, and its hash.
    assert_line(&lines, &["left 2"]);
}
