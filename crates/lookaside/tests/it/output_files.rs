//! Output files that are appended to, rotated, and continued by runs after others that were killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use lookaside_testing::wait_until;

use crate::following::project;
use crate::program::{Project, Said, lookaside};

const KILL_COUNT: usize = 5;

/// Every so many lines, one is not JSON.
const REJECT_EVERY: usize = 7;

/// A run, which is killed when the test fails.
pub(crate) struct Run(pub(crate) Option<Child>);

impl Run {
    pub(crate) fn wait_with_output(mut self) -> Output {
        let child = self.0.take().expect("it is waited for once");
        child.wait_with_output().unwrap()
    }
}

impl Deref for Run {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it was not waited for")
    }
}

impl DerefMut for Run {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it was not waited for")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a run that follows `app.log`, or reads standard input.
pub(crate) fn start(project: &Project, arguments: &[&str]) -> Run {
    let child = lookaside()
        .args(["enrich", ".", "-q"])
        .args(arguments)
        .current_dir(project.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Run(Some(child.expect("the program starts")))
}

/// The signal for a write beyond the limit.
pub(crate) const SIGXFSZ: i32 = 25;

/// The unit of `ulimit -f`, in bytes.
const ULIMIT_UNIT: u64 = 512;

/// Starts a run that the kernel kills when it writes beyond a size: after it has written the part of
/// the batch up to there.
pub(crate) fn start_limited(project: &Project, arguments: &[&str], limit: u64) -> Run {
    let program = lookaside();
    let child = Command::new("sh")
        .args([
            "-c",
            "ulimit -c 0; ulimit -f \"$1\"; shift; exec \"$@\"",
            "sh",
        ])
        .arg(limit.to_string())
        .arg(program.get_program())
        .args(["enrich", ".", "-q"])
        .args(arguments)
        .current_dir(project.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Run(Some(child.expect("the shell starts")))
}

pub(crate) const FOLLOW: [&str; 6] = [
    "app.log",
    "--follow",
    "--checkpoint",
    "app.checkpoint",
    "--format",
    "json",
];

pub(crate) fn terminate(run: Run) -> Said {
    let pid = run.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(killed.success());
    let output = run.wait_with_output();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(143), "{err}");
    Said {
        code: 143,
        out: String::new(),
        err,
    }
}

/// A log that grows, with the lines that are expected in the output and in the rejects.
pub(crate) struct Log<'a> {
    project: &'a Project,
    line_count: usize,
    pub(crate) output: String,
    rejects: String,
}

impl<'a> Log<'a> {
    pub(crate) fn new(project: &'a Project) -> Self {
        Self {
            project,
            line_count: 0,
            output: String::new(),
            rejects: String::new(),
        }
    }

