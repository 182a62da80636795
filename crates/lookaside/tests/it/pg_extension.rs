//! `lookaside pg extension`, each test with a cache of its own into which the server is unpacked from
//! the archive that other tests have fetched.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use crate::program::{Project, Said, lookaside};

/// The major version of the server.
const MAJOR: &str = "18";

/// A folder with files, and a cache with a server.
struct Workplace {
    project: Project,
    cache: PathBuf,
}

impl Workplace {
    /// `None`, with a SKIP message, if the server is not available. In CI that is a failure.
    fn new() -> Option<Self> {
        let project = Project::empty();
        let cache = project.file("cache");
        let workplace = Self { project, cache };
        let doctor = Said::from(lookaside().args(["pg", "doctor"]).output().unwrap()).out;
        let places = doctor.lines().filter_map(|line| {
            let server = line.split_once("cached PostgreSQL ")?.1;
            server
                .starts_with(MAJOR)
                .then(|| server.split('`').nth(1))?
        });
        // Unpacked from the archive, which is quicker than downloading it again.
        if let Some(archives) = places
            .map(|place| Path::new(place).with_file_name("archives"))
            .next()
        {
            let copies = workplace.cache.join("pg/archives");
            fs::create_dir_all(&copies).unwrap();
            for entry in fs::read_dir(archives).unwrap() {
                let path = entry.unwrap().path();
                fs::copy(&path, copies.join(path.file_name().unwrap())).unwrap();
            }
        }
        let listed = workplace.extension(&["list"]);
        if listed.code != 0 {
            assert!(std::env::var_os("CI").is_none(), "{}", listed.err);
            skip(&format!("no PostgreSQL {MAJOR} can be had: {}", listed.err));
            return None;
        }
        Some(workplace)
    }

    fn run(&self, arguments: &[&str]) -> Said {
        let mut command = lookaside();
        command
            .arg("pg")
            .args(arguments)
            .env("LOOKASIDE_CACHE", &self.cache)
            .env("LOOKASIDE", env!("CARGO_BIN_EXE_lookaside"))
            .env_remove("LOOKASIDE_PG_BIN")
            .env_remove("DATABASE_URL")
            .current_dir(self.project.path());
        command.output().expect("the program starts").into()
    }

    fn extension(&self, arguments: &[&str]) -> Said {
        self.run(&[&["extension"], arguments, &["--pg-version", MAJOR]].concat())
    }

    /// Runs a statement in a new database with an extension.
    fn ask(&self, extension: &str, sql: &str) -> Said {
        let script =
            format!("\"$LOOKASIDE\" pg shell --url \"$DATABASE_URL\" --format csv -c \"{sql}\"");
        let wishes = ["run", "--pg-version", MAJOR, "--extension", extension];
        self.run(&[&wishes[..], &["--", "sh", "-c", &script]].concat())
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.project.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// The files of the server whose names contain a word.
    fn files(&self, word: &str) -> Vec<PathBuf> {
        fn gather(folder: &Path, word: &str, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    gather(&path, word, found);
                } else if path.file_name().unwrap().to_string_lossy().contains(word) {
                    found.push(path);
                }
            }
        }
        let mut found = Vec::new();
        gather(&self.cache.join("pg"), word, &mut found);
        found
    }
}

/// Prints what is skipped and why, bypassing the harness, which hides the output of passing tests.
fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIP {why}");
}

/// An extension of SQL alone, whose function returns its version.
fn files_of(name: &str, version: &str, folder: &str) -> Vec<(String, Vec<u8>)> {
    let control = format!("comment = 'a test'\ndefault_version = '{version}'\n");
    let sql =
        format!("create function {name}() returns text language sql as 'select ''{version}''';");
    vec![
        (format!("{folder}{name}.control"), control.into_bytes()),
        (format!("{folder}{name}--{version}.sql"), sql.into_bytes()),
    ]
}

fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, &bytes[..]).unwrap();
    }
    archive.into_inner().unwrap()
}

