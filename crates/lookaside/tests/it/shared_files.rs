//! Output files that other runs append to as well.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lookaside_testing::wait_until;

use crate::following::project;
use crate::output_files::{Run, run};
use crate::program::{Project, Said, lookaside};

const STDIN: [&str; 5] = ["-", "--format", "json", "-o", "out.json"];

/// Waits until the output has this text.
fn wait_for(project: &Project, expected: &str) {
    wait_until("the output is written", || {
        fs::read_to_string(project.file("out.json")).is_ok_and(|text| text == expected)
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