    pub(crate) fn write(&mut self, count: usize) {
        let mut lines = String::new();
        for _ in 0..count {
            let number = self.line_count;
            self.line_count += 1;
            let (line, expected) = match number % REJECT_EVERY {
                0 => (format!("bad {number}\n"), &mut self.rejects),
                _ => (format!("{{\"n\":{number}}}\n"), &mut self.output),
            };
            lines.push_str(&line);
            expected.push_str(&line);
        }
        let path = self.project.file("app.log");
        let mut log = OpenOptions::new().append(true).open(path).unwrap();
        log.write_all(lines.as_bytes()).unwrap();
    }
}

/// The rotated files of a name, the oldest first, and the file with the name.
fn files_of(project: &Project, stem: &str, suffixes: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(project.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(rest) = name
            .strip_prefix(stem)
            .and_then(|rest| rest.strip_suffix(suffixes))
        else {
            continue;
        };
        // The file itself comes last.
        let order = match rest.strip_prefix('-').map(|rest| rest.split_once('-')) {
            None => ("~".to_owned(), 0),
            Some(None) => (rest[1..].to_owned(), 0),
            Some(Some((stamp, count))) => (stamp.to_owned(), count.parse::<u32>().unwrap()),
        };
        found.push((order, project.file(&name)));
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The lines of files, decompressed by the program.
fn lines_of(project: &Project, files: &[PathBuf]) -> String {
    let mut command = lookaside();
    command.args([
        "enrich",
        ".",
        "-q",
        "--format",
        "raw",
        "--output-format",
        "raw",
    ]);
    command.args(["--workers", "1", "--"]);
    let output = command.args(files).current_dir(project.path()).output();
    let said = Said::from(output.unwrap()).ended(0);
    said.out
}

/// The bytes of these files on the disk.
fn size_of(files: &[PathBuf]) -> u64 {
    files
        .iter()
        .map(|path| fs::metadata(path).map_or(0, |it| it.len()))
        .sum()
}

/// Runs are killed at random moments while the log grows. In the end, each line is in the output, or
/// among the rejects, exactly once and in order.
fn check_killed(suffixes: &str, more: &[&str]) {
    let seed = fastrand::u64(..);
    let _ = writeln!(io::stderr(), "seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let project = project();
    let mut log = Log::new(&project);
    let output = format!("out{suffixes}");
    let reject = format!("bad{suffixes}");
    let mut arguments = FOLLOW.to_vec();
    arguments.extend(["-o", &output, "--reject", &reject]);
    arguments.extend(more);
    let written = || {
        size_of(&files_of(&project, "out", suffixes))
            + size_of(&files_of(&project, "bad", suffixes))
    };
    for _ in 0..KILL_COUNT {
        let mut child = start(&project, &arguments);
        let wanted = written() + rng.u64(1..60_000);
        wait_until("the run writes", || {
            log.write(rng.usize(..2000));
            if child.try_wait().unwrap().is_some() {
                let said = child.stderr.take().map(io::read_to_string);
                panic!("the run has ended: {said:?}");
            }
            written() >= wanted
        });
        child.kill().unwrap();
        child.wait().unwrap();

        // Above the size of the checkpoint, below that of a block; a file that rotates begins anew.
        let size = match more {
            [] => fs::metadata(project.file(&output)).map_or(0, |it| it.len()),
            _ => 0,
        };
        let limit = size / ULIMIT_UNIT + rng.u64(2..6);
        log.write(20_000);
        let mut child = start_limited(&project, &arguments, limit);
        wait_until("the run is killed within a write", || {
            child.try_wait().unwrap().is_some()
        });
        let status = child.wait().unwrap();
        let said = child.stderr.take().map(io::read_to_string);
        assert_eq!(status.signal(), Some(SIGXFSZ), "{said:?}, seed {seed}");
    }
    log.write(REJECT_EVERY + 1);
    let child = start(&project, &arguments);
    let read = || fs::read_to_string(project.file("app.checkpoint")).unwrap_or_default();
    let end = fs::metadata(project.file("app.log")).unwrap().len();
    wait_until("all is read", || {
        read().contains(&format!(" offset {end} "))
    });
    terminate(child);
    for (stem, expected) in [("out", &log.output), ("bad", &log.rejects)] {
        let found = lines_of(&project, &files_of(&project, stem, suffixes));
        assert!(
            found == *expected,
            "{stem}{suffixes}: {}",
            difference(&found, expected)
        );
    }
}

/// Where two texts differ first.
fn difference(found: &str, expected: &str) -> String {
    let mut lines = found.lines().zip(expected.lines()).enumerate();
    match lines.find(|(_, (found, expected))| found != expected) {
        Some((number, (found, expected))) => {
            format!("line {number} is {found:?}, not {expected:?}")
        }
        None => format!("{} bytes, not {}", found.len(), expected.len()),
    }
}

#[test]
fn killed_runs_write_each_line_once() {
    check_killed(".json", &[]);
}

#[test]
fn killed_runs_write_each_line_once_to_gzip() {
    check_killed(".json.gz", &[]);
}

#[test]
fn killed_runs_write_each_line_once_to_zstd() {
    check_killed(".json.zst", &[]);
}

#[test]
fn killed_runs_that_rotate_write_each_line_once() {
    check_killed(".json", &["--rotate-size", "5KiB"]);
}

#[test]
fn killed_runs_that_rotate_compressed_files_write_each_line_once() {
    check_killed(
        ".json.gz",
        &["--rotate-size", "4KiB", "--rotate-every", "1s"],
    );
    check_killed(".json.zst", &["--rotate-size", "4KiB"]);
}

/// Another run follows the file while it is rotated, by size.
#[test]
fn another_run_follows_rotated_output() {
    let project = project();
    let mut log = Log::new(&project);
    let mut arguments = FOLLOW.to_vec();
    arguments.extend(["-o", "out.json", "--rotate-size", "2KiB"]);
    let first = start(&project, &arguments);
    wait_until("the output exists", || project.file("out.json").exists());
    let second = [
        "out.json",
        "--follow",
        "--checkpoint",
        "out.checkpoint",
        "--format",
        "json",
        "-o",
        "copy.json",
    ];
    let follower = start(&project, &second);
    wait_until("it follows", || {
        fs::read(project.file("out.checkpoint")).is_ok_and(|bytes| !bytes.is_empty())
    });
    let mut follower = Some(follower);
    for round in 0..20 {
        log.write(100);
        let size = fs::metadata(project.file("app.log")).unwrap().len();
        wait_until("the lines are read", || {
            project
                .read("app.checkpoint")
                .contains(&format!(" offset {size} "))
        });
        if round == 10 {
            // The follower pauses, while the file is rotated several times.
            terminate(follower.take().unwrap());
        }
        if round == 15 {
            follower = Some(start(&project, &second));
        }
    }
    let files = files_of(&project, "out", ".json");
    assert!(files.len() > 5, "{files:?}");
    wait_until("all is copied", || {
        fs::metadata(project.file("copy.json")).is_ok_and(|it| it.len() >= log.output.len() as u64)
    });
    terminate(follower.unwrap());
    terminate(first);
    assert!(project.read("copy.json") == log.output);
    assert!(lines_of(&project, &files) == log.output);
}

/// At its times, a file is rotated while no events arrive; an empty one is not.
#[test]
fn a_file_is_rotated_while_nothing_arrives() {
    let project = project();
    let arguments = [
        "-",
        "--format",
        "csv",
        "-o",
        "out.csv",
        "--rotate-every",
        "1s",
        "--reject",
        "bad.csv",
    ];
    let mut child = start(&project, &arguments);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"a,b\n1,2\n").unwrap();
    let files = || files_of(&project, "out", ".csv");
    wait_until("the file is rotated", || files().len() == 2);
    assert_eq!(fs::read_to_string(&files()[0]).unwrap(), "a,b\n1,2\n");
    assert_eq!(project.read("out.csv"), "");
    // sleep: the empty file would be rotated meanwhile
    thread::sleep(Duration::from_millis(2100));
    assert_eq!(files().len(), 2);
    stdin.write_all(b"3,4\n5,6,7\n").unwrap();
    wait_until("the next file is rotated", || files().len() == 3);
    wait_until("rejects are rotated", || {
        files_of(&project, "bad", ".csv").len() == 2
    });
    drop(stdin);
    let output = child.wait_with_output();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&files()[1]).unwrap(), "a,b\n3,4\n");
    assert_eq!(project.read("out.csv"), "");
}

/// Neither a header nor an empty compressed block is an event, also of an earlier run.
#[test]
fn a_file_without_events_is_not_rotated() {
    let project = project();
    project.write("out.csv", "a,b\n");
    for output in ["out.csv", "out.csv.gz", "out.csv.zst"] {
        let arguments = [
            "-",
            "--format",
            "csv",
            "-o",
            output,
            "--output-option",
            "columns=a,b",
            "--rotate-size",
            "1",
        ];
        run(&project, &arguments, "").ended(0);
        run(&project, &arguments, "a,b\n1,2\n").ended(0);
        let suffixes = output.strip_prefix("out").unwrap();
        let files = files_of(&project, "out", suffixes);
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(lines_of(&project, &files), "a,b\n1,2\n");
        run(&project, &arguments, "a,b\n3,4\n").ended(0);
        let files = files_of(&project, "out", suffixes);
        assert_eq!(files.len(), 2, "{files:?}");
        assert_eq!(lines_of(&project, &files), "a,b\n1,2\na,b\n3,4\n");
    }
}

#[test]
fn only_so_many_rotated_files_are_kept() {
    let project = project();
    for name in [
        "out-20200101T000000Z.json",
        "out-20200101T000000Z-1.json",
        "out-2020.json",
    ] {
        project.write(name, "old\n");
    }
    let mut log = Log::new(&project);
    let mut arguments = FOLLOW.to_vec();
    arguments.extend([
        "-o",
        "out.json",
        "--rotate-size",
        "100",
        "--rotate-keep",
        "3",
    ]);
    let child = start(&project, &arguments);
    for _ in 0..8 {
        log.write(7);
        let size = fs::metadata(project.file("app.log")).unwrap().len();
        wait_until("the lines are read", || {
            fs::read_to_string(project.file("app.checkpoint"))
                .is_ok_and(|text| text.contains(&format!(" offset {size} ")))
        });
    }
    terminate(child);
    let files = files_of(&project, "out", ".json");
    // `out-2020.json` has another form.
    assert_eq!(files.len(), 5, "{files:?}");
    assert!(project.file("out-2020.json").exists());
    assert!(!project.file("out-20200101T000000Z-1.json").exists());
    let kept = lines_of(&project, &files[1..]);
    assert!(
        log.output.ends_with(&kept) && kept.lines().count() == 24,
        "{kept}"
    );
}

/// Nor are files removed that the run reads or writes, whatever their names.
#[test]
fn files_in_use_are_not_removed_as_rotated_ones() {
    let project = project();
    let [input, reject, named] = [2, 3, 4].map(|day| format!("out-2020010{day}T000000Z.json"));
    let other = "out-20209901T000000Z.json";
    for name in [&input, "out-20200101T000000Z.json", other] {
        project.write(name, "");
    }
    let output = format!("a={named}");
    let arguments = [
        &input,
        "--follow",
        "--format",
        "json",
        "-o",
        "out.json",
        "--reject",
        &reject,
        "--named-output",
        &output,
        "--rotate-size",
        "10",
        "--rotate-keep",
        "1",
    ];
    let mut child = start(&project, &arguments);
    let mut number = 0;
    wait_until("the oldest file is removed", || {
        number += 1;
        append(&project, &input, &format!("{{\"n\":{number}}}\n"));
        assert!(child.try_wait().unwrap().is_none());
        !project.file("out-20200101T000000Z.json").exists()
    });
    terminate(child);
    for name in [&input, &reject, &named, other] {
        assert!(project.file(name).exists(), "{name}");
    }
    // The one that is kept, and the one that is written.
    assert_eq!(files_of(&project, "out", ".json").len(), 6);
}

/// Runs without a checkpoint, killed within a line.
#[test]
fn an_incomplete_line_of_a_killed_run_is_cut_off() {
    let project = project();
    let arguments = ["-", "--format", "json", "-o", "out.json"];
    let before = format!("{{\"n\":\"{}\"}}\n", "x".repeat(490));
    project.write("out.json", &before);
    let size = ULIMIT_UNIT as usize - before.len();
    let mut child = start_limited(&project, &arguments, 1);
    let mut stdin = child.stdin.take().unwrap();
    let line = format!("{{\"n\":\"{}\"}}\n", "y".repeat(size));
    stdin.write_all(line.as_bytes()).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(SIGXFSZ));
    assert_eq!(project.read("out.json"), before.clone() + &line[..size]);
    let said = run(&project, &arguments, "{\"n\":3}\n").ended(0);
    let cut =
        format!("an incomplete record of {size} bytes is cut off the end of output `out.json`");
    said.err_has(&[&cut]);
    let expected = before + "{\"n\":3}\n";
    assert_eq!(project.read("out.json"), expected);
    // That run has ended, so that this is not its line.
    append(&project, "out.json", "{\"n\":4}");
    let said = run(&project, &arguments, "{\"n\":5}\n").ended(0);
    said.err_has(&["output `out.json` does not end with a line end; one is added"]);
    let expected = expected + "{\"n\":4}\n{\"n\":5}\n";
    assert_eq!(project.read("out.json"), expected);
}

