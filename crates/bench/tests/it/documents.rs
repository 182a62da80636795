//! Checks that the commands in the documents exist.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{Said, bench};

/// The name of the program in documents and help texts; an alias of cargo.
const ALIAS: &str = "cargo bench-lookaside ";

fn help(command: &[&str]) -> Option<String> {
    let output = bench().args(command).arg("--help").output();
    let said = Said::from(output.expect("the program starts"));
    (said.code == 0).then_some(said.out)
}

/// The error in the words after the alias: an unknown command or flag.
fn mistake(words: &[&str]) -> Option<String> {
    let is_name = |word: &&&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    let depth = match words.first() {
        Some(&"pg") => 2,
        _ => 1,
    };
    let command: Vec<&str> = (words.iter().take(depth).take_while(is_name).copied()).collect();
    let Some(help) = help(&command) else {
        return Some(format!("no command {}", command.join(" ")));
    };
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let mut unknown = flags.filter(|flag| !help.contains(**flag));
    unknown.next().map(|flag| format!("no flag {flag}"))
}

#[test]
fn commands_in_the_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "*.md",
            "*.rs",
            "benchmarks",
            ".ci",
            "test",
        ])
        .current_dir(&root)
        .output()
        .expect("git is installed where the tests run");
    assert!(listed.status.success(), "this is not a git checkout");
    let names = String::from_utf8(listed.stdout).expect("tracked names are text");
    let (mut found, mut command_count) = (Vec::new(), 0);
    for name in names.split_terminator('\0') {
        // Skips files whose deletion is not committed yet, and raw data that is not text.
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        // This file names the alias without a command.
        if name.ends_with("tests/it/documents.rs") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices(ALIAS) {
                let command = &line[at + ALIAS.len()..];
                // Up to the end of a code span, of an argument, or of a shell command.
                let end = command.find(['`', '"', '|', ';', '#', '\\', '…']);
                let command = &command[..end.unwrap_or(command.len())];
                // In a help text, two blanks separate a command from its description.
                let command = command.split("  ").next().unwrap_or_default();
                let words: Vec<&str> = command.split_whitespace().collect();
                if words.is_empty() {
                    continue;
                }
                command_count += 1;
                if let Some(reason) = mistake(&words) {
                    found.push(format!("{name}:{}: {reason}", index + 1));
                }
            }
        }
    }
    assert!(command_count > 5, "the documents lost their commands");
    let found = found.join("\n  ");
    assert!(
        found.is_empty(),
        "a command that does not exist:\n  {found}"
    );
}
