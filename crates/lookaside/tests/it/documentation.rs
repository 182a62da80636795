//! Runs the commands of the documents.
//!
//! Every command of a ```` ```console ```` or ```` ```sh ```` block of `README.md`, `CONTRIBUTING.md`
//! and `docs/` is run with the built program, those of one page one after the other in one folder
//! that has a copy of `examples/`. A command has to succeed, or to end with its status of
//! [`STATUSES`], and has to print the output that its block shows ([`output`] says what of it may
//! differ). [`NOT_RUN`] has the commands that a test cannot run, [`EDITS`] the changes of files that
//! a page asks for in words.
//!
//! `lookaside serve` listens on free ports instead of 8300, and in the folder instead of
//! `$XDG_RUNTIME_DIR`; it is stopped at the end of its page, as are servers of `lookaside pg start`.

mod output;
mod page;
mod shell;

use std::fs;
use std::path::Path;

use self::page::{Command, commands};
use self::shell::Shell;

/// Commands that are not run: the page, the command without its comment, and the reason.
const NOT_RUN: &[(&str, &str, &str)] = &[
    (
        "README.md",
        "scripts/fetch-asn",
        "downloads from the registry of npm",
    ),
    (
        "README.md",
        "ASN_DATA=full.csv cargo run --release -- enrich examples/access-log >events.json",
        "reads what scripts/fetch-asn downloads",
    ),
    (
        "CONTRIBUTING.md",
        "./test",
        "runs the tests, of which this is one",
    ),
    (
        "CONTRIBUTING.md",
        ".ci/run",
        "runs the tests, of which this is one",
    ),
    (
        "CONTRIBUTING.md",
        ".ci/nightly",
        "takes hours, and needs toolchains and containers",
    ),
    (
        "CONTRIBUTING.md",
        "cargo install mdbook --locked && mdbook build",
        "downloads and builds another program",
    ),
    (
        "docs/CLI.md",
        "cargo bench-lookaside http 127.0.0.1:8300 --get '/v1/lookup/asn?ip=82.96.44.9' --server-pid $(pidof lookaside)",
        "loads a server for ten seconds, with a program of another package",
    ),
    (
        "docs/EMBEDDED.md",
        "lookaside pg extension add vector",
        "downloads from the Python package index; pg_extension.rs runs it where that answers",
    ),
    (
        "docs/EMBEDDED.md",
        "lookaside pg run --extension vector -- cargo test",
        "needs what `pg extension add vector` downloads",
    ),
];

/// Commands that do not end with status 0: the page, a line of the output that it shows, the status.
const STATUSES: &[(&str, &str, i32)] = &[("docs/TUTORIAL.md", "0 passed, 2 failed", 1)];

/// A change of a file that a page asks for in words.
struct Edit {
    page: &'static str,
    /// The words, which are in the page before the commands that need the change.
    words: &'static str,
    file: &'static str,
    /// Text that the file has once, and the text that is written in its place.
    old: &'static str,
    new: &'static str,
}

const EDITS: &[Edit] = &[
    Edit {
        page: "docs/TUTORIAL.md",
        words: "meaning = select meaning from statuses where status = read(status) ;\n",
        file: "my-log/models/access.oml",
        old: "* = take() ;\n",
        new: "meaning = select meaning from statuses where status = read(status) ;\n\n* = take() ;\n",
    },
    Edit {
        page: "docs/TUTORIAL.md",
        words: "Add `\"meaning\":\"No Content\"` to the `output` of the first line",
        file: "my-log/models/access.test.jsonl",
        old: "\"status\":204,",
        new: "\"status\":204,\"meaning\":\"No Content\",",
    },
    Edit {
        page: "docs/TUTORIAL.md",
        words: "and `\"meaning\":\"Not Found\"` to that of the second",
        file: "my-log/models/access.test.jsonl",
        old: "\"status\":404,",
        new: "\"status\":404,\"meaning\":\"Not Found\",",
    },
];

/// Files of a reader that the commands of a page name: the page, the file and its contents.
const FILES: &[(&str, &str, &str)] = &[
    (
        "docs/SERVE.md",
        "sets.jsonl",
        "{\"ip\":\"82.96.44.9\"}\n{\"ip\":\"192.0.2.1\"}\n",
    ),
    ("docs/EMBEDDED.md", "notes/migrations/0001_initial.py", ""),
    ("docs/EMBEDDED.md", "alembic/versions/0001_notes.py", ""),
];

/// Files that exist on a reader's machine, and what is read instead.
const PLACES: &[(&str, &str)] = &[(
    "/var/log/nginx/access.log",
    "examples/access-log/access.log",
)];

