//! Interaction of the threads of a run: pauses, full rings, failures at every step.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::sink::SinkTarget;
use crate::{Extent, FormatOptions, LiveRead};

/// A file that fails at one of its steps: a write, or the step that makes it final.
struct Failing {
    inner: Box<dyn SinkTarget>,
    steps: Arc<AtomicUsize>,
    fails_at: usize,
}

impl Failing {
    fn step(&self) -> io::Result<()> {
        match self.steps.fetch_add(1, Ordering::Relaxed) == self.fails_at {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl SinkTarget for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        self.inner.write(bytes)
    }

    fn appears_whole(&self) -> bool {
        self.inner.appears_whole()
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.step()?;
        self.inner.finish()
    }
}

fn flow() -> Flow {
    let options = FormatOptions::new();
    Flow::new(
        InputFormat::new("raw", &options).unwrap(),
        OutputFormat::new("raw", &options).unwrap(),
    )
}

/// A source of pieces from a channel, with the pauses of their sender.
struct Pieces(mpsc::Receiver<Vec<u8>>);

impl LiveRead for Pieces {
    fn read_within(
        &mut self,
        room: &mut [u8],
        timeout: Option<Duration>,
    ) -> io::Result<Option<usize>> {
        let piece = match timeout {
            None => self.0.recv().ok(),
            Some(timeout) => match self.0.recv_timeout(timeout) {
                Ok(piece) => Some(piece),
                Err(mpsc::RecvTimeoutError::Timeout) => return Ok(None),
                Err(mpsc::RecvTimeoutError::Disconnected) => None,
            },
        };
        let piece = piece.unwrap_or_default();
        room[..piece.len()].copy_from_slice(&piece);
        Ok(Some(piece.len()))
    }
}

/// A target that sends the written bytes to a channel.
struct Written(mpsc::Sender<Vec<u8>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn events_do_not_wait_through_a_pause() {
    let (to_run, pieces) = mpsc::channel();
    let (written, from_run) = mpsc::channel();
    let source = Source::new().with_live("in", Pieces(pieces));
    let sink = Sink::writer("out", Written(written), |_| Ok(()));
    let run = std::thread::spawn(move || {
        flow().run(source, vec![Identity; 2], sink, RunOptions::default())
    });
    for (piece, expected) in [("a\nb", "a\n"), ("c\nd\n", "bc\nd\n")] {
        to_run.send(piece.as_bytes().to_vec()).unwrap();
        assert_eq!(from_run.recv().unwrap(), expected.as_bytes());
    }
    to_run.send(b"e".to_vec()).unwrap();
    drop(to_run);
    assert_eq!(from_run.recv().unwrap(), b"e\n");
    assert_eq!(run.join().unwrap().unwrap().events_out, 4);
}

#[test]
fn a_file_appears_only_when_every_step_went_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    std::fs::write(&path, "old").unwrap();
    let text: String = (0..200).map(|line| format!("line {line}\n")).collect();
    let steps = Arc::new(AtomicUsize::new(0));
    for fails_at in 0.. {
        steps.store(0, Ordering::Relaxed);
        let source = Source::new().with_reader("in", io::Cursor::new(text.clone()));
        let sink = Sink::file(&path, Extent::Finite).unwrap();
        let sink = sink.wrapped(|inner| {
            Box::new(Failing {
                inner,
                steps: steps.clone(),
                fails_at,
            })
        });
        let options = RunOptions {
            block_size: NonZero::new(100),
            ..RunOptions::default()
        };
        let run = flow().run(source, vec![Identity; 3], sink, options);
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 1, "no temporary file stays, step {fails_at}");
        let content = std::fs::read_to_string(&path).unwrap();
        match run {
            Ok(_) => {
                assert_eq!(
                    steps.load(Ordering::Relaxed),
                    fails_at,
                    "all steps were tried"
                );
                assert!(fails_at > 10, "each block is a step");
                assert_eq!(content, text);
                break;
            }
            Err(error) => {
                let name = path.display();
                let message = format!("writing output `{name}` failed");
                assert_eq!(error.to_string(), message);
                assert_eq!(content, "old", "step {fails_at}");
            }
        }
    }
}

