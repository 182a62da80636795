//! Followed files across runs, renames and truncations.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::num::NonZero;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lookaside_stream::{Checkpoint, End, Flow, RunOptions, Source, Summary};
use tempfile::TempDir;

use crate::endless::Live;
use crate::flow;

/// A folder with a log that runs follow.
struct Log {
    folder: TempDir,
    flow: Flow,
}

impl Log {
    fn new(text: &str) -> Self {
        Self::with_flow(text, flow("raw", "raw"))
    }

    fn with_flow(text: &str, flow: Flow) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = Self { folder, flow };
        fs::write(log.path(), text).unwrap();
        log
    }

    fn path(&self) -> PathBuf {
        self.file("app.log")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, text: &str) {
        append(&self.path(), text);
    }

    /// Renames the log and begins another.
    fn rotate(&self, name: &str, text: &str) {
        fs::rename(self.path(), self.file(name)).unwrap();
        File::create_new(self.path()).unwrap();
        self.append(text);
    }

    /// Starts a run that continues where the last one ended.
    fn follow(&self) -> Live {
        let checkpoint = Checkpoint::open(&self.file("checkpoint"), &self.path()).unwrap();
        let source = Source::new().with_followed_from(self.path(), checkpoint.mark());
        let options = RunOptions {
            checkpoint: Some(checkpoint),
            ..RunOptions::default()
        };
        Live::start_with_options(source.unwrap(), self.flow.clone(), options)
    }

    /// Checks that a run returns exactly these lines.
    fn check(&self, expected: &[&str]) -> Summary {
        let mut live = self.follow();
        live.expect(expected);
        let (rest, summary) = live.stop();
        assert!(rest.is_empty(), "{rest:?}");
        summary
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn skip(why: &str) {
    let _ = writeln!(io::stderr(), "SKIP {why}");
}

#[test]
fn the_next_run_goes_on_behind_what_was_written() {
    let log = Log::new("one\ntwo\nthr");
    log.check(&["one", "two"]);
    log.append("ee\nfour\n");
    log.check(&["three", "four"]);
    let mut live = log.follow();
    log.append("five\n");
    live.expect(&["five"]);
    let summary = live.stop().1;
    assert_eq!((summary.truncations, summary.bytes_unread), (0, 0));
    let text = fs::read_to_string(log.file("checkpoint")).unwrap();
    assert!(text.contains(" offset 24 line 6 read 24 "), "{text}");
}

#[test]
fn a_file_that_was_renamed_between_two_runs_is_read_to_its_end() {
    let log = Log::new("1\n2\n");
    log.check(&["1", "2"]);
    log.append("3\n");
    log.rotate("app.log.1", "4\n");
    log.check(&["3", "4"]);
    // Twice, so that there is a file in between that no run has seen.
    log.append("5\n");
    fs::rename(log.file("app.log.1"), log.file("app.log.2")).unwrap();
    log.rotate("app.log.1", "6\n");
    fs::rename(log.file("app.log.2"), log.file("app.log.3")).unwrap();
    fs::rename(log.file("app.log.1"), log.file("app.log.2")).unwrap();
    log.rotate("app.log.1", "7\n");
    let summary = log.check(&["5", "6", "7"]);
    assert_eq!(summary.truncations, 0);
}

#[test]
fn renames_between_two_looks_lose_nothing() {
    let log = Log::new("1\n");
    let mut live = log.follow();
    live.expect(&["1"]);
    for round in 0..2 {
        log.append(&format!("a{round}\n"));
        log.rotate(&format!("app.log.2026-01-{round}1"), &format!("b{round}\n"));
        log.rotate(&format!("app.log.2026-01-{round}2"), &format!("c{round}\n"));
        log.rotate(&format!("app.log.2026-01-{round}3"), &format!("d{round}\n"));
        for letter in ["a", "b", "c", "d"] {
            live.expect(&[&format!("{letter}{round}")]);
        }
    }
    let (rest, summary) = live.stop();
    assert_eq!((rest, summary.events_out), (Vec::<String>::new(), 9));
    log.append("end\n");
    log.check(&["end"]);
}

#[test]
fn a_truncated_file_is_read_from_its_beginning() {
    let log = Log::new(&"old line\n".repeat(10));
    let mut live = log.follow();
    live.expect(&["old line"; 10]);
    fs::write(log.path(), "new\n").unwrap();
    live.expect(&["new"]);
    // It grows beyond the read position before it is checked.
    let longer: Vec<String> = (0..50).map(|line| format!("line {line}")).collect();
    fs::write(log.path(), longer.join("\n") + "\n").unwrap();
    for line in &longer {
        live.expect(&[line]);
    }
    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(summary.truncations, 2);
    // Also between two runs, and removed.
    fs::write(log.path(), "short\n").unwrap();
    assert_eq!(log.check(&["short"]).truncations, 1);
    fs::remove_file(log.path()).unwrap();
    // Another file replaces the removed one at the path, with another inode.
    let holder = File::create(log.file("holder")).unwrap();
    fs::write(log.path(), "another\n").unwrap();
    log.check(&["another"]);
    drop(holder);
}

#[test]
fn a_header_is_read_again_by_the_next_run() {
    let log = Log::with_flow("a,b\n1,2\n", flow("csv", "json"));
    log.check(&[r#"{"a":"1","b":"2"}"#]);
    log.append("3,4\n5\n6,7\n");
    let summary = log.check(&[r#"{"a":"3","b":"4"}"#, r#"{"a":"6","b":"7"}"#]);
    assert_eq!(summary.rejects.first()[0].line, 4);
}

/// As `copytruncate` does: the same file with other content.
#[test]
fn a_file_that_was_truncated_between_two_runs_and_grew_again_is_read_from_its_start() {
    let old = "old line\n".repeat(10);
    // Shorter than what was read, equally long, longer; and with the same end after another
    // beginning.
    for new in [
        "new\n".repeat(10),
        "new line\n".repeat(10),
        "new line\n".repeat(1000),
        "new line\n".repeat(1000) + &old,
        format!("x{}", &old[1..]),
        format!("{}x\n", &old[..old.len() - 2]),
    ] {
        let log = Log::new(&old);
        log.check(&["old line"; 10]);
        let file = OpenOptions::new().write(true).open(log.path()).unwrap();
        file.set_len(0).unwrap();
        log.append(&new);
        let expected: Vec<&str> = new.lines().collect();
        let summary = log.check(&expected);
        assert_eq!(summary.truncations, 1, "{new:.20}");
        assert_eq!(log.check(&[]).truncations, 0);
    }
}

/// The beginning of an incomplete line was read, and is compared too.
#[test]
fn a_part_of_a_line_is_part_of_what_a_checkpoint_compares() {
    let log = Log::new("one\nbegin");
    log.check(&["one"]);
    log.append(" and end\n");
    assert_eq!(log.check(&["begin and end"]).truncations, 0);
    log.append("two\nbegin");
    log.check(&["two"]);
    fs::write(log.path(), "one\nbegin and end\ntwo\nbogus\n").unwrap();
    let summary = log.check(&["one", "begin and end", "two", "bogus"]);
    assert_eq!(summary.truncations, 1);
}

#[test]
fn a_folder_that_cannot_be_listed_is_reported() {
    let log = Log::new("1\n");
    log.check(&["1"]);
    let mark = Checkpoint::open(&log.file("checkpoint"), &log.path());
    let mark = mark.unwrap().mark();
    fs::rename(log.path(), log.file("app.log.1")).unwrap();
    let folder = log.folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o300)).unwrap();
    let is_listed = fs::read_dir(folder).is_ok();
    let opened = Source::new().with_followed_from(log.path(), mark);
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    if is_listed {
        skip("this user may list a folder of mode 300");
        return;
    }
    let error = opened.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("denied"), "{error}: {source}");
}

/// On many file systems, the inode of a removed file is reused for the next new file.
#[test]
fn a_file_with_the_inode_of_a_removed_one_is_read() {
    let log = Log::new("a\n");
    if fs::metadata(log.path()).unwrap().created().is_err() {
        skip("the file system has no birth times");
        return;
    }
    let mut live = log.follow();
    live.expect(&["a"]);
    for round in 0..3 {
        log.rotate("app.log.1", "b\n");
        live.expect(&["b"]);
        fs::remove_file(log.file("app.log.1")).unwrap();
        // Its inode is free, and this file is at the path only for a moment.
        let name = |age| format!("app.log.{round}.{age}");
        log.rotate(&name(1), "c\n");
        log.rotate(&name(2), "d\n");
        live.expect(&["c", "d"]);
    }
    let (rest, summary) = live.stop();
    assert_eq!((rest, summary.truncations), (Vec::<String>::new(), 0));
    // The same between two runs.
    let inode = fs::metadata(log.path()).unwrap().ino();
    let holder = File::open(log.path()).unwrap();
    fs::remove_file(log.path()).unwrap();
    drop(holder);
    fs::write(log.path(), "another file\n").unwrap();
    let reused = inode == fs::metadata(log.path()).unwrap().ino();
    let summary = log.check(&["another file"]);
    assert_eq!(summary.truncations, 1, "inode reused: {reused}");
}

/// A daemon writes to a renamed file until it is told to open the new one, which may be renamed, too,
/// before that.
#[test]
fn a_file_that_was_last_written_before_its_predecessor_is_read() {
    let late = |log: &Log, name: &str, text: &str| {
        append(&log.file(name), text);
        let file = OpenOptions::new().append(true).open(log.file(name));
        let later = SystemTime::now() + Duration::from_secs(1);
        file.unwrap().set_modified(later).unwrap();
    };
    let log = Log::new("1\n");
    log.check(&["1"]);
    log.rotate("app.log.2", "2\n");
    log.rotate("app.log.1", "3\n");
    late(&log, "app.log.2", "late\n");
    log.check(&["late", "2", "3"]);

    let log = Log::new("1\n");
    let mut live = log.follow();
    live.expect(&["1"]);
    log.rotate("app.log.2", "2\n");
    log.rotate("app.log.1", "3\n");
    late(&log, "app.log.2", "late\n");
    live.expect(&["late", "2", "3"]);
    assert!(live.stop().0.is_empty());
}

/// A run of the first events of a file after the checkpoint.
fn check_limited(log: &Log, limit: u64, expected: &[&str]) {
    let checkpoint = Checkpoint::open(&log.file("checkpoint"), &log.path()).unwrap();
    let source = Source::new().with_followed_from(log.path(), checkpoint.mark());
    let options = RunOptions {
        checkpoint: Some(checkpoint),
        event_limit: NonZero::new(limit),
        ..RunOptions::default()
    };
    let live = Live::start_with_options(source.unwrap(), log.flow.clone(), options);
    let (lines, summary) = live.end();
    assert_eq!(
        (
            lines.iter().map(String::as_str).collect::<Vec<_>>(),
            summary.end
        ),
        (expected.to_vec(), End::Limit)
    );
}

#[test]
fn a_limit_leaves_the_checkpoint_behind_its_last_event() {
    let log = Log::new("1\n2\n\n3\n4\npart");
    check_limited(&log, 2, &["1", "2"]);
    check_limited(&log, 1, &["3"]);
    let text = fs::read_to_string(log.file("checkpoint")).unwrap();
    assert!(text.contains(" offset 7 line 5 "), "{text}");
    log.append(" of a line\n");
    check_limited(&log, 2, &["4", "part of a line"]);
    log.append("5\n6\n");
    log.check(&["5", "6"]);
    // In a file that ends and has a successor.
    log.append("7\n8\n9");
    log.rotate("app.log.1", "10\n11\n");
    check_limited(&log, 1, &["7"]);
    check_limited(&log, 2, &["8", "9"]);
    check_limited(&log, 1, &["10"]);
    assert_eq!(log.check(&["11"]).truncations, 0);

    let log = Log::with_flow("a,b\n1,2\n\"3\n3\",4\n5\n6,7\n", flow("csv", "json"));
    check_limited(&log, 1, &[r#"{"a":"1","b":"2"}"#]);
    check_limited(&log, 1, &[r#"{"a":"3\n3","b":"4"}"#]);
    let summary = log.check(&[r#"{"a":"6","b":"7"}"#]);
    assert_eq!(summary.rejects.first()[0].line, 5);
}
