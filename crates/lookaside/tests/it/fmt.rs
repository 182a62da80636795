//! `lookaside fmt`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use crate::program::{Project, run_with_input};

/// A model, and the same formatted.
const UNFORMATTED: &str = "name:m\n---\nx=read( x );\n";
const FORMATTED: &str = "name : m\n---\nx = read(x) ;\n";

fn project(models: &[(&str, &str)]) -> Project {
    let project = Project::with(models);
    project.write("knowdb.toml", "");
    project
}

#[test]
fn models_of_a_project_are_formatted_once() {
    let project = project(&[
        ("models/a.oml", UNFORMATTED),
        ("models/b/c.oml", UNFORMATTED),
        ("models/d.oml", FORMATTED),
        ("models/notes.txt", UNFORMATTED),
        ("other.oml", UNFORMATTED),
    ]);
    let unchanged = fs::metadata(project.file("models/d.oml")).unwrap();
    let said = project.run(&["fmt"]).ended(0);
    assert_eq!(
        said.out,
        "formatted models/a.oml\nformatted models/b/c.oml\n"
    );
    assert_eq!(said.err, "");
    for name in ["models/a.oml", "models/b/c.oml", "models/d.oml"] {
        assert_eq!(project.read(name), FORMATTED, "{name}");
    }
    for name in ["models/notes.txt", "other.oml"] {
        assert_eq!(project.read(name), UNFORMATTED, "{name}");
    }
    // A formatted file is not written.
    let after = fs::metadata(project.file("models/d.oml")).unwrap();
    assert_eq!(after.ino(), unchanged.ino());
    assert_eq!(after.modified().unwrap(), unchanged.modified().unwrap());
    assert_eq!(project.run(&["fmt"]).ended(0).out, "");
    let count = fs::read_dir(project.file("models")).unwrap().count();
    assert_eq!(count, 4, "no temporary file stays");
}

#[test]
fn paths_are_files_folders_and_projects() {
    for (arguments, expected) in [
        (&["fmt", "p"][..], &["p/models/m.oml"][..]),
        (&["fmt", "p/knowdb.toml"], &["p/models/m.oml"]),
        (&["fmt", "p/models"], &["p/models/m.oml"]),
        (&["fmt", "p/other.oml"], &["p/other.oml"]),
        (
            &["fmt", "p/model.txt", "p"],
            &["p/model.txt", "p/models/m.oml"],
        ),
        (&["fmt", "."], &["./p/models/m.oml", "./p/other.oml"]),
        (&["fmt", "p", "p/models/m.oml"], &["p/models/m.oml"]),
    ] {
        let project = Project::with(&[
            ("p/knowdb.toml", ""),
            ("p/models/m.oml", UNFORMATTED),
            ("p/other.oml", UNFORMATTED),
            ("p/model.txt", UNFORMATTED),
        ]);
        let lines: Vec<_> = expected
            .iter()
            .map(|it| format!("formatted {it}\n"))
            .collect();
        let said = project.run(arguments).ended(0);
        assert_eq!(said.out, lines.concat(), "{arguments:?}");
    }
}

#[test]
fn check_changes_nothing() {
    let project = project(&[("models/a.oml", UNFORMATTED), ("models/b.oml", FORMATTED)]);
    let said = project.run(&["fmt", "--check"]).ended(1);
    assert_eq!(
        said.out,
        "models/a.oml:1: not formatted\n  - name:m\n  + name : m\n"
    );
    assert_eq!(said.err, "");
    assert_eq!(project.read("models/a.oml"), UNFORMATTED);
    // A file that several paths lead to is reported once.
    let said = project.run(&["fmt", "--check", "models/a.oml", "."]);
    assert_eq!(said.ended(1).out.matches("not formatted").count(), 1);
    let said = project.run(&["fmt", "--check", "models/b.oml"]).ended(0);
    assert_eq!(said.out + &said.err, "");
}

