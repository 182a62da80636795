//! Sources without an end: pipes and followed files. Their events are processed at once, and a stop
//! interrupts them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};

use flate2::Compression;
use flate2::write::GzEncoder;
use lookaside_stream::{End, Extent, Flow, Identity, RunOptions, Sink, Source, StopFlag, Summary};

use crate::{flow, lines, options, run};

/// A run on another thread, whose output is received over a socket line by line.
pub(crate) struct Live {
    thread: JoinHandle<lookaside_stream::Result<Summary>>,
    lines: Lines<BufReader<TcpStream>>,
    pub(crate) stop: StopFlag,
}

impl Live {
    pub(crate) fn start(source: Source) -> Self {
        Self::start_with(source, flow("raw", "raw"))
    }

    pub(crate) fn start_with(source: Source, flow: Flow) -> Self {
        Self::start_with_options(source, flow, RunOptions::default())
    }

    pub(crate) fn start_with_options(source: Source, flow: Flow, options: RunOptions) -> Self {
        assert_eq!(source.extent(), Extent::Endless);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = StopFlag::new().unwrap();
        let options = RunOptions {
            stop: Some(stop.clone()),
            ..options
        };
        let thread = thread::spawn(move || {
            let sink = Sink::open(&format!("tcp://{address}"), source.extent())?;
            flow.run(source, vec![Identity; 2], sink, options)
        });
        let (stream, _) = listener.accept().unwrap();
        Self {
            thread,
            lines: BufReader::new(stream).lines(),
            stop,
        }
    }

    /// Waits for the next output lines of the run.
    pub(crate) fn expect(&mut self, expected: &[&str]) {
        for expected in expected {
            assert_eq!(self.line(), *expected);
        }
    }

    /// Waits for the next output line of the run.
    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("the run goes on").unwrap()
    }

    /// Waits for the end and returns the remaining lines.
    pub(crate) fn end(self) -> (Vec<String>, Summary) {
        let lines = self.lines.map(Result::unwrap).collect();
        (lines, self.thread.join().unwrap().unwrap())
    }

    pub(crate) fn stop(self) -> (Vec<String>, Summary) {
        self.stop.raise();
        self.end()
    }
}

fn pipe() -> (Source, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
    // Opening the path creates a separate read end for the source.
    (Source::new().with_file(&path).unwrap(), writer)
}

#[test]
fn a_pipe_answers_each_line_at_once() {
    let (source, mut writer) = pipe();
    let mut live = Live::start(source);
    for line in ["one", "two", "three"] {
        writeln!(writer, "{line}").unwrap();
        live.expect(&[line]);
    }
    write!(writer, "in two ").unwrap();
    writeln!(writer, "parts\nand one more").unwrap();
    live.expect(&["in two parts", "and one more"]);
    write!(writer, "the end").unwrap();
    drop(writer);
    live.expect(&["the end"]);
}

/// Writes some text and flushes it, so that a reader can decode all of it.
fn flush(encoder: &mut impl Write, text: &str) {
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.flush().unwrap();
}

#[test]
fn a_compressed_pipe_answers_what_was_flushed() {
    let (source, writer) = pipe();
    let mut live = Live::start(source);
    let mut encoder = GzEncoder::new(writer, Compression::fast());
    for line in ["one\n", "two\n"] {
        flush(&mut encoder, line);
        live.expect(&[line.trim_end()]);
    }
    flush(&mut encoder, "in two ");
    // Another member continues in the middle of the line.
    let mut encoder = GzEncoder::new(encoder.finish().unwrap(), Compression::fast());
    flush(&mut encoder, "members\n");
    live.expect(&["in two members"]);
    flush(&mut encoder, "the end");
    drop(encoder.finish().unwrap());
    let (rest, summary) = live.end();
    assert_eq!(
        (&rest[..], summary.end),
        (&["the end".into()][..], End::Whole)
    );

    let (source, writer) = pipe();
    let mut live = Live::start(source);
    let mut encoder = zstd::Encoder::new(writer, 1).unwrap();
    for line in ["one\n", "two\n"] {
        flush(&mut encoder, line);
        live.expect(&[line.trim_end()]);
    }
    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!((summary.end, summary.events_out), (End::Stopped, 2));
}