/// What a blocked sink does next.
enum Verdict {
    Fail,
    Panic,
}

/// A sink that blocks until it receives a verdict, or the sender is dropped.
struct Blocked(mpsc::Receiver<Verdict>);

impl SinkTarget for Blocked {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        match self.0.recv() {
            Ok(Verdict::Fail) => Err(io::ErrorKind::StorageFull.into()),
            Ok(Verdict::Panic) => panic!("of the sink"),
            Err(mpsc::RecvError) => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Counts the batches that were begun.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Transform for Counted {
    fn transform(&mut self, _: &mut Batch, _: &mut Report) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A run whose ring is full, because its sink is blocked.
struct Full {
    thread: thread::JoinHandle<Result<Summary>>,
    begun: Counted,
    sink: mpsc::Sender<Verdict>,
}

const WORKERS: usize = 3;

/// Each block has a slot, including the one that is being written.
const SLOT_COUNT: usize = (SLOTS_PER_WORKER * WORKERS).next_power_of_two();

const LINE: &str = "line\n";

impl Full {
    fn start(source: Source, stop: Option<StopFlag>) -> Self {
        let begun = Counted::default();
        let (sink, verdicts) = mpsc::channel();
        let thread = thread::spawn({
            let begun = begun.clone();
            move || {
                let options = RunOptions {
                    block_size: NonZero::new(LINE.len()),
                    stop,
                    ..RunOptions::default()
                };
                let sink = Sink::new("blocked", Box::new(Blocked(verdicts)));
                flow().run(source, vec![begun; WORKERS], sink, options)
            }
        });
        let full = Self {
            thread,
            begun,
            sink,
        };
        while full.begun_count() < SLOT_COUNT {
            thread::yield_now();
        }
        full
    }

    fn begun_count(&self) -> usize {
        self.begun.0.load(Ordering::Relaxed)
    }

    /// Lets the sink write.
    fn release(self) -> Result<Summary> {
        drop(self.sink);
        self.thread.join().unwrap()
    }

    fn end(self, verdict: Verdict) -> Result<Summary> {
        self.sink.send(verdict).unwrap();
        self.release()
    }
}

/// A source of `line_count` lines, each of which is a block.
fn source_of(line_count: usize) -> Source {
    Source::new().with_reader("in", io::Cursor::new(LINE.repeat(line_count)))
}

#[test]
fn a_slow_sink_holds_the_source_back() {
    let full = Full::start(source_of(500), None);
    for _ in 0..1_000 {
        thread::yield_now();
        assert_eq!(full.begun_count(), SLOT_COUNT);
    }
    assert_eq!(full.release().unwrap().events_out, 500);
}

#[test]
fn a_sink_that_fails_ends_a_run_that_waits_for_it() {
    let error = Full::start(source_of(500), None).end(Verdict::Fail);
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "writing output `blocked` failed");
    let summary = error.summary().expect("the run had begun");
    assert_eq!((summary.events_in, summary.events_out), (1, 0));

    let error = Full::start(source_of(500), None).end(Verdict::Panic);
    assert_eq!(
        error.unwrap_err().to_string(),
        "a worker panicked: of the sink; please report this"
    );
}

#[test]
fn a_stop_is_heard_while_the_ring_is_full() {
    let stop = StopFlag::new().unwrap();
    let full = Full::start(source_of(500), Some(stop.clone()));
    stop.raise();
    let summary = full.release().unwrap();
    assert_eq!(summary.end, End::Stopped);
    // At most one more was read already.
    let expected = SLOT_COUNT as u64..=SLOT_COUNT as u64 + 1;
    assert!(expected.contains(&summary.events_out), "{summary:?}");
    assert_eq!(
        summary.events_in, summary.events_out,
        "what was read leaves"
    );
}

/// What a source does after its last line.
#[derive(Clone, Copy, Debug)]
enum Misfortune {
    Error,
    Panic,
}

impl io::Read for Misfortune {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Error => Err(io::Error::other("of the source")),
            Self::Panic => panic!("of the source"),
        }
    }
}