#[test]
fn standard_input_is_formatted_to_standard_output() {
    let said = run_with_input(["fmt", "-"], UNFORMATTED).ended(0);
    assert_eq!(said.out, FORMATTED);
    let said = run_with_input(["fmt", "-", "--check"], UNFORMATTED).ended(1);
    assert_eq!(
        said.out,
        "standard input:1: not formatted\n  - name:m\n  + name : m\n"
    );
    let said = run_with_input(["fmt", "-", "--check"], FORMATTED).ended(0);
    assert_eq!(said.out, "");
    let said = run_with_input(["fmt", "-"], "name : m\n---\nx = raed(y) ;\n").ended(1);
    let said = said.err_has(&["error: standard input cannot be formatted", "input:3:5]"]);
    assert_eq!(said.out, "");
    run_with_input(["fmt", "-", "a.oml"], UNFORMATTED)
        .ended(2)
        .err_has(&["`-` cannot be combined"]);
}

#[test]
fn a_file_that_cannot_be_formatted_does_not_stop_the_others() {
    let invalid = "name : m\n---\nx = raed( y ) ;\n";
    let project = project(&[
        ("models/a.oml", invalid),
        ("models/b.oml", ""),
        ("models/z.oml", UNFORMATTED),
    ]);
    fs::write(project.file("models/c.oml"), b"name : m\n\xff").unwrap();
    fs::write(project.file("models/d.oml"), vec![b'\n'; (1 << 20) + 1]).unwrap();
    symlink("gone", project.file("models/e.oml")).unwrap();
    let said = project
        .run(&["fmt", "nowhere.oml", "."])
        .ended(1)
        .err_has(&[
            "error: cannot read nowhere.oml\n  caused by: No such file",
            "error: ./models/a.oml cannot be formatted",
            "unknown function or type `raed`",
            "models/a.oml:3:5]",
            "╰── here",
            "error: ./models/b.oml cannot be formatted",
            "error: cannot read ./models/c.oml\n  caused by: line 2 is not UTF-8",
            "error: cannot read ./models/d.oml\n  caused by: a model has at most 1048576 bytes",
            "error: cannot read ./models/e.oml\n  caused by: No such file",
        ]);
    assert_eq!(said.out, "formatted ./models/z.oml\n");
    assert_eq!(project.read("models/a.oml"), invalid);
    assert_eq!(project.read("models/z.oml"), FORMATTED);
}

#[test]
fn errors_in_long_lines_are_lines() {
    let (blanks, letters) = (" ".repeat(70_000), "a".repeat(70_000));
    for (statement, error) in [
        (
            format!("x ={blanks}raed(y) ;"),
            "3:70004: error: unknown function",
        ),
        (format!("x = digit({letters}) ;"), "3:11: error: `aaaa"),
    ] {
        let model = format!("name : m\n---\n{statement}\n");
        let said = run_with_input(["fmt", "-"], &model).ended(1);
        said.err_has(&[&format!("standard input:{error}")]);
    }
}

#[test]
fn missing_models_are_errors() {
    let project = Project::with(&[("p/knowdb.toml", ""), ("empty/notes.txt", "")]);
    project.run(&["fmt"]).ended(1).err_has(&[
        "error: there is no knowdb.toml in the current folder",
        "help: name the project, or the files or folders to format",
    ]);
    for (path, folder) in [("p", "p/models"), ("empty", "empty")] {
        let message = format!("error: {folder} contains no models");
        project.run(&["fmt", path]).ended(1).err_has(&[&message]);
    }
    project
        .run(&["fmt", "/dev/null"])
        .ended(1)
        .err_has(&["error: /dev/null is not a file", "lookaside fmt -"]);
}

#[test]
fn links_and_permissions_stay() {
    let project = project(&[("shared/m.oml", UNFORMATTED)]);
    fs::create_dir(project.file("models")).unwrap();
    let (link, target) = (project.file("models/m.oml"), project.file("shared/m.oml"));
    symlink("../shared/m.oml", &link).unwrap();
    // Bits that the umask would remove.
    fs::set_permissions(&target, fs::Permissions::from_mode(0o666)).unwrap();
    project.run(&["fmt"]).ended(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(project.read("shared/m.oml"), FORMATTED);
    let mode = fs::metadata(&target).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o666);
}