#[test]
fn a_compressed_pipe_is_read_whole() {
    let text = lines(20_000);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let gzipped = encoder.finish().unwrap();
    let zipped = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for block_size in [7, 1_000, 1 << 20] {
        for bytes in [&gzipped, &zipped] {
            let (source, mut writer) = pipe();
            let ran = thread::scope(|scope| {
                scope.spawn(move || writer.write_all(bytes).unwrap());
                run(&flow("raw", "raw"), source, options(block_size))
            });
            let (out, summary) = ran.unwrap();
            assert!(out == text, "{} bytes of {}", out.len(), text.len());
            assert_eq!(summary.end, End::Whole);
        }
    }
}

#[test]
fn a_pipe_shows_by_its_first_bytes_what_is_not_read() {
    for (bytes, expected) in [
        (
            &b"BZh91AY&SY\0\0"[..],
            "is bzip2, which is not supported; pipe it in",
        ),
        (
            b"{\0}\0\n\0",
            "is UTF-16 text, which is not supported; pipe it in",
        ),
        (b"PAR1\x15\x04", "is Parquet, which is not supported"),
    ] {
        let (source, mut writer) = pipe();
        writer.write_all(bytes).unwrap();
        let error = run(&flow("raw", "raw"), source, options(100)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let (source, mut writer) = pipe();
    writer.write_all(b"%PDF-1.4 was read\n").unwrap();
    drop(writer);
    let (out, _) = run(&flow("raw", "raw"), source, options(100)).unwrap();
    assert_eq!(out, "%PDF-1.4 was read\n");
    // Truncated data is an error, as in a file.
    let (source, mut writer) = pipe();
    writer.write_all(b"\x1f\x8b\x08\0\0").unwrap();
    drop(writer);
    let error = run(&flow("raw", "raw"), source, options(100)).unwrap_err();
    assert!(error.to_string().starts_with("reading input `"), "{error}");
}

#[test]
fn the_writer_of_a_named_pipe_never_finds_it_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let writer = thread::spawn({
        let path = path.clone();
        // Waits in `open` until there is a reader.
        move || fs::write(path, lines(10_000))
    });
    let live = Live::start(Source::new().with_file(&path).unwrap());
    writer.join().unwrap().unwrap();
    let (out, summary) = live.end();
    assert_eq!((out.len(), summary.end), (10_000, End::Whole));
}

#[test]
fn a_silent_pipe_hears_a_stop() {
    let (source, mut writer) = pipe();
    let mut live = Live::start(source);
    write!(writer, "whole\npart").unwrap();
    live.expect(&["whole"]);
    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "a part of a line is not a line: {rest:?}");
    assert_eq!((summary.end, summary.events_out), (End::Stopped, 1));
}

#[test]
fn a_stop_before_the_start_ends_the_run_at_once() {
    let stop = StopFlag::new().unwrap();
    stop.raise();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let source = Source::new().with_reader("input", io::repeat(b'\n'));
    let options = RunOptions {
        stop: Some(stop),
        ..RunOptions::default()
    };
    let sink = Sink::file(&path, Extent::Finite).unwrap();
    let summary = flow("raw", "raw")
        .run(source, vec![Identity; 2], sink, options)
        .unwrap();
    assert_eq!(summary.end, End::Stopped);
    assert!(!path.exists(), "a stopped run is not whole");
}

fn append(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.append(true).create(true).open(path).unwrap()
}

#[test]
fn a_rotated_file_is_finished_before_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old_path) = (folder.path().join("log"), folder.path().join("log.1"));
    let mut old = append(&path);
    write!(old, "1\n2\n").unwrap();
    let mut live = Live::start(Source::new().with_followed(&path).unwrap());
    live.expect(&["1", "2"]);
    write!(old, "3\npart").unwrap();
    live.expect(&["3"]);

    fs::rename(&path, &old_path).unwrap();
    write!(old, " and rest\nafter the rename\n").unwrap();
    live.expect(&["part and rest", "after the rename"]);
    let mut new = append(&path);
    writeln!(new, "successor").unwrap();
    write!(old, "daemon is late\nlast without end").unwrap();
    live.expect(&["daemon is late", "last without end", "successor"]);
    writeln!(new, "grows").unwrap();
    live.expect(&["grows"]);

    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!((summary.end, summary.events_in), (End::Stopped, 9));
}

#[test]
fn a_truncated_file_is_read_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut file = append(&path);
    write!(file, "first\nsecond\ncut").unwrap();
    let mut live = Live::start(Source::new().with_followed(&path).unwrap());
    live.expect(&["first", "second"]);
    file.set_len(0).unwrap();
    live.expect(&["cut"]);
    writeln!(file, "again").unwrap();
    live.expect(&["again"]);
    live.stop();
}
