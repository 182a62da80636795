//! Runs that end in the middle of a step, as if they were killed there: the next ones write each
//! record exactly once, into files that rotate.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use super::*;
use crate::content::content;
use crate::file_identity::FilePosition;
use crate::sink::{Begin, SinkTarget};
use crate::{Compression, Extent, FormatOptions, Rotation, rotated_name};

/// Where within a step a run is killed.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Before,
    /// After a part of the bytes, or after the renaming of a rotation.
    Within,
    After,
}

/// The step at which a run is killed.
struct Kill {
    steps: AtomicUsize,
    at: usize,
    cut: Cut,
}

/// A file that ends the run at a step, in the state that a killed process leaves.
struct Killed {
    inner: Box<dyn SinkTarget>,
    path: PathBuf,
    kill: Arc<Kill>,
}

impl Killed {
    fn step(&self, step: &mut dyn FnMut(Option<Cut>) -> io::Result<()>) -> io::Result<()> {
        if self.kill.steps.fetch_add(1, Ordering::Relaxed) != self.kill.at {
            return step(None);
        }
        match self.kill.cut {
            Cut::Before => {}
            cut => step(Some(cut))?,
        }
        Err(io::Error::other("killed"))
    }
}

impl SinkTarget for Killed {
    fn begin(&mut self, begin: &Begin<'_>) -> Result<()> {
        self.inner.begin(begin)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.clone();
        let mut inner = std::mem::replace(&mut self.inner, Box::new(Gone));
        let written = self.step(&mut |cut| match cut {
            Some(Cut::Within) => {
                let mut file = OpenOptions::new().append(true).open(&path)?;
                file.write_all(&bytes[..bytes.len() / 2])
            }
            _ => inner.write(bytes),
        });
        self.inner = inner;
        written
    }

    fn set_header(&mut self, header: &[u8]) {
        self.inner.set_header(header);
    }

    fn set_without_events(&mut self) {
        self.inner.set_without_events();
    }

    fn first_bytes(&self) -> io::Result<Option<Vec<u8>>> {
        self.inner.first_bytes()
    }

    fn position(&self) -> Option<FilePosition> {
        self.inner.position()
    }

    fn set_rotation(&mut self, rotation: Rotation) {
        self.inner.set_rotation(rotation);
    }

    fn is_rotation_due(&self, size: usize, now: SystemTime) -> bool {
        self.inner.is_rotation_due(size, now)
    }

    fn rotate(&mut self, now: SystemTime) -> io::Result<()> {
        let path = self.path.clone();
        let mut inner = std::mem::replace(&mut self.inner, Box::new(Gone));
        let rotated = self.step(&mut |cut| {
            inner.rotate(now)?;
            match cut {
                // Before the next file was created.
                Some(Cut::Within) => fs::remove_file(&path),
                _ => Ok(()),
            }
        });
        self.inner = inner;
        rotated
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.inner.finish()
    }
}

/// In place of a target that is being called.
struct Gone;

impl SinkTarget for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        unreachable!("a target is not called within a call")
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        unreachable!("a target is not finished within a call")
    }
}

/// A followed log, and the outputs of its runs.
struct Model {
    folder: tempfile::TempDir,
    suffix: &'static str,
    format: &'static str,
    output: Vec<u8>,
    rejects: Vec<u8>,
    line_count: u64,
}