/// A source of `line_count` lines, followed by `misfortune`.
fn source_with(line_count: usize, misfortune: Misfortune) -> Source {
    let lines = io::Cursor::new(LINE.repeat(line_count));
    Source::new().with_reader("in", io::Read::chain(lines, misfortune))
}

#[test]
fn what_came_before_an_unreadable_place_leaves_first() {
    for line_count in SLOT_COUNT..SLOT_COUNT + 3 {
        let full = Full::start(source_with(line_count, Misfortune::Error), None);
        let error = full.release().unwrap_err();
        assert_eq!(error.to_string(), "reading input `in` failed");
        let summary = error.summary().expect("the run had begun");
        assert_eq!(summary.events_out, line_count as u64);
    }
}

#[test]
fn a_source_that_panics_ends_the_run() {
    for line_count in [0, 1, 100] {
        let source = source_with(line_count, Misfortune::Panic);
        let run = flow().run(
            source,
            vec![Identity; WORKERS],
            Sink::null(),
            RunOptions::default(),
        );
        assert_eq!(
            run.unwrap_err().to_string(),
            "a worker panicked: of the source; please report this"
        );
    }
}

/// Delays the first block until later ones have passed the transform.
#[derive(Clone, Default)]
struct FirstIsLast(Counted);

impl Transform for FirstIsLast {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        if batch.records()[0].line == 1 {
            while self.0.0.load(Ordering::Relaxed) < SLOT_COUNT - 1 {
                thread::yield_now();
            }
        }
        self.0.transform(batch, report);
    }
}

#[test]
fn the_first_record_decides_the_columns_however_late_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv.gz");
    // One block per line, all of the same size.
    let lines = (0..30).map(|line| match line {
        0 => "{\"first\":  0}\n".to_owned(),
        _ => format!("{{\"line\": {line:3}}}\n"),
    });
    let text = lines.collect::<String>();
    let options = FormatOptions::new();
    let flow = Flow::new(
        InputFormat::new("json", &options).unwrap(),
        OutputFormat::new("csv", &options.set("extra", "ignore")).unwrap(),
    );
    let run_options = RunOptions {
        block_size: NonZero::new(14),
        ..RunOptions::default()
    };
    let summary = flow.run(
        Source::new().with_reader("in", io::Cursor::new(text)),
        vec![FirstIsLast::default(); WORKERS],
        Sink::file(&path, Extent::Finite).unwrap(),
        run_options,
    );
    assert_eq!(summary.unwrap().events_out, 30);
    let mut out = String::new();
    let file = std::fs::File::open(&path).unwrap();
    io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(file), &mut out).unwrap();
    assert_eq!(out, format!("first\n0\n{}", "\"\"\n".repeat(29)));
}

/// Fails the first record once a later block waits, which it does until the run is over.
#[derive(Clone)]
struct WaitsForEnd {
    waiting: Counted,
    over: StopFlag,
}

impl Transform for WaitsForEnd {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        if batch.records()[0].line == 1 {
            while self.waiting.0.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            return report.fail(1, "first");
        }
        self.waiting.transform(batch, report);
        while !self.over.is_raised() {
            thread::yield_now();
        }
    }
}

#[test]
fn a_transform_that_waits_is_told_that_the_run_failed() {
    let over = StopFlag::new().unwrap();
    let transform = WaitsForEnd {
        waiting: Counted::default(),
        over: over.clone(),
    };
    let run_options = RunOptions {
        block_size: NonZero::new(LINE.len()),
        strictness: Strictness::Strict,
        over: Some(over),
        ..RunOptions::default()
    };
    let run = flow().run(
        source_of(30),
        vec![transform; WORKERS],
        Sink::null(),
        run_options,
    );
    assert_eq!(run.unwrap_err().to_string(), "`in`, line 1: first");
}

/// Reports the thread that it runs on.
struct Where(mpsc::Sender<thread::ThreadId>);

