//! Archives of a whole cluster: out, in, under load, cut, bent and forged.

use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lookaside_embedded::{Error, ErrorKind, Instance};
use lookaside_testing::wait_until;

use crate::site::tempdir;
use crate::{ask, builder, chain, has_server, rng};

#[test]
fn an_archive_becomes_a_temporary_cluster_or_a_folder() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let file = parent.path().join("my archive.tar.zst");
    let db = builder()
        .user("chef")
        .database("shop")
        .tcp()
        .start()
        .unwrap();
    db.execute("CREATE TABLE items AS SELECT generate_series(1, 1000) AS id")
        .unwrap();
    db.execute("CREATE DATABASE second").unwrap();
    db.archive(&file).unwrap();
    // The server goes on, and has forgotten the backup.
    assert_eq!(ask(&db.url(), "SELECT count(*) FROM items"), ["1000"]);
    assert_eq!(
        ask(&db.url(), "SELECT count(*) FROM pg_replication_slots"),
        ["0"]
    );
    let names: Vec<_> = fs::read_dir(parent.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["my archive.tar.zst"]);

    let fresh = builder().restore(&file).start().unwrap();
    let folder = parent.path().join("restored");
    let kept = builder()
        .path(&folder)
        .restore(&file)
        .tcp()
        .start()
        .unwrap();
    for restored in [&fresh, &kept] {
        assert_eq!((restored.user(), restored.database()), ("chef", "shop"));
        assert_eq!(ask(&restored.url(), "SELECT count(*) FROM items"), ["1000"]);
        assert_eq!(
            ask(
                &restored.url(),
                "SELECT 1 FROM pg_database WHERE datname = 'second'"
            ),
            ["1"]
        );
    }
    // The password of the old one is not that of the new one.
    assert_ne!(kept.password(), db.password());
    assert_eq!(
        ask(&kept.tcp_url().unwrap(), "SELECT count(*) FROM items"),
        ["1000"]
    );
    kept.execute("DELETE FROM items").unwrap();
    kept.close().unwrap();
    let kept = builder().path(&folder).start().unwrap();
    assert_eq!(ask(&kept.url(), "SELECT count(*) FROM items"), ["0"]);

    let shared = builder().start().unwrap();
    let error = shared.archive(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    let error = db
        .archive(parent.path().join("nowhere/x.tar.zst"))
        .unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn an_archive_is_private_and_not_restored_into_data() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let (file, folder) = (parent.path().join("a.tar.zst"), parent.path().join("data"));
    let db = builder().path(&folder).start().unwrap();
    db.archive(&file).unwrap();
    db.close().unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let restore = || builder().path(&folder).restore(&file);
    let instance = Instance::at(&folder).unwrap();
    let stopped = restore().start().unwrap_err();
    instance.start(builder()).unwrap();
    let running = instance.start(restore());
    assert!(instance.stop().unwrap());
    for error in [stopped, running.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        for path in [&file, &folder] {
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
        }
    }
}

#[test]
fn an_archive_under_load_is_one_moment() {
    if !has_server() {
        return;
    }
    let folder = tempdir();
    let db = builder()
        .path(folder.path().join("data"))
        .sql("CREATE TABLE debit (id serial, note text); CREATE TABLE credit (id serial PRIMARY KEY, note text)")
        .start()
        .unwrap();
    let is_over = AtomicBool::new(false);
    let write = || {
        while !is_over.load(Ordering::Relaxed) {
            let note = "x".repeat(fastrand::usize(1..2000));
            let written = db.execute(&format!(
                "INSERT INTO debit (note) VALUES ('{note}'); INSERT INTO credit (note) VALUES ('{note}'); \
                 UPDATE credit SET note = note || 'y' WHERE id % 7 = {}",
                fastrand::u8(0..7)
            ));
            // Two that change the same rows in another order: one of them is undone as a whole.
            let is_deadlock = |error: &Error| error.sqlstate() == Some("40P01");
            assert!(
                written.as_ref().err().is_none_or(is_deadlock),
                "{written:?}"
            );
        }
    };
    let count = |url: &str, table: &str| -> u64 {
        ask(url, &format!("SELECT count(*) FROM {table}"))[0]
            .parse()
            .unwrap()
    };
    thread::scope(|scope| {
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&is_over);
        for _ in 0..2 {
            scope.spawn(write);
        }
        for round in 0..3 {
            let before = count(&db.url(), "debit");
            wait_until("there is load", || count(&db.url(), "debit") > before + 20);
            // The log is cut and renamed meanwhile.
            let file = folder.path().join(format!("{round}.tar.zst"));
            let before = count(&db.url(), "debit");
            scope.spawn(|| {
                db.execute("CHECKPOINT; SELECT pg_switch_wal(); CHECKPOINT")
                    .unwrap()
            });
            db.archive(&file).unwrap();
            let after = count(&db.url(), "debit");
            let restored = builder().restore(&file).start().unwrap();
            let debits = count(&restored.url(), "debit");
            assert_eq!(debits, count(&restored.url(), "credit"));
            assert!(
                (before..=after).contains(&debits),
                "{before} {debits} {after}"
            );
            // The index says what the table says.
            let sql = "SET enable_seqscan = off; SELECT count(*) FROM credit WHERE id > 0";
            assert_eq!(ask(&restored.url(), sql), [debits.to_string()]);
        }
    });
}