impl Model {
    fn new(suffix: &'static str, format: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("app.log")).unwrap();
        Self {
            folder,
            suffix,
            format,
            output: Vec::new(),
            rejects: Vec::new(),
            line_count: 0,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&mut self, count: u64) {
        let mut log = Vec::new();
        for _ in 0..count {
            self.line_count += 1;
            let mut line = format!("line {}\n", self.line_count).into_bytes();
            if self.line_count.is_multiple_of(11) {
                // No run could continue within the skipped part, so it has no position.
                line.splice(0..0, [b'x'; 3000]);
                self.rejects.push(b'\n');
            } else if self.line_count.is_multiple_of(5) {
                line[0] = 0xff;
                self.rejects.extend_from_slice(&line);
            } else {
                self.output.extend_from_slice(&line);
            }
            log.extend_from_slice(&line);
        }
        let file = OpenOptions::new().append(true).open(self.file("app.log"));
        file.unwrap().write_all(&log).unwrap();
    }

    /// Runs from the checkpoint to the end of the log, or until it is killed; returns whether it was.
    fn run(&self, kill: Kill, rotation: Rotation) -> (bool, usize) {
        let kill = Arc::new(kill);
        let checkpoint = Checkpoint::open(&self.file("cp"), &self.file("app.log")).unwrap();
        let text = fs::read_to_string(self.file("cp")).unwrap();
        let line = text.split_once(" line ").map_or("1", |(_, rest)| {
            rest.split_once(' ').map_or("", |(line, _)| line)
        });
        let Some(left) = NonZero::new(self.line_count + 1 - line.parse::<u64>().unwrap()) else {
            return (false, 0);
        };
        let source = Source::new().with_followed_from(self.file("app.log"), checkpoint.mark());
        let sink = |name: &str| {
            let path = self.file(&format!("{name}{}", self.suffix));
            let sink = Sink::file(&path, Extent::Endless).unwrap();
            let sink = sink.rotating(rotation).unwrap();
            let kill = Arc::clone(&kill);
            sink.wrapped(|inner| Box::new(Killed { inner, path, kill }))
        };
        let options = RunOptions {
            block_size: NonZero::new(60),
            event_limit: Some(left),
            rejects: Some(sink("bad")),
            checkpoint: Some(checkpoint),
            ..RunOptions::default()
        };
        let none = FormatOptions::new();
        let flow = Flow::new(
            InputFormat::new("raw", &FormatOptions::new().set("line_size_max", "100")).unwrap(),
            OutputFormat::new(self.format, &none).unwrap(),
        );
        let run = flow.run(source.unwrap(), vec![Identity; 2], sink("out"), options);
        if let Err(error) = &run {
            let source = std::error::Error::source(error).map(ToString::to_string);
            assert_eq!(source.as_deref(), Some("killed"), "{error}");
        }
        (run.is_err(), kill.steps.load(Ordering::Relaxed))
    }

    /// The content of the rotated files, the oldest first, and of the file itself.
    fn content(&self, name: &str) -> (Vec<u8>, usize) {
        let own = self.file(&format!("{name}{}", self.suffix));
        let own_name = own.file_name().unwrap().as_bytes();
        let mut rotated: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter_map(|path| {
                let name = rotated_name::parse(own_name, path.file_name().unwrap().as_bytes())?;
                Some((name, path))
            })
            .collect();
        rotated.sort();
        let count = rotated.len();
        let files = rotated.into_iter().map(|(_, path)| path).chain([own]);
        let mut all = Vec::new();
        for path in files {
            let bytes = read(&path);
            match self.format {
                "csv" if name == "out" && !bytes.is_empty() => {
                    all.extend_from_slice(bytes.strip_prefix(b"raw\n").expect("a header"));
                }
                _ => all.extend_from_slice(&bytes),
            }
        }
        (all, count)
    }

    fn check(&self, why: &str) -> usize {
        let (output, count) = self.content("out");
        let text = String::from_utf8_lossy(&output);
        assert_eq!(text, String::from_utf8_lossy(&self.output), "{why}");
        let (mut rejects, _) = self.content("bad");
        // Only the beginning of a long line is kept.
        rejects.retain(|byte| *byte != b'x');
        let text = String::from_utf8_lossy(&rejects);
        assert_eq!(text, String::from_utf8_lossy(&self.rejects), "{why}");
        count
    }
}

fn read(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let mut content = content(file, Compression::of_path(path), &Progress::new()).unwrap();
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Never.
fn no_kill() -> Kill {
    Kill {
        steps: AtomicUsize::new(0),
        at: usize::MAX,
        cut: Cut::Before,
    }
}

const KINDS: [(&str, &str); 4] = [
    (".log", "raw"),
    (".csv", "csv"),
    (".csv.gz", "csv"),
    (".log.zst", "raw"),
];

fn rotation(size: u64) -> Rotation {
    Rotation {
        size: NonZero::new(size),
        ..Rotation::default()
    }
}

#[test]
fn a_run_that_is_killed_at_any_step_is_continued() {
    for (suffix, format) in KINDS {
        for cut in [Cut::Before, Cut::Within, Cut::After] {
            for at in 0.. {
                let mut model = Model::new(suffix, format);
                model.append(60);
                let steps = AtomicUsize::new(0);
                let (was_killed, _) = model.run(Kill { steps, at, cut }, rotation(100));
                model.run(no_kill(), rotation(100));
                let rotated = model.check(&format!("{suffix} killed {cut:?} step {at}"));
                assert!(rotated > 1, "{rotated}");
                if !was_killed {
                    assert!(at > 10, "{at} steps");
                    break;
                }
            }
        }
    }
}

#[test]
fn runs_that_are_killed_at_random_steps_write_each_record_once() {
    let seed = fastrand::u64(..);
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let (suffix, format) = KINDS[rng.usize(..KINDS.len())];
        let mut model = Model::new(suffix, format);
        for _ in 0..rng.usize(1..12) {
            model.append(rng.u64(..40));
            let kill = Kill {
                steps: AtomicUsize::new(0),
                at: rng.usize(..40),
                cut: [Cut::Before, Cut::Within, Cut::After][rng.usize(..3)],
            };
            model.run(kill, rotation(rng.u64(1..400)));
        }
        model.append(1);
        model.run(no_kill(), rotation(rng.u64(1..400)));
        model.check(&format!("seed {seed}, round {round}"));
    }
}