fn zip_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes) in files {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(path.as_str(), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn deb_of(data: &[u8]) -> Vec<u8> {
    let mut deb = b"!<arch>\n".to_vec();
    for (name, bytes) in [
        ("debian-binary", &b"2.0\n"[..]),
        ("control.tar", b"odd"),
        ("data.tar.gz", data),
    ] {
        let header = format!("{name:<16}{:<32}{:<10}`\n", 0, bytes.len());
        deb.extend(header.as_bytes());
        deb.extend(bytes);
        deb.resize(deb.len().next_multiple_of(2), b'\n');
    }
    deb
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_extension_is_added_from_every_kind_of_source() {
    let Some(workplace) = Workplace::new() else {
        return;
    };
    let debian = format!("./usr/share/postgresql/{MAJOR}/extension/");
    for (path, bytes) in files_of("of_folder", "1.0", "") {
        workplace.write(&format!("folder/{path}"), &bytes);
    }
    for (path, bytes) in files_of("of_server", "1.0", "share/postgresql/extension/") {
        workplace.write(&format!("server/{path}"), &bytes);
    }
    let program = format!("#!/bin/sh\necho 'postgres (PostgreSQL) {MAJOR}.1'\n");
    workplace.write("server/bin/postgres", program.as_bytes());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(workplace.project.file("server/bin/postgres"), mode).unwrap();
    workplace.write("a.tar", &tar_of(&files_of("of_tar", "1.0", "of_tar-1.0/")));
    workplace.write("a.tar.gz", &gzip(&tar_of(&files_of("of_tgz", "1.0", ""))));
    let wheel = zip_of(&files_of("of_wheel", "1.0", "pginstall/share/extension/"));
    workplace.write("a.whl", &wheel);
    workplace.write(
        "a.deb",
        &deb_of(&gzip(&tar_of(&files_of("of_deb", "1.0", &debian)))),
    );

    for (name, source) in [
        ("of_folder", "folder"),
        ("of_server", "server"),
        ("of_tar", "a.tar"),
        ("of_tgz", "a.tar.gz"),
        ("of_wheel", "a.whl"),
        ("of_deb", "a.deb"),
    ] {
        workplace
            .extension(&["add", name, "--from", source])
            .ended(0)
            .out_has(&[name, "1.0", source]);
        let said = workplace
            .ask(name, &format!("select {name}() as v"))
            .ended(0);
        assert_eq!(said.out, "v\n1.0\n");
    }
    workplace.run(&["doctor"]).ended(0).out_has(&[
        "extension `of_deb` of 18",
        "1.0, from `/",
        "/a.deb`",
    ]);
    let listed = workplace.extension(&["list"]).ended(0).out;
    let names: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        names.contains(&"of_tar") && names.contains(&"pg_trgm"),
        "{listed}"
    );

    // Another version replaces the first, and only its own files.
    workplace.write("a.tar", &tar_of(&files_of("of_tar", "2.0", "")));
    workplace
        .extension(&["add", "of_tar", "--from", "a.tar"])
        .ended(0);
    let said = workplace.ask("of_tar", "select of_tar() as v").ended(0);
    assert_eq!(said.out, "v\n2.0\n");
    assert_eq!(workplace.files("of_tar--1.0").len(), 0);

    // Repairing the server keeps them.
    let postgres = workplace.files("postgres").into_iter();
    let mut postgres = postgres.filter(|path| path.ends_with("bin/postgres"));
    fs::write(postgres.next_back().unwrap(), "damaged").unwrap();
    let said = workplace.ask("of_tar", "select of_tar() as v").ended(0);
    assert_eq!(said.out, "v\n2.0\n");

    workplace.extension(&["remove", "of_tar"]).ended(0);
    assert_eq!(workplace.files("of_tar").len(), 0);
    workplace
        .extension(&["remove", "of_tar"])
        .ended(1)
        .err_has(&["`of_tar` was not added"]);
    workplace
        .ask("of_tar", "select 1")
        .ended(125)
        .err_has(&["of_tar", "pg extension add"]);
}

#[test]
fn an_extension_that_does_not_load_leaves_nothing() {
    let Some(workplace) = Workplace::new() else {
        return;
    };
    let broken = |version: &str| {
        let mut files = files_of("broken", version, "share/extension/");
        let function = "create function g() returns int language c as '$libdir/broken', 'g';";
        files[1].1.extend(function.as_bytes());
        files.push((
            "lib/broken.so".to_owned(),
            b"this is not a library".to_vec(),
        ));
        files
    };
    workplace.write("a.deb", &deb_of(&gzip(&tar_of(&broken("1.0")))));
    workplace
        .extension(&["add", "broken", "--from", "a.deb"])
        .ended(1)
        .err_has(&[
            "`broken` cannot be loaded",
            "were removed again",
            "broken.so",
        ]);
    assert_eq!(workplace.files("broken"), [""; 0].map(PathBuf::from));

    // A working version is kept if its successor fails.
    workplace.write("a.tar", &tar_of(&files_of("broken", "0.9", "")));
    workplace
        .extension(&["add", "broken", "--from", "a.tar"])
        .ended(0);
    workplace
        .extension(&["add", "broken", "--from", "a.deb"])
        .ended(1);
    let said = workplace.ask("broken", "select broken() as v").ended(0);
    assert_eq!(said.out, "v\n0.9\n");

    // Files that are damaged later are not listed as an extension.
    let script = workplace.files("broken--0.9.sql");
    fs::write(&script[0], "").unwrap();
    let doctor = workplace.run(&["doctor"]).ended(0).out;
    assert!(!doctor.contains("extension `broken`"), "{doctor}");
    assert!(doctor.contains("`broken`: `share/"), "{doctor}");
    // The hint to reinstall them works from any folder.
    let source = workplace.project.path().canonicalize().unwrap();
    let source = source.join("a.tar").display().to_string();
    let advice = format!("`lookaside pg extension add broken --from '{source}' --pg-version 18.");
    assert!(doctor.contains(&advice), "{doctor}");
    workplace
        .extension(&["add", "broken", "--from", &source])
        .ended(0);
    workplace.run(&["doctor"]).ended(0).out_has(&[
        "extension `broken` of 18.",
        &format!(": 0.9, from `{source}`"),
    ]);

    // Packages for another major version, with names of the server's own files, and files that are
    // not packages.
    let other = files_of("other", "1.0", "usr/share/postgresql/14/extension/");
    workplace.write("other.tar", &tar_of(&other));
    workplace.write(
        "own.tar",
        &tar_of(
            &[
                files_of("own", "1.0", ""),
                vec![("own--1.0--pg_trgm.sql".to_owned(), Vec::new())],
                vec![("lib/own.so".to_owned(), Vec::new())],
            ]
            .concat(),
        ),
    );
    workplace.write("text", b"not a package");
    for (name, source, expected) in [
        ("other", "other.tar", "for PostgreSQL 14, not for 18"),
        ("absent", "other.tar", "has no `absent.control`"),
        ("absent", "text", "not a .deb"),
        ("absent", "nowhere", "cannot read `nowhere`"),
        (
            "absent",
            "installed",
            "cannot be taken from an installed PostgreSQL",
        ),
        ("../x", "text", "is not a valid name of an extension"),
        ("own", "own.tar", "cannot be loaded"),
    ] {
        let said = workplace
            .extension(&["add", name, "--from", source])
            .ended(1);
        said.err_has(&[expected]);
    }
    workplace
        .extension(&["add", "no_such_extension"])
        .ended(1)
        .err_has(&["no package", "--from"]);
    workplace
        .extension(&["add", "pg_trgm"])
        .ended(0)
        .out_has(&["already contains pg_trgm"]);
}

/// The number in the extension's table is drawn when the extension is created.
#[test]
fn an_extension_is_created_once_for_all_servers_of_single_databases() {
    let Some(workplace) = Workplace::new() else {
        return;
    };
    for folder in ["one", "other"] {
        for (path, mut bytes) in files_of("drawn", "1.0", "") {
            if path.ends_with(".sql") {
                bytes.extend(b"create table lot as select random() as n;");
            }
            workplace.write(&format!("{folder}/{path}"), &bytes);
        }
    }
    let draw = |more: &[&str]| {
        let script = "\"$LOOKASIDE\" pg shell --url \"$DATABASE_URL\" --format csv -c 'table lot'";
        let wishes = ["run", "--pg-version", MAJOR, "--extension", "drawn"];
        let said = workplace.run(&[&wishes[..], more, &["--", "sh", "-c", script]].concat());
        said.ended(0).out
    };
    workplace
        .extension(&["add", "drawn", "--from", "one"])
        .ended(0);
    let first = draw(&[]);
    assert!(first.starts_with("n\n0."), "{first}");
    assert_eq!(draw(&[]), first);
    // The other initial contents of a database are applied after it.
    workplace.write("more.sql", b"create table more as table lot;");
    assert_eq!(draw(&["--sql", "more.sql"]), first);
    // Settings may change what an extension does, so servers with settings have their own template.
    let second = draw(&["--set", "work_mem=8MB"]);
    assert_ne!(second, first);
    assert_eq!(draw(&["--set", "work_mem=8MB"]), second);

    // Other files of the same version.
    workplace.extension(&["remove", "drawn"]).ended(0);
    workplace
        .ask("drawn", "table lot")
        .ended(125)
        .err_has(&["drawn", "pg extension add"]);
    workplace
        .extension(&["add", "drawn", "--from", "other"])
        .ended(0);
    let third = draw(&[]);
    assert_ne!(third, first);
    assert_eq!(draw(&[]), third);
    let command = [
        "--template-command",
        "true",
        "--template-key-files",
        "more.sql",
    ];
    let with_command = draw(&command);
    assert_eq!(draw(&command), with_command);
    // A script that its author edits in place.
    let script = workplace.files("drawn--1.0.sql").remove(0);
    let edited = fs::read_to_string(&script).unwrap() + "-- edited\n";
    fs::write(&script, edited).unwrap();
    assert_ne!(draw(&[]), third);
    assert_ne!(draw(&command), with_command);
}

/// Packages that are small but would fill the memory when unpacked.
#[test]
fn a_package_that_would_fill_the_memory_is_refused() {
    const BLOCK_SIZE: usize = 1 << 20;
    const BLOCK_COUNT: usize = 600;
    // The server that tries the last one has the same limit.
    const MEMORY_SIZE_MAX: usize = 200 << 20;
    let prlimit = std::process::Command::new("prlimit")
        .arg("--version")
        .output();
    if prlimit.is_err() {
        skip("no prlimit");
        return;
    }
    let Some(workplace) = Workplace::new() else {
        return;
    };
    let header = |name: &str, size: u64, kind: tar::EntryType| {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        header.set_path(name).unwrap();
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let block = vec![0; BLOCK_SIZE];
    // Members of a compressed file follow each other.
    let tar = |name: &str, kind: tar::EntryType| {
        let begin = gzip(&header(name, (BLOCK_SIZE * BLOCK_COUNT) as u64, kind));
        [begin, gzip(&block).repeat(BLOCK_COUNT)].concat()
    };
    let zip = |name: &str| {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(name, options).unwrap();
        for _ in 0..BLOCK_COUNT {
            archive.write_all(&block).unwrap();
        }
        for (path, bytes) in files_of("bomb", "1.0", "") {
            if path != name {
                archive.start_file(path.as_str(), options).unwrap();
                archive.write_all(&bytes).unwrap();
            }
        }
        archive.finish().unwrap().into_inner()
    };
    let add = |source: &str| {
        let mut command = std::process::Command::new("prlimit");
        command
            .arg(format!("--data={MEMORY_SIZE_MAX}"))
            .arg(env!("CARGO_BIN_EXE_lookaside"))
            .args(["pg", "extension", "add", "bomb", "--from", source])
            .args(["--pg-version", MAJOR])
            .env("LOOKASIDE_CACHE", &workplace.cache)
            .env_remove("LOOKASIDE_PG_BIN")
            .current_dir(workplace.project.path());
        Said::from(command.output().expect("prlimit starts"))
    };
    let regular = tar::EntryType::Regular;
    for (file, bytes, expected) in [
        ("control.zip", zip("bomb.control"), "larger than 64 MiB"),
        ("script.zip", zip("bomb--1.0.sql"), "larger than 64 MiB"),
        (
            "script.tar.gz",
            tar("bomb--1.0.sql", regular),
            "larger than 512 MiB",
        ),
        (
            "other.tar.gz",
            tar("README", regular),
            "larger than 512 MiB",
        ),
        (
            "name.tar.gz",
            tar("././@LongLink", tar::EntryType::GNULongName),
            "larger than 512 MiB",
        ),
    ] {
        workplace.write(file, &bytes);
        add(file)
            .ended(1)
            .err_has(&[file, expected, "name the folder"]);
    }
    // Files that are not the extension's are not unpacked from a zip, however large they are.
    workplace.write("other.zip", &zip("README.sql"));
    add("other.zip").ended(0);
    workplace.ask("bomb", "select 1").ended(0);
}

#[test]
fn an_extension_that_does_not_come_to_its_end_is_given_up() {
    let Some(workplace) = Workplace::new() else {
        return;
    };
    let sleep = "select pg_sleep(100000);";
    // Ignores the cancellation of its statement.
    let deaf = "do $$ begin loop begin perform pg_sleep(100000); exception when query_canceled then \
                null; end; end loop; end $$;";
    for (name, script) in [("sleeper", sleep), ("deaf", deaf)] {
        let mut files = files_of(name, "1.0", "");
        files[1].1.extend(script.as_bytes());
        workplace.write("a.tar", &tar_of(&files));
        workplace
            .extension(&["add", name, "--from", "a.tar", "--timeout", "1"])
            .ended(1)
            .err_has(&[
                &format!("the extension `{name}` cannot be loaded"),
                "was not created within 1 s",
                "--timeout SECONDS",
            ]);
        assert_eq!(workplace.files(name), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn an_extension_that_must_be_preloaded_says_how() {
    let Some(workplace) = Workplace::new() else {
        return;
    };
    // A library that requires preloading, under another name.
    let library = fs::read(&workplace.files("pg_stat_statements.so")[0]).unwrap();
    for (name, last) in [
        ("early", "select early_reset();"),
        (
            "setting",
            "select current_setting('pg_stat_statements.max');",
        ),
    ] {
        let mut files = files_of(name, "1.0", "share/extension/");
        let function = format!(
            "create function {name}_reset() returns void as '$libdir/{name}', 'pg_stat_statements_reset' language c; {last}"
        );
        files[1].1.extend(function.as_bytes());
        files.push((format!("lib/{name}.so"), library.clone()));
        workplace.write("a.tar", &tar_of(&files));
        let set = format!("--set shared_preload_libraries={name}");
        workplace
            .extension(&["add", name, "--from", "a.tar"])
            .ended(0)
            .out_has(&[&set]);
        workplace
            .run(&[
                "run",
                "--pg-version",
                MAJOR,
                "--extension",
                name,
                "--set",
                &format!("shared_preload_libraries={name}"),
                "--",
                "true",
            ])
            .ended(0);
        workplace.extension(&["remove", name]).ended(0);
    }
}

#[test]
fn pgvector_is_added_by_one_command() {
    let Some(workplace) = Workplace::new() else {
        return;
    };
    let added = workplace.extension(&["add", "vector"]);
    if added.code != 0 {
        assert!(std::env::var_os("CI").is_none(), "{}", added.err);
        skip(&format!("pgvector cannot be fetched: {}", added.err));
        return;
    }
    let sql = "create table t (v vector(3)); insert into t values ('[1,2,3]'), ('[4,5,6]'); \
               create index on t using hnsw (v vector_l2_ops); \
               select v::text from t order by v <-> '[4,5,5]' limit 1";
    let said = workplace.ask("vector", sql).ended(0);
    assert_eq!(said.out, "v\n\"[4,5,6]\"\n");
    // It need not be fetched again.
    workplace.extension(&["remove", "vector"]).ended(0);
    let mut command = lookaside();
    command.args(["pg", "extension", "add", "vector"]);
    command.env("LOOKASIDE_CACHE", &workplace.cache);
    let said = Said::from(command.env("LOOKASIDE_PG_OFFLINE", "1").output().unwrap());
    said.ended(0).out_has(&["vector 0.8.1"]);
}
