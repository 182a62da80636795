//! Sinks, and when their output appears.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lookaside_stream::{
    Error, ErrorKind, Extent, Flow, FormatOptions, Identity, InputFormat, OutputFormat, RunOptions,
    Sink, Source, Strictness, Summary,
};

use crate::{flow, lines, names, options};

fn write(text: &str, path: &Path, extent: Extent) -> Result<Summary, Error> {
    let input = text.as_bytes().to_vec();
    let source = Source::new().with_reader("input", std::io::Cursor::new(input));
    let sink = Sink::file(path, extent)?;
    flow("raw", "raw").run(source, vec![Identity; 3], sink, options(100))
}

#[test]
fn a_file_appears_whole_and_keeps_its_mode_and_its_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.log");
    fs::write(&path, "old\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.log");
    symlink(&path, &link).unwrap();

    write(&lines(1_000), &link, Extent::Finite).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), lines(1_000));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(folder.path()), ["link.log", "out.log"]);
}

#[test]
fn an_endless_stream_appends_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.log");
    fs::write(&path, "old, cut o").unwrap();
    write("1\n2\n", &path, Extent::Endless).unwrap();
    write("3\n", &path, Extent::Endless).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old, cut o\n1\n2\n3\n");
}

#[test]
fn compressed_output_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    for text in [String::new(), lines(3_000)] {
        for extent in [Extent::Finite, Extent::Endless] {
            let path = folder.path().join("out.gz");
            let summary = write(&text, &path, extent).unwrap();
            assert_eq!(summary.bytes_out, text.len() as u64);
            let bytes = fs::read(&path).unwrap();
            let mut out = String::new();
            MultiGzDecoder::new(&*bytes)
                .read_to_string(&mut out)
                .unwrap();
            assert_eq!(out, text);
            fs::remove_file(&path).unwrap();

            let path = folder.path().join("out.zst");
            write(&text, &path, extent).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.is_empty());
            assert_eq!(zstd::decode_all(&*bytes).unwrap(), text.as_bytes());
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_sink() {
    let error = write("1\n", Path::new("/dev/full"), Extent::Finite).unwrap_err();
    assert_eq!(error.to_string(), "writing output `/dev/full` failed");
}

#[test]
fn what_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().display();
    let path = folder.path().join("none/out.log");
    let error = write("1\n", &path, Extent::Finite).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("output `{name}/none/out.log`: the folder does not exist")
    );
    for extent in [Extent::Finite, Extent::Endless] {
        let error = write("1\n", folder.path(), extent).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("output `{name}` is a directory; name a file in it")
        );
    }
}

#[test]
fn rejected_lines_go_to_their_own_file_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (out, rejected) = (folder.path().join("out"), folder.path().join("rejected"));
    let mut input = Vec::new();
    let mut expected = Vec::new();
    for line in 0..1_000 {
        let bytes = match line % 3 {
            0 => format!("bad {line}\n").into_bytes(),
            _ => format!("{{\"line\":{line}}}\n").into_bytes(),
        };
        if line % 3 == 0 {
            expected.extend_from_slice(&bytes);
        }
        input.extend(bytes);
    }
    let source = Source::new().with_reader("input", std::io::Cursor::new(input));
    let options = RunOptions {
        rejects: Some(Sink::file(&rejected, Extent::Finite).unwrap()),
        ..options(64)
    };
    let sink = Sink::file(&out, Extent::Finite).unwrap();
    let summary = flow("json", "json")
        .run(source, vec![Identity; 3], sink, options)
        .unwrap();
    assert_eq!(summary.rejects.count(), 334);
    assert_eq!(summary.events_out, 666);
    let shown: Vec<_> = summary.rejects.first().iter().map(|r| r.line).collect();
    assert_eq!(shown, [1, 4, 7, 10, 13]);
    assert_eq!(fs::read(&rejected).unwrap(), expected);
}

#[test]
fn a_strict_run_ends_at_the_first_reject_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::new().with_reader("input", &b"ok\nok\n\xff\nok\n"[..]);
    let options = RunOptions {
        strictness: Strictness::Strict,
        ..options(4)
    };
    let sink = Sink::file(&folder.path().join("out"), Extent::Finite).unwrap();
    let error = flow("raw", "raw")
        .run(source, vec![Identity; 2], sink, options)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`input`, line 3: byte 1 (0xff) is not UTF-8"
    );
    assert!(names(folder.path()).is_empty());
}