/// The same in the middle of a write, for each kind of file: each record that is left is whole, also
/// one of several lines.
#[test]
fn an_incomplete_batch_of_a_killed_run_is_cut_off() {
    let events: String = (0..20_000)
        .map(|number| format!("{{\"n\":{number},\"text\":\"a\\nb, \\\"c\\\" {number}\\nd\"}}\n"))
        .collect();
    let last = "{\"n\":-1,\"text\":\"the last\"}\n";
    for (suffixes, format) in [
        (".json", "json"),
        (".csv", "csv"),
        (".json.gz", "json"),
        (".csv.zst", "csv"),
    ] {
        let project = project();
        let output = format!("out{suffixes}");
        let arguments = ["-", "--format", "json", "-o", &output, "--workers", "1"];
        let file = [project.file(&output)];
        run(&project, &arguments, &events).ended(0);
        let expected = lines_of(&project, &file);
        fs::remove_file(&file[0]).unwrap();

        // Within the first batch, and within a later one, if there is one.
        let size = 128 << 10;
        for limit in [3, size / ULIMIT_UNIT + 3] {
            let mut child = start_limited(&project, &arguments, limit);
            let mut stdin = child.stdin.take().unwrap();
            // It does not read all of it when it is killed.
            let _ = stdin.write_all(events.as_bytes());
            drop(stdin);
            let status = child.wait().unwrap();
            let was_cut = status.signal() == Some(SIGXFSZ);
            assert!(was_cut || (limit > 3 && status.success()), "{status}");
            let said = run(&project, &arguments, last).ended(0);
            if was_cut {
                said.err_has(&["is cut off the end of output"]);
            }
            let found = lines_of(&project, &file);
            let (kept, end) = found.split_at(found.rfind("the last").unwrap());
            assert!(end.lines().count() == 1, "{end}");
            let same = kept.bytes().zip(expected.bytes());
            let same = same.take_while(|(one, other)| one == other).count();
            // What differs is the last record alone.
            assert!(kept.len() - same < 30, "{:?}", &kept[same..]);
            let whole = [
                "enrich", ".", &output, "--format", format, "--strict", "-o", "null",
            ];
            project.run(&whole).ended(0);
            fs::remove_file(&file[0]).unwrap();
        }
    }
}

