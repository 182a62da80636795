//! Followed files whose reader is killed while they are rotated.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_testing::wait_until;

use crate::program::{Project, lookaside, run};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const KILL_COUNT: usize = 8;

/// More than the limit of open files.
const ROTATION_COUNT: usize = 100;

/// A project whose model keeps events as they are, and an empty log.
pub(crate) fn project() -> Project {
    Project::with(&[
        ("knowdb.toml", "version = 2\n"),
        (
            "models/all.oml",
            "name : all\nrule : /*\n---\n* = take() ;\n",
        ),
        ("app.log", ""),
    ])
}

fn follow(project: &Project) -> Child {
    lookaside()
        .args([
            "enrich",
            ".",
            "app.log",
            "--follow",
            "--checkpoint",
            "app.checkpoint",
        ])
        .args([
            "--format",
            "raw",
            "--output-format",
            "raw",
            "-o",
            "out.log",
            "-q",
        ])
        .current_dir(project.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Writes the log, and counts its lines.
struct Writer<'a> {
    project: &'a Project,
    line_count: usize,
    rotation_count: usize,
}

impl Writer<'_> {
    fn write(&mut self, count: usize) {
        let mut options = OpenOptions::new();
        let mut log = options
            .append(true)
            .open(self.project.file("app.log"))
            .unwrap();
        for _ in 0..count {
            // One write per line, as programs log.
            writeln!(log, "line {:08} end", self.line_count).unwrap();
            self.line_count += 1;
        }
    }

    fn rotate(&mut self, pause: Duration) {
        self.rotation_count += 1;
        let name = format!("app.log.2026-01-{:03}", self.rotation_count);
        fs::rename(self.project.file("app.log"), self.project.file(&name)).unwrap();
        // sleep: the time in which nothing has the name
        thread::sleep(pause);
        File::create_new(self.project.file("app.log")).unwrap();
    }

    fn out(&self) -> String {
        fs::read_to_string(self.project.file("out.log")).unwrap_or_default()
    }
}

/// Every line is output exactly once by a run that is killed at random moments and restarted.
#[test]
fn every_line_survives_a_run_that_is_killed() {
    let seed = fastrand::u64(..);
    writeln!(std::io::stderr(), "seed {seed}").unwrap();
    let mut rng = fastrand::Rng::with_seed(seed);
    let project = project();
    let mut writer = Writer {
        project: &project,
        line_count: 0,
        rotation_count: 0,
    };
    for kill in 0..KILL_COUNT {
        if kill > 0 && rng.u8(..3) == 0 {
            writer.write(rng.usize(..50));
            writer.rotate(Duration::ZERO);
        }
        let mut child = follow(&project);
        // A file that is renamed before the first run has opened it was never followed.
        let checkpoint = project.file("app.checkpoint");
        wait_until("the run begins", || {
            !fs::read(&checkpoint).unwrap_or_default().is_empty()
        });
        let before = writer.out().len();
        let wanted = before + rng.usize(1..200_000);
        let begun = Instant::now();
        while writer.out().len() < wanted {
            writer.write(rng.usize(..2000));
            if writer.rotation_count < ROTATION_COUNT && rng.u8(..20) == 0 {
                // Long enough that a run sometimes begins meanwhile.
                writer.rotate(Duration::from_millis(rng.u64(..20)));
            }
            if begun.elapsed() > PATIENCE || child.try_wait().unwrap().is_some() {
                let _ = child.kill();
                let output = child.wait_with_output().unwrap();
                let checkpoint = fs::read_to_string(&checkpoint).unwrap_or_default();
                panic!(
                    "the run writes nothing after {before} bytes and {} rotations: {output:?}, checkpoint {checkpoint:?}, seed {seed}",
                    writer.rotation_count,
                );
            }
            thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    writer.write(10);
    let child = follow(&project);
    finish(child, &writer);

    let expected: String = (0..writer.line_count)
        .map(|number| format!("line {number:08} end\n"))
        .collect();
    assert!(writer.out() == expected, "seed {seed}");
}

/// Waits until a run has written the last line, then ends it.
fn finish(child: Child, writer: &Writer<'_>) {
    let last = format!("line {:08} end\n", writer.line_count - 1);
    wait_until("the last line is written", || writer.out().ends_with(&last));
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
}

/// A run that begins between the two steps of a rotation continues with the renamed file.
#[test]
fn a_run_begins_while_nothing_has_the_name() {
    let project = project();
    let mut writer = Writer {
        project: &project,
        line_count: 0,
        rotation_count: 0,
    };
    writer.write(10);
    finish(follow(&project), &writer);
    writer.write(10);
    let log = project.file("app.log");
    fs::rename(&log, project.file("app.log.1")).unwrap();
    let child = follow(&project);
    wait_until("the run reads", || writer.out().lines().count() >= 20);
    File::create_new(&log).unwrap();
    writer.write(10);
    finish(child, &writer);
    let expected: String = (0..30)
        .map(|number| format!("line {number:08} end\n"))
        .collect();
    assert_eq!(writer.out(), expected);
}

#[test]
fn a_checkpoint_needs_one_followed_file() {
    let project = project();
    let folder = project.path().to_str().unwrap();
    let log = project.file("app.log");
    let log = log.to_str().unwrap();
    let checkpoint = ["--format", "raw", "--checkpoint", "x"];
    run(["enrich", folder, log].into_iter().chain(checkpoint))
        .ended(2)
        .err_has(&["--follow"]);
    // A checkpoint belongs to one file, and is not accepted for another one.
    fs::write(project.file("other.log"), "").unwrap();
    fs::write(project.file("cp"), checkpoint_of("other.log")).unwrap();
    run([
        "enrich",
        folder,
        log,
        "--format",
        "raw",
        "--follow",
        "--checkpoint",
    ]
    .into_iter()
    .chain([project.file("cp").to_str().unwrap()]))
    .ended(1)
    .err_has(&["\"other.log\"", "\"app.log\"", "remove it"]);
    run(["enrich", folder, log, log, "--follow"]
        .into_iter()
        .chain(checkpoint))
    .ended(2)
    .err_has(&["--checkpoint requires a single followed file"]);
    project.write("wrong", "not one\n");
    let wrong = project.file("wrong");
    let wrong = [
        "--format",
        "raw",
        "--follow",
        "--checkpoint",
        wrong.to_str().unwrap(),
    ];
    run(["enrich", folder, log].into_iter().chain(wrong))
        .ended(1)
        .err_has(&["is not a checkpoint"]);
    let missing = project.file("missing/cp");
    let missing = [
        "--format",
        "raw",
        "--follow",
        "--checkpoint",
        missing.to_str().unwrap(),
    ];
    run(["enrich", folder, log].into_iter().chain(missing))
        .ended(1)
        .err_has(&["missing/cp", "the folder does not exist; create it first"]);
}

fn checkpoint_of(name: &str) -> String {
    let place = "device 1 inode 2 born 3 seen 4 offset 5 line 6 read 7 head 8 tail 9";
    let outputs = "out-device 0 out-inode 0 out-born 0 out-size 0 \
                   reject-device 0 reject-inode 0 reject-born 0 reject-size 0";
    let text = format!("lookaside checkpoint 4: {place} ended 0 {outputs} file \"{name}\"");
    format!("{text:width$}\n", width = 584 + name.len() + 2 - 1)
}
