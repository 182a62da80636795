//! Checks of the source tree itself.

mod dependencies;
mod documents;
mod layers;
mod names;
mod sleeps;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::run;

/// Which of our crates a crate may use; `docs/ARCHITECTURE.md` states the reasons.
const ARROWS: &[(&str, &[&str])] = &[
    ("value", &[]),
    ("wire", &[]),
    ("client", &["value", "wire"]),
    ("knowledge", &["value", "client"]),
    ("oml", &["value"]),
    ("pipeline", &[]),
    ("stream", &["pipeline", "value"]),
    ("connect", &["client", "stream"]),
    ("http", &["pipeline"]),
    ("embedded", &["wire"]),
    ("load", &[]),
    ("testing", &[]),
    ("verify", &[]),
    (
        "bench",
        &[
            "value",
            "client",
            "embedded",
            "knowledge",
            "load",
            "oml",
            "pipeline",
        ],
    ),
    (
        "lookaside",
        &[
            "value",
            "client",
            "connect",
            "http",
            "knowledge",
            "load",
            "oml",
            "stream",
            "embedded",
            "verify",
        ],
    ),
];

/// A longer file should be split.
const LINE_COUNT_MAX: usize = 900;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .expect("the crate lies two levels below the root")
}

/// The tracked files that are text, with their contents.
fn tracked_texts() -> Vec<(String, String)> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git is at hand where the tests run");
    assert!(output.status.success(), "this is not a git checkout");
    let names = String::from_utf8(output.stdout).expect("tracked names are text");
    let texts: Vec<_> = names
        .split_terminator('\0')
        // Skips files whose deletion is not committed yet, and binary files.
        .filter_map(|name| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?)))
        .collect();
    assert!(
        texts.len() > 20,
        "the list of tracked files is too short to be true"
    );
    texts
}

fn assert_none(found: Vec<String>, rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn arrows_between_crates_go_down_only() {
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut found = Vec::new();
    let mut crate_count = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        crate_count += 1;
        let Some(targets) = allowed.get(name.as_str()) else {
            found.push(format!("crates/{name} is not in the table of arrows"));
            continue;
        };
        // Dev-dependencies are not restricted.
        for section in ["dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            let ours = dependencies
                .keys()
                .filter_map(|key| key.strip_prefix("lookaside-"));
            for target in ours.filter(|target| !targets.contains(target)) {
                found.push(format!("{name} -> {target}"));
            }
        }
    }
    assert_eq!(
        crate_count,
        ARROWS.len(),
        "crates in the table that are not in crates/"
    );
    assert_none(found, "an arrow that docs/ARCHITECTURE.md does not allow");
}

#[test]
fn the_library_brings_nothing_of_the_program() {
    let manifest = fs::read_to_string(root().join("crates/lookaside/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies = manifest["dependencies"].as_table().unwrap();
    let of_program = ["lookaside-http", "lookaside-load", "lookaside-verify"];
    let is_library = |name: &str| name.starts_with("lookaside-") && !of_program.contains(&name);
    let found = dependencies
        .iter()
        .filter(|(name, entry)| {
            let is_optional = entry
                .get("optional")
                .is_some_and(|it| it.as_bool() == Some(true));
            !is_library(name) && !is_optional
        })
        .map(|(name, _)| name.clone())
        .collect();
    assert_none(
        found,
        "a dependency of the program that is not optional, of the feature cli",
    );
}

#[test]
fn library_roots_forbid_unsafe_code() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        // The only crate with unsafe code.
        if folder.ends_with("pipeline") {
            continue;
        }
        // A crate without a library has no `lib.rs`.
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
        let path = roots.into_iter().find(|root| root.exists());
        let path = path.unwrap_or_else(|| panic!("{} has no root", folder.display()));
        let text = fs::read_to_string(&path).unwrap();
        if !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
            found.push(path.display().to_string());
        }
    }
    assert_none(found, "a library root without #![forbid(unsafe_code)]");
}

#[test]
fn nothing_names_a_path_of_somebodys_machine() {
    // Put together here so that this file does not find itself.
    let roots = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    let mut found = Vec::new();
    for (name, text) in tracked_texts() {
        for (index, line) in text.lines().enumerate() {
            let named = roots.iter().any(|root| {
                line.match_indices(root.as_str()).any(|(at, _)| {
                    // `src/work/x` and URLs are not absolute paths.
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|before| !before.is_alphanumeric() && before != '.')
                })
            });
            if named {
                found.push(format!("{name}:{}", index + 1));
            }
        }
    }
    assert_none(found, "a path that exists on one machine only");
}

