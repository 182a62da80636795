//! How runs end: by a panic, a reader that is gone, a stop under load.

use std::env;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use lookaside_stream::{
    End, ErrorKind, Extent, Identity, Report, RunOptions, Sink, Source, StopFlag, Transform,
};
use lookaside_value::Batch;

use crate::{flow, lines, names, options};

/// The variable that tells a process of this test binary which role it has.
const PART: &str = "LOOKASIDE_TEST_PART";

/// This test binary as a child process that runs only `test`, in the role of the child.
pub(crate) fn process(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(PART, test);
    command
}

/// Whether this process was started by [`process`].
pub(crate) fn is_process(test: &str) -> bool {
    env::var_os(PART).is_some_and(|part| part == *test)
}

/// Calls a function at its nth batch.
struct AtBatch<F>(usize, F);

impl<F: FnMut() + Send> Transform for AtBatch<F> {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        let line = batch.records().first().map_or(0, |record| record.line);
        report.fail(line, "said the test");
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            (self.1)();
        }
    }
}

/// A source of endless bytes.
fn endless() -> Source {
    Source::new().with_reader("endless", io::repeat(b'\n').take(u64::MAX).chain(&b""[..]))
}

#[test]
fn a_panic_in_a_worker_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    for batch in [1, 2, 10] {
        let transforms = (0..3).map(|_| AtBatch(batch, || panic!("of the test")));
        let sink = Sink::file(&folder.path().join("out"), Extent::Finite).unwrap();
        let error = flow("raw", "raw")
            .run(endless(), transforms.collect(), sink, options(64))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Defect);
        assert_eq!(
            error.to_string(),
            "a worker panicked: of the test; please report this"
        );
        assert!(names(folder.path()).is_empty());
    }
}

#[test]
fn a_stop_under_load_leaves_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let stop = StopFlag::new().unwrap();
    let transforms = (0..2).map(|_| {
        let stop = stop.clone();
        AtBatch(20, move || stop.raise())
    });
    let text = lines(100_000);
    let source = Source::new().with_reader("input", io::Cursor::new(text.clone().into_bytes()));
    let options = RunOptions {
        stop: Some(stop.clone()),
        ..options(100)
    };
    let sink = Sink::file(&path, Extent::Endless).unwrap();
    let summary = flow("raw", "raw")
        .run(source, transforms.collect(), sink, options)
        .unwrap();
    assert_eq!(summary.end, End::Stopped);
    let out = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&out), "a prefix of the whole");
    assert!(out.ends_with('\n') && out.len() < text.len());
    assert_eq!(out.lines().count() as u64, summary.events_out);
    assert_eq!(summary.failures.first()[0].line, 1);
    assert!(summary.failures.count() >= 20);
    assert_eq!(summary.failures.first().len(), 5);
}

#[test]
fn a_reader_of_standard_output_that_goes_away_is_a_normal_end() {
    const TEST: &str = "ends::a_reader_of_standard_output_that_goes_away_is_a_normal_end";
    if is_process(TEST) {
        let source = Source::new().with_reader("letters", Letters);
        let summary = flow("raw", "raw")
            .run(
                source,
                vec![Identity; 2],
                Sink::stdout().unwrap(),
                RunOptions::default(),
            )
            .unwrap();
        assert_eq!(summary.end, End::BrokenPipe);
        // The harness could not report the result: its standard output is closed.
        std::process::exit(7);
    }
    let mut child = process(TEST).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100_000]).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

/// A reader of endless lines.
struct Letters;

impl Read for Letters {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        room.fill(b'x');
        if let Some(last) = room.last_mut() {
            *last = b'\n';
        }
        Ok(room.len())
    }
}

#[test]
fn standard_input_is_read_as_it_comes() {
    const TEST: &str = "ends::standard_input_is_read_as_it_comes";
    if is_process(TEST) {
        let source = Source::open(["-"]).unwrap();
        let sink = Sink::open("-", source.extent()).unwrap();
        let run = flow("raw", "raw").run(source, vec![Identity; 2], sink, RunOptions::default());
        assert_eq!(run.unwrap().end, End::Whole);
        return;
    }
    let mut child = process(TEST)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // The harness of the child prints something first.
    let mut seen = String::new();
    for line in ["first of all\n", "then another\n", "no end"] {
        stdin.write_all(line.as_bytes()).unwrap();
        if !line.ends_with('\n') {
            break;
        }
        while !seen.ends_with(line) {
            let mut byte = [0];
            stdout.read_exact(&mut byte).unwrap();
            seen.push(char::from(byte[0]));
        }
    }
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("no end\n"), "{rest}");
    assert!(child.wait().unwrap().success());
}
