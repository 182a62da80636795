//! Output files that other runs and other programs append to as well, or write over.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use lookaside_testing::wait_until;

use crate::following::project;
use crate::output_files::{
    FOLLOW, Log, Run, SIGXFSZ, append, run, start, start_limited, terminate,
};
use crate::program::{Project, Said, lookaside};

const STDIN: [&str; 5] = ["-", "--format", "json", "-o", "out.json"];

/// Waits until the output has this text.
fn wait_for(project: &Project, expected: &str) {
    wait_until("the output is written", || {
        fs::read_to_string(project.file("out.json")).is_ok_and(|text| text == expected)
    });
}

/// Waits until the checkpoint has the end of the log.
fn wait_for_checkpoint(project: &Project) {
    let end = fs::metadata(project.file("app.log")).unwrap().len();
    wait_until("all is read", || {
        fs::read_to_string(project.file("app.checkpoint"))
            .is_ok_and(|text| text.contains(&format!(" offset {end} ")))
    });
}

/// A run whose writes beyond 1,024 bytes fail, as on a full disk.
fn start_on_full_disk(project: &Project) -> Run {
    let program = lookaside();
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"])
        .arg(program.get_program())
        .args(["enrich", ".", "-q"])
        .args(STDIN)
        .current_dir(project.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Run(Some(child.expect("the shell starts")))
}

/// What another run has written meanwhile stays.
#[test]
fn a_failed_write_cuts_off_nothing_of_another_run() {
    let project = project();
    let mut first = start_on_full_disk(&project);
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(b"{\"n\":1}\n").unwrap();
    wait_for(&project, "{\"n\":1}\n");
    run(&project, &STDIN, "{\"n\":2}\n").ended(0);
    let many: String = (3..1000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    // It may have ended before all of it is read.
    let _ = stdin.write_all(many.as_bytes());
    drop(stdin);
    let said = Said::from(first.wait_with_output()).ended(1);
    said.err_has(&["out.json"]);
    let found = project.read("out.json");
    assert!(found.starts_with("{\"n\":1}\n{\"n\":2}\n"), "{found}");
    assert!(found.ends_with("}\n"), "{found}");
}

/// After a run has ended, nothing of it is behind the size that its checkpoint records.
#[test]
fn lines_of_other_programs_stay_after_a_run_has_ended() {
    let project = project();
    let mut log = Log::new(&project);
    let arguments = [&FOLLOW[..], &["-o", "out.json", "--reject", "bad.json"]].concat();
    log.write(10);
    let first = start(&project, &arguments);
    wait_for(&project, &log.output);
    terminate(first);
    let mut expected = log.output.clone();
    append(&project, "out.json", "{\"other\":1}\n{\"other\":2}");
    append(&project, "bad.json", "other\n");
    expected.push_str("{\"other\":1}\n{\"other\":2}\n");

    let before = log.output.len();
    log.write(10);
    expected.push_str(&log.output[before..]);
    let second = start(&project, &arguments);
    wait_for(&project, &expected);
    let said = terminate(second);
    assert!(!said.err.contains("cut off"), "{}", said.err);
    assert!(project.read("bad.json").contains("\nother\n"));
}

/// What others append during a run counts for the size that a checkpoint records.
#[test]
fn lines_of_other_programs_during_a_run_shift_no_cut() {
    let project = project();
    let mut log = Log::new(&project);
    let arguments = [&FOLLOW[..], &["-o", "out.json"]].concat();
    let mut first = start(&project, &arguments);
    log.write(10);
    wait_for(&project, &log.output);
    let mut expected = log.output.clone() + "{\"other\":1}\n";
    append(&project, "out.json", "{\"other\":1}\n");
    let before = log.output.len();
    log.write(10);
    expected.push_str(&log.output[before..]);
    wait_for(&project, &expected);
    wait_for_checkpoint(&project);
    first.kill().unwrap();
    first.wait().unwrap();

    let before = log.output.len();
    log.write(10);
    let kept = expected.clone();
    expected.push_str(&log.output[before..]);
    append(&project, "out.json", "{\"other\":2}\n");
    let second = start(&project, &arguments);
    wait_for(&project, &expected);
    let said = terminate(second);
    // The results of a killed run cannot be told from what others have appended.
    said.err_has(&[
        "12 bytes are cut off the end of output `out.json`",
        "what other programs have appended",
    ]);
    assert!(project.read("out.json").starts_with(&kept));
}

/// A killed run leaves its mark on the file, also if another program then writes over it.
#[test]
fn the_last_line_of_another_program_is_not_cut_off() {
    let rest = "other".repeat(100);
    let other = format!("{{\"n\":1}}\n{rest}");
    for is_torn in [false, true] {
        let project = project();
        if is_torn {
            let mut child = start_limited(&project, &STDIN, 3);
            let many: String = (0..9000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
            let _ = child.stdin.take().unwrap().write_all(many.as_bytes());
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(SIGXFSZ));
        } else {
            let mut child = start(&project, &STDIN);
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(b"{\"n\":1}\n").unwrap();
            wait_for(&project, "{\"n\":1}\n");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // The file stays the same one, with its attributes.
        fs::write(project.file("out.json"), &other).unwrap();
        let said = run(&project, &STDIN, "{\"n\":2}\n").ended(0);
        said.err_has(&["output `out.json` does not end with a line end; one is added"]);
        assert_eq!(project.read("out.json"), format!("{other}\n{{\"n\":2}}\n"));
    }
}