#[test]
fn commands_in_the_documents_exist() {
    let mut found = Vec::new();
    let mut command_count = 0;
    for (name, text) in tracked_texts() {
        if !name.ends_with(".md") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let Some(command) = line.strip_prefix("$ ") else {
                continue;
            };
            command_count += 1;
            if let Some(reason) = mistake(command) {
                found.push(format!("{name}:{}: {reason}", index + 1));
            }
        }
    }
    assert!(command_count > 5, "the documents lost their commands");
    assert_none(found, "a command that does not exist");
}

#[test]
fn code_in_the_documents_is_that_of_its_file() {
    let mut found = Vec::new();
    let mut file_count = 0;
    for (name, text) in tracked_texts() {
        if !name.ends_with(".md") {
            continue;
        }
        // A comment with only the name of a file precedes the code.
        for (start, _) in text.match_indices("\n<!-- examples/") {
            let rest = &text[start + "\n<!-- ".len()..];
            let (file, rest) = rest.split_once(" -->\n```").expect("code follows");
            let (_, rest) = rest.split_once('\n').expect("its language is named");
            let (code, _) = rest.split_once("\n```\n").expect("the code ends");
            file_count += 1;
            match fs::read_to_string(root().join(file)) {
                Ok(text) if text == format!("{code}\n") => {}
                Ok(_) => found.push(format!("{name}: {file} differs")),
                Err(error) => found.push(format!("{name}: {file}: {error}")),
            }
        }
    }
    assert!(file_count >= 4, "the guides lost their code");
    assert_none(found, "code in a document that no test compiles");
}

/// Whether a help lists a command of that name.
fn has_command(help: &str, name: &str) -> bool {
    let mut lines = help.lines().skip_while(|line| *line != "Commands:");
    lines.any(|line| line.starts_with("  ") && line.split_whitespace().next() == Some(name))
}

/// The error in a line of a shell session: a missing script, or an unknown command or flag.
fn mistake(line: &str) -> Option<String> {
    let words: Vec<&str> = line
        .split_whitespace()
        .skip_while(|word| word.contains('='))
        .collect();
    let script = words[0];
    if script.contains('/') && !root().join(script).exists() {
        return Some(format!("no {script}"));
    }
    let arguments = match words.as_slice() {
        ["lookaside", arguments @ ..] => arguments,
        ["cargo", "run", "--release", "--", arguments @ ..] => arguments,
        _ => return None,
    };
    let command = arguments.first()?;
    let mut help = run([command, &"--help"]);
    if help.code != 0 {
        return Some(format!("no command {command}"));
    }
    // `bench lookup` has flags that `bench` does not have.
    if let Some(part) = arguments.get(1)
        && has_command(&help.out, part)
    {
        help = run([command, part, &"--help"]);
    }
    let flags = arguments.iter().filter(|word| word.starts_with("--"));
    let names = flags.map(|flag| flag.split('=').next().unwrap_or(flag));
    let mut unknown = names.filter(|name| !help.out.contains(*name));
    unknown.next().map(|name| format!("no flag {name}"))
}

#[test]
fn open_ends_name_their_issue() {
    let words =
        ["TO", "FIX"].map(|half| format!("{half}{}", if half == "TO" { "DO" } else { "ME" }));
    let mut found = Vec::new();
    for (name, text) in tracked_texts() {
        if !name.ends_with(".rs") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let numbered = line.contains(&format!("{}(#", words[0]));
            if words.iter().any(|word| line.contains(word.as_str())) && !numbered {
                found.push(format!("{name}:{}", index + 1));
            }
        }
    }
    assert_none(found, "an open end without the number of its issue");
}

#[test]
fn no_test_is_ignored() {
    let word = "#[ig".to_owned() + "nore";
    let mut found = Vec::new();
    for (name, text) in tracked_texts() {
        if !name.ends_with(".rs") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if line.contains(&word) {
                found.push(format!("{name}:{}", index + 1));
            }
        }
    }
    assert_none(found, "a test that nobody runs");
}

#[test]
fn files_hold_one_idea() {
    let mut found = Vec::new();
    for (name, text) in tracked_texts() {
        let line_count = text.lines().count();
        if name.ends_with(".rs") && line_count > LINE_COUNT_MAX {
            found.push(format!("{name}: {line_count} lines"));
        }
    }
    assert_none(found, "a Rust file past 900 lines");
}
