//! Files as sources.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use lookaside_stream::{ErrorKind, Extent, Identity, Sink, Source};

use crate::{flow, lines, options, run};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 1).unwrap()
}

fn read(paths: &[&Path], block_size: usize) -> lookaside_stream::Result<String> {
    let source = Source::open(paths.iter().map(|path| path.to_string_lossy()))?;
    run(&flow("raw", "raw"), source, options(block_size)).map(|(out, _)| out)
}

#[test]
fn compressed_files_of_several_members() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (lines(1_000), "the last, cut by a member\n");
    let (head, tail) = second.split_at(9);
    for (name, members) in [
        ("log.gz", [gzip(&first), gzip(""), gzip(head), gzip(tail)]),
        ("log.zst", [zstd(&first), zstd(""), zstd(head), zstd(tail)]),
        // The content counts, not the name.
        ("log.1", [gzip(&first), gzip(""), gzip(head), gzip(tail)]),
        ("log.gz", [zstd(&first), zstd(""), zstd(head), zstd(tail)]),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, members.concat()).unwrap();
        for block_size in [7, 100, 1 << 20] {
            let out = read(&[&path], block_size).unwrap();
            assert_eq!(out, format!("{first}{second}"), "{name}");
        }
    }
}

#[test]
fn several_files_are_read_in_order_and_each_counts_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a"), b"1\nno end").unwrap();
    fs::write(path("b"), b"").unwrap();
    fs::write(path("c.gz"), gzip("2\n")).unwrap();
    fs::write(path("d"), b"3\n\xff\n4\n").unwrap();
    let paths = ["a", "b", "c.gz", "d"].map(path);
    let source = Source::open(paths.iter().map(|path| path.to_string_lossy())).unwrap();
    let (out, summary) = run(&flow("raw", "raw"), source, options(3)).unwrap();
    assert_eq!(out, "1\nno end\n2\n3\n4\n");
    let reject = &summary.rejects.first()[0];
    assert_eq!(&*reject.source, paths[3].to_str().unwrap());
    assert_eq!(reject.line, 2);
    assert_eq!((summary.events_in, summary.events_out), (6, 5));
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.log");
    let error = read(&[&missing], 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert_eq!(
        error.to_string(),
        format!("input `{}` does not exist", missing.display())
    );
    let error = read(&[folder.path()], 1).unwrap_err();
    let name = folder.path().display();
    assert_eq!(
        error.to_string(),
        format!("input `{name}` is a directory; name the files in it")
    );
    let error = Source::new().with_followed("/dev/null").unwrap_err();
    assert!(error.to_string().contains("`/dev/null`"), "{error}");
    let compressed = folder.path().join("log.gz");
    fs::write(&compressed, gzip("1\n")).unwrap();
    let error = Source::new().with_followed(&compressed).unwrap_err();
    assert!(error.to_string().contains("is compressed"), "{error}");
}

#[test]
fn broken_compression_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.gz");
    let whole = gzip(&lines(1_000));
    for bytes in [&whole[..whole.len() / 2], b"plain text\n"] {
        fs::write(&path, bytes).unwrap();
        let error = read(&[&path], 1 << 20).unwrap_err();
        let name = path.display();
        assert_eq!(error.to_string(), format!("reading input `{name}` failed"));
        assert!(std::error::Error::source(&error).is_some());
    }
    File::create(&path).unwrap();
    assert_eq!(read(&[&path], 1 << 20).unwrap(), "", "empty is not gzip");
}

#[test]
fn what_came_before_a_read_error_is_written_first() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(20_000);
    let (gzipped, zipped) = (gzip(&text), zstd(&text));
    let whole = folder.path().join("whole.log");
    fs::write(&whole, "before\n").unwrap();
    for (name, bytes, is_all) in [
        ("cut.gz", &gzipped[..gzipped.len() / 2], false),
        ("tail.gz", &[&gzipped[..], b"garbage"].concat(), true),
        ("zeros.gz", &[&gzipped[..], &[0; 512]].concat(), true),
        ("tail.zst", &[&zipped[..], b"garbage"].concat(), true),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        for block_size in [1_000, 1 << 20] {
            let out = folder.path().join("out");
            let source = Source::open([&whole, &path].map(|path| path.to_string_lossy()));
            let sink = Sink::file(&out, Extent::Endless).unwrap();
            let run = flow("raw", "raw").run(
                source.unwrap(),
                vec![Identity; 3],
                sink,
                options(block_size),
            );
            let error = run.unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            let written = fs::read_to_string(&out).unwrap();
            let written = written.strip_prefix("before\n").unwrap();
            assert!(
                written.ends_with('\n') && text.starts_with(written),
                "{name}"
            );
            assert_eq!(written.len() == text.len(), is_all, "{name}");
            let count = 1 + written.lines().count() as u64;
            assert_eq!(error.summary().unwrap().events_out, count, "{name}");
            fs::remove_file(&out).unwrap();
        }
    }
}