/// Pages with a test for each, since their commands take a while.
const TESTED_ALONE: &[&str] = &[
    "README.md",
    "docs/EMBEDDED.md",
    "docs/SERVE.md",
    "docs/TUTORIAL.md",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The pages, by their names relative to the root.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages
}

/// Runs the commands of a page, and makes sure of their status and output.
fn check(page: &str) {
    let text = read(page);
    let commands = commands(&text);
    if commands.is_empty() {
        return;
    }
    let mut shell = Shell::new();
    for (_, name, contents) in FILES.iter().filter(|(of, ..)| *of == page) {
        shell.write(name, contents);
    }
    let mut edits = EDITS.iter().filter(|edit| edit.page == page).peekable();
    for command in commands {
        let position = |edit: &Edit| text.find(edit.words).expect("the page asks for this edit");
        while let Some(edit) = edits.next_if(|edit| position(edit) < command.position) {
            apply(&shell, edit);
        }
        let is_listed = |(of, line, _): &(&str, &str, &str)| *of == page && *line == command.line();
        if !NOT_RUN.iter().any(is_listed) {
            run(&mut shell, page, &command);
        }
    }
    assert!(edits.next().is_none(), "{page}: an edit after the commands");
}

fn apply(shell: &Shell, edit: &Edit) {
    let (page, file) = (edit.page, edit.file);
    let text = shell.read(file);
    let count = text.matches(edit.old).count();
    assert_eq!(count, 1, "{page}: {:?} in {file}", edit.old);
    shell.write(file, &text.replace(edit.old, edit.new));
}

fn run(shell: &mut Shell, page: &str, command: &Command) {
    let place = format!("{page}:{}: {}", command.line_number, command.line());
    let mut text = command.text.clone();
    for (theirs, ours) in PLACES {
        text = text.replace(theirs, ours);
    }
    let Some(printed) = shell.run(&text, &place) else {
        return;
    };
    let status = STATUSES
        .iter()
        .find(|(of, line, _)| *of == page && command.shown.iter().any(|shown| shown == line));
    let status = status.map_or(0, |(.., status)| *status);
    assert_eq!(printed.status, status, "{place}\n{printed}");
    if !command.shown.is_empty() {
        // A page may leave out what goes to standard error.
        let all = format!("{}{}", printed.out, printed.err);
        let is_shown = [&printed.out, &all]
            .iter()
            .any(|text| output::is_shown(&command.shown, text));
        let shown = command.shown.join("\n");
        assert!(is_shown, "{place}\nshown:\n{shown}\nprinted:\n{printed}");
    }
}

#[test]
fn the_readme() {
    check("README.md");
}

#[test]
fn the_tutorial() {
    check("docs/TUTORIAL.md");
}

#[test]
fn the_guide_to_embedded_servers() {
    check("docs/EMBEDDED.md");
}

#[test]
fn the_reference_of_http() {
    check("docs/SERVE.md");
}

#[test]
fn all_other_pages() {
    for page in pages() {
        if !TESTED_ALONE.contains(&&*page) {
            check(&page);
        }
    }
}

/// An entry whose command was removed from its page, or changed, would hide the next one.
#[test]
fn every_exception_is_in_its_page() {
    let mut found = Vec::new();
    for (page, line, _) in NOT_RUN {
        if !commands(&read(page)).iter().any(|it| it.line() == *line) {
            found.push(format!("NOT_RUN: {page}: {line}"));
        }
    }
    for (page, line, _) in STATUSES {
        let commands = commands(&read(page));
        if !commands
            .iter()
            .any(|it| it.shown.iter().any(|it| it == line))
        {
            found.push(format!("STATUSES: {page}: {line}"));
        }
    }
    let has_command = |page: &str, word: &str| {
        commands(&read(page))
            .iter()
            .any(|command| command.text.contains(word))
    };
    for (page, name, _) in FILES {
        // Commands name files also by patterns, such as `*/migrations/*.py`.
        if !name.split('/').any(|part| has_command(page, part)) {
            found.push(format!("FILES: {page}: {name}"));
        }
    }
    for edit in EDITS {
        if commands(&read(edit.page)).is_empty() {
            found.push(format!("EDITS: {}: {}", edit.page, edit.words));
        }
    }
    for (place, _) in PLACES {
        if !pages().iter().any(|page| has_command(page, place)) {
            found.push(format!("PLACES: {place}"));
        }
    }
    assert!(found.is_empty(), "not in the pages:\n{}", found.join("\n"));
}
