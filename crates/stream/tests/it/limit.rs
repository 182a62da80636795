//! Runs with an event limit, and the progress of a run.

use std::fs;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::write::GzEncoder;
use lookaside_stream::{
    End, Extent, Identity, Progress, Report, RunOptions, Sink, Source, StopFlag, Strictness,
    Transform,
};
use lookaside_value::Batch;

use crate::endless::Live;
use crate::{flow, lines, names, options, run};

fn limited(event_limit: u64, block_size: usize) -> RunOptions {
    RunOptions {
        event_limit: NonZero::new(event_limit),
        ..options(block_size)
    }
}

#[test]
fn a_limit_is_exact_wherever_it_falls() {
    // Rejects are events, blank lines are not.
    let record = |line: u32| match line % 4 {
        0 => "bad\n".to_string(),
        1 => "\n".to_string(),
        _ => format!("{{\"line\":{line}}}\n"),
    };
    let text: String = (0..400).map(record).collect();
    let good: Vec<String> = (0..400).filter(|line| line % 4 > 1).map(record).collect();
    for block_size in [1, 7, 64, 1 << 20] {
        for limit in [1, 2, 3, 4, 100, 299, 300, 301, 5_000] {
            let source = Source::new().with_reader("in", io::Cursor::new(text.clone()));
            let (out, summary) =
                run(&flow("json", "json"), source, limited(limit, block_size)).unwrap();
            let events = limit.min(300);
            let rejects = events.div_ceil(3);
            let kept = usize::try_from(events - rejects).unwrap();
            let place = format!("limit {limit}, blocks of {block_size}");
            assert_eq!(out, good[..kept].concat(), "{place}");
            assert_eq!(
                (summary.events_in, summary.rejects.count()),
                (events, rejects),
                "{place}"
            );
            let end = if limit <= 300 { End::Limit } else { End::Whole };
            assert_eq!(summary.end, end, "{place}");
        }
    }
}

/// Counts the events that reach the transform.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Transform for Counted {
    fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
        self.0.fetch_add(batch.len(), Ordering::Relaxed);
    }
}

#[test]
fn no_event_beyond_a_limit_reaches_the_transform() {
    // Of ten lines in blocks of three; the last block has one.
    for limit in 1..=12 {
        let source = Source::new().with_reader("in", io::Cursor::new(lines(9) + "line _\n"));
        let counted = Counted::default();
        let summary = flow("raw", "raw")
            .run(
                source,
                vec![counted.clone(); 3],
                Sink::null(),
                limited(limit, "line _\n".len() * 3),
            )
            .unwrap();
        let events = limit.min(10);
        assert_eq!(summary.events_out, events, "limit {limit}");
        let transformed = counted.0.load(Ordering::Relaxed);
        assert_eq!(transformed as u64, events, "limit {limit}");
    }
}

#[test]
fn a_limit_keeps_the_lines_of_its_rejects_and_the_bytes_it_read() {
    let source = Source::new().with_reader("in", &b"{}\nbad\n\nworse\n{}\n"[..]);
    let (out, summary) = run(&flow("json", "json"), source, limited(3, 1 << 20)).unwrap();
    let shown: Vec<_> = summary.rejects.first().iter().map(|r| r.line).collect();
    assert_eq!((out.as_str(), shown), ("{}\n", vec![2, 4]));
    assert_eq!(summary.bytes_in, "{}\nbad\n\nworse\n".len() as u64);
}

#[test]
fn a_record_of_several_lines_is_one_event() {
    let text = "a,b\n\"x\ny\",1\nz,2\nv,3\n";
    let source = Source::new().with_reader("in", text.as_bytes());
    let (out, _) = run(&flow("csv", "json"), source, limited(2, 1 << 20)).unwrap();
    assert_eq!(
        out,
        "{\"a\":\"x\\ny\",\"b\":\"1\"}\n{\"a\":\"z\",\"b\":\"2\"}\n"
    );
}

#[test]
fn a_limit_ends_a_run_that_waits_for_input() {
    let (reader, mut writer) = io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    let source = Source::new().with_file(path).unwrap();
    let live = Live::start_with_options(source, flow("raw", "raw"), limited(2, 1 << 10));
    writer.write_all(b"one\ntwo\nthree\npart").unwrap();
    // The writer stays open: only the limit ends the run.
    let (out, summary) = live.end();
    assert_eq!(
        (out, summary.end),
        (vec!["one".into(), "two".into()], End::Limit)
    );
    drop(writer);
}

#[test]
fn a_strict_run_tells_what_it_did_before_it_failed() {
    let source = Source::new().with_reader("in", &b"{}\n{}\nbad\n{}\n"[..]);
    let options = RunOptions {
        strictness: Strictness::Strict,
        ..options(3)
    };
    let error = flow("json", "json")
        .run(source, vec![Identity], Sink::null(), options)
        .unwrap_err();
    let summary = error.summary().expect("the run had begun");
    assert_eq!(
        (
            summary.events_in,
            summary.events_out,
            summary.rejects.count()
        ),
        (3, 2, 1)
    );
    assert_eq!(
        (summary.end, summary.rejects.first()[0].line),
        (End::Failed, 3)
    );
}

/// Stops the run at its first batch.
struct Stops(StopFlag);

impl Transform for Stops {
    fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
        assert!(!batch.is_empty());
        self.0.raise();
    }
}

#[test]
fn a_stopped_run_keeps_what_it_wrote_beside_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.log");
    fs::write(&path, "old\n").unwrap();
    let stop = StopFlag::new().unwrap();
    let options = RunOptions {
        stop: Some(stop.clone()),
        ..options(64)
    };
    let source = Source::new().with_reader("in", io::Cursor::new(lines(1_000)));
    let sink = Sink::file(&path, Extent::Finite).unwrap();
    let summary = flow("raw", "raw")
        .run(source, vec![Stops(stop)], sink, options)
        .unwrap();
    assert_eq!(summary.end, End::Stopped);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
    let part = folder.path().join("out.log.part");
    assert_eq!(summary.parts, [part.as_path()]);
    assert_eq!(names(folder.path()), ["out.log", "out.log.part"]);
    assert_eq!(
        fs::read_to_string(part).unwrap(),
        lines(summary.events_out as usize)
    );
}

#[test]
fn progress_reaches_the_size_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("a"), folder.path().join("b.gz"));
    fs::write(&plain, lines(1_000)).unwrap();
    let mut encoder = GzEncoder::new(fs::File::create(&packed).unwrap(), Default::default());
    encoder.write_all(lines(1_000).as_bytes()).unwrap();
    encoder.finish().unwrap();
    let size = |path: &Path| fs::metadata(path).unwrap().len();

    let source = Source::open([&plain, &packed].map(|path| path.display().to_string())).unwrap();
    assert_eq!(source.size(), Some(size(&plain) + size(&packed)));
    let progress = Progress::new();
    let options = RunOptions {
        progress: progress.clone(),
        ..options(100)
    };
    let (_, summary) = run(&flow("raw", "raw"), source, options).unwrap();
    assert_eq!(progress.file_bytes(), size(&plain) + size(&packed));
    let figures = progress.figures();
    assert_eq!((figures.events_in, figures.events_out), (2_000, 2_000));
    assert_eq!(
        (figures.bytes_in, figures.bytes_out),
        (summary.bytes_in, summary.bytes_out)
    );
    assert_eq!(Source::new().with_reader("x", io::empty()).size(), None);
}