/// Refused as damaged, with nothing left.
#[track_caller]
fn check_refused(what: &str, file: &Path, folder: &Path) {
    let options = builder().path(folder).restore(file);
    let Err(error) = options.start() else {
        panic!("{what} was restored")
    };
    let told = chain(&error);
    assert!(told.contains(file.to_str().unwrap()), "{what}: {told}");
    assert!(
        told.contains("damaged") || told.contains("not an archive"),
        "{what}: {told}"
    );
    assert!(!folder.exists(), "{what}");
}

#[test]
fn a_cut_or_bent_archive_is_refused() {
    if !has_server() {
        return;
    }
    let mut rng = rng("a_cut_or_bent_archive");
    let parent = tempdir();
    let db = builder().fresh_cluster().start().unwrap();
    let (whole, bad, folder) = (
        parent.path().join("whole.tar.zst"),
        parent.path().join("bad.tar.zst"),
        parent.path().join("data"),
    );
    db.archive(&whole).unwrap();
    let bytes = fs::read(&whole).unwrap();
    let mut cuts = vec![
        0,
        1,
        3,
        4,
        20,
        bytes.len() / 2,
        bytes.len() - 5,
        bytes.len() - 4,
        bytes.len() - 1,
    ];
    cuts.extend((0..6).map(|_| rng.usize(..bytes.len())));
    // Where the log, the last part, begins to lack.
    cuts.extend((0..4).map(|_| bytes.len() - rng.usize(1..20_000)));
    for cut in cuts {
        fs::write(&bad, &bytes[..cut]).unwrap();
        check_refused(&format!("cut at {cut} of {}", bytes.len()), &bad, &folder);
    }
    let content = zstd::decode_all(&*bytes).unwrap();
    for _ in 0..8 {
        let mut bent = bytes.clone();
        let at = rng.usize(..bytes.len());
        bent[at] ^= 1 << rng.u8(0..8);
        // A flip that leaves the content what it was, as another way to copy from a run of zeros
        // does, has damaged nothing.
        if zstd::decode_all(&*bent).is_ok_and(|decoded| decoded == content) {
            continue;
        }
        fs::write(&bad, &bent).unwrap();
        check_refused(&format!("bent at {at} of {}", bytes.len()), &bad, &folder);
    }
    fs::write(&bad, "this is a text").unwrap();
    check_refused("a text", &bad, &folder);
    // Nothing of it is in the way of the right one.
    let db = builder().path(&folder).restore(&whole).start().unwrap();
    assert_eq!(ask(&db.url(), "SELECT 1"), ["1"]);
}

/// An archive of one's own making.
fn forge(file: &Path, major: u32, fill: impl FnOnce(&mut tar::Builder<zstd::Encoder<'_, File>>)) {
    let output = zstd::Encoder::new(File::create(file).unwrap(), 1).unwrap();
    let mut archive = tar::Builder::new(output);
    let manifest = format!(
        "major = {major}\nuser = \"postgres\"\ndatabase = \"postgres\"\nis_complete = true\n"
    );
    add(&mut archive, b"lookaside.toml", manifest.as_bytes());
    fill(&mut archive);
    archive.into_inner().unwrap().finish().unwrap();
}

/// Adds a file under any name, also under those that the library refuses.
fn add(archive: &mut tar::Builder<zstd::Encoder<'_, File>>, name: &[u8], content: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_size(content.len() as u64);
    header.set_mode(0o600);
    header.set_cksum();
    archive.append(&header, Cursor::new(content)).unwrap();
}

#[test]
fn a_forged_archive_writes_nowhere_else() {
    if !has_server() {
        return;
    }
    let parent = tempdir();
    let (file, folder) = (
        parent.path().join("forged.tar.zst"),
        parent.path().join("data"),
    );
    let outside = parent.path().join("outside");
    for name in [
        "data/../../../outside",
        "../outside",
        "/outside",
        outside.to_str().unwrap(),
    ] {
        forge(&file, 18, |archive| {
            add(archive, name.as_bytes(), b"x");
            add(archive, b"data/backup_label", b"x");
        });
        check_refused(name, &file, &folder);
        assert!(!outside.exists() && !Path::new("/outside").exists());
    }
    forge(&file, 18, |archive| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive
            .append_link(&mut header, "data/pg_wal", &outside)
            .unwrap();
        add(archive, b"data/pg_wal/x", b"x");
        add(archive, b"data/backup_label", b"x");
    });
    check_refused("a link", &file, &folder);
    forge(&file, 18, |_| {});
    check_refused("an empty one", &file, &folder);

    forge(&file, 17, |_| {});
    let error = builder().restore(&file).start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert!(error.to_string().contains("PostgreSQL 17"), "{error}");
    let error = builder()
        .restore(parent.path().join("none"))
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
}
