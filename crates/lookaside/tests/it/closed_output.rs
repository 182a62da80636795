//! Unwritable standard output and closed standard input are reported.

use std::fs;
use std::process::{Command, Stdio};

use crate::program::{Project, Said};

/// Runs the program with a redirection of the shell.
fn run(project: &Project, arguments: &[&str], redirection: &str) -> Said {
    Command::new("sh")
        .args(["-c", &format!("exec \"$@\" {redirection}"), "sh"])
        .arg(env!("CARGO_BIN_EXE_lookaside"))
        .args(arguments)
        .current_dir(project.path())
        .stdin(Stdio::null())
        .output()
        .expect("the shell starts")
        .into()
}

#[test]
fn issue_12_a_command_fails_without_standard_output() {
    let project = Project::new();
    for arguments in [
        &["enrich", "."][..],
        &["enrich", ".", "--limit", "1"],
        &["enrich", ".", "-o", "out.json", "--reject", "-"],
        &["query", ".", "select 1"],
        &["explain", ".", "select 1"],
        &["check", "."],
        &["test", "."],
        &["completions", "bash"],
        &["man"],
    ] {
        run(&project, arguments, ">&-")
            .ended(1)
            .err_has(&["error: standard output is closed"]);
        // Open, but not for writing: the standard library treats such writes as successful, too.
        if !arguments.contains(&"--reject") {
            run(&project, arguments, "1</dev/null")
                .ended(1)
                .err_has(&["standard output"]);
            run(&project, arguments, ">/dev/full")
                .ended(1)
                .err_has(&["standard output", "No space left"]);
        }
        run(&project, arguments, ">/dev/null").ended(0);
        // As done by programs that start another and discard its output.
        run(&project, arguments, "1<>/dev/null").ended(0);
    }
    run(&project, &["enrich", ".", "-o", "out.json"], ">&-").ended(0);
    assert!(
        fs::read_to_string(project.file("out.json"))
            .unwrap()
            .contains('\n')
    );
}

/// The runtime opens `/dev/null` in its place, which is an empty input.
#[test]
fn a_command_fails_without_standard_input() {
    let project = Project::new();
    for arguments in [
        &["enrich", ".", "-"][..],
        &["enrich", ".", "-", "-o", "out.json"],
        &["query", ".", "-"],
    ] {
        run(&project, arguments, "<&-")
            .ended(1)
            .err_has(&["error: standard input is closed"]);
    }
    for redirection in ["</dev/null", "0<>/dev/null"] {
        run(&project, &["enrich", ".", "-"], redirection).ended(0);
    }
    // Standard input is not needed here.
    run(&project, &["enrich", ".", "-o", "out.json"], "<&-").ended(0);
}