/// Appends records to a csv file as an endless run does.
fn append_csv(text: &str, path: &Path, output: &[(&str, &str)]) -> Result<Summary, Error> {
    let options = output
        .iter()
        .fold(FormatOptions::new(), |options, (name, value)| {
            options.set(*name, *value)
        });
    let flow = Flow::new(
        InputFormat::new("json", &FormatOptions::new()).unwrap(),
        OutputFormat::new("csv", &options).unwrap(),
    );
    let input = text.as_bytes().to_vec();
    let source = Source::new().with_reader("input", std::io::Cursor::new(input));
    let sink = Sink::file(path, Extent::Endless)?;
    flow.run(source, vec![Identity; 2], sink, RunOptions::default())
}

#[test]
fn a_csv_file_that_is_continued_keeps_its_one_header_and_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    append_csv("{\"a\":1,\"b\":2}\n", &path, &[]).unwrap();
    // The columns are those of the file, not those of the first record.
    let summary = append_csv("{\"b\":4}\n{\"b\":6,\"a\":5}\n{\"c\":0}\n", &path, &[]).unwrap();
    assert_eq!((summary.events_out, summary.rejects.count()), (2, 1));
    append_csv("{\"b\":8,\"a\":7}\n", &path, &[("columns", "a,b")]).unwrap();
    let expected = "a,b\n1,2\n,4\n5,6\n7,8\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);

    let error = append_csv("{\"b\":8}\n", &path, &[("columns", "b,a")]).unwrap_err();
    let name = path.display();
    assert_eq!(
        error.to_string(),
        format!(
            "output `{name}` has the columns a,b, not those of the option `columns`; write to \
             another file"
        )
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);

    // Compressed files are appended to likewise; without a header there are no columns to read.
    let packed = folder.path().join("out.csv.gz");
    append_csv("{\"a\":1,\"b\":2}\n", &packed, &[("delimiter", "tab")]).unwrap();
    append_csv("{\"b\":4}\n", &packed, &[("delimiter", "tab")]).unwrap();
    append_csv("{\"b\":6}\n", &packed, &[("header", "false")]).unwrap();
    let mut out = String::new();
    let bytes = fs::read(&packed).unwrap();
    MultiGzDecoder::new(&*bytes)
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(out, "a\tb\n1\t2\n\t4\n6\n");
}

#[test]
fn names_that_open_nothing_say_what_would() {
    let folder = tempfile::tempdir().unwrap();
    let slash = format!("{}/new/", folder.path().display());
    for (name, expected) in [
        (
            "ftp://127.0.0.1:1",
            "; supported are files, `-` for standard",
        ),
        ("tcp://5140", "is not an address; write tcp://"),
        ("ftp://u:secret@h/x?y=secret&z=secret", "`ftp://h/x`"),
        ("tcp://u:p/@secret@h", "`tcp://h`"),
    ] {
        for error in [
            Source::open([name]).unwrap_err(),
            Sink::open(name, Extent::Finite).unwrap_err(),
            Sink::open(name, Extent::Endless).unwrap_err(),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
    for extent in [Extent::Finite, Extent::Endless] {
        let error = Sink::open(&slash, extent).unwrap_err().to_string();
        assert!(error.ends_with("is a directory; name a file in it"));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_output_that_refuses_its_first_connection_names_the_receiver() {
    // Nothing listens on the port that was once tcpmux.
    let name = "tcp://127.0.0.1:1";
    let error = Sink::open(name, Extent::Endless).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("output `{name}` cannot be opened; start its receiver first")
    );
}

#[test]
fn no_output_is_an_input_or_another_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = "1\n2, cut o";
    fs::write(path("in"), text).unwrap();
    symlink(path("in"), path("link")).unwrap();
    fs::create_dir(path("sub")).unwrap();
    for extent in [Extent::Finite, Extent::Endless] {
        for (output, rejects, expected) in [
            ("in", "bad", "is also the input"),
            ("link", "bad", "is also the input"),
            ("sub/../in", "bad", "is also the input"),
            ("out", "in", "is also the input"),
            ("out", "sub/../out", "are the same file"),
        ] {
            let source = match extent {
                Extent::Finite => Source::new().with_file(path("link")).unwrap(),
                Extent::Endless => Source::new().with_followed(path("link")).unwrap(),
            };
            let sink = Sink::file(&path(output), extent).unwrap();
            let options = RunOptions {
                rejects: Some(Sink::file(&path(rejects), extent).unwrap()),
                ..options(100)
            };
            let run = flow("raw", "raw").run(source, vec![Identity], sink, options);
            let error = run.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse);
            assert!(error.to_string().contains(expected), "{output}: {error}");
            assert_eq!(fs::read_to_string(path("in")).unwrap(), text, "{output}");
        }
    }
}