pub(crate) fn append(project: &Project, name: &str, text: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(project.file(name))
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// A run that reads standard input to its end.
pub(crate) fn run(project: &Project, arguments: &[&str], input: &str) -> Said {
    let mut child = start(project, arguments);
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().into()
}

#[test]
fn a_checkpoint_finds_its_output_or_says_what_to_do() {
    let project = project();
    let mut log = Log::new(&project);
    let mut arguments = FOLLOW.to_vec();
    arguments.extend(["-o", "out.json"]);
    let pass = |size: usize| {
        let mut child = start(&project, &arguments);
        wait_until("the run writes or ends", || {
            let found = fs::metadata(project.file("out.json")).map_or(0, |it| it.len());
            found == size as u64 || child.try_wait().unwrap().is_some()
        });
        match child.try_wait().unwrap() {
            Some(_) => Said::from(child.wait_with_output()),
            None => terminate(child),
        }
    };
    log.write(10);
    pass(log.output.len()).ended(143);
    let whole = log.output.len();
    log.write(10);

    // Truncated, as by `> out.json`.
    let file = OpenOptions::new()
        .write(true)
        .open(project.file("out.json"))
        .unwrap();
    file.set_len(20).unwrap();
    let said = pass(log.output.len()).ended(1);
    said.err_has(&[
        "output `out.json` has 20 bytes, and",
        "`app.checkpoint`",
        "remove the checkpoint",
    ]);
    // Moved away, as the message says, in a copy of the folder's state.
    let checkpoint = project.read("app.checkpoint");
    fs::rename(project.file("out.json"), project.file("short")).unwrap();
    let said = pass(log.output.len() - whole).ended(143);
    said.err_has(&["output `out.json` begins anew; `./short` has 20 bytes"]);
    assert_eq!(project.read("out.json"), log.output[whole..]);
    fs::rename(project.file("short"), project.file("out.json")).unwrap();
    // As a killed run leaves it.
    assert!(checkpoint.contains(" ended 1 "), "{checkpoint}");
    project.write(
        "app.checkpoint",
        &checkpoint.replace(" ended 1 ", " ended 0 "),
    );
    file.set_len(0).unwrap();
    (&file).write_all(&log.output.as_bytes()[..whole]).unwrap();

    // Replaced by another file.
    fs::rename(project.file("out.json"), project.file("moved")).unwrap();
    project.write("out.json", "other\n");
    let said = pass(log.output.len()).ended(1);
    said.err_has(&["output `out.json` is not the file", "move it away"]);
    assert_eq!(project.read("out.json"), "other\n");

    // Moved away: it is still found in the folder, and what follows begins a new file.
    fs::remove_file(project.file("out.json")).unwrap();
    append(&project, "moved", "{\"n\":"); // after the checkpoint
    let said = pass(log.output.len() - whole).ended(143);
    said.err_has(&["bytes are cut off the end of output `./moved`"]);
    assert_eq!(
        project.read("moved") + &project.read("out.json"),
        log.output
    );

    // Removed.
    fs::remove_file(project.file("out.json")).unwrap();
    let before = log.output.len();
    log.write(10);
    let said = pass(log.output.len() - before).ended(143);
    said.err_has(&["output `out.json` begins anew"]);
    assert_eq!(project.read("out.json"), log.output[before..]);
}

#[test]
fn two_runs_write_one_file_only_without_checkpoint_and_rotation() {
    let project = project();
    let arguments = ["-", "--format", "json", "-o", "out.json"];
    let mut first = start(&project, &arguments);
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(b"{\"n\":1}\n").unwrap();
    wait_until("the first run writes", || {
        project.file("out.json").exists() && project.read("out.json").ends_with('\n')
    });
    run(&project, &arguments, "{\"n\":2}\n").ended(0);
    let rotating = [&arguments[..], &["--rotate-every", "1h"]].concat();
    let said = run(&project, &rotating, "{\"n\":3}\n").ended(1);
    said.err_has(&["output `out.json` is written by another run"]);
    stdin.write_all(b"{\"n\":4}\n").unwrap();
    drop(stdin);
    assert!(first.wait().unwrap().success());
    assert_eq!(
        project.read("out.json"),
        "{\"n\":1}\n{\"n\":2}\n{\"n\":4}\n"
    );
}

#[test]
fn what_cannot_be_rotated_says_why() {
    let project = project();
    let rotating = |arguments: &[&str]| {
        run(
            &project,
            &[arguments, &["--rotate-size", "1MiB"]].concat(),
            "",
        )
    };
    let json = ["-", "--format", "json"];
    for output in ["-", "null"] {
        let said = rotating(&[&json[..], &["-o", output]].concat()).ended(1);
        said.err_has(&["cannot be rotated: only a file can be"]);
    }
    rotating(&["app.log", "--format", "json", "-o", "out.json"])
        .ended(1)
        .err_has(&["output `out.json` cannot be rotated: its input ends"]);
    assert!(!project.file("out.json").exists());
    run(&project, &[&json[..], &["--rotate-keep", "3"]].concat(), "")
        .ended(2)
        .err_has(&["add --rotate-size or --rotate-every"]);
    run(
        &project,
        &[&json[..], &["--rotate-every", "1"]].concat(),
        "",
    )
    .ended(2)
    .err_has(&["such as 1h"]);
    // A setting of the project does not apply to other outputs.
    project.write(
        "knowdb.toml",
        "version = 2\n[enrich]\noutput = 'out.json'\nrotate_size = '1MiB'\n",
    );
    run(&project, &[&json[..], &["-o", "-"]].concat(), "{\"n\":1}\n")
        .ended(0)
        .out_has(&["{\"n\":1}\n"]);
    run(&project, &json, "{\"n\":1}\n").ended(0);
    assert_eq!(project.read("out.json"), "{\"n\":1}\n");
    project.write(
        "knowdb.toml",
        "version = 2\n[enrich]\nrotate_size = '1MiB'\n",
    );
    let said = project.run(&["check", "."]).ended(1);
    said.err_has(&["knowdb.toml:3: output - cannot be rotated"]);
}

/// The next file has the permissions of the rotated one.
#[test]
fn the_next_file_has_the_same_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = project();
    File::create(project.file("out.json")).unwrap();
    fs::set_permissions(project.file("out.json"), fs::Permissions::from_mode(0o640)).unwrap();
    let flags = [
        "-",
        "--format",
        "json",
        "-o",
        "out.json",
        "--rotate-size",
        "1",
    ];
    for event in ["{\"n\":1}\n", "{\"n\":2}\n"] {
        run(&project, &flags, event).ended(0);
    }
    let files = files_of(&project, "out", ".json");
    assert_eq!(files.len(), 2);
    let modes = files
        .iter()
        .map(|path| fs::metadata(path).unwrap().mode() & 0o777);
    assert_eq!(modes.collect::<Vec<_>>(), [0o640; 2]);
}
