//! Runs the program in temporary folders and returns its output.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use tempfile::TempDir;

/// The program, ready to get arguments; standard input is empty.
pub(crate) fn lookaside() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    command.stdin(Stdio::null());
    // The developer's environment must not influence the tests.
    for name in ["ASN_DATA", "NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"] {
        command.env_remove(name);
    }
    command
}

/// The output of a run of the program.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.out, self.err
        );
        self
    }

    /// Asserts that standard error contains each text.
    #[track_caller]
    pub(crate) fn err_has(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.err.contains(text),
                "no {text:?} in stderr:\n{}",
                self.err
            );
        }
        self
    }

    /// Asserts that standard output contains each text.
    #[track_caller]
    pub(crate) fn out_has(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.out.contains(text),
                "no {text:?} in stdout:\n{}",
                self.out
            );
        }
        self
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let [out, err] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8(bytes).expect("the program writes text"));
        assert!(!err.contains("panicked at"), "the program panicked:\n{err}");
        Self {
            code: output.status.code().expect("the program ends by itself"),
            out,
            err,
        }
    }
}

/// Runs the program with arguments.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Said {
    lookaside()
        .args(arguments)
        .output()
        .expect("the program starts")
        .into()
}

/// Runs the program with arguments and standard input.
pub(crate) fn run_with_input<A: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = A>,
    input: &str,
) -> Said {
    let mut child = lookaside()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let input = input.to_owned();
    // On a thread, since the program may write more than a pipe holds before it reads more.
    let writer = thread::spawn(move || {
        // A program that ends before it has read everything is for the test to judge.
        let _ = stdin.write_all(input.as_bytes());
    });
    let said = child.wait_with_output().expect("the program ends").into();
    writer.join().expect("writing does not panic");
    said
}

/// The example that the README begins with.
pub(crate) fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/access-log")
}

/// A folder for one test.
pub(crate) struct Project(TempDir);

impl Project {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().expect("there is room for temporary files"))
    }

    /// A folder with files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let project = Self::empty();
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    /// A folder with a table `hosts`, and the view `anyone`: its rows, followed by endless others.
    /// The model `events` queries the view.
    pub(crate) fn with_endless_view(config: &str) -> Self {
        let create = "create table {table} (name text, rack integer);
            create view anyone as select name, rack from hosts union all
            select 'x' || i, i from (with recursive n(i) as
                (select 1 union all select i + 1 from n) select i from n);";
        Self::with(&[
            ("knowdb.toml", config),
            ("hosts/create.sql", create),
            ("hosts/insert.sql", "insert into {table} values (?1, ?2)"),
            ("hosts/data.csv", "name,rack\nweb-1,7\n"),
            (
                "models/events.oml",
                "name : events\nrule : /json/*\n---\nhost : chars = take(host) ;\n\
                 rack = select rack from anyone where name = read(host) ;\n",
            ),
        ])
    }

    /// A folder created by `lookaside new`.
    pub(crate) fn new() -> Self {
        let project = Self::empty();
        run([Path::new("new"), project.path()]).ended(0);
        project
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().expect("files lie in the folder")).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Runs a command on the folder, from within it, so that messages contain no temporary names.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Said {
        lookaside()
            .args(arguments)
            .current_dir(self.path())
            .output()
            .expect("the program starts")
            .into()
    }
}