impl Transform for Where {
    fn transform(&mut self, _: &mut Batch, _: &mut Report) {
        self.0.send(thread::current().id()).unwrap();
    }
}

#[test]
fn a_single_worker_is_the_caller() {
    let (sender, threads) = mpsc::channel();
    let run = flow().run(
        source_of(3),
        vec![Where(sender)],
        Sink::null(),
        RunOptions::default(),
    );
    assert_eq!(run.unwrap().events_out, 3);
    let here = thread::current().id();
    assert!(threads.iter().all(|thread| thread == here));
}

/// Abandons the batch that contains the line.
#[derive(Clone)]
struct GivesUp(u64);

impl Transform for GivesUp {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        if batch.records().iter().any(|record| record.line == self.0) {
            report.fail(self.0, "it was told to end");
            report.abandon();
        }
    }
}

#[test]
fn nothing_is_written_from_a_batch_on_that_was_given_up() {
    for line in [1, 5, 17] {
        let (written, from_run) = mpsc::channel();
        let sink = Sink::writer("out", Written(written), |_| Ok(()));
        let lines: String = (1..=40).map(|line| format!("{line:03}\n")).collect();
        let options = RunOptions {
            // One line per block.
            block_size: NonZero::new(4),
            strictness: Strictness::Strict,
            ..RunOptions::default()
        };
        let source = Source::new().with_reader("in", io::Cursor::new(lines));
        let summary = flow().run(source, vec![GivesUp(line); WORKERS], sink, options);
        let summary = summary.unwrap();
        assert_eq!((summary.end, summary.events_out), (End::Stopped, line - 1));
        assert_eq!(summary.failures.count(), 0);
        let out: Vec<u8> = from_run.iter().flatten().collect();
        let expected: String = (1..line).map(|line| format!("{line:03}\n")).collect();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

/// Rejects the records of the lines, each for two reasons.
#[derive(Clone)]
struct RejectsLines(&'static [u64]);

impl Transform for RejectsLines {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        for reason in ["the first reason", "another"] {
            for record in batch.records().iter().rev() {
                if self.0.contains(&record.line) {
                    report.reject(record.line, reason);
                }
            }
        }
    }
}

#[test]
fn rejected_records_are_written_as_their_lines() {
    let csv = FormatOptions::new()
        .set("columns", "a,b")
        .set("header", "false");
    let flow = Flow::new(
        InputFormat::new("csv", &csv).unwrap(),
        OutputFormat::new("raw", &FormatOptions::new()).unwrap(),
    );
    let input = "1,one\r\n\n3,\"three\nfour\"\n5,five\n6\n7,\"seven\n\n\"";
    for block_size in [1, 8, 1 << 10] {
        let sink = |sender: mpsc::Sender<Vec<u8>>| {
            Sink::writer("out", Vec::new(), move |bytes| {
                sender.send(bytes).map_err(io::Error::other)
            })
        };
        let ((written, from_run), (rejected, rejects)) = (mpsc::channel(), mpsc::channel());
        let options = RunOptions {
            block_size: NonZero::new(block_size),
            rejects: Some(sink(rejected)),
            ..RunOptions::default()
        };
        let source = Source::new().with_reader("in", input.as_bytes());
        let transforms = vec![RejectsLines(&[1, 3, 7]); WORKERS];
        let summary = flow
            .run(source, transforms, sink(written), options)
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(from_run.recv().unwrap()), "5 five\n");
        let expected = "1,one\n3,\"three\nfour\"\n6\n7,\"seven\n\n\"\n";
        let found = text(rejects.recv().unwrap());
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        // In a block, lines that cannot be read come before those that the transform rejects.
        assert_eq!(sorted(&found), sorted(expected), "{found}");
        assert_eq!((summary.events_in, summary.events_out), (5, 1));
        let shown = summary.rejects.first().iter();
        let reasons = shown.filter(|reject| reject.reason == "the first reason");
        assert_eq!((summary.rejects.count(), reasons.count()), (4, 3));
    }
}
